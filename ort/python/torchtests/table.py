"""The tables of docs/results/torch-networks.md."""

from dataclasses import dataclass

from onnxmem_torch._limit import Report

from .memory import Measured


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
_ROUNDED = """| network | limit | largest difference |
| --- | ---: | ---: |
"""


def table(rows: list[Row]) -> str:
    """Return the rows; where the smallest plan is above the limit, with > if no plan can meet it, and with ? if none was found."""
    return _HEAD + "".join(_line(r) for r in rows)


def rounded(rows: list[tuple[str, str, float]]) -> str:
    """Return networks, limits and differences as a table."""
    return _ROUNDED + "".join(f"| {network} | {limit} | {distance:.1e} |\n" for network, limit, distance in rows)


def _line(row: Row) -> str:
    r = row.report
    sizes = " | ".join(f"{size / 1024:,.0f}" for size in (r.best_peak_bytes, r.peak_bytes, row.measured.tensors, row.measured.blocks))
    bound = "" if r.extra_bound_percent is None else f"{r.extra_bound_percent:.2f}"
    missed = "" if r.warning is None else "> " if "is impossible" in r.warning else "? "
    limit = missed + row.limit
    return f"| {row.network} | {limit} | {sizes} | {r.repeated} | {r.extra_percent:.2f} | {bound} | {row.bits} |\n"
