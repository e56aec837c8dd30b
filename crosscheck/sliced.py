"""Networks in slices, next to the same networks whole: results and times, in our arena and in ONNX Runtime.

Each plan has the smallest peak that a few per cent more time allow, by estimate for one
core of a CPU. The table has what the estimate promised beside what was measured: the
least of alternating runs on one thread, ONNX Runtime's without its optimizations, so
that it runs the file's graph. Slices of networks must give the same bits in our arena,
and in ONNX Runtime results within 1e-6 of the largest element. Steps of training sum
gradients over slices: 1e-5, and 100 losses of a step that learns. Slices that call local
functions (--compact) must give the same within these bounds, in a file that is no larger,
with a peak that is at most a sixteenth larger.
"""

import dataclasses
import pathlib
import time

import numpy as np
import onnx

from . import cases, command, feeds, runtime, running, step, workdir

DEVICE = "--device=cpu"
_EXTRA = "--extra=5%"
_ROUNDS = 3  # of alternating runs
_SECONDS = 900  # of one run
_RUNS = 2  # of a round, of which the faster counts
_EXACT, _SUMMED = 1e-6, 1e-5  # differences of results, relative to the largest element
_LOSSES = 100
_RATE = 0.01


@dataclasses.dataclass(frozen=True)
class Network:
    """A network, or a step of training it, with the lengths of its dimensions."""

    title: str
    file: str  # of the zoo
    dims: dict
    headless: bool = False  # without the product with the vocabulary, whose logits no slices make smaller
    loss: str = ""  # of a step of training
    curve: bool = False  # compares the losses of many steps

    @property
    def stem(self):
        return self.title.replace(" ", "-").replace(",", "")


_NETWORKS = (
    Network("resnet50, 1", "resnet50-dyn", {"batch": 1}),
    Network("resnet50, 8", "resnet50-dyn", {"batch": 8}),
    Network("mobilenet_v2, 1", "mobilenet_v2-dyn", {"batch": 1}),
    Network("mobilenet_v2, 8", "mobilenet_v2-dyn", {"batch": 8}),
    Network("vit_b_16, 1", "vit_b_16-dyn", {"batch": 1}),
    Network("vit_b_16, 8", "vit_b_16-dyn", {"batch": 8}),
    Network("unet, 1", "unet-dyn", {"batch": 1}),
    Network("densenet121, 8", "densenet121-dyn", {"batch": 8}),
    Network("bert_base, 512", "bert_base-dyn", {"batch": 1, "sequence": 512}),
    Network("gpt2, 512", "gpt2-dyn", {"batch": 1, "sequence": 512}, headless=True),
    Network("llama_small, 1024", "llama_small-dyn", {"batch": 1, "sequence": 1024}, headless=True),
    Network("mobilenet_v2, 4, step", "mobilenet_v2-dyn", {"batch": 4}, loss="cross-entropy", curve=True),
    Network("resnet50, 8, step", "resnet50-dyn", {"batch": 8}, loss="cross-entropy"),
    Network("bert_base, 8 x 128, step", "bert_base-dyn", {"batch": 8, "sequence": 128}, loss="mse"),
    Network("gpt2, 2 x 256, step", "gpt2-dyn", {"batch": 2, "sequence": 256}, loss="cross-entropy"),
)


def find(tool, work, data):
    """The networks whose files are there."""
    if not (data / "zoo/expected.csv").exists():
        return []
    wanted = {f"zoo/{n.file}" for n in _NETWORKS}
    workdir.prepare(work, data, [c for c in cases.find(data, []) if c.title in wanted])
    return list(_NETWORKS)


def examine(network, tool, work):
    """Plan a network whole and in slices, run both, and compare."""
    began = time.monotonic()
    result = {"title": f"slices/{network.title}", "faults": []}
    try:
        _compare(network, tool, work, result)
    except (command.Failed, onnx.checker.ValidationError) as err:
        result["faults"].append(str(err))
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def _compare(network, tool, work, result):
    source = work / "zoo" / f"{network.file}.onnx"
    whole, sliced = (source.with_name(f"{network.stem}.{kind}.onnx") for kind in ("whole", "sliced"))
    if network.headless:
        cut = source.with_name(f"{network.stem}.headless.onnx")
        model = onnx.load(source, load_external_data=False)
        remove_head(model.graph)
        onnx.save(model, cut)
        source = cut
    dims = [f"--dim={k}={v}" for k, v in network.dims.items()]
    train = ["--train", f"--loss={network.loss}", "--fold=any"] if network.loss else []
    plain = tool.plan(source, whole, [*dims, *train])
    slices = [*dims, *train, DEVICE, _EXTRA, f"--slices={'any' if network.loss else 'exact'}"]
    made = tool.plan(source, sliced, slices)
    result |= {"whole": plain["peak_bytes"], "peak": made["peak_bytes"], "bound": made["lower_bound_bytes"], "promised": made.get("total_cost_percent", made.get("slice_cost_percent", made.get("extra_cost_percent")))}
    if "slice_cost_percent" not in made:
        result["faults"].append("no slices")
        return
    result["faults"] += [f"verify: {text}" for text in tool.verify(sliced)]
    onnx.checker.check_model(str(sliced), full_check=False)
    given, values = _inputs(network, whole)
    ours = _measured(result, "ours", lambda path: _run(tool, path, given), whole, sliced)
    theirs = _measured(result, "theirs", lambda path: _runtime(path, {**values, **given}), whole, sliced)
    bounds = {"onnxmem run": _SUMMED if network.loss else 0, "ONNX Runtime": _SUMMED if network.loss else _EXACT}
    for where, (want, got) in (("onnxmem run", ours), ("ONNX Runtime", theirs)):
        worst = _worst(want, got)
        result[f"{where} differs by"] = worst
        if not worst <= bounds[where]:
            result["faults"].append(f"{where}: off by {worst:.2g}")
    compact = source.with_name(f"{network.stem}.compact.onnx")
    calls = tool.plan(source, compact, [*slices, "--compact"])
    result["faults"] += [f"compact: verify: {text}" for text in tool.verify(compact)]
    onnx.checker.check_model(str(compact), full_check=False)
    result["bytes"] = [sliced.stat().st_size, compact.stat().st_size]
    if result["bytes"][1] > result["bytes"][0] or calls["peak_bytes"] > made["peak_bytes"] * 17 / 16:
        result["faults"].append(f"compact: a file of {result['bytes'][1]:,} bytes and a peak of {calls['peak_bytes']:,}")
    for where, want, (_, got) in (("onnxmem run", ours[0], _run(tool, compact, given)), ("ONNX Runtime", theirs[0], _runtime(compact, {**values, **given}))):
        if not (worst := _worst(want, got)) <= bounds[where]:
            result["faults"].append(f"compact: {where}: off by {worst:.2g}")
    if network.curve:
        _learn(tool, given, whole, sliced, result)


def _worst(want, got):
    return max(running.compare(got.get(name), array, np.inf)[1] for name, array in want.items())


def remove_head(graph):
    """Make the operand of the last product the only output, and drop what only the old output needs."""
    last = next(n for n in reversed(graph.node) if n.op_type in ("MatMul", "Gemm"))
    hidden = last.input[0]
    declared = [v for v in graph.value_info if v.name == hidden]
    elem = graph.output[0].type.tensor_type.elem_type
    del graph.output[:]
    graph.output.append(declared[0] if declared else onnx.helper.make_tensor_value_info(hidden, elem, None))
    used, kept = {hidden}, []
    for node in reversed(graph.node):
        if used.intersection(node.output):
            kept.append(node)
            used.update(node.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    stored = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:]
    graph.initializer.extend(stored)


def _inputs(network, path):
    """Return the inputs of a planned network, and the parameters of a step."""
    if not network.loss:
        graph = onnx.load(path, load_external_data=False).graph
        shapes = {name: tuple(network.dims.get(d, 1) if isinstance(d, str) else d for d in dims) for name, dims in feeds.declared(graph).items()}
        return feeds.make(graph, shapes), {}
    made = step.Step(path)
    return {**made.data(made.classes()), step.RATE: np.array(_RATE, np.float32)}, made.values


def _run(tool, path, given):
    report, outputs = tool.run(path, given, ("--workers=1", f"--steps={_RUNS}" if step.RATE not in given else "--steps=1"), _SECONDS)
    return report["times_ms"]["step"], outputs


def _runtime(path, given):
    session = runtime.session(path)
    names = [o.name for o in session.get_outputs()]
    best = float("inf")
    for _ in range(_RUNS):
        began = time.perf_counter()
        outputs = session.run(names, given)
        best = min(best, (time.perf_counter() - began) * 1e3)
    return best, dict(zip(names, outputs))


def _measured(result, who, run, whole, sliced):
    """Note the least milliseconds of alternating runs; return the outputs of both."""
    times, outputs = {whole: [], sliced: []}, {}
    for _ in range(_ROUNDS):
        for path in (whole, sliced):
            ms, outputs[path] = run(path)
            times[path].append(ms)
    result[who] = [min(times[whole]), min(times[sliced])]
    return outputs[whole], outputs[sliced]


def _learn(tool, given, whole, sliced, result):
    """Compare the losses of many steps on the same data."""
    curves = [np.array(tool.run(path, given, (f"--steps={_LOSSES}",), _SECONDS)[0]["losses"]) for path in (whole, sliced)]
    result["curve"] = [float(curves[0][0]), float(curves[0][-1]), float((abs(curves[1] - curves[0]) / np.maximum(abs(curves[0]), 1e-3)).max())]
    if not curves[0][-1] < curves[0][0]:
        result["faults"].append("the loss does not fall")


HEAD = ("network, batch or tokens", "whole, MiB", "sliced, MiB", "bound, MiB", "extra time: promised, %", "measured, %", "in ONNX Runtime, %", "ONNX Runtime differs by")


def cells(result):
    """Return the cells of a row, as text."""
    more = lambda pair: f"{100 * (pair[1] / pair[0] - 1):.0f}"
    differs = result["ONNX Runtime differs by"]
    return [
        result["title"].partition("/")[2],
        *(f"{result[key] / 2**20:,.2f}" for key in ("whole", "peak", "bound")),
        f"{result['promised']:.1f}",
        more(result["ours"]),
        more(result["theirs"]),
        f"{differs:.0e}".replace("e-0", "e-") if differs else "0",
    ]


def row(result):
    """Return one line of text."""
    if "theirs" not in result:
        return f"{result['title']:34} failed"
    curve = f", {_LOSSES} losses {result['curve'][0]:.4f} to {result['curve'][1]:.4f} within {result['curve'][2]:.1e}" if "curve" in result else ""
    said = ", ".join(f"{title} {cell}" for title, cell in zip(HEAD[1:], cells(result)[1:]))
    return f"{result['title']:34} {said}; ms {result['ours'][0]:.1f} {result['ours'][1]:.1f}, {result['theirs'][0]:.1f} {result['theirs'][1]:.1f}{curve}; files {result['bytes'][0]:,} and, compact, {result['bytes'][1]:,} B, {result['seconds']} s"
