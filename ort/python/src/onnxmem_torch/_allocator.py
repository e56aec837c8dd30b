"""PyTorch's allocator on CUDA, and what it has taken."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, cast

from onnxmem._command import call

from ._library import Figures, load, path
from ._pack import Packer


class Memory(TypedDict):
    """What has been taken, in bytes; the counts are those of all allocations."""

    #: The arena.
    arena_bytes: int
    #: What the plan of this kind of iterations needs of it.
    plan_bytes: int
    #: No placement of the plan's blocks needs less.
    lower_bound_bytes: int
    #: The most that lived in the arena at one time, each block rounded up.
    live_peak_bytes: int
    #: What lives outside of it: weights, states of the optimizer, misses.
    outside_bytes: int
    #: The most that misses took at one time.
    fallback_bytes: int
    #: What was allocated while a stream was captured into a CUDA graph; it is kept.
    captured_bytes: int
    #: All that is taken from the driver, and the most that was.
    driver_bytes: int
    driver_peak_bytes: int
    #: Blocks that were at their places in the arena.
    hits: int
    #: Blocks that had a plan, but came from the driver.
    misses: int
    #: Blocks of a stream without a plan.
    recorded: int
    #: Iterations that were replayed.
    iterations: int
    #: Plans that there have been.
    plans: int


class StreamMemory(Memory):
    """What a stream has taken."""

    device: int
    #: CUDA's handle of the stream; 0 is the default stream.
    stream: int


class _State:
    """What install has made: the library, the thread that packs, and PyTorch's object."""

    def __init__(self) -> None:
        self.library = load()
        self.packer = Packer(self.library)
        self.allocator: Any = None


_lock = threading.Lock()
_state: _State | None = None


def _installed() -> _State:
    if _state is None:
        raise RuntimeError("onnxmem_torch: expected a call of install() before")
    return _state


def install() -> None:
    """Make PyTorch take its memory on CUDA from packed arenas.

    This must be before the first use of CUDA. RuntimeError says what is missing: PyTorch
    with CUDA, the driver, a GPU; or that PyTorch has used its own allocator before.
    """
    global _state
    with _lock:
        if _state is not None:
            return
        try:
            import torch
        except ImportError as e:
            raise RuntimeError(f"onnxmem_torch: expected PyTorch: {e}") from e
        if torch.version.cuda is None:
            raise RuntimeError(f"onnxmem_torch: expected PyTorch with CUDA, found {torch.__version__}")
        state = _State()
        state.allocator = torch.cuda.memory.CUDAPluggableAllocator(str(path()), "onnxmem_torch_malloc", "onnxmem_torch_free")
        hooks = state.allocator.allocator()
        for hook, entry in (
            ("set_record_stream_fn", "onnxmem_torch_record_stream"),
            ("set_base_alloc_fn", "onnxmem_torch_base"),
            ("set_reset_fn", "onnxmem_torch_trim"),
        ):
            getattr(hooks, hook)(ctypes.cast(getattr(state.library, entry), ctypes.c_void_p).value)
        try:
            torch.cuda.memory.change_current_allocator(state.allocator)
        except RuntimeError as e:
            raise RuntimeError(f"onnxmem_torch: expected install() before the first use of CUDA: {e}") from e
        _state = state


@contextmanager
def iteration(kind: Hashable = None) -> Iterator[None]:
    """Say that an iteration begins; it lasts until the next one begins.

    Iterations that allocate otherwise, such as those with inputs of another shape, are of
    another kind, and have a plan of their own: ``iteration(x.shape)``, ``iteration("test")``.
    """
    _installed().library.onnxmem_torch_mark(hash(kind) % 2**64)
    yield


def streams() -> list[StreamMemory]:
    """Return what each stream has taken, in the order of first use."""
    library = _installed().library
    found: list[StreamMemory] = []
    for i in range(library.onnxmem_torch_streams()):
        device, stream, figures = ctypes.c_int(), ctypes.c_uint64(), Figures()
        library.onnxmem_torch_stream(i, ctypes.byref(device), ctypes.byref(stream), ctypes.byref(figures))
        values: dict[str, int] = {"device": device.value, "stream": stream.value}
        values.update((str(name), int(getattr(figures, str(name)))) for name, *_ in Figures._fields_)
        found.append(cast(StreamMemory, values))
    return found


def memory() -> Memory:
    """Return what all streams have taken; driver_peak_bytes is that of all at one time."""
    each = cast(list[dict[str, int]], streams())
    total = {name: sum(s[name] for s in each) for name in Memory.__annotations__}
    total["driver_peak_bytes"] = int(_installed().library.onnxmem_torch_peak())
    return cast(Memory, total)


def memory_stats() -> dict[str, int]:
    """Return memory(), and what is taken from the driver by the names of ``torch.cuda.memory_stats``.

    PyTorch's own function has no figures of an allocator from outside.
    """
    found = memory()
    reserved = {"reserved_bytes.all.current": found["driver_bytes"], "reserved_bytes.all.peak": found["driver_peak_bytes"]}
    return {**cast(dict[str, int], found), **reserved}


def wait(timeout: float | None = None) -> bool:
    """Wait until what was recorded is packed; False after so many seconds."""
    return _installed().packer.wait(timeout)


def trace(file: str | os.PathLike[str], stream: int | None = None) -> None:
    """Write the recording of a stream that was packed last, for ``onnxmem pack --trace FILE``.

    stream is its place in ``streams()``; by default, it is the one with the largest arena.
    The file is gzipped JSON lines.
    """
    recordings = _installed().packer.recordings
    if stream is None:
        each = streams()
        stream = max(recordings, key=lambda i: each[i]["plan_bytes"], default=None)
    if stream is None or stream not in recordings:
        raise ValueError("nothing is packed yet: expected some iterations, and wait()")
    Path(file).write_bytes(recordings[stream])


def report(file: str | os.PathLike[str] | None = None, stream: int | None = None) -> Path:
    """Draw the plan of a stream that was packed last; return the file of the page.

    Without a path, it is a temporary file that the browser opens. stream is as for
    ``trace``.
    """
    page = Path(file) if file is not None else Path(tempfile.mkdtemp(prefix="onnxmem-"), "report.html")
    with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
        recording = Path(folder, "stream.jsonl.gz")
        trace(recording, stream)
        call(["report", f"--trace={recording}", f"--out={page}", *(["--open"] if file is None else [])])
    return page
