"""Packing recorded runs in the background: in this process by libonnxmem, or by the command ``onnxmem``."""

from __future__ import annotations

import importlib.util
import os
import queue
import sys
import threading
import warnings
import weakref

from ._core import Block, Core
from ._library import OUTSIDE

#: This variable names another libonnxmem, as for the package onnxmem.
VARIABLE = "ONNXMEM_LIBRARY"

#: Offsets are multiples of this: ONNX Runtime's kernels expect it.
ALIGNMENT = 64


def planner() -> str | None:
    """Return the path of libonnxmem, or None where there is none.

    It is what ONNXMEM_LIBRARY names, or a file of the package onnxmem, which is not imported for that.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return os.path.abspath(named)
    found = importlib.util.find_spec("onnxmem")
    name = {"win32": "onnxmem.dll", "darwin": "libonnxmem.dylib"}.get(sys.platform, "libonnxmem.so")
    file = os.path.join(os.path.dirname(found.origin), name) if found is not None and found.origin else ""
    return file if os.path.isfile(file) else None


def pack(core: Core, plan: int) -> None:
    """Pack the blocks of a plan, and replace its offsets."""
    library = planner()
    try:
        if library is not None and core.pack(plan, library):
            return
    except OSError as e:
        if os.environ.get(VARIABLE):  # else the command does the same work, as where there is no library
            warnings.warn(f"onnxmem_ort: the command packs, since what {VARIABLE} names cannot be loaded: {e}", RuntimeWarning, stacklevel=1)
    import onnxmem  # 3 MiB that a session does not need otherwise

    blocks = core.blocks(plan)
    last = 1 + max((max(b.begin, b.end or 0) for b in blocks), default=0)
    inside = [(i, b) for i, b in enumerate(blocks) if core.outputs or b.end is not None]
    if not inside:
        return
    placed = onnxmem.pack(_buffers(inside, last))
    offsets = [OUTSIDE] * len(blocks)
    for buffer in placed["placed"]:
        offsets[int(buffer["id"])] = buffer["offset"]
    core.place(plan, offsets, placed["arena_bytes"], placed["lower_bound_bytes"])


def _buffers(blocks: list[tuple[int, Block]], last: int) -> list[dict[str, object]]:
    return [
        {
            "id": str(i),
            "lower": b.begin,
            "upper": last if b.end is None else b.end,
            "size": -(-b.size // ALIGNMENT) * ALIGNMENT,
            "alignment": ALIGNMENT,
        }
        for i, b in blocks
    ]


_Tasks = queue.Queue[tuple["weakref.ref[Core]", int]]


class Packer:
    """One thread of the process that packs, one plan after another."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin without a thread, as in a child of fork."""
        self._lock = threading.Lock()
        self._tasks: _Tasks = queue.Queue()
        self._thread: threading.Thread | None = None

    def put(self, core: Core, plan: int) -> None:
        """Pack a plan some time. The thread does not keep the session alive."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, args=(self._tasks,), name="onnxmem-pack", daemon=True)
                self._thread.start()
            core.packing(+1)
            self._tasks.put((weakref.ref(core), plan))

    def _work(self, tasks: _Tasks) -> None:
        while True:
            reference, plan = tasks.get()
            core = reference()
            try:
                if core is not None:
                    pack(core, plan)
            except Exception as e:
                # The plan keeps its first placement, and the thread goes on.
                warnings.warn(f"onnxmem_ort: a recorded run is not packed: {e}", RuntimeWarning, stacklevel=1)
            finally:
                if core is not None:
                    core.packing(-1)
                del core


packer = Packer()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=packer.reset)
