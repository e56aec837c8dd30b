"""The best order of Inductor's kernels, by its own account of memory.

Inductor orders its kernels by the smallest of four estimates: of the order in which they were
lowered, and of three heuristics. ``OrderPass`` stands before that. It gives the fused nodes to
``onnxmem order``, and returns the best of all five orders; Inductor then finds nothing better,
and does not look where a partitioner knows more of what is held.
"""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch._inductor.config
from onnxmem import Error
from onnxmem._command import version
from torch._inductor import ir, memory
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.dependencies import StarDep
from torch._inductor.ir import TensorBox
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree
from torch.utils._ordered_set import OrderedSet

from . import _code, _overwrite, _split
from ._curve import mib
from ._planner import ordered

if TYPE_CHECKING:
    from ._partition import Partitioner


@dataclass(frozen=True)
class OrderReport:
    """What a pass did with one graph. Sizes are bytes by Inductor's estimate.

    That counts what the graph allocates: neither parameters and inputs, nor workspaces. What
    a fused kernel makes and alone reads, which is never allocated, is left out, and what is
    handed to a backward pass counts whole. In a planned graph, a buffer that is written over
    another one counts with it once; elsewhere Inductor's order, which does not know that, follows.
    """

    #: "forward", "backward" or "inference", and the graph's number.
    graph: str
    #: The kernels, after fusion.
    nodes: int
    #: The peak of the order that the pass was given.
    given_bytes: int
    #: The best of the given order and Inductor's heuristics: what it takes by itself.
    inductor_bytes: int
    #: The peak of the order that the pass returned.
    peak_bytes: int
    #: No order of these kernels has a smaller peak: proven. None if onnxmem's account of the
    #: graph's buffers is not Inductor's in every step.
    lower_bound_bytes: int | None
    #: The order's origin: "given", "lpmf", "bfs", "dfs" or "onnxmem".
    chosen: str
    #: How long the pass took.
    seconds: float

    @property
    def optimal(self) -> bool:
        """Whether no order of these kernels has a smaller peak."""
        return self.peak_bytes == self.lower_bound_bytes

    def __str__(self) -> str:
        bound = "no bound" if self.lower_bound_bytes is None else "proven optimal" if self.optimal else f"bound {mib(self.lower_bound_bytes)}"
        return f"{self.graph}: {self.nodes} kernels, {mib(self.peak_bytes)} ({bound}) by {self.chosen}; Inductor {mib(self.inductor_bytes)}"


class OrderPass(CustomSchedulerPass):
    """A pass for Inductor's fused kernels: the order of the smallest peak.

    It is one of Inductor's scheduler passes, and a context in which it is in force::

        model = torch.compile(model, options={"_post_fusion_custom_pass": inductor_pass()})
        with inductor_pass() as p:
            torch.compile(model)(x)
        print(p)

    The same graph gets the same order on every machine. What was compiled before comes from
    Inductor's cache, and leaves no report.
    """

    def __init__(self, effort: str = "fast", partitioner: Partitioner | None = None) -> None:
        if effort not in ("fast", "default", "max"):
            raise ValueError(f"effort: expected fast, default or max, found {effort!r}")
        self.effort, self.partitioner = effort, partitioner
        #: One for each graph that was ordered, in the order of their compilation.
        self.reports: list[OrderReport] = []
        self._warned = False
        self._patches: list[Any] = []

    def __call__(self, nodes: list[Any]) -> list[Any]:
        """Return the nodes in the best order that is known; as given, if something is wrong."""
        planned = None if self.partitioner is None or V.graph.is_inference else self.partitioner.lowering(V.graph.graph)
        if not nodes or (len(nodes) < 2 and planned is None):
            return nodes
        try:
            held: Sequence[str] = ()
            if planned is not None and V.graph.is_backward:
                planned.backward(_unread(nodes))
                held = planned.held
            room = None if planned is None else planned.room(V.graph.is_backward)
            account = Account(held, shared=planned is not None)
            order, report = best_order(nodes, self.effort, account, room)
            loads = None if planned is None else account.again().prepared_loads(order)
        except Exception as e:
            if not self._warned:
                warnings.warn(f"onnxmem_torch: kernels stay in Inductor's order: {type(e).__name__}: {e}", RuntimeWarning, stacklevel=2)
            self._warned = True
            return self._inductors(nodes)
        self.reports.append(report)
        _code.within(report.peak_bytes, loads)
        if planned is not None and self.partitioner is not None:
            if V.graph.is_backward:
                planned.backward_bytes = report.peak_bytes
            else:
                planned.forward(report.peak_bytes, output_names(), V.graph.graph_inputs)
            self.partitioner.lowered(planned)
        return order

    def options(self) -> dict[str, Any]:
        """Return the options of Inductor with which the pass has the last word.

        Inductor's own order would follow. By itself it finds nothing better, but it does not
        know what others hold while a planned backward pass runs.
        """
        return {"_post_fusion_custom_pass": self, **({} if self.partitioner is None else {"reorder_for_peak_memory": False})}

    def _inductors(self, nodes: list[Any]) -> list[Any]:
        """Return the nodes in the order that Inductor would give them where that is switched off for this pass."""
        if self.partitioner is None or torch._inductor.config.reorder_for_peak_memory:
            return nodes
        scheduler, inputs, outputs = nodes[0].scheduler, OrderedSet(V.graph.graph_inputs.keys()), OrderedSet(V.graph.get_output_names())
        order: list[Any] = memory.reorder_for_peak_memory(nodes, scheduler.name_to_buf, scheduler.name_to_fused_node, inputs, outputs)
        return order

    def uuid(self) -> str:
        """Return the key of Inductor's caches: this file and those that it needs, the planner's version, and the effort."""
        try:
            planner = version()
        except (Error, OSError):
            planner = "without a planner"
        code = b"".join(Path(module.__file__ or "").read_bytes() for module in (sys.modules[__name__], _code, _overwrite, _split))
        return hashlib.sha256(code + f"{planner} {self.effort}".encode()).hexdigest()

    def __enter__(self) -> OrderPass:
        patch = torch._inductor.config.patch(self.options())
        patch.__enter__()
        self._patches.append(patch)
        return self

    def __exit__(self, *error: object) -> None:
        self._patches.pop().__exit__(*error)

    def __reduce__(self) -> tuple[type[OrderPass], tuple[str]]:
        return OrderPass, (self.effort,)

    def __str__(self) -> str:
        return "\n".join(map(str, self.reports)) or "nothing was ordered"


def inductor_pass(effort: str = "fast", partitioner: Partitioner | None = None) -> OrderPass:
    """Return a pass that gives Inductor's kernels the order of the smallest peak.

    It is for training and inference. Use it as a context, or as the option
    ``_post_fusion_custom_pass`` of ``torch.compile``; its ``reports`` say what it did.
    effort is that of ``onnxmem order``. With the partitioner that planned the graphs, whose
    ``options()`` belong to ``torch.compile``, its reports have what their kernels need, and a
    limit that they do not meet gives a warning.
    """
    return OrderPass(effort, partitioner)


def best_order(nodes: list[Any], effort: str, account: Account, room: int | None = None) -> tuple[list[Any], OrderReport]:
    """Return the best of the given order, Inductor's heuristics and onnxmem's.

    Ties go to the first of these. The nodes must be those of the scheduler that is at work.
    If the peak is above room, by the account, kernels are taken apart where that makes it smaller.
    """
    began = time.perf_counter()
    best, report = _best(nodes, effort, account)
    if room is not None and report.peak_bytes > room:
        account = account.again()

        def again(several: list[Any]) -> tuple[list[Any], int]:
            order, found = _best(several, effort, account.again())
            return order, found.peak_bytes

        found = _split.below(best, report.peak_bytes, room, again, account.blamed, account.peak)
        if found != best:
            best = found
            report = replace(report, nodes=len(best), peak_bytes=account.peak(best), lower_bound_bytes=None, chosen="onnxmem")
    return best, replace(report, seconds=time.perf_counter() - began)


class Account:
    """Inductor's account of the memory of kernels. held are inputs that others hold to the end.

    With shared, a buffer that a kernel writes over another one counts with it once.
    """

    def __init__(self, held: Sequence[str] = (), shared: bool = False) -> None:
        self._held, self._shared = held, shared
        self.outputs = OrderedSet([*V.graph.get_output_names(), *held])
        #: The kernel of the first part of a concatenation, with that of each other part, in the order that was prepared first.
        self.after: list[tuple[Any, Any]] = []
        #: What the loops of a kernel may write over what, by kernel.
        self._over: dict[Any, list[tuple[str, list[str]]]] = {}

    def again(self) -> Account:
        """Return an account for another order of the same graph, of kernels that are known in part."""
        account = Account(self._held, self._shared)
        account._over = self._over
        return account

    def problem(self, nodes: Sequence[Any], freeable: dict[str, Any]) -> Problem:
        """Return the problem of kernels that were prepared."""
        for n in nodes if self._shared else ():
            if n not in self._over:
                self._over[n] = _overwrite.overwritten(n, self.outputs.__contains__)
        return Problem(nodes, freeable, self.outputs, self._over)

    def prepare(self, nodes: list[Any]) -> dict[str, Any]:
        """Note on kernels and buffers what they read and who reads them; return the inputs that can be freed."""
        scheduler = nodes[0].scheduler
        inputs = OrderedSet(V.graph.graph_inputs.keys())
        freeable: dict[str, Any]
        _, freeable = memory.prepare_planning_info(nodes, scheduler.name_to_buf, scheduler.name_to_fused_node, inputs, self.outputs)
        # Inductor's estimate takes for an input's size what one of its readers reads, which may be a part, or some of it again.
        for name, b in freeable.items():
            b.mpi_buffer.size_free = StarDep(name).numbytes_hint()
        self._concatenations(nodes)
        for b in (b for n in nodes for b in _split.inside(n) if b.get_name() not in self.outputs):
            b.mpi_buffer.size_alloc = b.mpi_buffer.size_free = 0  # which it counts
        for b in (b for n in nodes for b in n.get_outputs() if _tuple(b)):
            parts = results_of(b)
            takers = [scheduler.name_to_fused_node[p.defining_op_name()] for p in parts]
            unread = _untaken(b)
            b.mpi_buffer.size_alloc += unread
            b.mpi_buffer.size_free = unread
            for p in (b, *parts):  # the tuple holds them all until the last one is taken from it
                p.mpi_buffer.succ_nodes = OrderedSet([*p.mpi_buffer.succ_nodes, *takers])
        return freeable

    def _concatenations(self, nodes: list[Any]) -> None:
        """Note that a concatenation is there from the first of its parts on, which are written into it."""
        buffers = nodes[0].scheduler.name_to_buf
        parts: dict[str, list[tuple[Any, Any]]] = {}  # with their kernels
        for n, b in ((n, b) for n in nodes for b in n.get_outputs()):
            whole = _whole(b)
            if whole in buffers:
                parts.setdefault(whole, []).append((n, b))
        self.after = self.after or [(made[0][0], n) for made in parts.values() for n, _ in made[1:]]
        for name, made in parts.items():
            several = [b for _, b in made]
            whole, first = buffers[name].mpi_buffer, several[0].mpi_buffer
            size, readers = whole.size_free, OrderedSet([*whole.succ_nodes, *(n for b in several for n in b.mpi_buffer.succ_nodes)])
            for b in (whole, *(b.mpi_buffer for b in several)):
                b.size_alloc = b.size_free = 0
            first.size_alloc = first.size_free = size
            first.succ_nodes = readers
            if name in self.outputs:
                self.outputs.add(several[0].get_name())

    def peak(self, nodes: list[Any]) -> int:
        """Return the peak of an order."""
        return max(self.prepared_loads(nodes))

    def prepared_loads(self, nodes: list[Any]) -> list[int]:
        """Return the bytes that are live at each kernel of an order, which is prepared here."""
        freeable = self.prepare(nodes)
        return self.loads(nodes, self.problem(nodes, freeable), freeable)

    def loads(self, nodes: list[Any], problem: Problem, freeable: dict[str, Any]) -> list[int]:
        """Return the bytes that are live at each kernel of an order, which was prepared; problem is that of the same order."""
        found = memory.estimate_peak_memory(nodes, freeable, self.outputs)[1]
        return [load - once for load, once in zip(found, problem.shared(nodes))]  # the last that was found is what stays behind the last kernel

    def blamed(self, nodes: list[Any], room: int) -> list[Any]:
        """Return the kernels that run where an order needs more than room, then those that make or read what is live there."""
        problem = self.problem(nodes, self.prepare(nodes))
        above = [at for at, (load, once) in enumerate(zip(problem.loads(nodes), problem.shared(nodes))) if load - once > room]
        blamed: set[int] = set()
        for b in problem.buffers:
            first, last = max(b.maker, 0), len(nodes) if b.output else max(b.readers, default=b.maker)
            if any(first <= at <= last for at in above):
                blamed |= b.readers | {first}
        return [nodes[i] for i in [*above, *sorted(blamed.difference(above))]]


def _best(nodes: list[Any], effort: str, account: Account) -> tuple[list[Any], OrderReport]:
    scheduler, outputs, freeable = nodes[0].scheduler, account.outputs, account.prepare(nodes)
    orders = {
        "given": nodes,
        "lpmf": memory.topological_sort_lpmf(nodes, freeable, scheduler.name_to_buf, outputs),
        "bfs": memory.topological_sort_bfs(nodes),
        "dfs": memory.topological_sort_dfs(nodes),
    }
    problem = account.problem(nodes, freeable)
    peaks: dict[str, int] = {}
    same = True

    def look(name: str) -> int:
        """Evaluate an order, by Inductor's estimate and by ours."""
        nonlocal same
        several = orders[name]
        # The first part of a concatenation is that of the order.
        inputs = account.prepare(several) if account.after else freeable
        problem = account.problem(several, inputs)
        found = account.loads(several, problem, inputs)
        same = same and problem.loads(several) == [load + once for load, once in zip(found, problem.shared(several))]
        peaks[name] = max(found)
        return peaks[name]

    inductor = min([look(name) for name in orders])
    given = peaks["given"]
    found = _solved(problem, effort)
    orders["onnxmem"] = [nodes[i] for i in found["order"]]
    if look("onnxmem") > found["peak_bytes"]:  # the order begins a concatenation with another part
        orders["onnxmem"] = [nodes[i] for i in _solved(problem, effort, account.after)["order"]]
        look("onnxmem")
    chosen = min(orders, key=lambda name: peaks[name])  # the first of the smallest
    return orders[chosen], OrderReport(
        graph=_graph(),
        nodes=len(nodes),
        given_bytes=given,
        inductor_bytes=inductor,
        peak_bytes=peaks[chosen],
        lower_bound_bytes=found["lower_bound_bytes"] if same else None,
        chosen=chosen,
        seconds=0.0,
    )


def _whole(b: Any) -> str:
    """Return the name of the buffer that a part of a concatenation is written into; "" of what is none."""
    name, layout = "", b.node.layout
    while isinstance(layout, ir.NonOwningLayout):
        whole = layout.view.unwrap_view()
        name, layout = whole.get_name(), getattr(whole, "layout", None)
    return name


def _solved(problem: Problem, effort: str, after: Sequence[tuple[Any, Any]] = ()) -> Any:
    found = ordered(problem.json(after), f"--effort={effort}")
    if not found:
        raise RuntimeError("onnxmem order printed no result")
    return found


def _tuple(b: Any) -> bool:
    """Whether a buffer is the tuple of the results of an operator with several, each of which is freed by itself."""
    return bool(b.mpi_buffer.size_alloc > b.mpi_buffer.size_free)


def _untaken(b: Any) -> int:
    """Return the bytes of the results that nobody takes from the tuple of an operator: its code allocates them all."""
    results = [r for r in pytree.tree_leaves(getattr(b.node, "outputs", ())) if isinstance(r, ir.MultiOutput)]
    return sum(StarDep(r.get_name()).numbytes_hint() for r in results if r.get_name() in V.graph.removed_buffers)


def results_of(b: Any) -> list[Any]:
    """List the results of an operator with several, whose buffer b is a tuple: buffers that others allocate."""
    takers = {id(u.node): u.node for u in b.users if hasattr(u.node, "get_outputs") and u.node.get_name() != "OUTPUT"}
    return [p for n in takers.values() for p in n.get_outputs() if p.mpi_buffer.size_free and not p.mpi_buffer.size_alloc]


def _unread(nodes: list[Any]) -> int:
    """Return the bytes of the inputs that no kernel reads: they are in the caller's hands to the end."""
    read = {d.name for n in nodes for d in n.read_writes.reads}
    inputs = [StarDep(name) for name in V.graph.graph_inputs if name not in read]
    return sum(d.numbytes_hint() for d in inputs if not memory.is_nonfreeable_buffers(d) and isinstance(V.graph.graph_inputs[d.name], TensorBox))


def output_names() -> list[str]:
    """Return the names of the graph's results, "" for each that is no tensor."""
    return [x.get_name() if x.has_tensor_output() else "" for x in V.graph.graph_outputs]


def _graph() -> str:
    kind = "backward" if V.graph.is_backward else "inference" if V.graph.is_inference else "forward"
    return f"{kind} {V.graph.graph_id}" if V.graph.graph_id is not None else kind


@dataclass(frozen=True)
class _Buffer:
    """A block that a node allocates, or that is there from the beginning (maker -1)."""

    name: str
    size: int
    maker: int
    readers: frozenset[int]
    output: bool


class Problem:
    """The bare problem of fused nodes, by Inductor's account of their buffers.

    A buffer has bytes that its maker allocates, and bytes that are freed after its last reader.
    The two differ for an operator with several results: it allocates them all, and each is freed
    by itself. What a node writes in place is no buffer: its readers are those of the target.
    """

    def __init__(
        self, nodes: Sequence[Any], freeable: dict[str, Any], outputs: OrderedSet[str], over: Mapping[Any, list[tuple[str, list[str]]]] = MappingProxyType({})
    ) -> None:
        self._nodes, self._outputs = nodes, outputs
        self._index = {n: i for i, n in enumerate(nodes)}
        self.buffers = [self._buffer(b, b.mpi_buffer.size_free, -1) for b in freeable.values()]
        made = {b.get_name(): (b, i) for i, n in enumerate(nodes) for b in n.get_outputs()}
        maker = {name: i for name, (_, i) in made.items()}
        parts = {name: results_of(b) for name, (b, _) in made.items() if _tuple(b)}
        for name, several in parts.items():
            maker.update((part.get_name(), maker[name]) for part in several if part.get_name() in made)
        for name, (b, i) in made.items():
            if b.mpi_buffer.size_free:
                self.buffers.append(self._buffer(b, b.mpi_buffer.size_free, maker[name], i))
        place = {b.name: k for k, b in enumerate(self.buffers)}
        #: What may be written over what, by place among the buffers.
        self.over: dict[int, list[int]] = {}
        for n in nodes:
            for name, others in over.get(n, ()):
                before = [place[a] for a in others if a in place]
                if name in place and before:
                    self.over[place[name]] = before
        for name, several in parts.items():  # results that nobody takes are never freed
            whole = made[name][0].mpi_buffer
            rest = whole.size_alloc - whole.size_free - sum(p.mpi_buffer.size_free for p in several if p.get_name() in made)
            if rest > 0:
                self.buffers.append(_Buffer(f"{name}.rest", rest, maker[name], frozenset(), True))

    def _buffer(self, b: Any, size: int, maker: int, *readers: int) -> _Buffer:
        name = b.get_name()
        return _Buffer(name, size, maker, frozenset(readers).union(self._index[n] for n in b.mpi_buffer.succ_nodes), name in self._outputs)

    def json(self, after: Sequence[tuple[Any, Any]] = ()) -> dict[str, object]:
        """Return the problem as ``onnxmem order`` reads it. Of the pairs of kernels in after, the second one runs behind the first."""
        tensors: list[dict[str, object]] = [
            {"name": b.name, "bytes": b.size, "producer": b.maker, "consumers": sorted(b.readers - {b.maker}), "output": b.output} for b in self.buffers
        ]
        for k, others in self.over.items():
            tensors[k]["reuses"] = others
        for i, n in enumerate(self._nodes):
            before = sorted(self._index[p] for p in n.mpi_node.pred_nodes)
            tensors += [{"name": "", "bytes": 0, "producer": p, "consumers": [i], "kind": "control"} for p in before]
        tensors += [{"name": "", "bytes": 0, "producer": self._index[p], "consumers": [self._index[n]], "kind": "control"} for p, n in after if p is not n]
        return {"name": "kernels", "nodes": [{"name": n.get_name()} for n in self._nodes], "tensors": tensors}

    def shared(self, order: Sequence[Any]) -> list[int]:
        """Return the bytes of each step of an order that are one buffer's, though two are live: one is written over the other."""
        step = {self._index[n]: s for s, n in enumerate(order)}
        saved = [0] * len(order)
        for k, others in self.over.items():
            at = step[self.buffers[k].maker]
            if any(max(step[r] for r in self.buffers[a].readers) == at for a in others):
                saved[at] += self.buffers[k].size
        return saved

    def loads(self, order: Sequence[Any]) -> list[int]:
        """Return the bytes that are live at each step of an order, each buffer by itself."""
        step = {self._index[n]: s for s, n in enumerate(order)}
        change = [0] * (len(order) + 1)
        for b in self.buffers:
            first = 0 if b.maker < 0 else step[b.maker]
            change[first] += b.size
            if not b.output:
                change[max((step[r] for r in b.readers), default=first) + 1] -= b.size
        loads, load = [], 0
        for c in change[:-1]:
            load += c
            loads.append(load)
        return loads
