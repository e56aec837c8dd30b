"""The partitioner: a joint graph and a limit in, the graphs of the forward and the backward pass out."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional, Union

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from ._planner import Plan, plan, planner
from ._prepare import dropouts, prepare, product
from ._rebuild import order, split
from ._step import Step, Unsupported

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


class Partitioner(CustomPartitionerFn):
    """Plans each joint graph of forward and backward below a limit.

        torch.compile(model, options={"custom_partitioner_fn": onnxmem_torch.Partitioner("60%")})

    It is also a ``partition_fn`` of ``aot_autograd``. A percentage is of the peak of the best
    order without recomputation, parameters and optimizer states apart; bytes mean
    everything, so the states have to be given, in bytes. What cannot be planned takes
    PyTorch's min-cut, with a warning; strict raises instead, also where no plan meets
    the limit. cost gives the seconds of a node.
    """

    def __init__(
        self,
        limit: Limit = None,
        *,
        states: int = 0,
        strict: bool = False,
        effort: str = "fast",
        cost: Optional[Cost] = None,
    ) -> None:
        parse(limit)
        self.limit, self.states, self.strict, self.effort, self.cost = limit, states, strict, effort, cost
        #: What was planned, graph by graph.
        self.reports: list[Report] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "reports": []}

    def uuid(self) -> bytes:
        """Return what makes a plan: Inductor keeps compiled graphs under it."""
        return _hash(repr((self.limit, self.states, self.effort, self.strict, getattr(self.cost, "__qualname__", None), planner())))

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
        try:
            planned = self.plan(gm, num_fwd_outputs)
            parts = split(planned.module, planned.step, order(planned.step, planned.steps), static_lifetime_input_indices)
        except LimitError:
            raise
        except Exception as e:
            if self.strict:
                raise
            what = str(e) if isinstance(e, Unsupported) else f"{type(e).__name__}: {e}"
            warnings.warn(f"onnxmem_torch: {what}: PyTorch's min-cut partitions this graph", PlanWarning, stacklevel=2)
            from functorch.compile import min_cut_rematerialization_partition

            fallback: tuple[fx.GraphModule, fx.GraphModule] = min_cut_rematerialization_partition(
                gm,
                joint_inputs,
                compiler=compiler or "inductor",
                num_fwd_outputs=num_fwd_outputs,
                static_lifetime_input_indices=static_lifetime_input_indices,
            )
            return fallback
        self.reports.append(planned.report)
        if planned.report.warning:
            warnings.warn(f"onnxmem_torch: {planned.report.warning}", PlanWarning, stacklevel=2)
        return parts

    def plan(self, gm: fx.GraphModule, num_fwd_outputs: int) -> PlannedStep:
        """Return a graph's plan below the limit; LimitError if there is none and strict was asked for."""
        step, module = self._step(gm, num_fwd_outputs)
        best = plan(step.problem(), None, self.effort)
        limit = self._limit(step, best.best_peak_bytes)
        found, warning = best, None
        if limit is not None and limit < best.best_peak_bytes:
            step, module, found, warning = self._below(gm, num_fwd_outputs, limit, best.best_peak_bytes)
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
        return PlannedStep(step, module, found.steps, report)

    def _step(self, gm: fx.GraphModule, num_fwd_outputs: int, halves: Sequence[str] = ()) -> tuple[Step, fx.GraphModule]:
        module = prepare(gm, num_fwd_outputs, halves)
        return Step(module, num_fwd_outputs, self.cost), module

    def _limit(self, step: Step, best: int) -> Optional[int]:
        """Return the limit of what is not resident, in bytes."""
        size, share = parse(self.limit)
        if share is not None:
            return int(share * best)
        return None if size is None else max(size - self.states - _resident(step), 1)

    def _below(self, gm: fx.GraphModule, num_fwd_outputs: int, limit: int, best: int) -> tuple[Step, fx.GraphModule, Plan, Optional[str]]:
        """Plan below a limit. Dropouts are in two where their products run again, and one kernel elsewhere."""
        names = [n.name for n in dropouts(prepare(gm, num_fwd_outputs).graph)]
        step, module = self._step(gm, num_fwd_outputs, names)
        found, warning = self._search(step, limit, best)
        if names and found.steps is not None:
            again = {step.kernels[s].name for s in found.steps if s != step.boundary and found.steps.count(s) > 1}
            few = [n for n in names if product(n) in again]
            if len(few) < len(names):
                other, other_module = self._step(gm, num_fwd_outputs, few)
                joined = plan(other.problem(), found.limit_bytes or limit, self.effort)
                if joined.feasible:
                    return other, other_module, replace(joined, seconds=joined.seconds + found.seconds), warning
        return step, module, found, warning

    def _search(self, step: Step, limit: int, best: int) -> tuple[Plan, Optional[str]]:
        """Return a plan below the limit, else the smallest that is found, with a text that says so."""
        problem = step.problem()
        found = plan(problem, limit, self.effort)
        if found.feasible:
            return found, None
        proven = found.feasible is False
        least, seconds = None, found.seconds
        low, high = limit, best
        for _ in range(6):
            middle = (low + high) // 2
            tried = plan(problem, middle, self.effort)
            seconds += tried.seconds
            if tried.feasible:
                assert tried.peak_bytes is not None
                least, high = tried, min(middle, tried.peak_bytes)
            else:
                low = middle
        if least is None:
            least = plan(problem, None, self.effort)
        why = "is impossible for this step" if proven else "was not met: no plan was found"
        text = f"a limit of {_size(limit)} {why}; {_size(least.peak_bytes or 0)} is used{_outputs(step)}"
        if self.strict:
            raise LimitError(text)
        return replace(least, seconds=seconds), text


@dataclass
class PlannedStep:
    """A prepared joint graph with its plan."""

    step: Step
    module: fx.GraphModule
    steps: list[int]
    report: Report


def _resident(step: Step) -> int:
    return sum(t["bytes"] for t in step.tensors if t.get("resident"))


def _outputs(step: Step) -> str:
    """Say what no plan can do without, if that is much: the results, which are mostly gradients."""
    size = sum(t["bytes"] for t in step.tensors if t.get("output") and not t.get("resident"))
    return f" (results and gradients alone take {_size(size)})"


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
