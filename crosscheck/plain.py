"""Compare every node of every model, and of its training step, with onnxmem's reference evaluator in float64.

One model at a time, in its own process: python -m crosscheck.plain.
"""

import numpy as np

from . import apart, cases, command, feeds, probe, step, whole

SECONDS = 3600  # of one model
_LOSSES = ("cross-entropy", "mse")  # the first that the output allows


def find(subset, data, networks):
    """Return the titles: each model, and its training step."""
    found = [c for c in cases.find(data, networks) if not subset or c.title in cases.SUBSET]
    return [f"reference/{c.title}" for c in found] + [f"reference/step/{c.title}" for c in found]


def examine(title, tool, work, data, result):
    """Plan a model or its training step, run it, and compare."""
    name = title.removeprefix("reference/")
    training = name.startswith("step/")
    case = next(c for c in cases.find(data, tool.networks()) if c.title == name.removeprefix("step/"))
    source = case.source(work)
    target = source.with_name(f"{case.name}.reference-step.onnx" if training else f"{case.name}.reference.onnx")
    if not case.file:
        source.parent.mkdir(parents=True, exist_ok=True)
        tool.model(case.name, source, case.settings)
    model = probe.load(source)
    shapes, dims = case.settle(feeds.declared(model.graph))
    try:
        if training:
            given = _step(source, target, model, dims, tool, result)
        else:
            tool.optimize(source, target, dims)
            given = feeds.ramp(model.graph, shapes) if case.kind == "light" else feeds.make(model.graph, shapes, case.scale)
        if given is not None:
            _compare(tool.reference(target, given, SECONDS), result)
    finally:
        for path in target.parent.glob(f"{target.stem}.*"):
            path.unlink()


def _step(source, target, model, dims, tool, result):
    """Make the training step of a model; return data for it, or None if it has no training step."""
    said = ""
    for loss in _LOSSES:
        try:
            tool.train(source, target, [f"--loss={loss}", *(f"--dim={n}={v}" for n, v in sorted(dims.items()))])
            made = step.Step(target)
            return {**made.data(made.classes()), step.RATE: np.array(1e-3, np.float32)}
        except command.Failed as err:
            said = str(err)
    result["refused"] = said
    if not whole.refusals(model):
        result["faults"].append(said)
    return None


def _compare(report, result):
    result |= {k: report[k] for k in ("compared_nodes", "uncompared", "idle_nodes", "worst", "worst_node") if k in report}
    result["check_seconds"] = round(report["seconds"], 1)
    if report["wrong_nodes"]:
        result["faults"].append(f"{report['wrong_nodes']} nodes are off: {report['first_wrong']}")


def row(result):
    """Return one line of text."""
    if "refused" in result:
        return f"{result['title']:44} refused: {result['refused']}"
    if "compared_nodes" not in result:
        return f"{result['title']:44} {result['seconds']} s"
    left = ", ".join(f"{n} {op}" for op, n in sorted(result["uncompared"].items())) or "-"
    if result["idle_nodes"]:
        left += f", {result['idle_nodes']} never ran"
    said = f"{result['title']:44}{result['compared_nodes']:>8}  {left:20}{result['worst']:8.2f}{result['check_seconds']:>9}{result['seconds']:>9} s"
    return f"{said}  {result.get('worst_node', '')}"


def header():
    """Return the line above the rows."""
    return f"{'model':44}{'compared':>8}  {'not compared':20}{'worst':>8}{'check':>9}{'in all':>9}"


if __name__ == "__main__":
    apart.main(examine)
