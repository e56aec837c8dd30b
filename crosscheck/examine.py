"""Check the plan of one model; runs in its own process."""

import gc
import json

import numpy as np
import onnx

from . import apart, cases, command, feeds, order, probe, runtime, shapes, snapshot

_EXAMPLES = 4  # of a kind of fault are told in full


def examine(title, tool, work, data, result, threads):
    """Examine one case."""
    case = next(c for c in cases.find(data, tool.networks()) if c.title == title)
    _Examination(case, work, tool, threads, result).run()


class _Examination:
    """Run the steps in order; each writes its verdict into result."""

    def __init__(self, case, work, tool, threads, result):
        self.case, self.tool, self.threads, self.result = case, tool, threads, result
        self.source = case.source(work)
        self.target = self.source.with_name(f"{case.name}.planned.onnx")

    def run(self):
        if not self.case.file:
            self.tool.model(self.case.name, self.source, self.case.settings)
        if not self.source.exists():
            self.fault(f"{self.source} is not there")
            return
        source = probe.load(self.source)
        self.result["nodes"] = len(source.graph.node)
        self.settle_shapes(source)
        if not self.optimize():
            return
        self.verify()
        self.check()
        self.check_snapshot()
        self.planned = probe.load(self.target)
        self.feeds = self.make_feeds(source)
        self.compare_outputs()
        self.compare_order()
        self.compare_shapes()

    def fault(self, text):
        self.result["faults"].append(text)

    def settle_shapes(self, source):
        """Determine the input shapes that the case leaves open, and the symbols' values."""
        self.shapes, self.dims = self.case.settle(feeds.declared(source.graph))

    def optimize(self):
        try:
            summary = self.tool.optimize(self.source, self.target, self.dims)
        except command.Failed as err:
            self.fault(str(err))
            self.result["planned"] = False
            return False
        self.result["planned"] = True
        for key in ("program_order_peak_bytes", "peak_bytes", "lower_bound_bytes", "arena_bytes"):
            self.result[key] = summary[key]
        return True

    def verify(self):
        violations = self.tool.verify(self.target)
        self.result["verified"] = not violations
        self.several("verify", violations)

    def check(self):
        """onnx.checker must accept the file."""
        fault = checked(self.source, self.target)
        self.result["checker"] = not fault
        if fault:
            self.fault(f"onnx.checker: {fault}")

    def check_snapshot(self):
        """Check the plan's snapshot for PyTorch's viewer."""
        plan = self.target.with_name(f"{self.case.name}.planned.plan.json")
        target = self.target.with_suffix(".pickle")
        try:
            self.tool.export(plan, "memory-viz", target)
            self.several("snapshot", snapshot.faults(snapshot.load(target), json.loads(plan.read_text(encoding="utf-8"))))
        except command.Failed as err:
            self.fault(str(err))
        finally:
            target.unlink(missing_ok=True)

    def make_feeds(self, source):
        if self.case.expected:
            return feeds.ramp(source.graph, self.shapes)
        return feeds.make(source.graph, self.shapes, self.case.scale)

    def compare_outputs(self):
        want, _ = runtime.run(self.source, self.feeds, self.threads)
        gc.collect()
        profile = self.target.with_suffix(".profile")
        self.clear = probe.tells_nodes_apart(self.planned)
        got, self.events = runtime.run(self.target, self.feeds, self.threads, follow_order=True, profile=profile)
        different = [n for n in want if n not in got or not runtime.identical(want[n], got[n])]
        self.result["identical"] = not different and len(want) == len(got)
        if not self.result["identical"]:
            self.fault(f"outputs differ: {', '.join(different) or 'another number of them'}")
        if not self.case.expected and not any(map(runtime.telling, want.values())):
            self.fault("the source's outputs are empty, constant or not finite: these inputs prove little")
        if self.case.expected:
            self.compare_expected(got)

    def compare_expected(self, got):
        """Compare with the output that comes with the network, by the tolerance of ONNX's own tests."""
        with open(self.case.expected, "rb") as f:
            want = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(f.read()))
        if not np.allclose(next(iter(got.values())), want, rtol=1e-3, atol=1e-7):
            self.result["identical"] = False
            self.fault("the output is not the expected one")

    def compare_order(self):
        if not self.clear:
            self.rerun(probe.rename, "names")
        known = {n.name for n in probe.nodes_of(self.planned)}
        found = order.compare(self.planned.graph.node, self.events, known)
        lost = [n.name for n in found.missing if not _may_vanish(n, self.planned)]
        # The runtime inserts nodes that the file does not have, and their readers wait
        # for them: casts around kernels without a 16-bit form, and a DequantizeLinear
        # for each of several readers.
        moved = found.moved
        if moved and found.inserted and order.follows(self.planned.graph.node, self.events, self.own_graph()):
            moved = []
        self.result["moved"] = len(found.moved)
        self.result["order"] = not lost and not moved
        self.several("did not run", lost)
        self.several("out of order", moved)

    def compare_shapes(self):
        """Take most shapes from the profile; fetch the missing tensors."""
        tensors = self.tool.tensors(self.target, self.dims)
        plan = json.loads(self.target.with_name(f"{self.case.name}.planned.plan.json").read_text(encoding="utf-8"))
        names = list(self.feeds) + [o for n in self.planned.graph.node for o in n.output if o]
        seen = {n: (str(a.dtype), a.shape) for n, a in self.feeds.items()}
        seen |= probe.constants(self.planned)
        seen |= self.profiled()
        missing = [n for n in names if _to_fetch(seen.get(n), tensors.get(n))]
        if missing:
            seen |= self.fetched(missing)
        found = shapes.compare(tensors, plan, seen, names)
        self.result["shapes"] = not found.faults and not found.unseen
        self.result["counts"] = str(found)
        self.several("shape", found.faults)
        self.several("shape not seen", found.unseen)

    def profiled(self):
        """Return shapes by tensor name, for nodes whose outputs are all present and all tensors."""
        outputs = {n.name: list(n.output) for n in self.planned.graph.node}
        seen = {}
        for event in self.events:
            names = outputs.get(event.name, [])
            present = [n for n in names if n]
            if len(event.outputs) == len(present):
                seen.update(zip(present, event.outputs))
        return seen

    def fetched(self, names):
        got = self.rerun(lambda m: probe.expose(m, names), "fetch")
        return {n: (str(a.dtype), a.shape) for n, a in got.items() if isinstance(a, np.ndarray) and a.dtype != object}

    def rerun(self, change, suffix):
        """Run a changed copy of the planned file; its profile replaces the one before."""
        copy = probe.load(self.target)
        change(copy)
        path = self.target.with_name(f"{self.case.name}.{suffix}.onnx")
        onnx.save(copy, str(path))
        try:
            got, self.events = runtime.run(path, self.feeds, self.threads, True, path.with_suffix(".profile"))
        finally:
            path.unlink()
        self.planned = copy
        return got

    def own_graph(self):
        """Return the nodes of the runtime's own graph for the file that self.events describes."""
        if self.clear:
            return runtime.own_graph(self.target)
        path = self.target.with_name(f"{self.case.name}.own.onnx")
        onnx.save(self.planned, str(path))
        try:
            return runtime.own_graph(path)
        finally:
            path.unlink()

    def several(self, what, faults):
        for f in faults[:_EXAMPLES]:
            self.fault(f"{what}: {f}")
        if len(faults) > _EXAMPLES:
            self.fault(f"{what}: {len(faults) - _EXAMPLES} more")


def _to_fetch(seen, tensor):
    """Report whether the profile lacks a tensor's shape, or has the wider type in which a kernel computed it."""
    if tensor is None or tensor["dynamic"]:
        return False
    return seen is None or seen[0] == "float32" and tensor["type"] in ("float16", "bfloat16")


def _may_vanish(node, model):
    """Report whether the runtime may not run a node under its name: it merges consecutive
    casts, and it runs the parts of functions."""
    if node.op_type == "Cast" or any((f.domain, f.name) == (node.domain, node.op_type) for f in model.functions):
        return True
    version = next((o.version for o in model.opset_import if o.domain == node.domain), 0)
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function


def checked(source, target):
    """Return onnx.checker's error for target; check with shape inference if the source passes that."""
    return _checked(target, full=False) or ("" if _checked(source, full=True) else _checked(target, full=True))


def _checked(path, full):
    """Return onnx.checker's error for a file, or an empty string."""
    try:
        onnx.checker.check_model(str(path), full_check=full)
    except Exception as err:  # the checker raises several unrelated types
        return apart.first_line(err)
    return ""


if __name__ == "__main__":
    apart.main(examine, threads=1)
