"""Check steps in 16 bits without PyTorch: beside the same step in float32, and node by node; and the model
in 16 bits in ONNX Runtime.

Steps beside torch.autocast's are those of crosscheck/run precision, which needs PyTorch.
One step at a time, in its own process: python -m crosscheck.halves.
"""

import numpy as np

import onnx

from . import apart, cases, feeds, networks, runtime, step

_TYPES = {"bf16": 2.0**-8, "fp16": 2.0**-11}  # unit roundoff
_SHALLOW = ("cnn",)  # networks that amplify no rounding: without BatchNormalization and attention
_FEW, _MANY = 1 / 16, 16  # unit roundoffs by which gradients, and at most their loss, are off: below it, nothing was rounded
_SUBSET = ("bert", "tiny_resnet8")
_RUNTIME = 2  # ours may be off by as many times what the runtime's result is off, and two roundings
_SECONDS = 600
_SCALE = 1024  # of float16's loss


def find(subset, tool):
    """Return the titles: a few networks for CI; else the built-in ones at small settings, too."""
    built_in = [n for n in tool.networks() if n in cases.BUILT_IN and (not subset or n in _SUBSET)]
    names = ["cnn", *(f"model/{n}" for n in built_in)]
    return [f"autocast/{name}/{kind}" for name in names for kind in _TYPES]


def examine(title, tool, work, data, result):
    """Compare a step in 16 bits with that in float32, and each of its nodes with the reference evaluator."""
    name, _, kind = title.removeprefix("autocast/").rpartition("/")
    folder = work / "autocast"
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name.replace('/', '-')}.{kind}.onnx"
    flags = ["--keep-gradients"]
    if name.startswith("model/"):
        dims, settings = cases.BUILT_IN[name.removeprefix("model/")]
        tool.model(name.removeprefix("model/"), source, settings, dims)
    else:
        networks.write(next(n for n in networks.NETWORKS if n.name == name), source, tool, data)
    result["runtime"] = _in_runtime(source, kind, tool, result)
    single, half = (source.with_name(f"{source.stem}.{w}.onnx") for w in ("float32", "step"))
    tool.train(source, single, flags)
    tool.train(source, half, [*flags, f"--autocast={kind}", *([f"--loss-scale={_SCALE}"] if kind == "fp16" else [])])
    result["faults"] += [f"verify: {v}" for v in tool.verify(half)[:4]]
    made = step.Step(half)
    given = {**made.data(step.Step(single).classes()), step.RATE: np.array(0, np.float32)}
    want, exact = _differentiate(tool, single, given)
    loss, gradients = _differentiate(tool, half, given)
    off = sum(float(np.square(gradients[n].astype(np.float64) - g).sum()) for n, g in exact.items())
    size = sum(float(np.square(g, dtype=np.float64).sum()) for g in exact.values())
    result["error"] = (off / size) ** 0.5 / _TYPES[kind]
    result["loss_error"] = abs(loss - want) / abs(want) / _TYPES[kind]
    if name in _SHALLOW and not _FEW <= result["error"] <= _MANY:
        result["faults"].append(f"gradients are off by {result['error']:.3g} unit roundoffs of those in float32, expected {_FEW:g} to {_MANY}")
    if name in _SHALLOW and not result["loss_error"] <= _MANY:
        result["faults"].append(f"the loss {loss} is off by {result['loss_error']:.3g} unit roundoffs of {want}, expected at most {_MANY}")
    report = tool.reference(half, given, _SECONDS)
    result |= {k: report[k] for k in ("compared_nodes", "worst")}
    if report["wrong_nodes"]:
        result["faults"].append(f"{report['wrong_nodes']} nodes are off: {report['first_wrong']}")
    if report["uncompared"]:
        result["faults"].append(f"nodes were not compared: {report['uncompared']}")


def _in_runtime(source, kind, tool, result):
    """Run the model in 16 bits in ONNX Runtime and here; return by how many unit roundoffs its outputs there are off those in
    float32, or what it has no kernel for."""
    whole, half = (source.with_name(f"{source.stem}.{w}.onnx") for w in ("inference", "precision"))
    tool.plan(source, whole, ["--effort=fast"])
    tool.plan(source, half, ["--effort=fast", f"--precision={kind}", "--no-accuracy"])
    graph = onnx.load(whole, load_external_data=False).graph
    given = feeds.make(graph, {v.name: [d.dim_value or 1 for d in v.type.tensor_type.shape.dim] for v in feeds.inputs(graph)})
    try:
        there, _ = runtime.run(half, given, 1)
    except Exception as error:  # the runtime's own class, which it does not export
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        return str(error).partition("implementation for ")[2].partition(" node")[0]
    want, _ = runtime.run(whole, given, 1)
    _, here = tool.run(half, given, [], _SECONDS)
    worst = 0
    for name, exact in want.items():
        if exact.dtype != np.float32 or exact.size == 0:
            continue
        off, ours = (float(np.linalg.norm(out[name].astype(np.float64) - exact) / np.linalg.norm(exact)) / _TYPES[kind] for out in (there, here))
        worst = max(worst, off)
        if not ours <= _RUNTIME * (off + 1):
            result["faults"].append(f"{name} in 16 bits is off by {ours:.3g} unit roundoffs, in ONNX Runtime by {off:.3g}")
    return worst


def _differentiate(tool, path, given):
    """Return loss and gradients of a step that onnxmem runs."""
    _, out = tool.run(path, given, [], _SECONDS)
    return float(out["loss"]), {n: out[g] for n, g in step.Step(path).gradients.items()}


def row(result):
    """Return one line of text."""
    if "compared_nodes" not in result:
        return f"{result['title']:44} {result['seconds']} s"
    return f"{result['title']:44}gradients off {result['error']:6.2f} unit roundoffs, loss {result['loss_error']:6.2f}; {_there(result['runtime'])}; {result['compared_nodes']} nodes, worst {result['worst']:.3f}, {result['seconds']} s"


def _there(found):
    """Describe what _in_runtime found."""
    return f"ONNX Runtime has no {found}" if isinstance(found, str) else f"in ONNX Runtime off {found:.2f}"


if __name__ == "__main__":
    apart.main(examine)
