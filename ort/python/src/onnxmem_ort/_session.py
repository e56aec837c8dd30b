"""ONNX Runtime's session in a packed arena."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, cast

import onnxruntime
from onnxruntime.capi import onnxruntime_inference_collection as _collection

from ._core import Core
from ._pack import packer

#: How the memory of a session is planned.
Arena = Literal["auto", "record", "off"]

_Base: Any = onnxruntime.InferenceSession


class Memory(TypedDict):
    """What a session has taken, in bytes; the counts are those of all runs."""

    #: The arena, as it is mapped.
    arena_bytes: int
    #: Of the plan used last: the largest sum of live blocks in the arena.
    live_peak_bytes: int
    #: Of the plan used last: no placement of its blocks needs less.
    lower_bound_bytes: int
    #: Of the plan used last: the arena that it needs.
    plan_bytes: int
    #: Of the plan used last: results, which are the caller's and lie outside.
    output_bytes: int
    #: What was taken while the session was made, and lives.
    weights_bytes: int
    #: The most that misses took at one time.
    fallback_bytes: int
    #: Blocks that were at their places in the arena.
    hits: int
    #: Blocks that had a plan, but came from malloc.
    misses: int
    #: Blocks of runs without a plan: the first ones of their shapes.
    recorded: int
    runs: int
    plans: int
    #: Plans that the command has packed.
    packed_plans: int


class InferenceSession(_Base):  # type: ignore[misc]
    """onnxruntime.InferenceSession, whose runs take their memory from a packed arena.

    arena: "record" packs what the first run of each combination of input shapes
    allocates; "auto" does so if the library can be used, and warns otherwise; "off" is
    ONNX Runtime's own allocator.

    plans: how many combinations of shapes are kept; the one not used for longest goes.

    reuse: whether ONNX Runtime may also let tensors share blocks by its own rules
    (``enable_mem_reuse``): a block that is used again is live in between, so packing
    can do less. None leaves it as the options have it.

    release_outputs: the caller releases the results of a run before the next one, so
    that they lie in the arena, too. Results that are kept anyhow cost misses, no more.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        *args: Any,
        arena: Arena = "auto",
        plans: int = 16,
        reuse: bool | None = False,
        release_outputs: bool = False,
        **kwargs: Any,
    ) -> None:
        if arena not in ("auto", "record", "off"):
            raise ValueError(f"arena {arena!r}: expected 'auto', 'record' or 'off'")
        self._core: Core | None = None
        if arena != "off":
            self._core = _core(arena, plans, release_outputs)
        if self._core is None:
            super().__init__(path_or_bytes, sess_options, providers, *args, **kwargs)
            return
        options = sess_options if sess_options is not None else onnxruntime.SessionOptions()
        with _Settings(options, reuse), self._core.making():
            super().__init__(path_or_bytes, options, providers, *args, **kwargs)

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        return self._planned(_key(input_feed, output_names), lambda: _Base.run(self, output_names, input_feed, run_options))

    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> Any:
        key = _key(input_dict_ort_values, output_names)
        return self._planned(key, lambda: _Base.run_with_ort_values(self, output_names, input_dict_ort_values, run_options))

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> Any:
        # What is bound is not known here: the plan is chosen by the sizes of the blocks.
        return self._planned(0, lambda: _Base.run_with_iobinding(self, iobinding, run_options))

    @property
    def memory(self) -> Memory:
        """What the session has taken; all 0 with arena="off"."""
        figures = self._core.figures() if self._core is not None else {}
        return cast(Memory, {name: figures.get(name, 0) for name in Memory.__annotations__})

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all recorded runs are packed; False after so many seconds."""
        return self._core is None or self._core.wait(timeout)

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write what the plan used last was made from, as JSON lines for ``onnxmem pack --trace``."""
        plans = self._core.plans() if self._core is not None else []
        if self._core is None or not plans:
            raise ValueError("nothing is recorded: expected a run before")
        events: dict[int, dict[str, object]] = {}
        for i, block in enumerate(self._core.blocks(plans[0])):
            events[block.begin] = {"alloc": i, "size": block.size, "stream": 0}
            if block.end is not None:
                events[block.end] = {"free": i}
        with open(path, "w", encoding="utf-8") as f:
            for event in ({"mark": "run"}, *(events[at] for at in sorted(events))):
                f.write(json.dumps(event) + "\n")

    def replay(self, table: str | os.PathLike[str], input_feed: Any, output_names: Any = None) -> None:
        """Take a table of ``onnxmem pack --to replay`` for runs with the shapes of some inputs."""
        if self._core is None:
            raise ValueError("the session has no arena")
        with open(table, encoding="utf-8") as f:
            self._core.load(_key(input_feed, output_names), f.read())

    def _planned(self, key: int, run: Callable[[], Any]) -> Any:
        core = self._core
        if core is None:
            return run()
        core.begin(key)
        completed = False
        try:
            result = run()
            completed = True
            return result
        finally:
            plan = core.end(completed)
            if plan:
                packer.put(core, plan)


def _core(arena: Arena, plans: int, outputs: bool) -> Core | None:
    """Return a session of the library; None if "auto" does without."""
    try:
        return Core(plans, outputs)
    except RuntimeError as e:
        if arena != "auto":
            raise
        warnings.warn(f"{e}: ONNX Runtime's own allocator is used", RuntimeWarning, stacklevel=3)
        return None


#: Sessions with this entry use the allocator of the process: ours.
_SHARED = "session.use_env_allocators"


class _Settings:
    """The settings of a session in an arena, for as long as it is made.

    Options belong to the caller, who may use them for other sessions.
    """

    def __init__(self, options: Any, reuse: bool | None) -> None:
        self._options = options
        # ONNX Runtime's own arena would take large blocks from ours, and its patterns
        # one block for a whole run.
        self._values: dict[str, bool] = {"enable_cpu_mem_arena": False, "enable_mem_pattern": False}
        if reuse is not None:
            self._values["enable_mem_reuse"] = reuse

    def __enter__(self) -> None:
        self._before = {name: getattr(self._options, name) for name in self._values}
        self._set(self._values)
        # This entry stays: ONNX Runtime cannot remove it. A plain session with the same
        # options then takes its memory from malloc.
        if not _has_entry(self._options, _SHARED):
            self._options.add_session_config_entry(_SHARED, "1")

    def __exit__(self, *_: object) -> None:
        self._set(self._before)

    def _set(self, values: Mapping[str, bool]) -> None:
        for name, value in values.items():
            setattr(self._options, name, value)


def _has_entry(options: Any, name: str) -> bool:
    try:
        return bool(options.get_session_config_entry(name) == "1")
    except RuntimeError:  # there is none
        return False


def _key(feed: Any, names: Any) -> int:
    """Return a number for the shapes and types of inputs, and for the outputs asked for; not 0."""
    shapes = [(name, *_shape(value)) for name, value in feed.items()]
    text = repr((shapes, tuple(names) if names else ()))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") | 1


def _shape(value: Any) -> tuple[object, ...]:
    """Return type and shape of an array or an OrtValue; of anything else, its length."""
    if hasattr(value, "dtype"):
        return str(value.dtype), tuple(value.shape)
    if isinstance(value, onnxruntime.OrtValue):
        return (value.data_type(), tuple(value.shape())) if value.is_tensor() else (value.data_type(),)
    return type(value).__name__, len(value) if hasattr(value, "__len__") else None


_installed = threading.Lock()


def install() -> None:
    """Make this package's class the one that onnxruntime.InferenceSession names.

    Programs that have imported the name before keep ONNX Runtime's own.
    """
    with _installed:
        onnxruntime.InferenceSession = _collection.InferenceSession = InferenceSession


def uninstall() -> None:
    """Undo install."""
    with _installed:
        onnxruntime.InferenceSession = _collection.InferenceSession = _Base
