"""The native library: where it is, and how it is called."""

from __future__ import annotations

import ctypes
import os
import sys
import threading

import onnxruntime

#: This variable names another library, such as one that was built from source.
VARIABLE = "ONNXMEM_ORT_LIBRARY"

#: The first version whose Python package lets a library register an allocator. Before,
#: it had an environment apart from the one that the C interface knows.
OLDEST = (1, 23)

#: What stands for the end of a block that outlives its run, and for the offset of a
#: block outside of the arena.
NEVER = 2**32 - 1
OUTSIDE = 2**64 - 1


class Figures(ctypes.Structure):
    """struct onnxmem_memory."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "arena_bytes",
            "live_peak_bytes",
            "lower_bound_bytes",
            "plan_bytes",
            "output_bytes",
            "scratch_bytes",
            "weights_bytes",
            "fallback_bytes",
            "hits",
            "misses",
            "recorded",
            "runs",
            "plans",
            "packed_plans",
            "enforced",
            "merged",
            "covered",
            "unplanned",
            "held_bytes",
            "left_alone",
            "given_back",
        )
    ]


def path() -> str:
    """Return the path of the native library."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    name = {"win32": "onnxmem_ort.dll", "darwin": "libonnxmem_ort.dylib"}.get(sys.platform, "libonnxmem_ort.so")
    return os.path.join(os.path.dirname(__file__), name)


_lock = threading.Lock()
_library: ctypes.CDLL | None = None
_reason: str | None = None


def library() -> ctypes.CDLL:
    """Return the library, after ONNX Runtime has taken its allocator.

    RuntimeError says why it has not: it is too old, or the program has registered an
    allocator of its own.
    """
    global _library, _reason
    with _lock:
        if _library is None and _reason is None:
            _library, _reason = _load()
        if _library is None:
            raise RuntimeError(f"onnxmem_ort: {_reason}")
        return _library


def _load() -> tuple[ctypes.CDLL | None, str | None]:
    file = path()
    if not os.path.exists(file):
        return None, f"{file}: not found: install onnxmem-ort again, or name its library in {VARIABLE}"
    version = tuple(int(n) for n in onnxruntime.__version__.split(".")[:2])
    if version < OLDEST:
        return None, f"ONNX Runtime {onnxruntime.__version__} keeps its environment to itself in Python: expected {OLDEST[0]}.{OLDEST[1]} or later"
    lib = ctypes.CDLL(file)
    handle, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    u32s, u64s = ctypes.POINTER(u32), ctypes.POINTER(u64)
    for name, result, arguments in (
        ("onnxmem_status", ctypes.c_char_p, []),
        ("onnxmem_session_new", handle, [u32, ctypes.c_int]),
        ("onnxmem_session_small", None, [handle, u64]),
        ("onnxmem_session_close", None, [handle]),
        ("onnxmem_making", None, [handle]),
        ("onnxmem_run_begin", None, [handle, u64]),
        ("onnxmem_run_end", u64, [ctypes.c_int]),
        ("onnxmem_blocks", u32, [handle, u64, u64s, u32s, u32s, u32]),
        ("onnxmem_offsets", u32, [handle, u64, u64s, u32]),
        ("onnxmem_place", ctypes.c_int, [handle, u64, u64s, u32, u64, u64]),
        ("onnxmem_pack_plan", ctypes.c_int, [handle, u64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]),
        ("onnxmem_load", ctypes.c_int, [handle, u64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]),
        ("onnxmem_plans", u32, [handle, u64s, u32]),
        ("onnxmem_give_back", None, [handle]),
        ("onnxmem_memory_of", None, [handle, ctypes.POINTER(Figures)]),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    try:
        # The library registers its allocator when it is loaded as one of operators.
        onnxruntime.SessionOptions().register_custom_ops_library(file)
    except Exception as e:
        return None, str(e)
    status = lib.onnxmem_status().decode()
    return (None, status) if status else (lib, None)
