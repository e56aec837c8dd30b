# mypy: disable-error-code="import-not-found, import-untyped"
"""The graph of an ExecuTorch program as a problem of nodes and tensors, and its order.

A graph is read as it is before memory is planned, with a TensorSpec at each node, or as a
graph of the edge dialect, with the tensor that torch.export saw. What must stay in order:

- who reads a result after who makes it;
- of all nodes that touch a storage, each before or after each that writes to it in place,
  such as the copy into a mutable buffer, or its reader;
- nodes with effects: random numbers, delegates, control flow, operators without results.

Nodes that are of no use apart are one step: the allocations of an operator's results with
the operator, and a getitem with the node whose results it takes apart.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ._calls import order

#: How many bytes, whether it is held throughout (or nowhere), and which steps touch it.
Tensor = dict[str, Any]


class Planned(NamedTuple):
    """What ExecuTorch plans: inputs, results, buffers that the program changes; and in what units, in bytes."""

    inputs: bool = True
    outputs: bool = True
    buffers: bool = True
    alignment: int = 16  # ExecuTorch's own


def reordered(graph_module: Any, signature: Any = None, planned: Planned | None = None) -> tuple[bool, dict[str, int] | None]:
    """Put the nodes of a graph into an order of smaller peak, if one is found.

    signature is that of the program; without one, all placeholders count as held. The result says
    whether the order changed, and has the peaks before and after with a lower bound of all orders,
    in bytes, without those of the bodies of control flow; without them, the order was not searched for.
    """
    graph = _Graph(graph_module, signature, planned or Planned())
    if not graph.steps or graph.bodies > 1 or graph.fixed:
        return False, None
    found = order({"nodes": [{"name": s[-1].name} for s in graph.steps], "tensors": graph.tensors})
    figures = {k: graph.held_bytes + found[k] for k in ("program_order_peak_bytes", "peak_bytes", "lower_bound_bytes")}
    if found.peak_bytes >= found.program_order_peak_bytes:
        return False, figures
    last = graph_module.graph.output_node()
    for step in found.order:
        for node in graph.steps[step]:
            last.prepend(node)
    graph_module.graph.lint()
    graph_module.recompile()
    return True, figures


def settle(graph_module: Any) -> None:
    """Let results of the graph that are written in place be what is written to.

    ExecuTorch has specs of their own for them at its output, such as for each buffer that the
    program changes, and would set bytes aside for each at the last step, which nobody uses.
    Where it plans no results, a spec that is one would not be planned at all: leave these.
    """
    last = graph_module.graph.output_node()
    results, specs = last.args[0], last.meta.get("spec")
    if not isinstance(results, (list, tuple)) or not isinstance(specs, (list, tuple)) or len(results) != len(specs):
        return
    settled = list(specs)
    for i, node in enumerate(results):
        written = _written(node) if getattr(node, "op", "") == "call_function" else []
        if len(written) == 1 and written[0].op == "placeholder" and hasattr(written[0].meta.get("spec"), "shape"):
            settled[i] = written[0].meta["spec"]
    last.meta["spec"] = type(specs)(settled)


class _Graph:
    """The steps of a graph, and the tensors between them."""

    def __init__(self, graph_module: Any, signature: Any, planned: Planned) -> None:
        from executorch.exir import memory

        self.steps: list[list[Any]] = []
        self.tensors: list[Tensor] = []
        self.bodies = 0  # nodes of control flow
        self.fixed = False  # a planned input must hold a result, which ExecuTorch does not see
        self.held_bytes = 0  # of buffers that the program changes, which take memory throughout
        self._planned = planned
        self._signature = signature
        self._index: dict[Any, int] = {}  # of the step of a node
        self._storages: dict[int, Tensor] = {}  # by identity, of a spec or a node's result
        self._values: list[Any] = []  # what these identities belong to
        self._roots: dict[Any, list[int | None]] = {}  # the storages of a node's results
        self._touched: dict[int, list[tuple[int, bool]]] = {}  # steps by storage, and whether they write
        effects: list[int] = []
        allocations: dict[Any, list[Any]] = {}  # by the operator whose results they are
        for node in graph_module.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self._roots[node] = self._results(node)
                self._hold(node)
            elif node.op == "output":
                self._end(node)
            elif node.target is memory.alloc:
                owner = next(u for u in node.users if u.target is not operator.getitem)
                allocations.setdefault(owner, []).append(node)
            else:
                self._add(node, allocations.get(node, []))
                with_body = _has_body(node, graph_module)
                self.bodies += with_body
                if with_body or _has_effect(node):
                    effects.append(self._index[node])
        for t in self._storages.values():
            t["consumers"] = sorted(t.pop("read", ()))
            self.tensors.append(t)
        self._keep(zip(effects, effects[1:], strict=False))
        for steps in self._touched.values():
            self._keep(_conflicts(steps))

    def _add(self, node: Any, allocations: list[Any]) -> None:
        """Add an operator, with the allocations of its results."""
        source = node.args[0] if node.target is operator.getitem else None
        if source in self._index:
            step = self._index[source]
            self.steps[step] += [*allocations, node]
        else:
            step = len(self.steps)
            self.steps.append([*allocations, node])
        for n in [*allocations, node]:
            self._index[n] = step
        written = [n for n in _written(node) if n not in allocations]
        shared = node.meta.get("_share_alloc_with_arg_idx")
        if shared is not None:  # a result within the storage of an argument
            written.append(node.args[shared])
        before = []
        for n in node.all_input_nodes:
            if n in allocations:
                continue
            for root in self._roots.get(n, ()):
                self._touch(root, step, n in written)
            if n in self._index and self._index[n] != step:
                before.append(self._index[n])
        self._keep((b, step) for b in before)
        for n in [*allocations, node]:
            self._roots[n] = self._results(node, written)
        for root in self._roots[node]:
            if root is not None:
                t = self._storages[root]
                if "producer" not in t and not t.get("resident"):
                    t["producer"] = step
                self._touch(root, step, False)

    def _touch(self, root: int | None, step: int, writes: bool) -> None:
        """Note that a step reads a storage or writes to it."""
        if root is None:
            return
        t = self._storages[root]
        if t.get("producer") != step:
            t.setdefault("read", set()).add(step)
        self._touched.setdefault(root, []).append((step, writes))

    def _results(self, node: Any, written: Iterable[Any] = ()) -> list[int | None]:
        """Return the storages of the results of a node: new ones, or those that it views."""
        from executorch.exir import memory

        if node.target is memory.view or _elided(node):
            return self._roots.get(node.args[0], [])
        if node.target is operator.getitem and "spec" not in node.meta:
            of = self._roots.get(node.args[0], [])
            return of[node.args[1] : node.args[1] + 1]
        roots = [r for n in written for r in self._roots.get(n, ())]
        if roots:
            return roots
        values = node.meta.get("spec", node.meta.get("val"))
        return [self._storage(v) for v in (values if isinstance(values, (list, tuple)) else [values])]

    def _storage(self, value: Any) -> int | None:
        """Return the storage of a spec or a tensor, a new one if it was not seen before."""
        if not hasattr(value, "shape"):
            return None
        key = id(value)
        if key not in self._storages:
            self._values.append(value)
            self._storages[key] = {"bytes": _bytes(value, self._planned.alignment)}
            if getattr(value, "const", False):
                self._storages[key]["resident"] = True
        return key

    def _hold(self, node: Any) -> None:
        """Note that a placeholder is there from the start, and whether it counts."""
        s = self._signature
        changed = s is not None and s.inputs_to_buffers.get(node.target) in s.buffers_to_mutate.values()
        counts = s is not None and self._planned.inputs and node.op == "placeholder" and not changed
        for root in self._roots[node]:
            if root is not None:
                t = self._storages[root]
                t.update(producer=-1, **({} if counts else {"resident": True}))
                self.held_bytes += t["bytes"] if changed and self._planned.buffers else 0

    def _end(self, node: Any) -> None:
        """Note which tensors are results of the graph.

        Where ExecuTorch plans inputs and no results, it takes an input that the program changes
        for unused behind its last reader. It keeps it to the end if the change comes last.
        """
        specs = node.meta.get("spec")
        of_results = {id(s) for s in specs} if isinstance(specs, (list, tuple)) else set()
        for n in node.all_input_nodes:
            for root in self._roots.get(n, ()):
                if root is None:
                    continue
                t = self._storages[root]
                if self._planned.outputs:
                    t["output"] = True
                elif not t.get("resident"):
                    self.fixed |= t.get("producer") == -1 and root not in of_results
                    t["resident"] = True

    def _keep(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Let one step stay before another: a tensor of no bytes goes from one to the other."""
        after: dict[int, set[int]] = {}
        for a, b in pairs:
            if a != b:
                after.setdefault(a, set()).add(b)
        self.tensors += [{"bytes": 0, "producer": a, "consumers": sorted(b)} for a, b in after.items()]


def _conflicts(touches: list[tuple[int, bool]]) -> Iterator[tuple[int, int]]:
    """List which steps must stay in order, of those that touch a storage one after another."""
    readers: list[int] = []
    writer: int | None = None
    for step, writes in touches:
        if writer is not None:
            yield writer, step
        if writes:
            yield from ((r, step) for r in readers)
            readers, writer = [], step
        else:
            readers.append(step)


def _has_body(node: Any, graph_module: Any) -> bool:
    """Report whether a node is one of control flow: it takes graphs."""
    import torch

    bodies = (getattr(graph_module, str(n.target), None) for n in node.all_input_nodes if n.op == "get_attr")
    return any(isinstance(b, torch.fx.GraphModule) for b in bodies)


def _has_effect(node: Any) -> bool:
    """Report whether a node must keep its place among those with effects."""
    import torch
    from executorch.exir.delegate import executorch_call_delegate

    if node.target is executorch_call_delegate:
        return True
    op = _operator(node)
    if op is None:
        return "val" not in node.meta and "spec" not in node.meta and node.target is not operator.getitem
    return not op._schema.returns or torch.Tag.nondeterministic_seeded in op.tags


def _elided(node: Any) -> bool:
    """Report whether ExecuTorch will make a view of a copy: unless it is a result of the graph."""
    return "view_copy" in str(node.target) and "spec" not in node.meta and all(u.op != "output" for u in node.users)


def _operator(node: Any) -> Any:
    """Return the operator of PyTorch that a node calls, None if it calls something else, such as getitem."""
    from executorch.exir.operator.convert import unwrap_op_overload

    try:
        return unwrap_op_overload(node.target)
    except TypeError:
        return None


def _written(node: Any) -> list[Any]:
    """Return the nodes whose tensors an operator writes to."""
    op = _operator(node)
    found: list[Any] = []
    for i, a in enumerate(op._schema.arguments if op is not None else ()):
        if a.alias_info is not None and a.alias_info.is_write:
            value = node.args[i] if i < len(node.args) else node.kwargs.get(a.name)
            found += [v for v in (value if isinstance(value, (list, tuple)) else [value]) if hasattr(v, "op")]
    return found


def _bytes(value: Any, alignment: int) -> int:
    """Return the bytes that ExecuTorch allocates, of a tensor of unknown length none."""
    from executorch.exir.sym_util import eval_shape_upper_bound
    from executorch.exir.tensor import calculate_aligned_num_bytes, num_bytes_from_shape_and_dtype

    shape = value.shape
    if not all(isinstance(n, int) for n in shape):
        try:
            shape = eval_shape_upper_bound(shape)
        except RuntimeError:  # no bound: the runtime allocates it
            return 0
    return int(calculate_aligned_num_bytes(num_bytes_from_shape_and_dtype(shape, value.dtype), alignment))
