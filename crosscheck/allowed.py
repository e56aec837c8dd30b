"""The smallest peaks of networks and steps of training in slices, by the extra time that they may take.

Each is planned twice, with the extra time that a prototype took to reach the peak in the
same row, by the same model of a device: `optimize --slices --extra`, and no other
setting. The prototype is that of the project's page on slices: it took the best of
several searches with settings chosen by hand. What `optimize` adds by itself, such as
nodes that run again, is in our figures.
"""

import dataclasses
import time

import onnx

from . import cases, command, sliced, whisper, workdir

_ROUNDED = 0.05  # per cent by which the prototype's figures may have been rounded down

_GPU, _CPU = "--device=roofline", "--device=roofline,flops=50e9,bandwidth=20e9"


@dataclasses.dataclass(frozen=True)
class Network:
    """A network, or a step of training it, with the lengths of its dimensions."""

    title: str
    file: str  # of the zoo; "": written by make
    dims: dict
    reached: tuple  # by the prototype: MiB and the per cent of extra time they took, once or twice
    cpu: bool = False
    headless: bool = False
    loss: str = ""
    make: object = None

    @property
    def stem(self):
        return self.title.replace(" ", "-").replace(",", "")


def _tokens(n, batch=1):
    return {"batch": batch, "sequence": n}


_NETWORKS = (
    Network("llama_small, 4096", "llama_small-dyn", _tokens(4096), ((69.6, 3.7), (48.3, 15)), headless=True),
    Network("llama_small, 1024", "llama_small-dyn", _tokens(1024), ((21.0, 3.5), (17.5, 15)), headless=True),
    Network("gpt2, 1024", "gpt2-dyn", _tokens(1024), ((21.0, 4.6), (16.5, 13)), headless=True),
    Network("gpt2, 512", "gpt2-dyn", _tokens(512), ((11.5, 3.5), (8.5, 13)), headless=True),
    Network("bert_base, 512", "bert_base-dyn", _tokens(512), ((7.9, 5.9), (6.4, 13))),
    Network("whisper_tiny encoder, 1", "", {}, ((22.2, 1.1), (12.0, 22)), make=whisper.encoder),
    Network("vit_b_16, 1", "vit_b_16-dyn", {"batch": 1}, ((3.5, 0.9), (2.9, 0.9)), cpu=True),
    Network("vit_b_16, 8", "vit_b_16-dyn", {"batch": 8}, ((15.1, 3.0), (15.0, 12))),
    Network("resnet50, 1", "resnet50-dyn", {"batch": 1}, ((3.5, 5.3), (3.1, 24)), cpu=True),
    Network("resnet50, 8", "resnet50-dyn", {"batch": 8}, ((13.8, 0.7), (10.1, 7))),
    Network("mobilenet_v2, 1", "mobilenet_v2-dyn", {"batch": 1}, ((1.9, 6.9), (1.2, 15)), cpu=True),
    Network("mobilenet_v2, 8", "mobilenet_v2-dyn", {"batch": 8}, ((10.0, 1.9), (8.1, 6))),
    Network("densenet121, 1", "densenet121-dyn", {"batch": 1}, ((4.5, 3.5), (3.8, 6)), cpu=True),
    Network("densenet121, 8", "densenet121-dyn", {"batch": 8}, ((17.2, 3.0), (10.9, 11))),
    Network("unet, 1", "unet-dyn", {"batch": 1}, ((20.0, 0.9), (18.8, 1.4)), cpu=True),
    Network("unet, 1, on a GPU", "unet-dyn", {"batch": 1}, ((18.4, 8),)),
    Network("gpt2, 8 x 512, step", "gpt2-dyn", _tokens(512, 8), ((1146, 4.6),), loss="cross-entropy"),
    Network("gpt2, 32 x 512, step", "gpt2-dyn", _tokens(512, 32), ((1725, 0.1),), loss="cross-entropy"),
    Network("llama_small, 8 x 512, step", "llama_small-dyn", _tokens(512, 8), ((488, 0.9), (511, 17)), loss="cross-entropy"),
    Network("bert_base, 32 x 128, step", "bert_base-dyn", _tokens(128, 32), ((684, 0.5),), loss="mse"),
    Network("bert_base, 8 x 128, step", "bert_base-dyn", _tokens(128, 8), ((422, 2.8),), loss="mse"),
    Network("resnet50, 32, step", "resnet50-dyn", {"batch": 32}, ((696, 3.9),), loss="cross-entropy"),
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
    result = {"title": f"allowed/{network.title}", "faults": [], "found": [], "reached": network.reached}
    source = work / "zoo" / f"{network.file}.onnx"
    target = source.with_name(f"{network.stem}.allowed.onnx")
    try:
        if network.make:
            source = source.with_name(f"{network.stem}.onnx")
            network.make(source)
        if network.headless:
            model = onnx.load(source, load_external_data=False)
            sliced.remove_head(model.graph)
            source = source.with_name(f"{network.stem}.headless.onnx")
            onnx.save(model, source)
        flags = [f"--dim={k}={v}" for k, v in network.dims.items()] + [_CPU if network.cpu else _GPU]
        flags += ["--train", f"--loss={network.loss}", "--fold=any", "--slices=any"] if network.loss else ["--slices=exact"]
        for _, percent in network.reached:
            made = tool.plan(source, target, [*flags, f"--extra={percent + _ROUNDED:g}%"])
            result["faults"] += [f"verify: {text}" for text in tool.verify(target)]
            result["whole"] = made.get("unsliced_peak_bytes", made.get("plain_peak_bytes", made["peak_bytes"]))
            result["found"].append([made["peak_bytes"], made.get("total_cost_percent", made.get("extra_cost_percent", 0)), made.get("lower_bound_bytes"), made.get("recomputed_nodes", 0)])
            result["least"] = made.get("any_slices_lower_bound_bytes")
    except (command.Failed, onnx.checker.ValidationError) as err:
        result["faults"].append(str(err))
    finally:
        for path in source.parent.glob(f"{network.stem}.allowed.*"):
            path.unlink()
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


_COLUMNS = ("in, %", "prototype, MiB", "ours, MiB", "takes, %")
HEAD = ("network, batch or tokens", "whole, MiB", *_COLUMNS, *_COLUMNS, "no slices below")


def cells(result):
    """Return the cells of a row, as text; a star marks peaks for which nodes run again, too."""
    row = [result["title"].partition("/")[2], _size(result["whole"])]
    for (mib, percent), (peak, extra, _, again) in zip(result["reached"], result["found"]):
        row += [percent, _size(mib * 2**20), _size(peak) + ("*" if again else ""), f"{max(extra, 0):.1f}"]
    row += ["–"] * (len(HEAD) - 1 - len(row))
    return [*row, _size(result["least"]) if result["least"] else "–"]


def _size(value):
    mib = value / 2**20
    return f"{mib:,.0f}" if mib >= 100 else f"{mib:.1f}" if mib >= 10 else f"{mib:.2f}"


def row(result):
    """Return one line of text."""
    if len(result["found"]) < len(result["reached"]):
        return f"{result['title']:34} failed"
    return f"{result['title']:34} " + ", ".join(f"{title} {cell}" for title, cell in zip(HEAD[1:], cells(result)[1:]) if cell != "–") + f", {result['seconds']} s"
