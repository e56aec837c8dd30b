"""Run plans: compare onnxmem run with ONNX Runtime and with an unplanned run, and poison dead bytes.

One model at a time, in its own process: python -m crosscheck.running. A case is a
model of the zoo, a training step of a network of networks.py, or the loop of learn.py.
"""

import math

import numpy as np
import onnx

from . import apart, cases, feeds, learn, networks, probe, runtime, step

# Largest difference of an output, relative to its largest element.
_TOLERANCE = {"float64": 1e-4, "float32": 1e-4, "float16": 1e-2}
_STEP = 2e-2  # with 8-bit activations: rounding can move an element to the next of 256 steps
_INTEGER = {"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QAttention", "QGemm"}
_QUANTIZED = _INTEGER | {"QuantizeLinear", "DynamicQuantizeLinear"}
_LEVELS = ("EXTENDED", "ALL")  # at which ONNX Runtime saves each model; the title ends with @ and the level
_LOOP = "run/learn"
_SECONDS = 900  # of one run of onnxmem
_STEPS = 3  # of training
_PART = 0.1  # the fraction of the loss that a step removes, to first order
_DRAWS = 32  # attempts to draw data; for the most sensitive network 11 of 70 work, the first is the 15th
_VANISHING = 1e-5  # a gradient below this fraction of the largest one counts as zero
_REPEATS = 5  # least number of repetitions of a timed run; the minimum counts
_TIMED = 100  # milliseconds that all repetitions of a short run take; at most
_MOST = 2000  # repetitions
_EXAMPLES = 4  # of a kind of fault are told in full


def find(subset, data):
    """Return the titles to run. Without the zoo's files, those that need none."""
    zoo = [c for c in cases.find(data, []) if c.kind == "zoo"]
    models = [f"run/{c.name}" for c in zoo if not subset or c.title in cases.SUBSET]
    models += [f"{m}@{level}" for level in _LEVELS for m in models]
    steps = [f"run/train-{n.name}" for n in networks.NETWORKS if zoo or not n.source.startswith("zoo/")]
    return models + [_LOOP] + [t for t in steps if not subset or t.replace("run/train-", "training/") in networks.SUBSET]


def examine(title, tool, work, data, result):
    """Run the loop, a training step or a model of the zoo."""
    if title == _LOOP:
        return learn.check(work / "run", result)
    name = title.removeprefix("run/")
    for network in networks.NETWORKS:
        if name == f"train-{network.name}":
            return _train(network, work, tool, data, result)
    name, _, level = name.partition("@")
    case = next(c for c in cases.find(data, []) if c.kind == "zoo" and c.name == name)
    source = work / case.file
    if not level:
        return _infer(case, source, source, tool, result)
    saved = source.with_name(f"{case.name}.{level}.onnx")
    try:
        runtime.save(source, saved, level)
        return _infer(case, source, saved, tool, result)
    finally:
        saved.unlink(missing_ok=True)
        saved.with_suffix(".data").unlink(missing_ok=True)


def _infer(case, original, source, tool, result):
    """Run a model of the zoo, planned for the shapes of its case; source is the original or its optimized form."""
    target = source.with_name(f"{source.stem}.run.onnx")
    model = probe.load(original)
    graph = model.graph
    declared = feeds.declared(graph)
    given = feeds.make(graph, case.shapes, case.scale)
    saved = probe.load(source)
    result["nodes"] = len(saved.graph.node)
    tool.optimize(source, target, cases.symbols(declared, case.shapes))
    try:
        got = _run(tool, target, given, result)
        operators = {n.op_type for n in probe.nodes_of(saved)}
        want = expected(source, given, operators)
        fill_error(got, want, result, tolerance(model))
        timed = lambda repeats: tool.run(target, given, ("--workers=1", f"--steps={repeats}"), _SECONDS)[0]["times_ms"]["step"]
        result["ms"], repeats = timed(_REPEATS), _REPEATS
        if result["ms"] * _REPEATS < _TIMED:  # the first runs of a small model find cold caches
            repeats = min(int(_TIMED / result["ms"]) + 1, _MOST)
            result["ms"] = timed(repeats)
        result["ort_ms"] = runtime.best_time(source, given, repeats)
    finally:
        target.unlink(missing_ok=True)


def tolerance(model):
    """Return the tolerance for all outputs; 0: by dtype. A float32 output is no more exact than the values it is computed from."""
    if {n.op_type for n in probe.nodes_of(model)} & _QUANTIZED:
        return _STEP
    if any(t.data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16) for t in model.graph.initializer):
        return _TOLERANCE["float16"]
    return 0


def _train(network, work, tool, data, result):
    """Run steps of training; compare the gradients of the first and the losses of all."""
    source = work / "run" / f"{network.name}.onnx"
    target = source.with_name(f"{network.name}.step.onnx")
    source.parent.mkdir(parents=True, exist_ok=True)
    networks.write(network, source, tool, data)
    loss = network.loss + (onnx.load(str(source)).graph.output[0].name if network.loss == "none:" else "")
    tool.train(source, target, ("--keep-gradients", f"--loss={loss}", *network.flags))
    result["nodes"] = len(step.Step(target).model.graph.node)
    given = _settle(target, tool, result)
    _run(tool, target, given, result, (f"--steps={_STEPS}",))


def expected(source, given, operators):
    """Return the outputs of ONNX Runtime for a model with the given operators."""
    return runtime.run_exactly(source, given) if operators & _INTEGER else runtime.run(source, given, 1)[0]


def _settle(target, tool, result):
    """Find data for which our gradients and losses equal ONNX Runtime's.

    If rounding puts an element on the other side of a kink (Relu, Clip, MaxPool), two
    correct gradients differ, and so do all later steps; then we draw other data. A
    wrong gradient agrees on no data.
    """
    training = step.Step(target)
    session, classes = training.session(), training.classes()
    names = [training.gradients[n] for n in training.trainable]
    for seed in range(_DRAWS):
        given = {**training.data(classes, seed), step.RATE: np.array(0, np.float32)}
        _, got = tool.run(target, given, (), _SECONDS)
        loss, *gradients = session.run(["loss", *names], {**training.values, **given})
        want = dict(zip(names, gradients))
        result["draws"], result["gradients"] = seed + 1, gradient_error(got, want)
        fault = f"gradients off by {result['gradients']:.2g}"
        if result["gradients"] <= _TOLERANCE["float32"]:
            given[step.RATE] = _rate(float(loss), gradients)
            report, _ = tool.run(target, given, (f"--steps={_STEPS}",), _SECONDS)
            fault, result["error"] = compare(np.array(report["losses"]), _losses(target, given))
            if not fault:
                return given
    result["faults"].append(f"on the last of {_DRAWS} draws of data: {fault}")
    return given


def _rate(loss, gradients):
    """Return a learning rate that has a visible effect and is small enough for the loss to fall."""
    return np.array(_PART * abs(loss) / sum(float(np.square(g, dtype=np.float64).sum()) for g in gradients), np.float32)


def _losses(target, given):
    """Return ONNX Runtime's results of all steps."""
    training = step.Step(target)
    session = training.session()
    return np.array([training.advance(session, given, given[step.RATE]) for _ in range(_STEPS)])


def gradient_error(got, want):
    """Return the largest difference of a gradient, relative to the largest element of its tensor, or of all
    tensors if the gradient is zero but for rounding."""
    largest = max(float(abs(a).max(initial=0)) for a in want.values())
    scales = {n: float(abs(a).max(initial=0)) for n, a in want.items()}
    return max(float(abs(got[n] - a).max(initial=0)) / (scales[n] if scales[n] > _VANISHING * largest else largest) for n, a in want.items())


def _run(tool, target, given, result, flags=()):
    """Run planned, unplanned and poisoned; return the outputs of the planned run."""
    report, got = tool.run(target, given, ("--check", "--poison", *flags), _SECONDS)
    different = [o["name"] for o in report["outputs"] if not o["identical"]]
    result["identical"] = not different
    result["poison"] = True  # raises an error if the check fails
    if different:
        result["faults"].append(f"differs from an unplanned run: {', '.join(different[:_EXAMPLES])}")
    for key in ("arena_bytes", "dynamic_bytes", "scratch_bytes", "packed_bytes", "heap_allocs_per_step"):
        result[key] = report[key]
    return got


def fill_error(got, want, result, tolerance=0):
    """Write the largest error of all outputs into the result. tolerance holds for all dtypes; _TOLERANCE is by dtype."""
    worst = result.get("error", 0.0)
    for name, array in want.items():
        fault, error = compare(got.get(name), array, tolerance)
        worst = max(worst, error)
        if fault:
            result["faults"].append(f"{name}: {fault}")
    result["error"] = worst


def compare(got, want, tolerance=0):
    """Return the fault of an output, if any, and its largest error relative to its largest element."""
    if got is None or got.shape != want.shape or got.dtype != want.dtype:
        return f"expected {want.dtype}{list(want.shape)}, found {'nothing' if got is None else f'{got.dtype}{list(got.shape)}'}", 0.0
    if want.size == 0:
        return "", 0.0
    if str(want.dtype) not in _TOLERANCE:
        different = int((got != want).sum())
        return (f"{different} of {want.size} elements differ" if different else ""), 0.0
    got, exact = got.astype(np.float64), want.astype(np.float64)
    both = np.isnan(got) & np.isnan(exact) | (got == exact)
    difference = np.where(both, 0.0, abs(got - exact))
    error = float(np.nan_to_num(difference, nan=np.inf).max() / max(float(abs(exact[np.isfinite(exact)]).max(initial=0)), 1e-30))
    return (f"off by {error:.2g}" if error > (tolerance or _TOLERANCE[str(want.dtype)]) else ""), error


def row(result):
    """Return one line of text."""
    said = [result["title"].ljust(34), f"{result.get('nodes', '-'):>6}"]
    said.append(f"{result['error']:9.1e}" if "error" in result else "        -")
    said += [f"{ {True: 'yes', False: 'NO', None: '-'}[result.get(v)]:>6}" for v in ("identical", "poison")]
    if "gradients" in result:
        said.append(f"gradients {result['gradients']:.1e} draw {result['draws']}".rjust(27))
    elif "ort_ms" in result:
        said.append(f"{result['ms']:10.1f}{result['ort_ms']:10.1f}{result['ms'] / result['ort_ms']:7.2f}")
    else:
        said.append(f"{'-':>10}{'-':>10}{'-':>7}")
    said += [f"{result.get(v, '-'):>12}" for v in ("dynamic_bytes", "heap_allocs_per_step")]
    return "".join(said) + f"{result['seconds']:>8} s" + (f"  {result['curve']}" if "curve" in result else "")


def speed(results):
    """Return a line for each form of the models: the geometric mean of our time over ONNX Runtime's, and the largest."""
    lines = []
    for level in ("", *_LEVELS):
        ratios = {r["title"]: r["ms"] / r["ort_ms"] for r in results if "ort_ms" in r and r["title"].partition("@")[2] == level}
        if ratios:
            largest = max(ratios, key=ratios.get)
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            form = f"saved at {level}" if level else "as they are"
            lines.append(f"{len(ratios)} models {form}: {mean:.2f} of ONNX Runtime's time in the geometric mean, at most {ratios[largest]:.2f} ({largest})")
    return lines


def header():
    """Return the line above the rows."""
    return f"{'model':34}{'nodes':>6}{'error':>9}{'bits':>6}{'poison':>6}{'ms':>10}{'ORT':>10}{'ratio':>7}{'dynamic':>12}{'allocations':>12}"


if __name__ == "__main__":
    apart.main(examine)
