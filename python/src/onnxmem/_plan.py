"""Plans, and models with their plans."""

from __future__ import annotations

import base64
import html
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._command import call
from ._record import Record

if TYPE_CHECKING:
    import onnx  # type: ignore[import-not-found, unused-ignore]


class Plan(Record):
    """A plan: the order of a model's nodes, and the place of every tensor.

    It is the content of ``out.plan.json``, with the keys of docs/formats/plan.md:
    ``plan.summary.arena_bytes``, ``plan.buffers[0].offset``. A notebook shows it as a
    picture.
    """

    def svg(self) -> str:
        """Return the picture: the load over the steps, and the arena as a map."""
        return call(["report", "-", "--svg", "-o", "-"], json.dumps(self).encode(), data=True).stdout.decode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a file that the command reads."""
        Path(path).write_text(json.dumps(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        # In a page, the styles of an SVG would apply to everything else on it: it is
        # embedded as an image.
        image = base64.b64encode(self.svg().encode()).decode()
        text = html.escape(f"{_bytes(self['summary']['arena_bytes'])} in the arena, {self['summary']['nodes']} nodes")
        return f'<img style="max-width:100%" alt="{text}" src="data:image/svg+xml;base64,{image}">'

    def __repr__(self) -> str:
        s = self.get("summary", {})
        return f"<Plan: {s.get('nodes')} nodes, arena {s.get('arena_bytes')} B, lower bound {s.get('lower_bound_bytes')} B>"


@dataclass(repr=False)
class Planned:
    """A planned model and its plan."""

    plan: Plan
    #: What ``optimize --json`` prints: the summary of the plan, times, and more.
    summary: Record
    #: What the command warned of, such as a dimension that was taken as 1.
    warnings: list[str]
    #: The file of the planned model; None if it is only in memory.
    path: Path | None = None
    #: The file of the plan.
    plan_path: Path | None = None
    _model: bytes | None = field(default=None)

    @property
    def model(self) -> bytes:
        """The planned model, as the bytes of an ONNX file.

        External data stay where they are: a location in it is relative to the folder
        of the planned file, or of the source if there is no such file.
        """
        if self._model is None:
            if self.path is None:
                raise ValueError("no model was written: expected out, or no frontier or max_batch")
            return self.path.read_bytes()
        return self._model

    def proto(self) -> onnx.ModelProto:
        """Return the planned model as a message of the package onnx, which this needs."""
        import onnx

        return onnx.ModelProto.FromString(self.model)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, and the plan beside it, as the command does."""
        Path(path).write_bytes(self.model)
        self.plan.save(plan_path(path))

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()

    def __repr__(self) -> str:
        return f"<Planned: {self.plan!r}, {len(self.warnings)} warnings>"


def plan_path(model: str | os.PathLike[str]) -> Path:
    """Return where the command keeps the plan of a planned model."""
    return Path(os.fspath(model).removesuffix(".onnx") + ".plan.json")


def _bytes(n: Any) -> str:
    """Return a size for people, in binary units."""
    size = float(n)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
