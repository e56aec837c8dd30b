"""Packing what streams have recorded, in the background, by the command ``onnxmem``."""

from __future__ import annotations

import ctypes
import gzip
import os
import tempfile
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from onnxmem._command import call

from ._library import NEVER

#: Sizes are rounded up to this, as in PyTorch's own allocator.
ALIGNMENT = 512


class _Due(NamedTuple):
    """A recording to be packed: of a kind of iterations of a stream."""

    stream: int
    kind: int
    #: Whether it is to be packed even if no two iterations are equal.
    last: bool


class Packer:
    """The thread that packs what is due. One waits for it by ``wait``."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._done = threading.Condition()
        #: The recording of each stream that was packed last, gzipped.
        self.recordings: dict[int, bytes] = {}
        wakes, self._notify = os.pipe()
        os.set_blocking(self._notify, False)
        library.onnxmem_torch_notify(self._notify)
        threading.Thread(target=self._work, args=(wakes,), name="onnxmem-pack", daemon=True).start()
        os.register_at_fork(after_in_child=self._after_fork)

    def wait(self, timeout: float | None) -> bool:
        """Wait until nothing is due; False after so many seconds."""
        with self._done:
            return self._done.wait_for(lambda: self._due() is None, timeout)

    def _after_fork(self) -> None:
        """Nobody packs in the child: CUDA cannot be used there."""
        self._library.onnxmem_torch_notify(-1)

    def _due(self) -> _Due | None:
        kind, last = ctypes.c_uint64(), ctypes.c_int()
        stream = int(self._library.onnxmem_torch_due(ctypes.byref(kind), ctypes.byref(last)))
        return None if stream < 0 else _Due(stream, kind.value, bool(last.value))

    def _work(self, wakes: int) -> None:
        while os.read(wakes, 4096):
            while due := self._due():
                table, iterations = None, 1
                try:
                    table, iterations = self._pack(due)
                except Exception as e:
                    warnings.warn(f"onnxmem_torch: what stream {due.stream} has recorded is not packed: {e}", RuntimeWarning, stacklevel=1)
                self._take(due, table, iterations)
                with self._done:
                    self._done.notify_all()

    def _take(self, due: _Due, table: str | None, iterations: int) -> None:
        """Give a stream its plan."""
        error = ctypes.create_string_buffer(256)
        text = None if table is None else table.encode("ascii")
        if not self._library.onnxmem_torch_take(due.stream, due.kind, text, iterations, error, len(error)):
            warnings.warn(f"onnxmem_torch: replay table: {error.value.decode()}", RuntimeWarning, stacklevel=1)

    def _pack(self, due: _Due) -> tuple[str | None, int]:
        """Return the table of a stream's iteration, and for how many iterations it is; None if nothing repeats yet."""
        recording = gzip.compress(self._lines(due).encode(), 1, mtime=0)
        with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
            table = Path(folder, "table")
            line = ["pack", "--trace=-", "--to=replay", f"--out={table}", "--json"]
            found: Mapping[str, Any] = call(line, recording).result or {}
            repeats = found["period_found"] == "period" or found["period_found"] == "marks" and (due.last or found["period_repeats"] > 1)
            if not repeats or not found["buffers"]:
                return None, 1
            self.recordings[due.stream] = recording
            return table.read_text(encoding="ascii"), int(found["period_unrolled"])

    def _lines(self, due: _Due) -> str:
        """Return what a stream has recorded as JSON lines for ``onnxmem pack --trace``."""
        blocks, marks = ctypes.c_uint32(), ctypes.c_uint32()
        self._library.onnxmem_torch_recorded(due.stream, due.kind, None, None, None, ctypes.byref(blocks), None, ctypes.byref(marks))
        sizes, begins, ends = ((kind * blocks.value)() for kind in (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32))
        marked = (ctypes.c_uint32 * marks.value)()
        room, marks_room = blocks.value, marks.value
        self._library.onnxmem_torch_recorded(due.stream, due.kind, sizes, begins, ends, ctypes.byref(blocks), marked, ctypes.byref(marks))
        events: list[tuple[int, int, str]] = [(-1, 0, f'{{"alignment": {ALIGNMENT}}}\n')]
        for i in range(min(room, blocks.value)):
            events.append((begins[i], 1, f'{{"alloc": {i}, "size": {sizes[i]}}}\n'))
            if ends[i] != NEVER:
                events.append((ends[i], 1, f'{{"free": {i}}}\n'))
        for i in range(min(marks_room, marks.value)):
            events.append((marked[i], 0, '{"mark": "run"}\n'))
        # The iteration that goes on must not be taken for one.
        end = marked[marks_room - 1] if due.last and marks_room else NEVER
        return "".join(line for _, _, line in sorted((e for e in events if e[0] < end), key=lambda e: e[:2]))
