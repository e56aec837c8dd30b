"""What Inductor's code holds beside its kernels' own account, within the peak of their order.

Where a buffer is freed, Inductor may hold it for one of the same size that is allocated later,
as long as its estimate of the peak allows. That estimate takes for an input's size what a
reader reads, which may be more, and knows neither what the caller holds nor that a
concatenation is there from its first part on, so that more would be held than the kernels need.

And on a processor it writes kernels that follow each other as one function, before which all
their buffers are allocated, and behind which they are freed. Here each has its own.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Optional

from torch._inductor.codegen import wrapper
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.segmented_tree import SegmentedTree
from torch._inductor.virtualized import V

#: What is noted on a graph that is lowered under this name is its peak in bytes, with what is live at each kernel, if that is known.
_PEAK = "onnxmem_peak"


class _Estimate(wrapper.EfficientPeakEstimate):
    def __init__(self) -> None:
        super().__init__()
        estimate: Any = self
        peak, loads = getattr(V.graph, _PEAK, (None, None))
        if peak is not None:
            estimate.overall_peak_memory = min(estimate.overall_peak_memory, peak)
        if loads is not None:
            if len(loads) != len(V.graph.scheduler.nodes):  # another pass has changed the kernels: nothing is held
                loads, estimate.overall_peak_memory = [0] * len(V.graph.scheduler.nodes), -1
            estimate.segmented_tree = SegmentedTree(loads, operator.add, max, 0)


_ready = CppScheduling.ready_to_flush


def _ready_to_flush(self: CppScheduling) -> bool:
    return hasattr(V.graph, _PEAK) or bool(_ready(self))


def within(peak: int, loads: Optional[Sequence[int]] = None) -> None:
    """Let the code of the graph that is lowered need no more than a peak in bytes.

    loads are the bytes that are live at each kernel, in the order that the code has.
    """
    setattr(V.graph, _PEAK, (peak, loads))
    wrapper.EfficientPeakEstimate = _Estimate
    CppScheduling.ready_to_flush = _ready_to_flush
