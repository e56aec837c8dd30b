"""Pictures for notebooks: loads over the steps of a training step, and curves of cost."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

#: Width, height, and the room for labels at the left, the bottom, the right and the top, in pixels.
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _RIGHT, _TOP = 720, 300, 64, 36, 130, 14
_COLORS = ("#c0392b", "#2471a3", "#1e8449", "#7d3c98", "#b9770e")

#: The name of a line and its points, each x and y from 0 on.
Line = tuple[str, Sequence[tuple[float, float]]]


def picture(lines: Sequence[Line], across: str, up: str, marks: Sequence[tuple[float, str]] = (), low: float = 0.0) -> str:
    """Draw lines as SVG. x runs from low to 1, y to the largest; marks are vertical lines with their names."""
    top = max((y for _, points in lines for _, y in points), default=0) or 1
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(value: float) -> float:
        return _LEFT + wide * (value - low) / (1 - low)

    def y(value: float) -> float:
        return _TOP + high * (1 - value / top)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="11">']
    for k in range(5):
        level = top * k / 4
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + wide}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(level) + 4:.1f}" text-anchor="end">{level:,.4g}</text>')
    for at, name in marks:
        parts.append(f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{_TOP}" y2="{_TOP + high}" stroke="#999" stroke-dasharray="3"/>')
        parts.append(f'<text x="{x(at) + 3:.1f}" y="{_TOP + 9}" fill="#666">{escape(name)}</text>')
    for k, (name, points) in enumerate(lines):
        color = _COLORS[k % len(_COLORS)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in thin(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts.append(f'<text x="{_LEFT + wide + 8}" y="{_TOP + 12 + 16 * k}" fill="{color}">{escape(name)}</text>')
    parts.append(f'<text x="{_LEFT + wide / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(across)}</text>')
    parts.append(f'<text x="12" y="{_TOP + high / 2:.0f}" text-anchor="middle" transform="rotate(-90 12 {_TOP + high / 2:.0f})">{escape(up)}</text>')
    return "".join([*parts, "</svg>"])


def thin(points: Sequence[tuple[float, float]], most: int = 800) -> list[tuple[float, float]]:
    """Return at most about so many points; of each stretch the highest and the lowest stay."""
    if len(points) <= most:
        return list(points)
    width = -(-2 * len(points) // most)
    kept: list[tuple[float, float]] = []
    for k in range(0, len(points), width):
        part = points[k : k + width]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return kept


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML; all columns but the first are numbers."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:{"left" if k == 0 else "right"}">{escape(c)}</{tag}>' for k, c in enumerate(cells)) + "</tr>"

    return "<table>" + row(head, "th") + "".join(row(r, "td") for r in rows) + "</table>"


def lines_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines of text."""
    widths = [max(len(r[k]) for r in [head, *rows]) for k in range(len(head))]
    return ["  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(r, widths))).rstrip() for r in [head, *rows]]


def size(count: float) -> str:
    """Return bytes in the unit that is easiest to read."""
    if count < 2**20:
        return f"{count / 2**10:,.1f} KiB"
    return f"{count / 2**20:,.0f} MiB" if count < 10 * 2**30 else f"{count / 2**30:,.1f} GiB"


def mib(count: float) -> str:
    """Return bytes in MiB, for sizes that are compared."""
    return f"{count / 2**20:,.1f} MiB"
