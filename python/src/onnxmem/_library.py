"""The planner in this process: libonnxmem by ctypes."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from ._errors import ENDED, FORKED, NotInstalled, Variable, error_of

#: This variable names another library, such as one from ``make lib``.
VARIABLE = "ONNXMEM_LIBRARY"
_NAMED = Variable(VARIABLE)

_I64 = ctypes.POINTER(ctypes.c_int64)
_I32 = ctypes.POINTER(ctypes.c_int32)
_U8 = ctypes.POINTER(ctypes.c_uint8)


class Options(ctypes.Structure):
    """onnxmem_options."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("effort", ctypes.c_int32),
        ("replay", ctypes.c_int32),
        ("time_limit", ctypes.c_int64),
        ("cancel", _I32),
    )


class Buffers(ctypes.Structure):
    """onnxmem_buffers."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("count", ctypes.c_size_t),
        *((name, _I64) for name in ("lower", "upper", "size")),
        ("common_alignment", ctypes.c_int64),
        *((name, _I64) for name in ("alignment", "fixed", "hint", "gap_begin", "gap_lower", "gap_upper", "gap_from", "gap_to")),
        ("pool_count", ctypes.c_size_t),
        ("pool_capacity", _I64),
        ("pool", _I32),
    )


class Packed(ctypes.Structure):
    """onnxmem_packed."""

    _fields_ = (
        ("arena", ctypes.c_int64),
        ("bound", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("proven", "fits", "ended", "reserved")),
    )


class Graph(ctypes.Structure):
    """onnxmem_graph."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("node_count", ctypes.c_size_t),
        ("tensor_count", ctypes.c_size_t),
        ("workspace", _I64),
        ("cost", _I64),
        ("once", _U8),
        ("write_begin", _I64),
        ("write", _I32),
        ("size", _I64),
        ("producer", _I32),
        ("consumer_begin", _I64),
        ("consumer", _I32),
        ("output", _U8),
        ("resident", _U8),
        ("reuse_begin", _I64),
        ("reuse", _I32),
        ("parent", _I32),
        ("offset", _I64),
    )


class Certificate(ctypes.Structure):
    """onnxmem_certificate."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("bytes", ctypes.c_int64),
        ("node_count", ctypes.c_size_t),
        ("nodes", _I32),
    )


class Ordered(ctypes.Structure):
    """onnxmem_ordered."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("peak", "program_peak", "bound")),
        ("proven", ctypes.c_int32),
        ("ended", ctypes.c_int32),
        ("certificate_count", ctypes.c_size_t),
        ("certificates", ctypes.POINTER(Certificate)),
    )


class Goal(ctypes.Structure):
    """onnxmem_goal."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("bytes", ctypes.c_int64),
        ("percent", ctypes.c_double),
        ("host_link", ctypes.c_int64),
        ("no_recompute", ctypes.c_int32),
        ("least", ctypes.c_int32),
    )


class Swap(ctypes.Structure):
    """onnxmem_swap."""

    _fields_ = tuple((name, ctypes.c_int32) for name in ("tensor", "out", "into", "reserved"))


class Limited(ctypes.Structure):
    """onnxmem_limited."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("limit", "peak", "bound", "best_order")),
        ("extra_percent", ctypes.c_double),
        ("extra_at_least", ctypes.c_double),
        ("feasible", ctypes.c_int32),
        ("ended", ctypes.c_int32),
        ("step_count", ctypes.c_size_t),
        ("swap_count", ctypes.c_size_t),
        ("steps", _I32),
        ("swaps", ctypes.POINTER(Swap)),
    )


_loaded: ctypes.CDLL | None = None
_missing = False  # it was looked for
_unusable = ""  # why the named one cannot be loaded
_loading = False
_forked = False


def _in_child() -> None:
    global _loaded, _forked
    if _loaded is not None or _loading:
        _loaded, _forked = None, True


if hasattr(os, "register_at_fork"):
    # Go's threads stay in the parent: a child drives the command.
    os.register_at_fork(after_in_child=_in_child)


def library() -> ctypes.CDLL | None:
    """Return the library, or None where there is none: then the command does the work.

    It is the file that the environment variable ONNXMEM_LIBRARY names, else the one in this
    package, which some wheels have. NotInstalled says that the named one cannot be loaded, each
    time; of the other, a warning.
    """
    global _loaded, _missing, _unusable, _loading, _forked
    if _unusable:
        raise NotInstalled(_unusable)
    if _loaded is not None or _missing or _forked:
        return _loaded
    name = {"win32": "onnxmem.dll", "darwin": "libonnxmem.dylib"}.get(sys.platform, "libonnxmem.so")
    named = _NAMED.value()
    path = named or os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    if not named and not os.path.isfile(path):
        _missing = True
        return None
    try:
        _loading = True  # a child of a fork by another thread has half of it
        _loaded = ctypes.CDLL(os.path.abspath(path))
        _loaded.onnxmem_version.restype = ctypes.c_char_p
        _loaded.onnxmem_free.restype = None
        _loaded.onnxmem_free.argtypes = (ctypes.c_void_p,)
        if not _loaded.onnxmem_version().startswith(b"0.1."):
            raise OSError(f"version {_loaded.onnxmem_version().decode()}: expected 0.1")
        if _loaded.onnxmem_pack(*[None] * 7, ctypes.c_size_t(0)) == FORKED:  # the host loaded it before a fork
            _loaded, _forked = None, True
    except (OSError, AttributeError) as e:
        _loaded, _missing = None, True
        if named:
            _unusable = f"{path}, which {VARIABLE} names: {e}"
            raise NotInstalled(_unusable) from e
        warnings.warn(f"onnxmem: the command does the work of the library, which cannot be loaded: {e}", RuntimeWarning, stacklevel=4)
    finally:
        _loading = False
    return _loaded


#: A search that takes no longer holds up Ctrl-C no longer.
_QUICK = 5_000_000

#: The most nodes or tensors that the library takes.
MOST_NODES = 1 << 24

#: The most seconds of a search: an int64 of nanoseconds holds no more than these.
MOST_SECONDS = 9e9

EFFORTS = {"default": 0, "fast": 1, "max": 2}


def options(effort: str, time_limit: float | None) -> Options:
    """Return the options of a call; time_limit is in seconds."""
    if effort not in EFFORTS:
        raise ValueError(f"effort {effort!r}: expected one of {', '.join(EFFORTS)}")
    if time_limit is not None and not 0 < time_limit <= MOST_SECONDS:
        raise ValueError(f"time_limit: expected above 0 and at most {MOST_SECONDS:.0f} seconds, found {time_limit}")
    return Options(ctypes.sizeof(Options), EFFORTS[effort], 0, 0 if time_limit is None else max(int(time_limit * 1e9), 1), None)


def missing(what: str) -> str:
    """Say why the library is not here, which something needs."""
    if _forked:
        return f"libonnxmem cannot be called in a forked child, and {what} need it: call it before the fork, or start processes anew (spawn)"
    return f"no libonnxmem beside this package, which {what} need: name one in {VARIABLE}"


def call(function: Callable[[Options, Any, int], int], effort: str, time_limit: float | None, ended: Callable[[], bool], long: bool) -> None:
    """Call a function of the library with options and a place for its error.

    ctypes lets other threads of Python run meanwhile. In the main thread, a signal such as
    Ctrl-C waits for the end of a call. So a search is ended soon, and then runs again, whole,
    in a thread for which the main thread waits; ended says whether that is needed. long says
    that it is not worth a try.
    """
    given = options(effort, time_limit)
    limit = given.time_limit
    text = ctypes.create_string_buffer(1000)
    if threading.current_thread() is not threading.main_thread():
        _check(function(given, text, len(text)), text)
        return
    if limit == 0 and not long:
        given.time_limit = _QUICK
        status = function(given, text, len(text))
        if not (status == 0 and ended()) and status != ENDED:
            _check(status, text)
            return
        given.time_limit = 0
    flag = ctypes.c_int32(0)
    given.cancel = ctypes.pointer(flag)
    result: list[int] = []
    thread = threading.Thread(target=lambda: result.append(function(given, text, len(text))), name="onnxmem", daemon=True)
    thread.start()
    stopped: BaseException | None = None
    while thread.is_alive():  # until then, the arrays are the library's, whatever comes
        try:
            thread.join(1)
        except BaseException as e:
            stopped = stopped or e
            flag.value = 1
    if stopped is not None:
        raise stopped
    _check(result[0], text)


def _check(status: int, text: ctypes.Array[ctypes.c_char]) -> None:
    if status != 0:
        raise error_of(status)(text.value.decode(errors="replace"), status)
