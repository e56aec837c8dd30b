"""What a plan is asked for, and what was planned: limits, reports, warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from torch._dynamo.exc import ShortenTraceback

#: A largest peak: bytes, a text such as "20GiB", or a share such as "60%".
Limit = Union[None, int, str]


class PlanWarning(UserWarning):
    """A step runs, but not as it was asked for."""


class LimitError(ShortenTraceback):  # which torch.compile lets through as it is; a RuntimeError
    """No plan meets the limit, or Inductor's kernels do not, and strict was asked for."""

    def __init__(self, text: str) -> None:
        super().__init__(text, first_useful_frame=None)


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
    #: What Inductor's kernels need by its own account, with ``compile`` or ``inductor_pass``: those of
    #: the passes that were lowered, so not those from Inductor's cache. None of other backends, and before.
    kernels_bytes: Optional[int] = None
    #: Says by how much the plan misses the limit, and why; None if it meets it.
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
