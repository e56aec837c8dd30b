"""Kernels that Inductor has fused across a plan, taken apart where they cost memory.

Inductor also fuses operators that only read the same: what one of them makes may be read much
later than what the other makes, and is held until then. A plan has them apart. So where the
peak is above a limit, such kernels are taken apart, and those that need not be are joined again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

#: Rounds of taking apart, each of which orders the kernels anew.
_ROUNDS = 4

#: Orders kernels: returns them and their peak.
Order = Callable[[list[Any]], tuple[list[Any], int]]


def parts(node: Any) -> list[list[Any]]:
    """Return a fused kernel's operators in groups that share no data but their inputs."""
    from torch._inductor.scheduler import FusedSchedulerNode, SchedulerNode

    if type(node) is not FusedSchedulerNode or not all(type(n) is SchedulerNode for n in node.snodes) or node.is_template():
        return [[node]]
    group = {n: k for k, n in enumerate(node.snodes)}
    makers = {b.get_name(): n for n in node.snodes for b in n.get_outputs()}
    for n in node.snodes:
        for d in n.read_writes.reads:
            if d.name in makers:
                old, new = group[n], group[makers[d.name]]
                group = {m: new if k == old else k for m, k in group.items()}
    return [[n for n in node.snodes if group[n] == k] for k in dict.fromkeys(group.values())]


def each(node: Any) -> list[list[Any]]:
    """Return a fused kernel's operators, each by itself."""
    return [[n] for part in parts(node) for n in part]


class Split:
    """A fused kernel in parts."""

    def __init__(self, node: Any, several: Sequence[list[Any]]) -> None:
        from torch._inductor.scheduler import FusedSchedulerNode

        self.node = node
        self.parts = [part[0] if len(part) == 1 else FusedSchedulerNode(node.scheduler, part) for part in several]
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
    nodes: list[Any], least: int, room: int, order: Order, blamed: Callable[[list[Any]], list[Any]], peak: Callable[[list[Any]], int]
) -> Optional[list[Any]]:
    """Return kernels in an order whose peak is at most room, or the smallest, if taking some apart makes it smaller.

    least is the peak of the nodes as they are. blamed returns the kernels that make or read
    what is live at the peak of an order.
    """
    best, splits, before = nodes, list[Split](), least
    for how in (parts, each):
        for _ in range(_ROUNDS):
            found = {n: several for n in blamed(best) for several in [how(n)] if len(several) > 1}
            if not found:
                break
            split = {n: Split(n, several) for n, several in found.items()}
            splits += split.values()
            best, least = order([m for n in best for m in (split[n].parts if n in split else [n])])
            if least <= room:
                return _joined(best, room, splits, peak)
    if least < before:
        return _joined(best, least, splits, peak)
    for s in reversed(splits):
        s.join()
    return None


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
