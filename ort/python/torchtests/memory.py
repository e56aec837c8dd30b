"""The peak of what PyTorch allocates on the CPU, by the events of its profiler."""

import bisect
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

_NUMBER = 16  # bytes of the largest number, a complex one


@dataclass(frozen=True)
class Measured:
    """Peaks in bytes above what was there before.

    blocks: of all blocks. tensors: without the workspaces that operators take and free
    themselves, which no plan knows.
    """

    blocks: int
    tensors: int


def peaks(run: Callable[[], None]) -> Measured:
    """Return the peaks while something runs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events: list[dict[str, Any]] = json.loads(file.read_text())["traceEvents"]
    memory = sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: float(e["ts"]))
    inner = _workspaces(memory, _outermost(events))
    return Measured(_peak(memory), _peak([e for i, e in enumerate(memory) if i not in inner]))


def _peak(memory: list[dict[str, Any]]) -> int:
    load = peak = 0
    for e in memory:
        load += e["args"]["Bytes"]
        peak = max(peak, load)
    return peak


def _outermost(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return the times of the operators that no other operator calls."""
    calls = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "cpu_op" and e["name"].startswith("aten::")]
    spans: list[tuple[float, float]] = []
    for begin, end in sorted(calls, key=lambda c: (c[0], -c[1])):
        if not spans or begin >= spans[-1][1]:
            spans.append((begin, end))
    return spans


def _workspaces(memory: list[dict[str, Any]], spans: list[tuple[float, float]]) -> set[int]:
    """Return the events of blocks that an operator both takes and frees, and of numbers that were made tensors for it."""
    found: set[int] = set()
    live: dict[int, tuple[int, int, bool]] = {}
    begins = [begin for begin, _ in spans]
    for i, e in enumerate(memory):
        span = bisect.bisect_right(begins, e["ts"]) - 1
        inside = span >= 0 and e["ts"] <= spans[span][1]
        address = e["args"]["Addr"]
        if e["args"]["Bytes"] > 0:
            live[address] = i, span, inside
        elif address in live:
            first, where, within = live.pop(address)
            # A number is made a tensor just before the operator begins.
            number = not within and span == where + 1 and -e["args"]["Bytes"] <= _NUMBER
            if number or (within and inside and span == where):
                found |= {first, i}
    return found
