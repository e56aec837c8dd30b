"""ONNX Runtime by its C API: sessions that take every block of memory from this module."""

import ctypes
import importlib.util
import pathlib

import numpy as np
from onnx import helper

_API_VERSION = 18  # of the oldest header with all functions below

# Positions in struct OrtApi, which later headers only extend (onnxruntime_c_api.h).
_AT = {
    "GetErrorMessage": 2,
    "CreateEnv": 3,
    "CreateSessionFromArray": 8,
    "Run": 9,
    "CreateSessionOptions": 10,
    "DisableMemPattern": 17,
    "DisableCpuMemArena": 19,
    "SetSessionGraphOptimizationLevel": 23,
    "SetIntraOpNumThreads": 24,
    "CreateTensorWithDataAsOrtValue": 49,
    "GetTensorMutableData": 51,
    "GetTensorElementType": 60,
    "GetDimensionsCount": 61,
    "GetDimensions": 62,
    "GetTensorTypeAndShape": 65,
    "CreateCpuMemoryInfo": 69,
    "ReleaseStatus": 93,
    "ReleaseSession": 95,
    "ReleaseValue": 96,
    "ReleaseTensorTypeAndShapeInfo": 99,
    "ReleaseSessionOptions": 100,
    "AddSessionConfigEntry": 130,
    "RegisterAllocator": 176,
}
_SEVERITY_FATAL, _DEVICE_ALLOCATOR, _DEFAULT_MEMORY, _NO_OPTIMIZATION = 4, 0, 0, 0

_pointer = ctypes.c_void_p
_Alloc = ctypes.CFUNCTYPE(_pointer, _pointer, ctypes.c_size_t)
_Free = ctypes.CFUNCTYPE(None, _pointer, _pointer)
_Info = ctypes.CFUNCTYPE(_pointer, _pointer)


class _Allocator(ctypes.Structure):
    """struct OrtAllocator, with room for the functions of later headers."""

    _fields_ = [("version", ctypes.c_uint32), ("alloc", _Alloc), ("free", _Free), ("info", _Info), ("reserve", _Alloc), ("later", _pointer * 8)]


class Runtime:
    """The runtime of the installed wheel. events lists what the last run allocated, as (bytes, address), and freed, as (None, address)."""

    def __init__(self):
        folder = pathlib.Path(importlib.util.find_spec("onnxruntime").origin).parent / "capi"
        library = ctypes.CDLL(str(next(folder.glob("libonnxruntime.so*"))))
        library.OrtGetApiBase.restype = _pointer
        base = ctypes.cast(library.OrtGetApiBase(), ctypes.POINTER(_pointer))
        self._api = ctypes.cast(ctypes.CFUNCTYPE(_pointer, ctypes.c_uint32)(base[0])(_API_VERSION), ctypes.POINTER(_pointer))
        self._libc = ctypes.CDLL(None)
        self._libc.aligned_alloc.restype, self._libc.aligned_alloc.argtypes = _pointer, [ctypes.c_size_t, ctypes.c_size_t]
        self._libc.free.argtypes = [_pointer]
        self.events, self._running, self._force, self._users = [], False, None, {}
        self._env, self._info = _pointer(), _pointer()
        self._call("CreateEnv", ctypes.c_int(_SEVERITY_FATAL), b"onnxmem", ctypes.byref(self._env))
        self._call("CreateCpuMemoryInfo", ctypes.c_int(_DEVICE_ALLOCATOR), ctypes.c_int(_DEFAULT_MEMORY), ctypes.byref(self._info))
        self._ours = _Allocator(_API_VERSION, _Alloc(self._alloc), _Free(self._free), _Info(lambda _: self._info.value), _Alloc(self._alloc))
        self._call("RegisterAllocator", self._env, ctypes.byref(self._ours))

    def run(self, model, feeds, outputs, force=None, threads=1):
        """Return the outputs of a run as bytes. The model's optimizations are off, and so are the runtime's patterns and arena.

        force: the bytes of a block that the run asks for after its first one: the first such gets the address of the first.
        """
        options, session = _pointer(), _pointer()
        self._call("CreateSessionOptions", ctypes.byref(options))
        self._call("SetSessionGraphOptimizationLevel", options, ctypes.c_int(_NO_OPTIMIZATION))
        self._call("DisableMemPattern", options)
        self._call("DisableCpuMemArena", options)
        self._call("SetIntraOpNumThreads", options, ctypes.c_int(threads))
        self._call("AddSessionConfigEntry", options, b"session.use_env_allocators", b"1")
        text = model.SerializeToString()
        values = []
        try:
            self._call("CreateSessionFromArray", self._env, text, ctypes.c_size_t(len(text)), options, ctypes.byref(session))
            for array in feeds.values():
                value, shape = _pointer(), (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
                dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
                self._call("CreateTensorWithDataAsOrtValue", self._info, _pointer(array.ctypes.data), ctypes.c_size_t(array.nbytes), shape, ctypes.c_size_t(array.ndim), ctypes.c_int(dtype), ctypes.byref(value))
                values.append(value)
            return self._run(session, feeds, values, outputs, force)
        finally:
            for value in values:
                self._release("ReleaseValue", value)
            if session:
                self._release("ReleaseSession", session)
            self._release("ReleaseSessionOptions", options)

    def _run(self, session, feeds, values, outputs, force):
        made = (_pointer * len(outputs))()
        given = (_pointer * max(1, len(values)))(*[v.value for v in values])
        names = (ctypes.c_char_p * max(1, len(values)))(*[name.encode() for name in feeds])
        wanted = (ctypes.c_char_p * len(outputs))(*[name.encode() for name in outputs])
        self.events, self._force, self._running = [], force, True
        try:
            self._call("Run", session, _pointer(), names, given, ctypes.c_size_t(len(values)), wanted, ctypes.c_size_t(len(outputs)), made)
        finally:
            self._running = False
        results = [self._content(_pointer(value)) for value in made]
        for value in made:
            self._release("ReleaseValue", _pointer(value))
        return results

    def _content(self, value):
        """Return the elements of a tensor as bytes."""
        kind, rank, dtype, data = _pointer(), ctypes.c_size_t(), ctypes.c_int(), _pointer()
        self._call("GetTensorTypeAndShape", value, ctypes.byref(kind))
        self._call("GetDimensionsCount", kind, ctypes.byref(rank))
        shape = (ctypes.c_int64 * max(1, rank.value))()
        self._call("GetDimensions", kind, shape, rank)
        self._call("GetTensorElementType", kind, ctypes.byref(dtype))
        self._release("ReleaseTensorTypeAndShapeInfo", kind)
        self._call("GetTensorMutableData", value, ctypes.byref(data))
        count = int(np.prod(shape[: rank.value], dtype=np.int64))
        return ctypes.string_at(data.value, count * helper.tensor_dtype_to_np_dtype(dtype.value).itemsize) if count else b""

    def _alloc(self, _, size):
        if not size:
            return None
        if self._running and self.events and size == self._force:
            at, self._force = self.events[0][1], None
        else:
            at = self._libc.aligned_alloc(64, (size + 63) // 64 * 64)
        self._users[at] = self._users.get(at, 0) + 1
        if self._running:
            self.events.append((size, at))
        return at

    def _free(self, _, at):
        if not at:
            return
        if self._running:
            self.events.append((None, at))
        self._users[at] -= 1
        if not self._users[at]:
            del self._users[at]
            self._libc.free(at)

    def _call(self, name, *args):
        status = ctypes.CFUNCTYPE(_pointer)(self._api[_AT[name]])
        status.argtypes = None
        if failed := status(*args):
            text = ctypes.CFUNCTYPE(ctypes.c_char_p, _pointer)(self._api[_AT["GetErrorMessage"]])(failed).decode()
            self._release("ReleaseStatus", _pointer(failed))
            raise RuntimeError(text)

    def _release(self, name, value):
        ctypes.CFUNCTYPE(None, _pointer)(self._api[_AT[name]])(value)
