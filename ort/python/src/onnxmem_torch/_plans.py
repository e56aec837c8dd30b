"""The plans of a joint graph: by operators, or for Inductor by kernels as it fuses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from torch import fx

from ._again import NoRoom
from ._curve import mib
from ._fusion import Fused, rejoin
from ._keep import settle
from ._limit import LimitError, Report, parse
from ._lowering import channels_last, copied_bytes, copied_inputs
from ._planner import Plan, plan
from ._prepare import copied, dropouts, halve, prepare, product
from ._rebuild import Planned, hand_over, order
from ._step import Step, Unsupported, results
from ._storages import nbytes

if TYPE_CHECKING:
    from ._partition import Partitioner


#: How much larger than the smallest a plan may be that is named beside it, because it costs far less.
_NEAR = 1.05
#: How much of a limit copies of inputs may fill that stay from pass to pass: kernels may need more than planned.
_FILLED = 0.95


@dataclass
class PlannedStep:
    """A prepared joint graph with its plan."""

    step: Step
    steps: list[int]
    report: Report


@dataclass
class PlannedKernels:
    """What is planned for Inductor. graph is None where min-cut's partition stays as it is."""

    graph: Optional[Planned]
    step: Step
    report: Report


class Plans:
    """The plans of one joint graph for what a partitioner was asked for.

    count is how many results of the graph are the forward pass's. For Inductor, convolutions
    copy inputs of another layout.
    """

    def __init__(self, asked: Partitioner, gm: fx.GraphModule, count: int, inductor: bool = False) -> None:
        self.asked, self.gm, self.count = asked, gm, count
        #: The inputs that convolutions copy, with the bytes of a copy.
        self.copies = copied_inputs(gm) if inductor else {}
        #: The graph operator by operator, and its best order without repetitions.
        self.step = self._step(prepare(gm.graph, count))
        self.best = plan(self.step.problem(), None, asked.effort)
        self.limit = self._limit()
        #: What plans aim at: the limit without what is left to kernels that need more than was planned.
        self.target = self.limit if self.limit is None else max(self.limit - asked.spare, 1)
        self._seconds = self.best.seconds
        #: Whether gradients of weights are copied where they are made: an update reads them as they are.
        self._settles = inductor and asked.updates is None and (asked.limit is not None or asked.extra is not None) and channels_last(gm)
        if self._settles:
            graph = copied(self.step.graph)
            settle(graph, results(graph, count)[1])
            self.step = self._step(graph)

    def operators(self, halves: bool) -> PlannedStep:
        """Return a plan of operators; LimitError if none meets the limit and strict was asked for.

        With halves, dropouts may be in two.
        """
        step, found, warning = self.step, self.best, None
        if self.asked.updates is not None:
            step = self._step(self._updated(copied(step.graph)))
        if step is not self.step or self.copies or self._settles:
            found = self._plan(self._problem(step))
        assert found.peak_bytes is not None
        if self.asked.extra is not None or (self.target is not None and self.target < found.peak_bytes):
            step, found, warning = self._below(step, halves)
        if warning is not None and self.asked.strict:
            raise LimitError(warning)
        assert found.steps is not None
        return PlannedStep(step, found.steps, self._report(found, warning=warning))

    def kernels(self, forward: fx.GraphModule, backward: fx.GraphModule) -> Optional[PlannedKernels]:
        """Return a plan of kernels as Inductor will fuse them; None where it takes operators to meet the limit.

        forward and backward are min-cut's partition. LimitError if no plan meets the limit and
        strict was asked for. Unsupported if the partition is not understood.
        """
        asked, limit = self.asked, self.target
        graph, behind = rejoin(forward.graph, backward.graph, self.count)
        settled = settle(graph, results(graph, self.count)[1]) if self._settles else []
        behind |= set(settled)
        if asked.updates is not None:
            before = set(graph.nodes)
            behind |= set(self._updated(graph).nodes) - before
        kernels = Fused(Step(graph, self.count, lambda node: 0.0), behind, self.step.device)  # which prices kernels itself
        # Copies are there from their first reader to the last of the backward pass, if their inputs are not handed over as they are.
        copies, peak, found = sum(self.copies.values()), kernels.peak(), self._plan(kernels.problem())
        assert found.peak_bytes is not None
        ours, warning = asked.updates is not None or found.peak_bytes < 0.99 * peak, None
        handed = self._handed(0) if asked.updates is not None else {}  # an update writes to the parameter, not to a copy
        copies -= sum(handed.values())
        if not ours:  # of min-cut's gradients, autograd copies one after the other at the end
            copies += max((nbytes(n.meta["val"]) for n in settled), default=0)
        peak = found.peak_bytes if ours else peak
        if asked.extra is not None or (limit is not None and peak + copies > limit):
            ours = True
            problem = self._problem(kernels)
            found = self._within(problem, kernels.share) if limit is None else self._plan(problem, limit, least=True)
            if limit is not None and not self._meets(found):
                warning = self._missed(kernels, found, limit)
                if warning is None:
                    return None
            assert found.peak_bytes is not None
            handed = self._handed(0 if limit is None or asked.updates is not None else int(_FILLED * limit) - found.peak_bytes)
            copies = sum(self.copies.values()) - sum(handed.values())
        assert found.peak_bytes is not None
        report = self._report(found, kernels.share, copies + (found.peak_bytes if ours else peak), warning)
        if not ours:
            return PlannedKernels(None, kernels.step, report)
        steps = found.steps or []
        planned = order(kernels.step, kernels.steps(steps), kernels.kept() | kernels.products(steps))
        hand_over(planned, handed)
        return PlannedKernels(planned, kernels.step, report)

    def _handed(self, room: int) -> dict[str, int]:
        """Return the inputs that are handed over as they are, and copied again: those of which no copy fits into the room, the largest first."""
        handed: dict[str, int] = {}
        for name, size in sorted(self.copies.items(), key=lambda c: -c[1]):
            if size <= room:
                room -= size
            else:
                handed[name] = size
        return handed

    def _missed(self, kernels: Fused, found: Plan, limit: int) -> Optional[str]:
        """Say by how much the smallest plan of kernels misses the limit; None if a plan of operators is smaller."""
        asked, step = self.asked, self.step
        if asked.updates is not None:
            step = self._step(self._updated(copied(step.graph)))
        other = self._plan(self._problem(step), limit, least=True)
        if other.peak_bytes is None or found.peak_bytes is None or other.peak_bytes < found.peak_bytes:
            return None
        text = self._why(kernels, found, proven=other.feasible is False)
        if asked.strict:
            raise LimitError(text)
        return text

    def _step(self, graph: fx.Graph) -> Step:
        return Step(graph, self.count, self.asked.cost)

    def _problem(self, step: Union[Step, Fused]) -> dict[str, Any]:
        """Return a problem in which each convolution has room for the copies that it reads."""
        problem = step.problem()
        if self.copies:
            copying = [copied_bytes(step.operators(k), self.copies) for k in range(len(problem["nodes"]))]
            problem["nodes"] = [{**n, "workspace": n.get("workspace", 0) + size} if size else n for n, size in zip(problem["nodes"], copying)]
        return problem

    def _plan(self, problem: Mapping[str, Any], limit: Optional[Union[int, str]] = None, least: bool = False) -> Plan:
        found = plan(problem, limit, self.asked.effort, least)
        self._seconds += found.seconds
        return found

    def _limit(self) -> Optional[int]:
        """Return the limit of what is not resident, in bytes."""
        size, share = parse(self.asked.limit)
        if share is not None:
            return int(share * self.best.best_peak_bytes)
        return None if size is None else max(size - self.asked.states - _resident(self.step), 1)

    def _report(self, found: Plan, share: float = 1.0, peak: Optional[int] = None, warning: Optional[str] = None) -> Report:
        """Describe a plan. share is what the planner takes for the time of all, over that time."""
        assert found.peak_bytes is not None
        return Report(
            peak_bytes=found.peak_bytes if peak is None else peak,
            best_peak_bytes=self.best.best_peak_bytes,
            limit_bytes=self.limit,
            resident_bytes=_resident(self.step),
            extra_percent=found.extra_percent * share,
            extra_bound_percent=None if found.extra_bound_percent is None else found.extra_bound_percent * share,
            repeated=found.repeated,
            seconds=self._seconds,
            warning=warning,
        )

    def _updated(self, graph: fx.Graph) -> fx.Graph:
        """Let a graph update its parameters; return it."""
        assert self.asked.updates is not None
        if not self.asked.updates.insert(graph, self.count):
            raise Unsupported("none of the optimizer's parameters is an input of this graph")
        return graph

    def _below(self, step: Step, halves: bool) -> tuple[Step, Plan, Optional[str]]:
        """Plan below the limit, or within the extra time. Dropouts are in two where their products run again, and one kernel elsewhere."""
        limit, extra = self.target, self.asked.extra or 0
        names = [n.name for n in dropouts(step.graph)] if halves else []
        halved = self._step(halve(step.graph, names)) if names else step
        found, warning = (self._within(self._problem(halved)), None) if limit is None else self._search(halved, limit)
        assert found.steps is not None
        again = {halved.kernels[s].name for s, count in Counter(found.steps).items() if count > 1 and s != halved.boundary}
        few = [n for n in names if product(n) in again]
        if len(few) < len(names):
            other = self._step(halve(step.graph, few))
            joined = self._plan(self._problem(other), limit if limit and found.feasible else found.peak_bytes)
            if joined.feasible and (limit is not None or joined.extra_percent <= extra):
                return other, joined, warning
        return halved, found, warning

    def _within(self, problem: Mapping[str, Any], share: float = 1.0) -> Plan:
        """Return a plan of the smallest peak that the extra time buys, found by halving."""
        assert self.asked.extra is not None
        found = self._plan(problem)
        low, high = 0, found.best_peak_bytes
        for _ in range(8):
            tried = self._plan(problem, max((low + high) // 2, 1))
            if tried.feasible and tried.peak_bytes is not None and tried.extra_percent * share <= self.asked.extra:
                found, high = tried, min((low + high) // 2, tried.peak_bytes)
            else:
                low = (low + high) // 2
        return found

    def _search(self, step: Step, limit: int) -> tuple[Plan, Optional[str]]:
        """Return a plan below the limit, else the smallest that is found, with a text that says so."""
        found = self._plan(self._problem(step), limit, least=True)
        return found, None if self._meets(found) else self._why(step, found)

    def _meets(self, found: Plan) -> bool:
        """Whether a plan meets the limit, though it may not reach the target."""
        return self.limit is None or bool(found.feasible) or (found.peak_bytes is not None and found.peak_bytes <= self.limit)

    def _why(self, step: Union[Step, Fused], found: Plan, proven: bool = True) -> str:
        """Say that the limit is missed, what no plan can go below, and the peak of the smallest that is there.

        step and found are the problem and its smallest plan. proven is whether a proof for this
        problem is one for the step.
        """
        if self.asked.spare:  # while the plan that left less room meets it
            raise NoRoom(f"no plan leaves {self.asked.spare} bytes of the limit")
        why = "is impossible for this step" if found.feasible is False and proven else "was not met: no plan was found"
        return f"a limit of {mib(self.limit or 0)} {why}: {_bound(step, found, self.copies)}; the smallest plan found has {mib(found.peak_bytes or 0)}{self._near(step, found)}"

    def _near(self, step: Union[Step, Fused], found: Plan) -> str:
        """Say what a missed limit's smallest plan costs, where one of little more memory costs less than half as much."""
        share = step.share if isinstance(step, Fused) else 1.0
        if found.extra_percent * share < 5:
            return ""
        near = self._plan(self._problem(step), int(_NEAR * (found.peak_bytes or 0)))
        if not near.feasible or 2 * near.extra_percent > found.extra_percent:
            return ""
        return f" and takes {share * found.extra_percent:.0f} % more time (one of {mib(near.peak_bytes or 0)} takes {share * near.extra_percent:.0f} %)"


def _resident(step: Step) -> int:
    return sum(t["bytes"] for t in step.tensors if t.get("resident"))


def _bound(step: Union[Step, Fused], found: Plan, copies: Mapping[str, int]) -> str:
    """Say what no plan can go below, and what is held there. copies are inputs that convolutions copy, with their bytes."""
    least = found.least or {}
    held = [step.tensors[t] for t in least.get("tensors", [])]
    gradients = [t for t in held if t.get("kind") == "gradient"]
    where = {"start": "the inputs of the step", "end": "what is left at its end"}.get(least.get("at", ""), "")
    if not where and least.get("node") is not None:
        where = f"the node {step.nodes[least['node']]['name']} with what it reads and makes"
        size = copied_bytes(step.operators(least["node"]), copies)
        where += f" and copies of {mib(size)} in another layout" if size else ""
    if least.get("at") == "way":
        where = f"the way to {where or 'its end'}"
    largest = ", ".join(f"{t['name']} {mib(t['bytes'])}" for t in held[:3])
    text = f"every plan needs {mib(least.get('lower_bound_bytes', 0))} for {where}"
    if gradients:
        text += f", gradients of {mib(sum(t['bytes'] for t in gradients))} among it"
    return f"{text} (the largest: {largest})" if largest else text
