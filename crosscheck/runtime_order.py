"""Compare the orders in which ONNX Runtime runs nodes with the strategies that reproduce them, and with plans of its default order."""

import json
import time

import onnx

from . import cases, command, feeds, runtime

_NETWORKS = ("googlenet", "mobilenet_v2")
_STRATEGIES = (("reverse-dfs", False), ("ort-priority", True))  # and whether the runtime is told PRIORITY_BASED


def find(tool, data, work):
    """Return models with branches and without external data."""
    found = [data / "light/light_squeezenet.onnx"]
    for name in _NETWORKS:
        found.append(work / f"{name}.order.onnx")
        tool.model(name, found[-1], cases.BUILT_IN[name][1])
    return [path for path in found if path.exists()]


def examine(path, tool, work):
    """Plan a model by each strategy, run the source model, and compare the orders."""
    began = time.process_time()
    name = path.name.split(".")[0]
    result = {"title": f"runtime/{name}", "faults": []}
    model = onnx.load(path)
    for i, node in enumerate(model.graph.node):
        node.name = f"n{i}"
    named = work / f"{name}.named.onnx"
    onnx.save(model, named)
    shapes = {k: tuple(d if isinstance(d, int) else 1 for d in dims) for k, dims in feeds.declared(model.graph).items()}
    given = feeds.make(model.graph, shapes, 1.0)
    planned = work / f"{name}.ordered.onnx"
    for strategy, told in _STRATEGIES:
        try:
            tool.optimize(named, planned, {}, schedule=strategy)
        except command.Failed as err:
            result["faults"].append(str(err))
            continue
        nodes = onnx.load(planned, load_external_data=False).graph.node
        _, events = runtime.run(named, given, 1, follow_order=told, profile=work / f"{name}.trace")
        if fault := differs([n.name for n in nodes if n.op_type != "Constant"], [e.name for e in events]):
            result["faults"].append(f"{strategy}: {fault}")
    # The file whose default order is the planned one: steps of the plan, not nodes of the file.
    try:
        tool.plan(named, planned, ["--runtime", "onnxruntime", "--order", "default"])
        result["faults"] += tool.verify(planned)
    except command.Failed as err:
        result["faults"].append(str(err))
    else:
        onnx.checker.check_model(str(planned))
        steps = json.loads(planned.with_suffix(".plan.json").read_text(encoding="utf-8"))["steps"]
        want, _ = runtime.run(named, given, 1)
        got, events = runtime.run(planned, given, 1, profile=work / f"{name}.trace")
        if fault := differs([s["name"] for s in steps if s["op"] != "Constant"], [e.name for e in events]):
            result["faults"].append(f"--order default: {fault}")
        if any(got[k].tobytes() != want[k].tobytes() for k in want):
            result["faults"].append("--order default: other bits")
    result["nodes"] = len(model.graph.node)
    result["seconds"] = round(time.process_time() - began, 1)
    return result


def differs(planned, ran):
    """Describe where two orders first differ, or return nothing."""
    if planned == ran:
        return ""
    for step, (a, b) in enumerate(zip(planned, ran)):
        if a != b:
            return f"step {step}: {a} planned, {b} ran"
    return f"{len(planned)} nodes planned, {len(ran)} ran"


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} {result['nodes']} nodes, {', '.join(s for s, _ in _STRATEGIES)} and --order default as they ran: {'NO' if result['faults'] else 'yes'}, {result['seconds']} s"
