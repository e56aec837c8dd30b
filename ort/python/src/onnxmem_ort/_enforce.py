"""Planned models: what the runs of a session are measured against, and how they keep the plan."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import onnxmem
from onnxmem._command import call

from ._core import Block, Core
from ._pack import ALIGNMENT

#: The runtimes of ``optimize --runtime`` whose plans ONNX Runtime can keep.
RUNTIMES = ("onnxruntime-arena", "onnxruntime")


class NotKept(Exception):
    """A recorded run to which the plan does not apply; the text says why."""


class Planned:
    """A planned model: its file, and the plan beside it."""

    def __init__(self, model: Any) -> None:
        if not isinstance(model, (str, os.PathLike)):
            raise TypeError(f"arena='plan': expected the path of a planned model, found {type(model).__name__}")
        self.model = Path(os.fsdecode(model))
        file = Path(str(self.model).removesuffix(".onnx") + ".plan.json")
        try:
            plan = json.loads(file.read_bytes())
        except FileNotFoundError:
            raise ValueError(f"{file}: not found: expected the plan that onnxmem optimize writes beside {self.model.name}") from None
        except ValueError as e:
            raise ValueError(f"{file}: not a plan: {e}") from None
        if not isinstance(plan, dict) or plan.get("format") != "onnxmem/plan":
            raise ValueError(f"{file}: not a plan: expected a file of onnxmem optimize")
        runtime = plan.get("sharing", {}).get("runtime")
        if runtime not in RUNTIMES:
            raise ValueError(f"{file}: planned for {runtime or 'the runtime of onnxmem'}: expected a plan of optimize --runtime {RUNTIMES[0]}")
        #: Whether the nodes run in ONNX Runtime's own order, not in that of the file.
        self.traversal = "traversal" in plan
        self._inputs = {t: b["bytes"] for b in plan["buffers"] if b["kind"] == "input" for t in b["tensors"][:1]}
        #: Of a plan for ranges: the lengths of each dimension that has several.
        self._ranges = {name: d for name, d in plan["dims"].items() if "low" in d or "values" in d}

    def point(self, feed: Mapping[str, Any], shapes: Mapping[str, Sequence[Any]]) -> dict[str, int] | None:
        """Return the lengths of the dimensions that have several in the plan; None if the plan is not for these inputs.

        shapes are those that the model declares: a number, a name or None for each axis.
        """
        if not self._ranges:
            return {} if all(_nbytes(value) in (None, self._inputs.get(name)) for name, value in feed.items()) else None
        point: dict[str, int] = {}
        for name, value in feed.items():
            declared = shapes.get(name, ())
            lengths = _lengths(value)
            if lengths is None or len(lengths) != len(declared):
                continue
            for axis, (length, symbol) in enumerate(zip(lengths, declared)):
                for dim in (f"{name}[{axis}]", symbol):
                    if dim in self._ranges and point.setdefault(dim, length) != length:
                        return None
        if point.keys() != self._ranges.keys() or not all(_within(length, self._ranges[dim]) for dim, length in point.items()):
            return None
        return point

    def table(self, blocks: list[Block], outputs: bool, point: Mapping[str, int]) -> str:
        """Return the replay table of a recorded run, or raise NotKept. With outputs, results have places, too."""
        with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
            table = Path(folder, "table")
            line = ["pack", "--trace", "-", f"--model={self.model}", "--to=replay", f"--out={table}", "--json"]
            if outputs:
                line.append("--results")
            line += [f"--at={name}={length}" for name, length in point.items()]
            try:
                result: Mapping[str, Any] = call(line, lines(blocks).encode()).result or {}
            except onnxmem.Error as e:
                raise NotKept(str(e)) from e
            if result.get("draws_random_numbers"):
                raise NotKept("the model draws random numbers, so no two of its runs can be compared")
            return table.read_text(encoding="ascii")


def lines(blocks: list[Block]) -> str:
    """Return recorded blocks as JSON lines for ``onnxmem pack --trace``."""
    events: dict[int, dict[str, object]] = {}
    for i, block in enumerate(blocks):
        events[block.begin] = {"alloc": i, "size": block.size, "stream": 0}
        if block.offset is not None:
            events[block.begin]["offset"] = block.offset
        if block.end is not None:
            events[block.end] = {"free": i}
    return "".join(json.dumps(event) + "\n" for event in ({"mark": "run"}, *(events[at] for at in sorted(events))))


def rehearse(table: str, outputs: bool, key: int, run: Callable[[], Any], want: Any) -> None:
    """Run once more at the places of a table; raise NotKept unless the results are the same, bit for bit.

    The run has an arena of its own: no other run uses the places before they are tried.
    """
    core = Core(1, outputs)
    core.load(key, table)
    core.begin(key)
    completed = False
    try:
        got = run()
        completed = True
    except Exception as e:
        raise NotKept(f"a run at the places of the plan fails: {e}") from e
    finally:
        core.end(completed)
    misses = core.figures()["misses"]
    if misses:
        raise NotKept(f"{misses} blocks of a run at the places of the plan are not where they should be")
    if not same(want, got):
        raise NotKept("a run at the places of the plan has other results")


def same(a: Any, b: Any) -> bool:
    """Whether two results have the same bits."""
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "is_tensor"):
        return bool(a.is_tensor() and b.is_tensor()) and same(a.numpy(), b.numpy())
    if hasattr(a, "dtype"):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.hasobject:
            return bool(a.tolist() == b.tolist())
        # No copies of whole results: they would add to the memory that is to be saved.
        x, y = (memoryview(v.reshape(-1).view("uint8")) for v in (a, b))
        return all(x[i : i + _PART] == y[i : i + _PART] for i in range(0, len(x), _PART))
    return bool(a == b)


_PART = 1 << 20


def _within(length: int, dim: Mapping[str, Any]) -> bool:
    """Whether a dimension of a plan has a length."""
    if "values" in dim:
        return length in dim["values"]
    return bool(dim["low"] <= length <= dim["value"] and (length - dim["low"]) % dim.get("step", 1) == 0)


def _lengths(value: Any) -> Sequence[int] | None:
    """Return the shape of an array or an OrtValue; None if it has none."""
    shape = getattr(value, "shape", None)
    if callable(shape):
        return cast(Sequence[int], shape()) if value.is_tensor() else None
    return cast("Sequence[int] | None", shape)


def _nbytes(value: Any) -> int | None:
    """Return the size of an array or an OrtValue, rounded up; None if it has none."""
    if hasattr(value, "is_tensor"):
        value = value.numpy() if value.is_tensor() else None
    size = getattr(value, "nbytes", None)
    return None if size is None else -(-int(size) // ALIGNMENT) * ALIGNMENT
