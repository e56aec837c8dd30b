"""Check the training step of every model at its full size: onnx.checker accepts it, ONNX Runtime runs it.

Gradients are compared with PyTorch's on smaller networks (training.py). One model at a
time, in its own process: python -m crosscheck.whole.
"""

import numpy as np
import onnx
import onnxruntime

from . import apart, cases, command, examine, feeds, probe, step

# Reasons why --train may refuse a model, by its contents; any other refusal is a fault.
_REFUSED = {
    "control flow": {"If", "Loop", "Scan", "SequenceMap"},
    "integer arithmetic": {"QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger", "DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear"},
    "shapes that depend on data": {"NonZero", "NonMaxSuppression", "Unique", "Compress"},
}
_EXAMPLES = 4  # of a kind of fault are told in full
_LOSSES = ("cross-entropy", "mse")  # the first that the output allows


def examination(title, tool, work, data, result):
    """Make the training step of one model and run it."""
    case = next(c for c in cases.find(data, tool.networks()) if f"step/{c.title}" == title)
    source = case.source(work)
    target = source.with_name(f"{case.name}.step.onnx")
    if not case.file:
        tool.model(case.name, source, case.settings)
    model = probe.load(source)
    _, dims = case.settle(feeds.declared(model.graph))
    reasons = refusals(model)
    for loss in _LOSSES:
        try:
            flags = [f"--loss={loss}", *(f"--dim={n}={v}" for n, v in sorted(dims.items()))]
            result["autodiff_ms"] = tool.train(source, target, flags)
            break
        except command.Failed as err:
            said = str(err)
    else:
        result["refused"] = said
        if not reasons:
            result["faults"].append(said)
        return
    try:
        _run(source, target, tool, result)
    except onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException as err:
        if "MLFloat16 data type is not supp" not in str(err):
            raise
        result["refused"] = f"by ONNX Runtime: {str(err).split(' : ', 3)[-1].strip()}"
    finally:
        for path in target.parent.glob(f"{target.stem}.*"):
            path.unlink()


def refusals(model):
    """Return the reason why a model may be refused, or an empty string."""
    found = {n.op_type for n in probe.nodes_of(model)}
    reasons = [why for why, operators in _REFUSED.items() if operators & found]
    if not any(t.data_type == onnx.TensorProto.FLOAT for t in model.graph.initializer):
        reasons.append("no initializers in float32")
    return reasons


def _run(source, target, tool, result):
    for violation in tool.verify(target)[:_EXAMPLES]:
        result["faults"].append(f"verify: {violation}")
    if fault := examine.checked(source, target):
        result["faults"].append(f"onnx.checker: {fault}")
    made = step.Step(target)
    result["nodes"] = len(made.model.graph.node)
    result["parameters"] = int(sum(made.values[n].size for n in made.trainable))
    given = made.data(made.classes())
    session = made.session()
    names = [o.name for o in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, {**made.values, **given, step.RATE: np.array(1e-3, np.float32)})))
    result["loss"] = float(outputs["loss"])
    if not np.isfinite(result["loss"]):
        result["faults"].append(f"the loss is {result['loss']}")
    still = [n for n in made.trainable if np.array_equal(outputs[made.updates[n]], made.values[n])]
    result["still"] = len(still)
    broken = [n for n in made.trainable if not np.isfinite(outputs[made.updates[n]]).all()]
    if broken:
        result["faults"].append(f"not finite after the step: {', '.join(broken[:_EXAMPLES])}")


_COLUMNS = (
    ("refused", "{}"),
    ("parameters", "{:,} parameters"),
    ("nodes", "{} nodes"),
    ("loss", "loss {:.3g}"),
    ("still", "{} unchanged"),
    ("autodiff_ms", "autodiff {:.0f} ms"),
)


def row(result):
    """Return one line of text."""
    said = [form.format(result[key]) for key, form in _COLUMNS if key in result]
    return f"{result['title']:40} " + ", ".join([*said, f"{result['seconds']} s"])


if __name__ == "__main__":
    apart.main(examination)
