"""Kernels as Inductor will fuse them: what a plan costs when operators are fused.

Operators that Inductor fuses write nothing in between. Such a value costs nothing to make
again and something to keep, so a plan by the costs of single operators keeps the wrong ones.
PyTorch's min-cut decides this well where there is no limit. So a fused plan begins with
min-cut's two graphs, joined again: what they make twice stands in both. Chains of operators
become one node each, and its cost is what it takes to run it again inside the backward pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Optional

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ._costs import Device, flops
from ._loops import HEAVY, INLINED_READS, INTO, ROWS, WINDOWS, loops, name, reduces
from ._step import Step, Unsupported, behind, results
from ._storages import concrete, elements, symbolic, tensors


def rejoin(forward: fx.Graph, backward: fx.Graph, count: int) -> tuple[fx.Graph, set[fx.Node]]:
    """Return the graphs of a partition as one joint graph, and what of it is of the backward pass.

    count is how many results of the forward graph are the model's.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    handed, taken = _handed(forward, backward, count)
    for n in [*forward.nodes, *(n for n in backward.nodes if n not in taken)]:
        if n.op in ("placeholder", "get_attr") and n not in copies:
            copies[n] = graph.node_copy(n)
    for n in forward.nodes:
        if n.op == "call_function":
            copies[n] = graph.node_copy(n, copies.__getitem__)
    for node, source in zip(taken, handed):
        copies[node] = copies[source]
    behind_all: set[fx.Node] = set()
    for n in backward.nodes:
        if n.op == "call_function":
            copies[n] = graph.node_copy(n, copies.__getitem__)
            behind_all.add(copies[n])
    for old, new in copies.items():
        if old not in taken:
            new.meta = dict(old.meta)
            if new in behind_all:
                new.meta["partitioner_tag"] = "is_backward"
    ahead, last = results(forward, count)[0], results(backward, 0)[1]
    described = [*_descriptions(forward)[:count], *_descriptions(backward)]
    output = graph.output(tuple(copies[x] if isinstance(x, fx.Node) else x for x in [*ahead, *last]))
    output.meta = {**forward.output_node().meta, "desc": described}
    return graph, behind_all


def _descriptions(graph: fx.Graph) -> list[Any]:
    count = len(results(graph, 0)[1])
    described = list(pytree.arg_tree_leaves(graph.output_node().meta.get("desc", [None] * count)))
    return described if len(described) == count else [None] * count


def _handed(forward: fx.Graph, backward: fx.Graph, count: int) -> tuple[list[fx.Node], list[fx.Node]]:
    """Return what the forward graph hands over, and the inputs of the backward graph that take it.

    Numbers are the last that is handed over, and the first that is taken.
    """
    handed = results(forward, count)[1]
    taken = [n for n in backward.find_nodes(op="placeholder") if not behind(n)]
    if len(handed) != len(taken) or not all(isinstance(n, fx.Node) for n in handed):
        raise Unsupported("what is handed to the backward pass is no list of tensors and numbers")
    if any("rng_state" in str(n.target) for g in (forward, backward) for n in g.nodes):
        raise Unsupported("a random generator's state is handed to the backward pass")
    handed = [*(n for n in handed if symbolic(n)), *(n for n in handed if not symbolic(n))]
    for a, b in zip(handed, taken):
        if symbolic(a) != symbolic(b) or _sizes(a) != _sizes(b):
            raise Unsupported(f"{b.name} of the backward pass is not what the forward pass hands over")
    return handed, taken


def _sizes(node: fx.Node) -> list[list[int]]:
    return [[concrete(d) for d in t.shape] for t in tensors(node) if t is not None]


class Fused:
    """A joint graph as a problem whose nodes are fused kernels.

    step is the joint graph's, operator by operator; backward is what runs behind its boundary.
    An operator joins its readers if all of them are loops of the same pass: then it writes
    nothing. One with readers in several kernels is computed in each. So the kernels have no
    cycle.
    """

    #: The time of all kernels once, and of the further runs that the problem prices, in seconds.
    seconds: float
    again: float
    #: The operators of each kernel, by their index in step.
    members: list[list[int]]

    def __init__(self, step: Step, backward: set[fx.Node], device: Device) -> None:
        self.step, self.backward, self.device = step, backward, device
        self._loops = [loops(n) for n in step.kernels]
        self._behind = [n in backward for n in step.kernels]
        self._reads_of = [self._reads_by(n) for n in step.kernels]
        self._makes: list[list[int]] = [[] for _ in step.nodes]
        for t, tensor in enumerate(step.tensors):
            if tensor["producer"] >= 0 and tensor.get("kind") != "control":
                self._makes[tensor["producer"]].append(t)
        homes = self._homes()
        order = sorted({k for several in homes for k in several})  # a kernel stands where its last operator stood
        place = {k: i for i, k in enumerate(order)}
        #: The kernels that an operator is computed in.
        self.homes = [sorted(place[k] for k in several) for several in homes]
        self.members = [[] for _ in order]
        for i, several in enumerate(self.homes):
            for k in several:
                self.members[k].append(i)
        self.boundary = self.homes[step.boundary][0]
        self._reads = [self._outside(k) for k in range(len(order))]
        self._tensors()
        self._count()

    def _reads_by(self, node: fx.Node) -> dict[int, int]:
        """Return the tensors of the problem that an operator reads, with the bytes that it reads of each."""
        reads: dict[int, int] = {}
        rows = name(node) in ROWS
        made = sum(elements(r) * r.element_size() for r in tensors(node) if r is not None) if rows else 0
        for m in node.all_input_nodes:
            for t, owner in zip(tensors(m), self.step.storages.owners[m]):
                if t is not None and owner is not None:
                    size = elements(t) * t.element_size()
                    index = self.step.tensor[owner]
                    reads[index] = max(min(size, made) if rows else size, reads.get(index, 0))
        return reads

    def _look(self, memory: Collection[int] = ()) -> tuple[list[dict[int, int]], list[bool]]:
        """Find the tensors that each operator reads if what Inductor need not write is computed where it is read.

        Return them with their bytes, and whether Inductor writes what the operator makes if
        several kernels read it. memory are operators whose results are in memory anyway.
        """
        step = self.step
        all_needs: list[dict[int, int]] = []
        written: list[bool] = []
        heavy: list[bool] = []
        for i, n in enumerate(step.kernels):
            needs: dict[int, int] = {}
            slow = name(n) in HEAVY and any(t is not None and t.device.type == "cpu" for t in tensors(n))
            for t, size in self._reads_of[i].items():
                maker = step.tensors[t]["producer"]
                if 0 <= maker < i and not written[maker] and maker not in memory and self._local(maker):
                    needs.update(all_needs[maker])
                    slow = slow or heavy[maker]
                else:
                    needs[t] = max(size, needs.get(t, 0))
            all_needs.append(needs)
            heavy.append(slow)
            written.append(reduces(n) or slow or len(needs) > INLINED_READS or bool(step.nodes[i].get("once")))
        return all_needs, written

    def _local(self, operator: int) -> bool:
        """Whether an operator is a loop, as are all its readers, of one pass, so that it may be in memory or not."""
        made = [self.step.tensors[t] for t in self._makes[operator]]
        readers = {r for t in made for r in t["consumers"] if r != operator}
        if not readers or not self._loops[operator] or self.step.boundary in readers or any(t.get("output") for t in made):
            return False
        return all((self._loops[r] or self._into(operator, r)) and self._behind[r] == self._behind[operator] for r in readers)

    def _into(self, operator: int, reader: int) -> bool:
        """Whether a reader writes into a copy of what an operator makes, and reads nothing else of it."""
        node, made = self.step.kernels[reader], self.step.kernels[operator]
        return name(node) in INTO and node.args[0] is made and made not in pytree.arg_tree_leaves(*node.args[1:], **node.kwargs)

    def _homes(self) -> list[set[int]]:
        """Return for each operator the kernels that compute it, by their last operators."""
        self._needs, self._written = self._look()
        homes: list[set[int]] = [{i} for i in range(len(self.step.nodes))]
        for i in range(self.step.boundary - 1, -1, -1):
            if self._local(i):
                readers = {r for t in self._makes[i] for r in self.step.tensors[t]["consumers"] if r != i}
                kernels = set().union(*(homes[r] for r in readers))
                if len(kernels) == 1 or not (self._written[i] or self._pays(i, len(kernels))):
                    homes[i] = kernels
        return homes

    def _pays(self, operator: int, kernels: int) -> bool:
        """Whether it moves fewer bytes to write what an operator makes than to compute it in each of several kernels.

        Inductor's code for a processor writes masks element by element, which never pays.
        """
        if any(t is not None and t.dtype == torch.bool and t.device.type == "cpu" for t in tensors(self.step.kernels[operator])):
            return False
        needs = sum(self._needs[operator].values())
        made: int = sum(self.step.tensors[t]["bytes"] for t in self._makes[operator])
        return kernels * needs > needs + made + kernels * made

    def kept(self) -> set[fx.Node]:
        """Return what is in memory by the plan, and would be computed where it is read by Inductor.

        What reads a kept value reads that alone, so it may have to be kept, too.
        """
        memory = {self.step.tensors[t]["producer"] for k in range(len(self.members)) if k != self.boundary for t in self._writes[k]}
        written = self._look(memory)[1]
        kept = [self.step.kernels[i] for i in memory if name(self.step.kernels[i]) in WINDOWS or (self._local(i) and not written[i])]
        return {m for n in kept for m in (n.users if self.step.storages.item(next(iter(n.users))) else [n]) if isinstance(m.meta["val"], torch.Tensor)}

    def products(self, kernels: Sequence[int]) -> set[fx.Node]:
        """Return the matrix products that an order of kernels has before the sum that alone reads them, with others between.

        Inductor would join the two into one operator, and so hold what the product reads until the sum.
        """
        mm, add = torch.ops.aten.mm.default, torch.ops.aten.add.Tensor
        sums = {i: next(iter(n.users)) for i, n in enumerate(self.step.kernels) if n.target is mm and len(n.users) == 1}
        found = {self.homes[i][0]: self.homes[self.step.index[n]] for i, n in sums.items() if n.target is add}
        apart = {k for k, after in zip(kernels, [*kernels[1:], -1]) if k in found and after not in found[k]}
        return {self.step.kernels[i] for k in apart for i in self.members[k] if i in sums}

    def _outside(self, kernel: int) -> dict[int, int]:
        """Return the tensors that a kernel reads from outside, with the bytes that it reads of each."""
        inside = set(self.members[kernel])
        reads: dict[int, int] = {}
        for i in self.members[kernel]:
            if i != self.step.boundary:
                for t, size in self._reads_of[i].items():
                    if self.step.tensors[t]["producer"] not in inside:
                        reads[t] = max(size, reads.get(t, 0))
        return reads

    def _tensors(self) -> None:
        """Make the tensors between kernels; those inside of kernels are gone."""
        self.tensors: list[dict[str, Any]] = []
        #: The tensors of step that each kernel writes for others.
        self._writes: list[list[int]] = [[] for _ in self.members]
        #: The tensors between kernels that one of step has become.
        self._became: dict[int, list[int]] = {}
        for index, t in enumerate(self.step.tensors):
            makers = self.homes[t["producer"]] if t["producer"] >= 0 else [-1]
            readers = {k for c in t["consumers"] for k in self.homes[c]}
            control = t.get("kind") == "control"
            if len(makers) > 1 and not control:
                continue  # computed wherever it is read
            for maker in makers:
                others = sorted(readers - {maker})
                if t["producer"] < 0 or others or t.get("output") or not t["consumers"]:
                    self._became.setdefault(index, []).append(len(self.tensors))
                    self.tensors.append({**t, "producer": maker, "consumers": others})
                    if maker >= 0 and not control:
                        self._writes[maker].append(index)
        for k, members in enumerate(self.members):
            if k != self.boundary:
                ends = (self.boundary, k) if self._behind[members[-1]] else (k, self.boundary)
                self.tensors.append({"name": f"part{k}", "bytes": 0, "producer": ends[0], "consumers": [ends[1]], "kind": "control"})

    def _count(self) -> None:
        """Give each kernel the cost of a further run."""
        self.nodes: list[dict[str, Any]] = []
        self.seconds = self.again = 0.0
        for k, members in enumerate(self.members):
            if k == self.boundary:
                overwritten = [u for t in self.step.nodes[self.step.boundary]["writes"] for u in self._became.get(t, [])]
                self.nodes.append({**self.step.nodes[self.step.boundary], "writes": overwritten})
                continue
            nodes = [self.step.kernels[i] for i in members]
            size = sum(self._reads[k].values()) + self._written_bytes(k)
            once = self._roofline(sum(map(flops, nodes)), size, nodes)
            again = self._repeated(k) if all(self._loops[i] for i in members) else once
            self.seconds += once
            self.again += again
            node = {"name": nodes[-1].name, "op": str(nodes[-1].target), "cost": round(1e9 * again)}
            if any(self.step.nodes[i].get("once") for i in members):
                node["once"] = True
            overwritten = [u for i in members for t in self.step.nodes[i].get("writes", []) for u in self._became.get(t, [])]
            if overwritten:
                node["writes"] = sorted(set(overwritten))
            workspace = max((self.step.nodes[i].get("workspace", 0) for i in members), default=0)
            if workspace:
                node["workspace"] = workspace
            self.nodes.append(node)

    def _written_bytes(self, kernel: int) -> int:
        return sum(self.step.tensors[t]["bytes"] for t in self._writes[kernel])

    def _roofline(self, operations: int, size: float, nodes: Iterable[fx.Node]) -> float:
        narrow = operations and all(t is None or t.element_size() <= 2 for n in nodes for t in tensors(n))
        rate = self.device.half if narrow else self.device.flops
        return max(operations / rate, size / self.device.bytes) + self.device.launch

    def _repeated(self, kernel: int) -> float:
        """Return what a kernel of loops costs behind the boundary, where its readers take it in.

        Each reader reads what the kernel reads instead of its result. Where that is more than
        to make the result once more in memory, or a reader is no loop, it is made in memory.
        """
        step, reads, writes = self.step, self._reads[kernel], self._writes[kernel]
        size = self._written_bytes(kernel)
        apart = self._roofline(0, sum(reads.values()) + size, ())
        readers = {k for t in writes for r in step.tensors[t]["consumers"] for k in self.homes[r]} - {self.boundary, kernel}
        later = {k for k in readers if self._behind[self.members[k][-1]]} or readers
        if not later or any(reduces(step.kernels[i]) for i in self.members[kernel][-1:]) or not all(self._loops[i] for k in later for i in self.members[k]):
            return apart
        inside = 0.0
        for k in later:
            known = self._reads[k]
            inside += sum(b for t, b in reads.items() if t not in known) - sum(known.get(t, 0) for t in writes)
        if all(self._fused_ahead(t) for t in writes):
            inside -= size  # the forward pass need not write it
        return min(apart, max(inside, 0.0) / self.device.bytes)

    def _fused_ahead(self, tensor: int) -> bool:
        """Whether only loops of the forward pass read a tensor there."""
        t = self.step.tensors[tensor]
        return not t.get("output") and all(r == self.step.boundary or self._loops[r] for r in t["consumers"] if r == self.step.boundary or not self._behind[r])

    @property
    def share(self) -> float:
        """What the planner takes for the time of all kernels, which is the price of running all again, over that time."""
        return self.again / self.seconds

    def problem(self) -> dict[str, Any]:
        """Return the problem, which ``onnxmem order`` reads as JSON."""
        return {"name": "step", "mode": "training", "nodes": self.nodes, "tensors": self.tensors}

    def operators(self, node: int) -> list[fx.Node]:
        """Return what a node of the problem runs: nothing, if it is the boundary."""
        return [] if node == self.boundary else [self.step.kernels[i] for i in self.members[node]]

    def steps(self, kernels: Sequence[int]) -> list[int]:
        """Return an order of kernels as one of operators.

        What is computed in several kernels is made once for all of them in a pass, as long as
        what it reads is the same.
        """
        steps: list[int] = []
        version = [0] * len(self.step.nodes)
        made: dict[int, tuple[bool, tuple[int, ...]]] = {}
        behind_now = False
        for k in kernels:
            if k == self.boundary:
                behind_now = True
            for i in self.members[k]:
                makers = [] if i == self.step.boundary else [self.step.tensors[t]["producer"] for t in self._reads_of[i]]
                state = (behind_now, tuple(version[m] for m in makers if m >= 0))
                if len(self.homes[i]) == 1 or made.get(i) != state:
                    steps.append(i)
                    version[i] += 1
                    made[i] = state
        return steps

    def peak(self, kernels: Optional[Sequence[int]] = None) -> int:
        """Return the peak of an order without repetitions; by itself, of the order of the graph."""
        order = list(kernels) if kernels is not None else self._given()
        step = {k: s for s, k in enumerate(order)}
        change = [0] * (len(order) + 1)
        for t in self.tensors:
            if t.get("resident") or not t["bytes"]:
                continue
            first = step[t["producer"]] if t["producer"] >= 0 else 0
            change[first] += t["bytes"]
            if not t.get("output"):
                change[max((step[c] for c in t["consumers"]), default=first) + 1] -= t["bytes"]
        load = peak = 0
        for c in change:
            load += c
            peak = max(peak, load)
        return peak

    def _given(self) -> list[int]:
        """Return the order of the graph, the boundary between its passes."""
        ahead = [k for k, m in enumerate(self.members) if k != self.boundary and not self._behind[m[-1]]]
        return [*ahead, self.boundary, *(k for k in range(len(self.members)) if k != self.boundary and k not in set(ahead))]
