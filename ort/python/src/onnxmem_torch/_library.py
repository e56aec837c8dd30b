"""The native library: where it is, and how it is called."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

#: This variable names another library, such as one that was built from source.
VARIABLE = "ONNXMEM_ORT_LIBRARY"

#: This variable names another driver, such as one for tests.
DRIVER = "ONNXMEM_LIBCUDA"

#: What stands for the free of a block that is not freed.
NEVER = 2**32 - 1


class Figures(ctypes.Structure):
    """struct onnxmem_torch_memory."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "arena_bytes",
            "plan_bytes",
            "lower_bound_bytes",
            "live_peak_bytes",
            "outside_bytes",
            "fallback_bytes",
            "captured_bytes",
            "driver_bytes",
            "driver_peak_bytes",
            "hits",
            "misses",
            "recorded",
            "iterations",
            "plans",
        )
    ]


def path() -> Path:
    """Return the path of the native library, which is that of onnxmem_ort."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(__file__).parent.with_name("onnxmem_ort") / "libonnxmem_ort.so"


def load() -> ctypes.CDLL:
    """Return the library with the driver opened; RuntimeError says why that cannot be."""
    if sys.platform != "linux":
        raise RuntimeError(f"onnxmem_torch: expected Linux, found {sys.platform}: PyTorch takes other allocators only there")
    file = path()
    if not file.exists():
        raise RuntimeError(f"onnxmem_torch: {file}: not found: install onnxmem-ort again, or name its library in {VARIABLE}")
    lib = ctypes.CDLL(str(file))
    handle, text, u32, u64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64
    u32s, u64s, integer = ctypes.POINTER(u32), ctypes.POINTER(u64), ctypes.c_int
    for name, result, arguments in (
        ("onnxmem_torch_open", integer, [text, text, ctypes.c_size_t]),
        ("onnxmem_torch_malloc", handle, [ctypes.c_size_t, integer, handle]),
        ("onnxmem_torch_free", None, [handle, ctypes.c_size_t, integer, handle]),
        ("onnxmem_torch_record_stream", None, [handle, handle]),
        ("onnxmem_torch_trim", None, []),
        ("onnxmem_torch_mark", None, [u64]),
        ("onnxmem_torch_streams", u32, []),
        ("onnxmem_torch_stream", integer, [u32, ctypes.POINTER(integer), u64s, ctypes.POINTER(Figures)]),
        ("onnxmem_torch_peak", u64, []),
        ("onnxmem_torch_notify", None, [integer]),
        ("onnxmem_torch_due", ctypes.c_int64, [u64s, ctypes.POINTER(integer)]),
        ("onnxmem_torch_recorded", None, [u32, u64, u64s, u32s, u32s, u32s, u32s, u32s]),
        ("onnxmem_torch_take", integer, [u32, u64, text, u32, text, ctypes.c_size_t]),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    error = ctypes.create_string_buffer(512)
    named = os.environ.get(DRIVER)
    if not lib.onnxmem_torch_open(named.encode() if named else None, error, len(error)):
        raise RuntimeError(f"onnxmem_torch: {error.value.decode()}")
    return lib
