"""Inductor's reuse of buffers, within the peak of its kernels.

Where a buffer is freed, Inductor may hold it for one of the same size that is allocated later,
as long as its estimate of the peak allows. That estimate takes for an input's size what a
reader reads, which may be more, so that more would be held than the kernels need. Here it is
at most the peak of the order that they have.
"""

from __future__ import annotations

from typing import Any

from torch._inductor.codegen import wrapper
from torch._inductor.virtualized import V

#: What is noted on a graph that is lowered under this name is its peak in bytes.
_PEAK = "onnxmem_peak"


class _Estimate(wrapper.EfficientPeakEstimate):
    def __init__(self) -> None:
        super().__init__()
        estimate: Any = self
        peak = getattr(V.graph, _PEAK, None)
        if peak is not None:
            estimate.overall_peak_memory = min(estimate.overall_peak_memory, peak)


def within(peak: int) -> None:
    """Let the graph that is lowered reuse buffers as far as that needs no more than a peak in bytes."""
    setattr(V.graph, _PEAK, peak)
    wrapper.EfficientPeakEstimate = _Estimate
