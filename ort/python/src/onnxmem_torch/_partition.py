"""The partitioner: a joint graph and a limit in, the graphs of the forward and the backward pass out."""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Optional, Union

import torch
import torch._functorch.config
from torch import fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from ._costs import device_of
from ._fusion import Fused, rejoin
from ._lowering import Lowering, copied_inputs
from ._planner import Plan, plan, planner
from ._prepare import copied, dropouts, halve, prepare, product
from ._rebuild import order, split
from ._step import Step, Unsupported
from ._updates import Updates

#: A largest peak: bytes, a text such as "20GiB", or a share such as "60%".
Limit = Union[None, int, str]

Cost = Callable[[fx.Node], float]


class PlanWarning(UserWarning):
    """A step runs, but not as it was asked for."""


class LimitError(RuntimeError):
    """No plan meets the limit, and strict was asked for."""


@dataclass(frozen=True)
class Report:
    """What was planned for a graph. Sizes are bytes, without those of parameters and states."""

    peak_bytes: int
    #: Of the best order without repetitions, which a percentage is of.
    best_peak_bytes: int
    limit_bytes: Optional[int]
    #: Parameters and inputs of the graph.
    resident_bytes: int
    extra_percent: float
    extra_bound_percent: Optional[float]
    #: Kernels that run again.
    repeated: int
    #: What the planner took.
    seconds: float
    #: What Inductor's kernels need by its own account, with ``compile`` or ``inductor_pass``.
    #: None of other backends, and where they came from Inductor's cache.
    kernels_bytes: Optional[int] = None
    #: What reached neither of the limit and the plan: a text, or None.
    warning: Optional[str] = None


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def parse(limit: Limit) -> tuple[Optional[int], Optional[float]]:
    """Return a limit as bytes or as a share of 1; ValueError says what a limit looks like."""
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit > 0):
        return limit, None
    text = str(limit).strip().lower()
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            if 0 < share:
                return None, share
        else:
            number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
            size = round(float(number) * _UNITS[text[len(number) :].strip()])
            if size > 0:
                return size, None
    except (ValueError, KeyError):
        pass
    raise ValueError(f'limit {limit!r}: expected bytes, a size such as "20GiB", a share such as "60%", or None')


def parse_extra(extra: Union[None, str, float]) -> Optional[float]:
    """Return extra time in per cent: of "10%" or 0.1 it is 10; ValueError says what it looks like."""
    if extra is None:
        return None
    try:
        percent = float(extra[:-1]) if isinstance(extra, str) and extra.endswith("%") else 100 * float(extra)
        if percent >= 0:
            return percent
    except ValueError:
        pass
    raise ValueError(f'extra {extra!r}: expected a share of the time, such as "10%" or 0.1')


class Partitioner(CustomPartitionerFn):
    """Plans each joint graph of forward and backward below a limit.

        torch.compile(model, options={"custom_partitioner_fn": onnxmem_torch.Partitioner("60%")})

    It is also a ``partition_fn`` of ``aot_autograd``. A percentage is of the peak of the best
    order without recomputation, parameters and optimizer states apart; bytes mean
    everything, so the states have to be given, in bytes. Instead of a limit, extra is the
    time that may be added, such as "10%", for the smallest peak that it buys. What cannot be planned takes
    PyTorch's min-cut, with a warning; strict raises instead, also where no plan meets
    the limit. cost gives the seconds of a node; updates let the backward pass update the
    parameters.
    """

    def __init__(
        self,
        limit: Limit = None,
        *,
        extra: Union[None, str, float] = None,
        states: int = 0,
        strict: bool = False,
        effort: str = "fast",
        cost: Optional[Cost] = None,
        updates: Optional[Updates] = None,
    ) -> None:
        parse(limit)
        self.extra = parse_extra(extra)
        if limit is not None and extra is not None:
            raise ValueError(f"limit {limit!r} and extra {extra!r}: expected one of the two")
        self.limit, self.states, self.strict, self.effort, self.cost = limit, states, strict, effort, cost
        self.updates = updates
        #: Gives the bytes of gradients that are there while a graph is planned, which is not told of them.
        self.gradients: Optional[Callable[[], int]] = None
        #: What was planned, graph by graph.
        self.reports: list[Report] = []
        #: The newest planned graphs, as the pass for Inductor's kernels finds them.
        self.lowering: Optional[Lowering] = None
        self._warned: set[str] = set()
        self._frames: set[Any] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "updates": None, "gradients": None, "reports": [], "lowering": None, "_warned": set(), "_frames": set()}

    def uuid(self) -> bytes:
        """Return what makes a plan: Inductor keeps compiled graphs under it."""
        inside = None if self.updates is None else self.updates.key()
        return _hash(repr((inside, self.extra, self.limit, self.states, self.effort, self.strict, getattr(self.cost, "__qualname__", None), planner())))

    def __call__(
        self,
        gm: fx.GraphModule,
        joint_inputs: Sequence[object],
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Optional[list[int]] = None,
        compiler: str = "",
        **more: Any,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        self.lowering = None
        try:
            if _region():
                raise Unsupported("a region that is compiled once for several calls is planned by none of them")
            fused = self._fused(gm, joint_inputs, num_fwd_outputs, static_lifetime_input_indices) if compiler == "inductor" else None
            if fused is not None:
                parts, report = fused
            else:
                planned = self.plan(gm, num_fwd_outputs, compiler)
                report = planned.report
                parts = split(gm, planned.step, order(planned.step, planned.steps), static_lifetime_input_indices)
        except LimitError:
            raise
        except Exception as e:
            if self.strict:
                raise
            what = str(e) if isinstance(e, Unsupported) else f"{type(e).__name__}: {e}"
            self._warn(f"{what}: PyTorch's min-cut partitions this graph", what)
            return _min_cut(gm, joint_inputs, compiler, num_fwd_outputs, static_lifetime_input_indices)
        self.reports.append(report)
        self.lowering = Lowering(parts[0], parts[1], num_fwd_outputs) if compiler == "inductor" else None
        if report.warning:
            self._warn(report.warning, "limit")
        self._count()
        self._look()
        return parts

    def lowered(self, peak: int) -> None:
        """Take what Inductor's kernels of the backward pass need, by its account; warn if both passes' are above the limit."""
        assert self.lowering is not None
        report = self.reports[-1] = replace(self.reports[-1], kernels_bytes=self.lowering.needed(peak))
        if report.limit_bytes and report.kernels_bytes and report.kernels_bytes > report.limit_bytes and not report.warning:
            text = f"Inductor's kernels need {_size(report.kernels_bytes)}, above the limit of {_size(report.limit_bytes)}, by its own account"
            self._warn(f"{text}; the plan has {_size(report.peak_bytes)}", "kernels")

    def _warn(self, text: str, kind: str) -> None:
        """Warn, but once of a kind."""
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"onnxmem_torch: {text}", PlanWarning, stacklevel=3)

    def _count(self) -> None:
        """Warn when a function turns out to be several graphs."""
        compiling = torch._guards.CompileContext.current_compile_id()
        self._frames.add(getattr(compiling, "frame_id", None))
        if len(self._frames) > 1 and self.limit is not None:
            self._warn(
                "there are several graphs, and the limit is met by each alone, "
                "while activations of the others are there, too: fullgraph=True says where the function is cut",
                "graphs",
            )

    def _look(self) -> None:
        """Warn when there are gradients already, beside which the backward pass makes its own."""
        size = 0 if self.gradients is None or self.limit is None else self.gradients()
        if size:
            self._warn(
                f"parameters have gradients already, of {_size(size)}, which the plan does not count: "
                "accumulate=True does, and zero_grad() before the first step frees them",
                "gradients",
            )

    def plan(self, gm: fx.GraphModule, num_fwd_outputs: int, compiler: str = "") -> PlannedStep:
        """Return a graph's plan below the limit; LimitError if there is none and strict was asked for."""
        # Inductor has no kernel for a half, and draws by seeds, which may be done again.
        halves = compiler != "inductor"
        step = self._step(prepare(gm.graph, num_fwd_outputs), num_fwd_outputs)
        best = plan(step.problem(), None, self.effort)
        limit = self._limit(step, best.best_peak_bytes)
        found, warning = best, None
        if self.updates is not None:
            step, found = self._inside(step, num_fwd_outputs)
        assert found.peak_bytes is not None
        if self.extra is not None or (limit is not None and limit < found.peak_bytes):
            step, found, warning = self._below(step, num_fwd_outputs, limit, halves)
        assert found.steps is not None and found.peak_bytes is not None
        report = Report(
            peak_bytes=found.peak_bytes,
            best_peak_bytes=best.best_peak_bytes,
            limit_bytes=limit,
            resident_bytes=_resident(step),
            extra_percent=found.extra_percent,
            extra_bound_percent=found.extra_bound_percent,
            repeated=found.repeated,
            seconds=best.seconds + found.seconds,
            warning=warning,
        )
        return PlannedStep(step, found.steps, report)

    def _fused(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], num_fwd_outputs: int, static: Optional[list[int]]
    ) -> Optional[tuple[tuple[fx.GraphModule, fx.GraphModule], Report]]:
        """Plan for Inductor, by fused kernels, from min-cut's partition; None where operators have to be planned alone."""
        if self.cost is not None or self.updates is not None or self.extra is not None:
            return None
        step = self._step(prepare(gm.graph, num_fwd_outputs), num_fwd_outputs)
        best = plan(step.problem(), None, self.effort)
        limit = self._limit(step, best.best_peak_bytes)
        copies = copied_inputs(gm)  # they are there from their first reader to the last of the backward pass
        room = None if limit is None else limit - copies
        with torch._functorch.config.patch(activation_memory_budget=1.0):
            parts = _min_cut(fx.GraphModule(gm, copied(gm.graph)), joint_inputs, "inductor", num_fwd_outputs, static)
        try:
            graph, behind = rejoin(parts[0].graph, parts[1].graph, num_fwd_outputs)
            kernels = Fused(Step(graph, num_fwd_outputs), behind, device_of(graph))
        except Unsupported:
            return None
        found = plan(kernels.problem(), None, self.effort)
        peak, seconds = kernels.peak(), found.seconds
        if room is not None and peak > room:
            found = plan(kernels.problem(), max(room, 1), self.effort)
            seconds += found.seconds
            if found.steps is None:
                return None
        assert found.peak_bytes is not None
        if found.repeated or found.peak_bytes < 0.99 * peak:
            parts = split(gm, kernels.step, order(kernels.step, kernels.steps(found.steps or [])), static)
            peak = found.peak_bytes
        share = kernels.again / kernels.seconds  # what the planner takes for the whole is the price of running all again
        return parts, Report(
            peak_bytes=peak + copies,
            best_peak_bytes=best.best_peak_bytes,
            limit_bytes=limit,
            resident_bytes=_resident(step),
            extra_percent=found.extra_percent * share,
            extra_bound_percent=None if found.extra_bound_percent is None else found.extra_bound_percent * share,
            repeated=found.repeated,
            seconds=best.seconds + seconds,
        )

    def _step(self, graph: fx.Graph, num_fwd_outputs: int) -> Step:
        return Step(graph, num_fwd_outputs, self.cost)

    def _inside(self, step: Step, num_fwd_outputs: int) -> tuple[Step, Plan]:
        """Return a step with the updates of its parameters, and the plan of its best order."""
        assert self.updates is not None
        graph = copied(step.graph)
        if not self.updates.insert(graph, num_fwd_outputs):
            raise Unsupported("none of the optimizer's parameters is an input of this graph")
        inside = self._step(graph, num_fwd_outputs)
        return inside, plan(inside.problem(), None, self.effort)

    def _limit(self, step: Step, best: int) -> Optional[int]:
        """Return the limit of what is not resident, in bytes."""
        size, share = parse(self.limit)
        if share is not None:
            return int(share * best)
        return None if size is None else max(size - self.states - _resident(step), 1)

    def _below(
        self, step: Step, num_fwd_outputs: int, limit: Optional[int], halves: bool
    ) -> tuple[Step, Plan, Optional[str]]:
        """Plan below a limit, or within the extra time. Dropouts are in two where their products run again, and one kernel elsewhere."""
        names = [n.name for n in dropouts(step.graph)] if halves else []
        halved = self._step(halve(step.graph, names), num_fwd_outputs) if names else step
        found, warning = self._within(halved) if limit is None else self._search(halved, limit)
        assert found.steps is not None
        again = {halved.kernels[s].name for s, count in Counter(found.steps).items() if count > 1 and s != halved.boundary}
        few = [n for n in names if product(n) in again]
        if len(few) < len(names):
            other = self._step(halve(step.graph, few), num_fwd_outputs)
            joined = plan(other.problem(), limit if limit and found.feasible else found.peak_bytes, self.effort)
            if joined.feasible and (limit is not None or joined.extra_percent <= (self.extra or 0)):
                return other, replace(joined, seconds=joined.seconds + found.seconds), warning
        return halved, found, warning

    def _within(self, step: Step) -> tuple[Plan, None]:
        """Return a plan of the smallest peak that the extra time buys, found by halving."""
        assert self.extra is not None
        problem = step.problem()
        found = plan(problem, None, self.effort)
        low, high = 0, found.best_peak_bytes
        for _ in range(8):
            tried = plan(problem, max((low + high) // 2, 1), self.effort)
            if tried.feasible and tried.peak_bytes is not None and tried.extra_percent <= self.extra:
                found, high = tried, min((low + high) // 2, tried.peak_bytes)
            else:
                low = (low + high) // 2
        return found, None

    def _search(self, step: Step, limit: int) -> tuple[Plan, Optional[str]]:
        """Return a plan below the limit, else the smallest that is found, with a text that says so."""
        found = plan(step.problem(), limit, self.effort, least=True)
        if found.feasible or (found.peak_bytes is not None and found.peak_bytes <= limit):
            return found, None
        why = "is impossible for this step" if found.feasible is False else "was not met: no plan was found"
        text = f"a limit of {_size(limit)} {why}: {_bound(step, found)}"
        if self.strict:
            raise LimitError(text)
        return found, f"{text}; the smallest plan found, of {_size(found.peak_bytes or 0)}, is used"


@dataclass
class PlannedStep:
    """A prepared joint graph with its plan."""

    step: Step
    steps: list[int]
    report: Report


def _region() -> bool:
    """Whether the graph in hand is that of a region within another (``torch.compiler.nested_compile_region``)."""
    frame: Optional[FrameType] = sys._getframe(2)
    for _ in range(6):
        if frame is None:
            return False
        if frame.f_code.co_name == "run_joint_graph_passes_on_hops":
            return True
        frame = frame.f_back
    return False


def _min_cut(
    gm: fx.GraphModule, joint_inputs: Sequence[object], compiler: str, num_fwd_outputs: int, static: Optional[list[int]]
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Partition a graph as PyTorch does."""
    from functorch.compile import min_cut_rematerialization_partition

    parts: tuple[fx.GraphModule, fx.GraphModule] = min_cut_rematerialization_partition(
        gm,
        joint_inputs,
        compiler=compiler or "inductor",
        num_fwd_outputs=num_fwd_outputs,
        static_lifetime_input_indices=static,
    )
    return parts


def _resident(step: Step) -> int:
    return sum(t["bytes"] for t in step.tensors if t.get("resident"))


def _bound(step: Step, found: Plan) -> str:
    """Say what no plan can go below, and what is held there."""
    least = found.least or {}
    held = [step.tensors[t] for t in least.get("tensors", [])]
    gradients = [t for t in held if t.get("kind") == "gradient"]
    where = {"start": "the inputs of the step", "end": "what is left at its end"}.get(least.get("at", ""), "")
    if not where and least.get("node") is not None:
        where = f"the node {step.nodes[least['node']]['name']} with what it reads and makes"
    largest = ", ".join(f"{t['name']} {_size(t['bytes'])}" for t in held[:3])
    text = f"every plan needs {_size(least.get('lower_bound_bytes', 0))} for {where}"
    if gradients:
        text += f", gradients of {_size(sum(t['bytes'] for t in gradients))} among it"
    return f"{text} (the largest: {largest})" if largest else text


def _size(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _hash(text: str) -> bytes:
    """Return the hash of a text and of the files of this package."""
    folder = Path(__file__).parent
    digest = hashlib.sha256(text.encode())
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            digest.update((folder / name).read_bytes())
    return digest.digest()
