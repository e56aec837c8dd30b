"""The partitioner: a joint graph and a limit in, the graphs of the forward and the backward pass out."""

from __future__ import annotations

import gc
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional, Union

import torch
import torch._functorch.config
from torch import fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from ._again import Exceeded
from ._curve import mib
from ._keep import keep_all
from ._limit import Limit, LimitError, PlanWarning, Report, parse, parse_extra
from ._lowering import Lowering, mark, marked
from ._planner import planner
from ._plans import PlannedStep, Plans
from ._rebuild import hand_over, order, split
from ._shapes import unread
from ._step import Unsupported
from ._updates import Updates, lower

Cost = Callable[[fx.Node], float]


#: The graphs of the forward and the backward pass.
Parts = tuple[fx.GraphModule, fx.GraphModule]


class Partitioner(CustomPartitionerFn):
    """Plans each joint graph of forward and backward below a limit.

        p = onnxmem_torch.Partitioner("60%")
        torch.compile(model, options={"custom_partitioner_fn": p, **onnxmem_torch.inductor_pass(partitioner=p).options()})

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
        #: Bytes of the limit that plans leave to kernels which need more than was planned.
        self.spare = 0
        #: How many plans of the graph were tried before.
        self._attempt = 0
        #: Whether another plan may be tried where kernels need more than the limit.
        self._again = False
        self._kept_key: Optional[bytes] = None
        #: What was planned, graph by graph.
        self.reports: list[Report] = []
        #: Planned graphs on their way through Inductor, by the number that is noted on them.
        self._lowerings: dict[int, Lowering] = {}
        self._warned: set[str] = set()
        self._frames: set[Any] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "updates": None, "gradients": None, "reports": [], "_lowerings": {}, "_warned": set(), "_frames": set(), "_kept_key": None}

    def uuid(self) -> bytes:
        """Return what makes a plan: Inductor keeps compiled graphs under it."""
        if self._kept_key is not None:
            return self._kept_key
        inside = None if self.updates is None else self.updates.key()
        return _hash(repr((inside, self.extra, self.limit, self.states, self.effort, self.strict, _key(self.cost), planner())))

    @contextmanager
    def one_key(self) -> Iterator[None]:
        """Have one key for all plans of a graph: only the last of them is compiled to its end, and kept."""
        self._kept_key = _hash(f"again {self.uuid().hex()}")
        try:
            yield
        finally:
            self._kept_key = None

    @contextmanager
    def leaving(self, spare: int, attempt: int, last: bool) -> Iterator[None]:
        """Plan so that spare bytes of the limit are left, as one of several attempts.

        Unless it is the last, kernels that exceed the limit raise Exceeded, and the plan is forgotten.
        """
        count = len(self.reports)
        self.spare, self._attempt, self._again = spare, attempt, not last
        try:
            yield
            for r in self.reports[count:]:  # one pass may be from a cache
                self._exceeds(r)
        except Exception:
            if not last:
                del self.reports[count:]
            raise
        finally:
            self.spare, self._attempt, self._again = 0, 0, False

    def _exceeds(self, report: Report) -> None:
        """Raise Exceeded for kernels above the limit if another plan may be tried."""
        limit, needed = report.limit_bytes, report.kernels_bytes
        if self._again and limit is not None and needed is not None and needed > limit and not report.warning:
            raise Exceeded(needed, report.peak_bytes, limit)

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
            if _region(gm):
                raise Unsupported("a region that is compiled once for several calls is planned by none of them")
            with _without_collections():
                parts, report = self._planned(gm, joint_inputs, compiler, num_fwd_outputs, static_lifetime_input_indices)
        except LimitError:
            raise
        except Exception as e:
            if self.strict or self.spare:
                raise
            what = str(e) if isinstance(e, Unsupported) else f"{type(e).__name__}: {e}"
            self._warn(f"{what}: PyTorch's min-cut partitions this graph", what)
            return _min_cut(gm, joint_inputs, compiler, num_fwd_outputs, static_lifetime_input_indices)
        self.reports.append(report)
        if compiler == "inductor":
            lowering = Lowering(parts[0], parts[1], num_fwd_outputs)
            lowering.report, lowering.attempt = report, self._attempt
            mark(len(self._lowerings), lowering, *parts)
            self._lowerings[len(self._lowerings)] = lowering
        if report.warning:
            self._warn(f"{report.warning}, and is used", "limit")
        self._count()
        self._look()
        return parts

    def lowering(self, graph: fx.Graph) -> Optional[Lowering]:
        """Return the partition that a graph which Inductor lowers is of; None if it was not planned."""
        number = marked(graph)
        return None if number is None else self._lowerings.get(number)

    def lowered(self, lowering: Lowering) -> None:
        """Report what Inductor's kernels need, by its account, as far as they are known.

        If that is above the limit, raise Exceeded where another plan may be tried; else warn, or
        raise LimitError if strict was asked for. Either pass
        is compared by itself, too: the other one may come from Inductor's cache.
        """
        before = lowering.report
        assert before is not None
        needed = lowering.needed()
        report = lowering.report = replace(before, kernels_bytes=needed)
        self.reports[:] = [report if r is before else r for r in self.reports]
        if report.limit_bytes and needed > report.limit_bytes and not report.warning:
            if self._again:
                if lowering.backward_bytes is not None:  # else that of the backward pass follows, or is in a cache
                    self._exceeds(report)
                return
            text = f"Inductor's kernels need {mib(needed)}, above the limit of {mib(report.limit_bytes)}, by its own account"
            text = f"{text}; the plan has {mib(report.peak_bytes)}"
            if self.strict:
                raise LimitError(text)
            if needed > (before.kernels_bytes or 0):
                self._warn(text, "kernels" if lowering.backward_bytes is None else "all kernels")

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
                f"parameters have gradients already, of {mib(size)}, which the plan does not count: "
                "accumulate=True does, and zero_grad() before the first step frees them",
                "gradients",
            )

    def plan(self, gm: fx.GraphModule, num_fwd_outputs: int) -> PlannedStep:
        """Return a graph's plan of operators below the limit; LimitError if there is none and strict was asked for."""
        return Plans(self, gm, num_fwd_outputs).operators(halves=True)

    def _planned(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], compiler: str, num_fwd_outputs: int, static: Optional[list[int]]
    ) -> tuple[Parts, Report]:
        """Return a partition of the graph by a plan."""
        if compiler == "inductor":
            unread(gm.graph)
        plans = Plans(self, gm, num_fwd_outputs, compiler == "inductor")
        if compiler == "inductor" and self.updates is not None:
            lower()
        if compiler == "inductor" and self.cost is None:
            with torch._functorch.config.patch(activation_memory_budget=1.0):
                parts = _min_cut(gm, joint_inputs, compiler, num_fwd_outputs, static)  # the plans have a copy of the graph
            try:
                kernels = plans.kernels(*parts)
            except Unsupported:
                kernels = None
            if kernels is not None:
                return parts if kernels.graph is None else split(gm, kernels.step, kernels.graph, static), kernels.report
        # Inductor has no kernel for a half, and draws by seeds, which may be done again.
        planned = plans.operators(halves=compiler != "inductor")
        graph = order(planned.step, planned.steps)
        if compiler == "inductor" and plans.limit is not None:  # which no fused kernels meet
            keep_all(graph.graph, graph.backward)
        hand_over(graph, plans.copies)
        return split(gm, planned.step, graph, static), planned.report


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collect no garbage: all that planning makes is in use until its end, and to look through all of PyTorch takes long."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _region(gm: fx.GraphModule) -> bool:
    """Whether a graph is that of a region within another (``torch.compiler.nested_compile_region``).

    AOTAutograd describes the results of each graph that it traces; for a region it writes a
    graph anew, without descriptions.
    """
    return "desc" not in gm.graph.output_node().meta


def _min_cut(
    gm: fx.GraphModule, joint_inputs: Sequence[object], compiler: str, num_fwd_outputs: int, static: Optional[list[int]]
) -> Parts:
    """Partition a graph as PyTorch does."""
    from functorch.compile import min_cut_rematerialization_partition

    parts: Parts = min_cut_rematerialization_partition(
        gm,
        joint_inputs,
        compiler=compiler or "inductor",
        num_fwd_outputs=num_fwd_outputs,
        static_lifetime_input_indices=static,
    )
    return parts


def _key(cost: Optional[Cost]) -> str:
    """Return what tells a function from others: its code, and what it has from where it was made."""
    code = getattr(cost, "__code__", None)
    if code is None:
        return repr(cost)
    names = ("__module__", "__qualname__", "__defaults__", "__kwdefaults__", "__self__")
    cells = [c.cell_contents for c in getattr(cost, "__closure__", None) or ()]
    return repr((code.co_code, code.co_names, code.co_consts, cells, [getattr(cost, name, None) for name in names]))


def _hash(text: str) -> bytes:
    """Return the hash of a text and of the files of this package."""
    folder = Path(__file__).parent
    digest = hashlib.sha256(text.encode())
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            digest.update((folder / name).read_bytes())
    return digest.digest()
