"""One session of the native library."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ._library import NEVER, OUTSIDE, Figures, library


_NOT_LOADED, _FORKED = -1, 4  # ONNXMEM_NOT_LOADED and ONNXMEM_FORKED


class Block(NamedTuple):
    """A block of a recorded run: it lives from one position of the stream to another."""

    size: int
    begin: int
    #: None if the block outlives the run.
    end: int | None
    #: Its place in the arena; None if it is outside.
    offset: int | None = None


class Core:
    """A session of the native library. It is closed with the last reference to it."""

    def __init__(self, plans: int, outputs: bool, small: int = 0) -> None:
        #: Whether blocks that outlive a run are in the arena, too.
        self.outputs = outputs
        #: When its memory is to be given back, and whether somebody waits for that.
        self.idle_at = 0.0
        self.watched = False
        self._unpacked = 0
        self._packed = threading.Condition()
        _cores.add(self)
        self._library = library()
        self._handle: int = self._library.onnxmem_session_new(plans, int(outputs))
        if not self._handle:
            raise MemoryError("onnxmem_ort: no memory for a session")
        self._library.onnxmem_session_small(self._handle, small)
        weakref.finalize(self, self._library.onnxmem_session_close, self._handle).atexit = False

    @contextmanager
    def making(self) -> Iterator[None]:
        """What this thread allocates meanwhile are weights."""
        self._library.onnxmem_making(self._handle)
        try:
            yield
        finally:
            self._library.onnxmem_making(None)

    def begin(self, key: int) -> None:
        """Begin a run on this thread; key 0 stands for unknown shapes."""
        self._library.onnxmem_run_begin(self._handle, key)

    def end(self, completed: bool) -> int:
        """End the run that this thread began last; return the number of a plan to be packed, or 0."""
        return int(self._library.onnxmem_run_end(int(completed)))

    def plans(self) -> list[int]:
        """Return the numbers of the plans, the one used last first."""
        room = self._library.onnxmem_plans(self._handle, None, 0)
        numbers = (ctypes.c_uint64 * room)()
        return list(numbers[: min(room, self._library.onnxmem_plans(self._handle, numbers, room))])

    def blocks(self, plan: int) -> list[Block]:
        """Return the blocks from which a plan was made; none if the plan is gone."""
        room = self._library.onnxmem_blocks(self._handle, plan, None, None, None, 0)
        sizes, begins, ends = (ctypes.c_uint64 * room)(), (ctypes.c_uint32 * room)(), (ctypes.c_uint32 * room)()
        offsets = (ctypes.c_uint64 * room)()
        if self._library.onnxmem_blocks(self._handle, plan, sizes, begins, ends, room) != room or self._library.onnxmem_offsets(self._handle, plan, offsets, room) != room:
            return []
        return [Block(s, b, None if e == NEVER else e, None if o == OUTSIDE else o) for s, b, e, o in zip(sizes, begins, ends, offsets)]

    def place(self, plan: int, offsets: list[int], arena_bytes: int, lower_bound_bytes: int) -> bool:
        """Replace the offsets of a plan; False if it is gone."""
        numbers = (ctypes.c_uint64 * len(offsets))(*offsets)
        return bool(self._library.onnxmem_place(self._handle, plan, numbers, len(offsets), arena_bytes, lower_bound_bytes))

    def pack(self, plan: int, library: str) -> bool:
        """Pack a plan by libonnxmem; False in a fork, where it cannot. OSError says why it cannot be loaded."""
        error = ctypes.create_string_buffer(1000)
        status = int(self._library.onnxmem_pack_plan(self._handle, plan, os.fsencode(library), error, len(error)))
        reason = f"libonnxmem: {error.value.decode(errors='replace')}"
        if status == _NOT_LOADED:
            raise OSError(reason)
        if status not in (0, _FORKED):
            raise RuntimeError(reason)
        return status == 0

    def packing(self, more: int) -> None:
        """Count the plans that wait to be packed."""
        with self._packed:
            self._unpacked += more
            self._packed.notify_all()

    def wait(self, timeout: float | None) -> bool:
        """Wait until no plan waits to be packed; False after so many seconds."""
        with self._packed:
            return self._packed.wait_for(lambda: self._unpacked == 0, timeout)

    def load(self, key: int, table: str) -> None:
        """Add a plan from a table of ``onnxmem pack --to replay``."""
        error = ctypes.create_string_buffer(256)
        if not self._library.onnxmem_load(self._handle, key, table.encode(), error, len(error)):
            raise ValueError(f"replay table: {error.value.decode()}")

    def give_back(self) -> None:
        """Give the memory of the arena back to the system, unless a run uses it."""
        self._library.onnxmem_give_back(self._handle)

    def figures(self) -> dict[str, int]:
        """Return what the session has taken."""
        figures = Figures()
        self._library.onnxmem_memory_of(self._handle, ctypes.byref(figures))
        return {str(name): int(getattr(figures, str(name))) for name, *_ in Figures._fields_}


_cores: weakref.WeakSet[Core] = weakref.WeakSet()


def _after_fork() -> None:
    """Nobody packs in the child what the parent began to pack."""
    for core in list(_cores):
        core.watched = False
        core._unpacked = 0
        core._packed = threading.Condition()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
