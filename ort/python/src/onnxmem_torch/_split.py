"""Kernels that Inductor has fused across a plan, taken apart where they cost memory.

Inductor also fuses operators that only read the same: what one of them makes may be read much
later than what the other makes, and is held until then. A plan has them apart. So where the
peak is above a limit, such kernels are taken apart: into groups that share no data, into halves,
and into single loops. Those that need not be are joined again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: Rounds of taking apart whatever is in several groups, or loops, each of which orders the kernels anew.
_ROUNDS = 4

#: Kernels that are then taken into halves, one after the other, each of which orders them anew, too.
_TRIES = 40

#: As many of them in a row that do not make the peak smaller end that.
_IDLE = 12

#: Orders kernels: returns them and their peak.
Order = Callable[[list[Any]], tuple[list[Any], int]]


def units(node: Any) -> list[list[Any]]:
    """Return the loops that a kernel was fused from; loops of one list are one loop, and a processor's lists share an outer one.

    A kernel that is not made of loops is one by itself.
    """
    from torch._inductor.codegen.cpp import OuterLoopFusedSchedulerNode
    from torch._inductor.scheduler import FusedSchedulerNode, SchedulerNode

    if type(node) is OuterLoopFusedSchedulerNode:
        return [list(n.get_nodes()) for n in node.get_outer_nodes()]
    if type(node) is FusedSchedulerNode and all(type(n) is SchedulerNode for n in node.snodes) and not node.is_template():
        return [list(node.snodes)]
    return [[node]]


def inside(node: Any) -> list[Any]:
    """Return the buffers that loops make for themselves alone, which the code of a kernel does not have."""
    found = []
    for unit in units(node):
        # On a device, a loop of a long reduction is run twice, and what both read is in memory.
        if len(unit) > 1 and (_of_processor(node) or not any(n.is_reduction() for n in unit)):
            names = {n.get_name() for n in unit}
            found += [b for n in unit for b in n.get_outputs() if n.scheduler.can_buffer_be_removed_through_fusion(b.get_name(), names)]
    return found


def _of_processor(node: Any) -> bool:
    device = node.get_device()
    return device is not None and device.type == "cpu"


def _runs(node: Any, several: list[Any]) -> bool:
    """Whether some loops of a fused kernel are a kernel: on a device, loops of several sizes need a reduction among them."""
    return _of_processor(node) or len({n.group for n in several}) == 1 or any(n.is_reduction() for n in several)


def _needs(several: list[Any]) -> dict[Any, set[Any]]:
    """Return the loops of a kernel that each loop needs, itself among them."""
    makers = {b.get_name(): n for n in several for b in n.get_outputs()}
    needs: dict[Any, set[Any]] = {}
    for n in several:
        before = {makers[d.name] for d in n.read_writes.reads if d.name in makers}
        needs[n] = {n}.union(*(needs[m] for m in before if m in needs))
    return needs


def parts(node: Any) -> list[list[Any]]:
    """Return a fused kernel's loops in groups that share no data but their inputs."""
    several = [n for unit in units(node) for n in unit]
    group = {n: k for k, n in enumerate(several)}
    for n, needed in _needs(several).items():
        for m in needed:
            old, new = group[n], group[m]
            group = {x: new if k == old else k for x, k in group.items()}
    found = [[n for n in several if group[n] == k] for k in dict.fromkeys(group.values())]
    return found if all(_runs(node, part) for part in found) else [several]


def halves(node: Any) -> list[list[list[Any]]]:
    """Return ways to run a fused kernel in two: first what some of its results need, then the rest."""
    several = [n for unit in units(node) for n in unit]
    needs, own = _needs(several), {n.get_name() for n in node.get_nodes()}
    last = [n for n in several if any(u.get_name() not in own for b in n.get_outputs() for u in b.users)]
    found: dict[tuple[Any, ...], list[list[Any]]] = {}
    for results in [*([n] for n in last), *([m for m in last if m is not n] for n in last)]:
        first = set[Any]().union(*(needs[n] for n in results))
        two = [[n for n in several if n in first], [n for n in several if n not in first]]
        if all(two) and all(_runs(node, part) for part in two):
            found.setdefault(tuple(two[0]), two)
    return list(found.values())


def loops(node: Any) -> list[list[Any]]:
    """Return the loops of a fused kernel one by one."""
    return [[n] for unit in units(node) for n in unit]


def _kernel(node: Any, several: list[Any]) -> Any:
    """Return some loops of a fused kernel as a kernel of their own."""
    from torch._inductor.scheduler import FusedSchedulerNode

    within = [part for unit in units(node) for part in [[n for n in unit if n in several]] if part]
    fused = [part[0] if len(part) == 1 else FusedSchedulerNode(node.scheduler, part) for part in within]
    return fused[0] if len(fused) == 1 else type(node)(node.scheduler, fused, node.outer_loop_fusion_depth)


class Split:
    """A fused kernel in parts."""

    def __init__(self, node: Any, several: Sequence[list[Any]]) -> None:
        self.node = node
        self.parts = [_kernel(node, part) for part in several]
        self.apart()

    def apart(self) -> None:
        for part in self.parts:
            self._name(part)

    def join(self) -> None:
        self._name(self.node)

    def _name(self, node: Any) -> None:
        """Let the scheduler know a kernel's operators by it."""
        scheduler = self.node.scheduler
        scheduler.name_to_fused_node.update({n.get_name(): node for n in node.get_nodes()})
        for kept in (getattr(scheduler, "node_to_stream", None), getattr(scheduler, "node_to_mempool", None)):
            if kept is not None and self.node in kept:
                kept[node] = kept[self.node]


def below(
    nodes: list[Any], least: int, room: int, order: Order, blamed: Callable[[list[Any], int], list[Any]], peak: Callable[[list[Any]], int]
) -> list[Any]:
    """Return kernels in an order whose peak is at most room; if taking some apart does not reach that, in the best that is found.

    least is the peak of the nodes as they are. blamed returns the kernels that run where an order
    needs more than some bytes, then those that make or read what is live there.
    """
    search = _Search(nodes, least, order)
    try:
        search.run(room, blamed)
        return _joined(search.best, max(room, search.least), search.splits, peak)
    except BaseException:
        for s in reversed(search.splits):
            s.join()
        raise


class _Search:
    """Takes kernels apart as long as their best order gets no larger. splits are those that are apart."""

    def __init__(self, nodes: list[Any], least: int, order: Order) -> None:
        self.best, self.least, self._order = nodes, least, order
        self.splits: list[Split] = []

    def run(self, room: int, blamed: Callable[[list[Any], int], list[Any]]) -> None:
        for _ in range(_ROUNDS):
            if self.least <= room or not self._apart(blamed(self.best, room), parts):
                break
        self._into_halves(room, blamed)
        for _ in range(_ROUNDS):  # an operator's result each, as a plan of operators has it
            if self.least <= room or not self._apart(blamed(self.best, room), loops):
                break

    def _apart(self, nodes: list[Any], into: Callable[[Any], list[list[Any]]]) -> bool:
        """Take several kernels apart; return whether that was possible, and makes the best order no larger."""
        found = {n: several for n in nodes for several in [into(n)] if len(several) > 1}
        return bool(found) and self._tried(found)

    def _into_halves(self, room: int, blamed: Callable[[list[Any], int], list[Any]]) -> None:
        """Take one kernel after the other into halves, those that run at the peak first."""
        tries = idle = 0
        progress = True
        while progress and self.least > room:
            progress = False
            for n, two in ((n, two) for n in blamed(self.best, self.least - 1) for two in halves(n)):
                if tries == _TRIES or idle == _IDLE:
                    return
                before, tries, idle = self.least, tries + 1, idle + 1
                if self._tried({n: two}):
                    progress, idle = True, 0 if self.least < before else idle
                    break

    def _tried(self, found: dict[Any, list[list[Any]]]) -> bool:
        """Take kernels apart in parts, unless the best order is larger then."""
        split = {n: Split(n, several) for n, several in found.items()}
        self.splits += split.values()
        order, size = self._order([m for n in self.best for m in (split[n].parts if n in split else [n])])
        if size > self.least:
            for s in split.values():
                s.join()
            self.splits = self.splits[: -len(split)]
            return False
        self.best, self.least = order, size
        return True


def _joined(nodes: list[Any], room: int, splits: Sequence[Split], peak: Callable[[list[Any]], int]) -> list[Any]:
    """Join what need not be apart, without another order."""
    for s in reversed(splits):
        if all(p in nodes for p in s.parts):
            s.join()
            for at in (nodes.index(s.parts[0]), max(nodes.index(p) for p in s.parts)):
                joined = [s.node if n is nodes[at] else n for n in nodes if n is nodes[at] or n not in s.parts]
                if _sorted(joined) and peak(joined) <= room:
                    nodes = joined
                    break
            else:
                s.apart()
    return nodes


def _sorted(nodes: Sequence[Any]) -> bool:
    """Whether each kernel stands behind those that it reads from."""
    place = {name: k for k, n in enumerate(nodes) for name in n.get_buffer_names()}
    return all(place.get(d.name, -1) <= k for k, n in enumerate(nodes) for d in n.unmet_dependencies)
