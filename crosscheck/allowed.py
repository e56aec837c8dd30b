"""The smallest peaks of networks in slices, by the extra time that they may take."""

import dataclasses
import time

import onnx

from . import cases, command, sliced, workdir

_GPU, _CPU = "--device=roofline", "--device=roofline,flops=50e9,bandwidth=20e9"
_ALLOWED = (1, 5, 15)  # per cent


@dataclasses.dataclass(frozen=True)
class Network:
    """A network with the lengths of its dimensions."""

    title: str
    file: str
    dims: dict
    cpu: bool = False
    headless: bool = False

    @property
    def stem(self):
        return self.title.replace(" ", "-").replace(",", "")


_NETWORKS = (
    Network("llama_small, 1024", "llama_small-dyn", {"batch": 1, "sequence": 1024}, headless=True),
    Network("gpt2, 1024", "gpt2-dyn", {"batch": 1, "sequence": 1024}, headless=True),
    Network("gpt2, 512", "gpt2-dyn", {"batch": 1, "sequence": 512}, headless=True),
    Network("bert_base, 512", "bert_base-dyn", {"batch": 1, "sequence": 512}),
    Network("vit_b_16, 1", "vit_b_16-dyn", {"batch": 1}, cpu=True),
    Network("vit_b_16, 8", "vit_b_16-dyn", {"batch": 8}),
    Network("resnet50, 1", "resnet50-dyn", {"batch": 1}, cpu=True),
    Network("resnet50, 8", "resnet50-dyn", {"batch": 8}),
    Network("mobilenet_v2, 1", "mobilenet_v2-dyn", {"batch": 1}, cpu=True),
    Network("mobilenet_v2, 8", "mobilenet_v2-dyn", {"batch": 8}),
    Network("densenet121, 1", "densenet121-dyn", {"batch": 1}, cpu=True),
    Network("densenet121, 8", "densenet121-dyn", {"batch": 8}),
    Network("unet, 1", "unet-dyn", {"batch": 1}, cpu=True),
)


def find(tool, work, data):
    """The networks whose files are there."""
    if not (data / "zoo/expected.csv").exists():
        return []
    wanted = {f"zoo/{n.file}" for n in _NETWORKS}
    workdir.prepare(work, data, [c for c in cases.find(data, []) if c.title in wanted])
    return list(_NETWORKS)


def examine(network, tool, work):
    """Plan a network for each allowance, and verify the plans."""
    began = time.monotonic()
    result = {"title": f"allowed/{network.title}", "faults": [], "found": []}
    source = work / "zoo" / f"{network.file}.onnx"
    target = source.with_name(f"{network.stem}.allowed.onnx")
    try:
        if network.headless:
            model = onnx.load(source, load_external_data=False)
            sliced.remove_head(model.graph)
            source = source.with_name(f"{network.stem}.headless.onnx")
            onnx.save(model, source)
        flags = [f"--dim={k}={v}" for k, v in network.dims.items()] + [_CPU if network.cpu else _GPU, "--slices=exact"]
        for percent in _ALLOWED:
            made = tool.plan(source, target, [*flags, f"--extra={percent}%"])
            result["faults"] += [f"verify: {text}" for text in tool.verify(target)]
            result["whole"] = made.get("unsliced_peak_bytes", made["peak_bytes"])
            result["found"].append([made["peak_bytes"], made.get("total_cost_percent", 0), "slice_cost_percent" in made, made.get("recomputed_nodes", 0)])
            result["least"] = made.get("any_slices_lower_bound_bytes")
    except (command.Failed, onnx.checker.ValidationError) as err:
        result["faults"].append(str(err))
    finally:
        for path in source.parent.glob(f"{network.stem}.allowed.*"):
            path.unlink()
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


HEAD = ("network, batch or tokens", "whole, MiB", *(title for percent in _ALLOWED for title in (f"in {percent} %", "takes, %")), "no slices below")


def cells(result):
    """Return the cells of a row, as text; a star marks peaks for which nodes run again, too."""
    row = [result["title"].partition("/")[2], _size(result["whole"])]
    for peak, extra, _, again in result["found"]:
        row += [_size(peak) + ("*" if again else ""), f"{max(extra, 0):.1f}"]
    return [*row, _size(result["least"]) if result["least"] else "–"]


def _size(value):
    mib = value / 2**20
    return f"{mib:,.0f}" if mib >= 100 else f"{mib:.1f}" if mib >= 10 else f"{mib:.2f}"


def row(result):
    """Return one line of text."""
    if len(result["found"]) < len(_ALLOWED):
        return f"{result['title']:34} failed"
    return f"{result['title']:34} " + ", ".join(f"{title} {cell}" for title, cell in zip(HEAD[1:], cells(result)[1:])) + f", {result['seconds']} s"
