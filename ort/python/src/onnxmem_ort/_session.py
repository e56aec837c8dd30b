"""ONNX Runtime's session in a packed arena."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import onnxruntime
from onnxmem._command import call
from onnxruntime.capi import onnxruntime_inference_collection as _collection

from ._core import Core
from ._enforce import NotKept, Planned, lines, rehearse
from ._pack import packer

#: How the memory of a session is planned.
Arena = Literal["auto", "record", "plan", "off"]

_Base: Any = onnxruntime.InferenceSession


class Memory(TypedDict):
    """What a session has taken, in bytes; the counts are those of all runs."""

    #: Where the plan used last comes from: "plan", that of the planned model; "record",
    #: a recorded run; "off", there is no arena.
    mode: Literal["plan", "record", "off"]
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
    #: Of the plan used last, if it is that of the planned model: the most that kernels
    #: take for themselves at one time.
    scratch_bytes: int
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
    allocates; "auto" does so if the library can be used, and warns otherwise; "plan"
    keeps the plan of a model that ``onnxmem optimize --runtime onnxruntime-arena`` has
    written, with the plan beside it; "off" is ONNX Runtime's own allocator.

    With "plan", nodes run as they stand in the file and in their order, whatever the
    options say. A plan for ranges of dimensions is kept at each combination of lengths
    that it has. Runs with other shapes than the plan's are as with "record".

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
        if arena not in ("auto", "record", "plan", "off"):
            raise ValueError(f"arena {arena!r}: expected 'auto', 'record', 'plan' or 'off'")
        self._core: Core | None = None
        self._model = Planned(path_or_bytes) if arena == "plan" else None
        if arena != "off":
            self._core = _core(arena, plans, release_outputs)
        if self._core is None:
            super().__init__(path_or_bytes, sess_options, providers, *args, **kwargs)
            return
        options = sess_options if sess_options is not None else onnxruntime.SessionOptions()
        with _Settings(options, reuse, self._model), self._core.making():
            super().__init__(path_or_bytes, options, providers, *args, **kwargs)

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        key = _key(input_feed, output_names)
        return self._planned(key, lambda: _Base.run(self, output_names, input_feed, run_options), input_feed)

    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> Any:
        key = _key(input_dict_ort_values, output_names)
        return self._planned(key, lambda: _Base.run_with_ort_values(self, output_names, input_dict_ort_values, run_options), input_dict_ort_values)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> Any:
        # What is bound is not known here: the plan is chosen by the sizes of the blocks.
        return self._planned(0, lambda: _Base.run_with_iobinding(self, iobinding, run_options))

    @property
    def memory(self) -> Memory:
        """What the session has taken; all 0 with arena="off"."""
        figures: dict[str, Any] = dict(self._core.figures()) if self._core is not None else {}
        figures["mode"] = "off" if self._core is None else "plan" if figures["enforced"] else "record"
        return cast(Memory, {name: figures.get(name, 0) for name in Memory.__annotations__})

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all recorded runs are packed; False after so many seconds."""
        return self._core is None or self._core.wait(timeout)

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write the blocks of the plan used last, with their places, as JSON lines for ``onnxmem pack --trace``."""
        plans = self._core.plans() if self._core is not None else []
        if self._core is None or not plans:
            raise ValueError("nothing is recorded: expected a run before")
        with open(path, "w", encoding="utf-8") as f:
            f.write(lines(self._core.blocks(plans[0])))

    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Draw the arena as the plan used last has it; return the file of the page.

        Without a path, it is a temporary file that the browser opens. This needs the
        command ``onnxmem``, which comes with the package of that name.
        """
        page = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="onnxmem-"), "report.html")
        with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
            trace = Path(folder, "run.jsonl")
            self.trace(trace)
            call(["report", f"--trace={trace}", f"--out={page}", *(["--open"] if path is None else [])])
        return page

    def replay(self, table: str | os.PathLike[str], input_feed: Any, output_names: Any = None) -> None:
        """Take a table of ``onnxmem pack --to replay`` for runs with the shapes of some inputs."""
        if self._core is None:
            raise ValueError("the session has no arena")
        with open(table, encoding="utf-8") as f:
            self._core.load(_key(input_feed, output_names), f.read())

    def _planned(self, key: int, run: Callable[[], Any], feed: Mapping[str, Any] | None = None) -> Any:
        core = self._core
        if core is None:
            return run()
        global _last
        _last = weakref.ref(self)
        core.begin(key)
        completed, plan = False, 0
        try:
            result = run()
            completed = True
        finally:
            plan = core.end(completed)
        if plan and not (feed is not None and self._enforce(core, key, plan, run, feed, result)):
            packer.put(core, plan)
        return result

    def _enforce(self, core: Core, key: int, plan: int, run: Callable[[], Any], feed: Mapping[str, Any], result: Any) -> bool:
        """Replace the plan of a recorded run by that of the planned model; False if that does not apply."""
        if self._model is None:
            return False
        point = self._model.point(feed, {x.name: x.shape for x in _Base.get_inputs(self)})
        if point is None:
            return False
        try:
            table = self._model.table(core.blocks(plan), core.outputs, point)
            rehearse(table, core.outputs, key, run, result)
        except NotKept as e:
            warnings.warn(f"onnxmem_ort: {self._model.model}: the plan is not kept, the recorded run is packed: {e}", RuntimeWarning, stacklevel=4)
            return False
        core.load(key, table)
        return True


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

    def __init__(self, options: Any, reuse: bool | None, model: Planned | None) -> None:
        self._options = options
        # ONNX Runtime's own arena would take large blocks from ours, and its patterns
        # one block for a whole run.
        self._values: dict[str, Any] = {"enable_cpu_mem_arena": False, "enable_mem_pattern": False}
        if model is not None:
            order, level, mode = onnxruntime.ExecutionOrder, onnxruntime.GraphOptimizationLevel, onnxruntime.ExecutionMode
            self._values["execution_order"] = order.DEFAULT if model.traversal else order.PRIORITY_BASED
            self._values["graph_optimization_level"] = level.ORT_DISABLE_ALL
            self._values["execution_mode"] = mode.ORT_SEQUENTIAL
            reuse = False  # a block that is used again has two tensors of the plan
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

    def _set(self, values: Mapping[str, Any]) -> None:
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


#: The session that began a run last, to be drawn by report.
_last: Callable[[], InferenceSession | None] = lambda: None


def report(path: str | os.PathLike[str] | None = None) -> Path:
    """Draw the arena of the session that ran last, as ``InferenceSession.report`` does."""
    session = _last()
    if session is None:
        raise ValueError("nothing has run in an arena: expected a run of onnxmem_ort.InferenceSession before")
    return session.report(path)


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
