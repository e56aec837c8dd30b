"""``frontier``: what limits cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import torch

from ._costs import Device, device_of, named
from ._curve import lines_of, picture, size, table
from ._fake import module_of
from ._limit import parse_extra
from ._planner import ordered
from ._problem import step_of
from ._step import Step
from ._trace import joint
from ._ways import Least, bound


@dataclass(frozen=True)
class Point:
    """What a limit costs."""

    #: Of the peak of the best order without recomputation, in per cent.
    percent: float
    #: Parameters, inputs and states apart.
    limit_bytes: int
    #: Over a step without recomputation, in per cent; None if no plan was found.
    extra_percent: Optional[float]
    #: No plan within the limit takes less, in any order; None if it is impossible.
    bound_percent: Optional[float]


@dataclass
class Frontier:
    """Limits of a training step, from the largest down, with their extra time."""

    title: str
    #: Of the best order without recomputation, which percentages are of.
    peak_bytes: int
    points: list[Point]
    #: The smallest peak that was found, and what bounds it.
    smallest: Point
    least: Least
    notes: list[str] = field(default_factory=list)

    def choice(self, extra: Union[str, float]) -> str:
        """Return the smallest limit, for ``compile``, whose extra time is at most extra, such as "10%" or 0.1."""
        most = parse_extra(extra) or 0.0
        fits = [p for p in [*self.points, self.smallest] if p.extra_percent is not None and p.extra_percent <= most]
        percent = min((p.percent for p in fits), default=100.0)
        return f"{percent:g}%"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = []
        for p in [*self.points, self.smallest]:
            extra = "none found" if p.extra_percent is None else f"{p.extra_percent:.2f} %"
            at_least = "impossible" if p.bound_percent is None else f"{p.bound_percent:.2f} %"
            rows.append([f"{p.percent:g} %", size(p.limit_bytes), extra, at_least])
        return ["limit", "", "extra time", "at least"], rows

    def __str__(self) -> str:
        return "\n".join([self.title, *("  " + line for line in lines_of(*self._table())), f"  {self.least}", *(f"  {n}" for n in self.notes)])

    def _repr_html_(self) -> str:
        from html import escape

        points = [p for p in [*self.points, self.smallest] if p.extra_percent is not None and p.percent <= 100]
        found = [(100 - p.percent, p.extra_percent or 0.0) for p in points]
        bounds = [(100 - p.percent, p.bound_percent or 0.0) for p in points]
        most = max((x for x, _ in found), default=0.0) or 1.0
        lines = [(name, [(0.0, 0.0), *((x / most, y) for x, y in line)]) for name, line in (("plan", found), ("no plan below", bounds))]
        across = f"memory saved, up to {most:.0f} % of the peak"
        parts = [f"<b>{escape(self.title)}</b>", table(*self._table()), picture(lines, across, "extra time, %")]
        return "".join([*parts, *(f"<p>{escape(text)}</p>" for text in [str(self.least), *self.notes])])


def frontier(
    model: Any,
    inputs: Any,
    *,
    kwargs: Optional[Mapping[str, Any]] = None,
    loss: Optional[Callable[[Any], torch.Tensor]] = None,
    device: Optional[Any] = None,
    effort: str = "fast",
    optimizer: Optional[Any] = None,
    on: Optional[str] = None,
) -> Frontier:
    """Return what limits of a training step's memory cost in time, and what they cost at least.

        costs = onnxmem_torch.frontier(model, (x, y))
        model = onnxmem_torch.compile(model, limit=costs.choice(extra="10%"), backend="aot_eager")

    Kernels are not fused; for Inductor, ``compile(extra="10%")`` chooses by those that are.
    The arguments are those of ``estimate``. Times are by the roofline of the device, or of
    the one that on names, such as "A100" (docs/torch-estimate.md lists them). With an
    optimizer, parameters are updated within the backward pass, as compile(optimizer=) does.
    """
    traced = joint(model, inputs, kwargs, loss=loss, training=True, device=device)
    step = step_of(traced, updates=None if optimizer is None else (optimizer, module_of(model)), on=on)
    result = ordered(step.problem(), "--frontier", "--least", f"--effort={effort}")
    best = result["best_order_peak_bytes"]
    if optimizer is not None:  # a percentage is of the step that leaves its gradients
        best = ordered(step_of(traced).problem(), f"--effort={effort}")["peak_bytes"]
    lowest = Point(_percent(result["peak_bytes"], best), result["peak_bytes"], result["extra_cost_percent"], result["extra_cost_lower_bound_percent"])
    points = [p for x in result["frontier"] if (p := _point(x, best)).extra_percent is not None or p.limit_bytes > lowest.limit_bytes]
    if points and points[-1].limit_bytes <= lowest.limit_bytes:  # a search for a limit may go below that for the smallest peak
        lowest = points.pop()
    title = f"{type(module_of(model)).__name__}: limits of a training step, of {size(best)}"
    notes = [f"times by the roofline of {_prices(device_of(step.graph) if on is None else named(on))}, each kernel by itself"]
    if traced.breaks:
        notes.append(f"as one graph; torch.compile breaks it: {traced.breaks}")
    return Frontier(title, best, points, lowest, bound(step, result["least"]), notes)


def _percent(count: int, best: int) -> float:
    """Return a share, rounded up to hundredths: a limit that a peak of so many bytes keeps."""
    return math.ceil(10000 * count / best) / 100


def _prices(d: Device) -> str:
    """Say what device times are those of."""
    return f"{d.name} ({d.flops / 1e12:g} TFLOP/s, {d.bytes / 1e9:g} GB/s)"


def _point(x: Mapping[str, Any], best: int) -> Point:
    return Point(_percent(x["limit_bytes"], best), x["limit_bytes"], x["extra_cost_percent"], x["extra_cost_lower_bound_percent"])
