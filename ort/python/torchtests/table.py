"""The tables of docs/results/torch-networks.md."""

from dataclasses import dataclass
from typing import Optional

from onnxmem_torch._limit import Report

from .memory import Measured


@dataclass(frozen=True)
class Rounded:
    """A network below a limit, run by Inductor's kernels.

    distance is the largest difference from eager PyTorch; beside is that of min-cut's partition,
    if it was compiled, too. measured is what the profiler sees of a step. seconds are the processor's, for planning and Inductor, without C++.
    """

    network: str
    limit: str
    report: Report
    distance: float
    beside: Optional[float]
    measured: Measured
    seconds: float


@dataclass(frozen=True)
class Row:
    """A network below a limit, run by PyTorch's own kernels. bits: whose bits it has."""

    network: str
    limit: str
    report: Report
    measured: Measured
    bits: str


_HEAD = """| network | limit | best order, KiB | planned | measured | with workspaces | kernels again | extra time, % | bound | bits |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""
_ROUNDED = """| network | limit | limit, KiB | planned | Inductor's kernels | measured | extra time, % | bound | compilation, s |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""


def table(rows: list[Row]) -> str:
    """Return the rows; where the smallest plan is above the limit, with > if no plan can meet it, and with ? if none was found."""
    return _HEAD + "".join(_line(r) for r in rows)


def rounded(rows: list[Rounded]) -> str:
    """Return rows of Inductor as two tables: differences by limit, and memory and time; where its kernels need more than the limit, with + before it."""
    return _differences(rows) + "\n" + _ROUNDED + "".join(_rounded(r) for r in rows)


def _differences(rows: list[Rounded]) -> str:
    """Return a line for each network, with the largest difference below each limit."""
    limits = list(dict.fromkeys(r.limit for r in rows))
    lines = [["network", *limits, "of min-cut"], ["---", *["---:" for _ in limits], "---:"]]
    for name in dict.fromkeys(r.network for r in rows):
        found = {r.limit: r for r in rows if r.network == name}
        beside = next((r.beside for r in found.values() if r.beside is not None), None)
        lines.append([name, *(f"{found[x].distance:.1e}" if x in found else "" for x in limits), "" if beside is None else f"{beside:.1e}"])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _rounded(row: Rounded) -> str:
    r = row.report
    above = "+ " if r.warning is None and (r.kernels_bytes or 0) > (r.limit_bytes or 0) else ""
    sizes = " | ".join("" if size is None else f"{size / 1024:,.0f}" for size in (r.limit_bytes, r.peak_bytes, r.kernels_bytes, row.measured.tensors))
    bound = "" if r.extra_bound_percent is None else f"{r.extra_bound_percent:.2f}"
    return f"| {row.network} | {_missed(r)}{above}{row.limit} | {sizes} | {r.extra_percent:.2f} | {bound} | {row.seconds:.0f} |\n"


def _missed(report: Report) -> str:
    return "" if report.warning is None else "> " if "is impossible" in report.warning else "? "


def _line(row: Row) -> str:
    r = row.report
    sizes = " | ".join(f"{size / 1024:,.0f}" for size in (r.best_peak_bytes, r.peak_bytes, row.measured.tensors, row.measured.blocks))
    bound = "" if r.extra_bound_percent is None else f"{r.extra_bound_percent:.2f}"
    limit = _missed(r) + row.limit
    return f"| {row.network} | {limit} | {sizes} | {r.repeated} | {r.extra_percent:.2f} | {bound} | {row.bits} |\n"
