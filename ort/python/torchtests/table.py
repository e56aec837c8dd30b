"""The table of peaks that docs/results/torch-compile.md has."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A network below a limit: sizes are bytes, times per cent of the step's."""

    network: str
    limit: str
    met: bool
    best: int
    planned: int
    measured: int
    blocks: int
    repeated: int
    extra: float
    bound: float | None


_HEAD = """| network | limit | best order, KiB | planned | measured | with workspaces | kernels again | extra time, % | bound |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""


def table(rows: list[Row]) -> str:
    """Return the rows, smallest peaks that are above their limits with a tilde."""
    return _HEAD + "".join(_line(r) for r in rows)


def _line(r: Row) -> str:
    sizes = " | ".join(f"{size / 1024:,.0f}" for size in (r.best, r.planned, r.measured, r.blocks))
    bound = "" if r.bound is None else f"{r.bound:.2f}"
    return f"| {r.network} | {'' if r.met else '~'}{r.limit} | {sizes} | {r.repeated} | {r.extra:.2f} | {bound} |\n"
