"""ONNX Runtime's session in a packed arena."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union, cast

import onnxruntime

from ._core import Core
from ._idle import idle
from ._pack import packer

if TYPE_CHECKING:
    from pathlib import Path

    from ._enforce import Planned

# What only planned models and reports need is imported by them: the package onnxmem and
# what it imports take 3 MiB.

#: How the memory of a session is planned.
Arena = Literal["auto", "record", "plan", "off"]

#: When the memory of an idle session is given back, in seconds after its last run.
IdleRelease = Union[float, None, Literal["auto"]]

#: Packing loads libonnxmem, or imports the package onnxmem and runs its command: where it cannot
#: save as many bytes, a recorded run keeps its first placement.
LEAST_SAVING = 4 << 20

#: The idle time of idle_release="auto", if ONNX Runtime's own arena was not turned off.
IDLE = 5.0

_Base: Any = onnxruntime.InferenceSession

#: ONNX Runtime's own methods, which install replaces.
_plain: dict[str, Any] = {name: getattr(_Base, name) for name in ("__init__", "run", "run_with_ort_values", "run_with_iobinding")}


class Memory(TypedDict):
    """What a session has taken, in bytes; the counts are those of all runs."""

    #: Where the plan used last comes from: "plan", that of the planned model; "record",
    #: a recorded run; "small", one that needs so little that it has no arena; "off", there is
    #: none.
    mode: Literal["plan", "record", "small", "off"]
    #: The arena: what the plans need, or more where runs without one have taken it.
    arena_bytes: int
    #: Of the arena: what may have memory now; less after idle memory was given back.
    held_bytes: int
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
    #: Blocks without a place in a plan: of runs whose shapes are new, and larger than others.
    recorded: int
    #: Blocks of at most 256 bytes that the planned model does not have: from malloc.
    unplanned: int
    runs: int
    #: Runs in the plan of larger shapes.
    covered: int
    #: Runs that had no arena, since they need little.
    left_alone: int
    plans: int
    #: Plans that nothing is better than, or that the command has packed.
    packed_plans: int
    #: How often memory was given back: while idle, and before a second run in a model's plan.
    given_back: int


class _Arena:
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

    idle_release: after how many seconds without a run the memory of the arena is given
    back to the system; 0 is after each run, None never. "auto" is 0 where the options turn
    ONNX Runtime's own arena off (``enable_cpu_mem_arena=False``), and 5 otherwise.

    least_saving: runs that need fewer bytes are left alone, and have their blocks from
    malloc. Others are packed by the command only where their first placement takes so many
    bytes more than what no placement goes below.
    """

    _core: Core | None = None
    _model: Planned | None = None
    _idle: float | None = None
    _least_saving = LEAST_SAVING
    _said = ""

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
        idle_release: IdleRelease = "auto",
        least_saving: int = LEAST_SAVING,
        **kwargs: Any,
    ) -> None:
        if arena not in ("auto", "record", "plan", "off"):
            raise ValueError(f"arena {arena!r}: expected 'auto', 'record', 'plan' or 'off'")
        if not (idle_release in ("auto", None) or (isinstance(idle_release, (int, float)) and idle_release >= 0)):
            raise ValueError(f"idle_release {idle_release!r}: expected seconds, None or 'auto'")
        core = None
        if arena == "plan":
            from ._enforce import Planned

            self._model = Planned(path_or_bytes)
        if arena != "off":
            core, self._said = _new_core(arena, plans, release_outputs, least_saving)
        if core is None:
            _plain["__init__"](self, path_or_bytes, sess_options, providers, *args, **kwargs)
            return
        options = sess_options if sess_options is not None else onnxruntime.SessionOptions()
        self._least_saving = least_saving
        self._own_arena = bool(options.enable_cpu_mem_arena)
        self._idle = (IDLE if self._own_arena else 0.0) if idle_release == "auto" else idle_release
        with _Settings(options, reuse, self._model), core.making():
            _plain["__init__"](self, path_or_bytes, options, providers, *args, **kwargs)
        self._core = core

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        key = _key(input_feed, output_names)
        return self._planned(key, lambda: _plain["run"](self, output_names, input_feed, run_options), input_feed)

    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> Any:
        key = _key(input_dict_ort_values, output_names)
        return self._planned(key, lambda: _plain["run_with_ort_values"](self, output_names, input_dict_ort_values, run_options), input_dict_ort_values)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> Any:
        # What is bound is not known here: the plan is chosen by the sizes of the blocks.
        return self._planned(0, lambda: _plain["run_with_iobinding"](self, iobinding, run_options))

    @property
    def memory(self) -> Memory:
        """What the session has taken; all 0 with arena="off"."""
        figures: dict[str, Any] = dict(self._core.figures()) if self._core is not None else {}
        figures["mode"] = self._mode(figures)
        return cast(Memory, {name: figures.get(name, 0) for name in Memory.__annotations__})

    def _mode(self, figures: Mapping[str, int]) -> str:
        if self._core is None:
            return "off"
        if figures["enforced"]:
            return "plan"
        return "small" if figures["plans"] and figures["plan_bytes"] < self._least_saving and not figures["hits"] else "record"

    @property
    def notes(self) -> list[str]:
        """What was decided for this session, and why: one sentence each."""
        if self._core is None:
            return [f"ONNX Runtime's own allocator is used: {self._said or 'there is no arena'}"]
        f = self._core.figures()
        said = [f"{self._said}: runs are recorded and packed"] if self._said else []
        over, least = f["plan_bytes"] - f["lower_bound_bytes"], _mib(self._least_saving)
        if self._mode(f) == "small":
            said.append(f"small: runs need {_mib(f['plan_bytes'])}, and below {least} (least_saving) they are left alone: their blocks come from malloc")
        elif f["plans"] and not f["enforced"] and 0 < over < self._least_saving:
            said.append(f"packing is left out: it would save {_mib(over)} at most, less than {least} (least_saving)")
        if f["covered"]:
            said.append(f"{f['covered']} of {f['runs']} runs had no plan for their shapes, and used that of larger ones")
        if f["unplanned"]:
            said.append(f"{f['unplanned']} blocks of at most 256 bytes are not in the plan of the model: they came from malloc")
        if f["misses"]:
            said.append(f"{f['misses']} blocks were not at their places: they came from malloc, {_mib(f['fallback_bytes'])} at most at one time")
        if self._idle is None:
            said.append("idle memory is kept (idle_release=None)")
        else:
            when = f"after {self._idle:g} s without a run" if self._idle else "after each run"
            why = "" if self._own_arena else ", since the session's options turn ONNX Runtime's own arena off"
            said.append(f"idle memory is given back {when}{why}: {f['given_back']} times so far, {_mib(f['held_bytes'])} held now")
        return said

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all recorded runs are packed; False after so many seconds."""
        return self._core is None or self._core.wait(timeout)

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write the blocks of the plan used last, with their places, as JSON lines for ``onnxmem pack --trace``."""
        plans = self._core.plans() if self._core is not None else []
        if self._core is None or not plans:
            raise ValueError("nothing is recorded: expected a run before")
        from ._enforce import lines

        with open(path, "w", encoding="utf-8") as f:
            f.write(lines(self._core.blocks(plans[0])))

    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Draw the arena as the plan used last has it; return the file of the page.

        Without a path, it is a temporary file that the browser opens. This needs the
        command ``onnxmem``, which comes with the package of that name. The notes of the
        session go to the log "onnxmem_ort".
        """
        import tempfile
        from pathlib import Path

        from onnxmem._command import call

        page = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="onnxmem-"), "report.html")
        with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
            trace = Path(folder, "run.jsonl")
            self.trace(trace)
            call(["report", f"--trace={trace}", f"--out={page}", *(["--open"] if path is None else [])])
        _log(self.notes)
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
            if not plan:
                self._rest(core)
        if plan:
            if not (feed is not None and self._enforce(core, key, plan, run, feed, result)) and self._saves(core):
                packer.put(core, plan)
            self._rest(core)
        return result

    def _saves(self, core: Core) -> bool:
        """Whether packing the plan that was just made may save enough."""
        f = core.figures()
        return f["plan_bytes"] - f["lower_bound_bytes"] > 0 and f["plan_bytes"] - f["lower_bound_bytes"] >= self._least_saving

    def _rest(self, core: Core) -> None:
        """Have the memory given back when the session has been idle."""
        if self._idle == 0:
            core.give_back()
        elif self._idle is not None:
            idle.ran(core, self._idle)

    def _enforce(self, core: Core, key: int, plan: int, run: Callable[[], Any], feed: Mapping[str, Any], result: Any) -> bool:
        """Replace the plan of a recorded run by that of the planned model; False if that does not apply."""
        if self._model is None:
            return False
        from ._enforce import NotKept, rehearse

        session = cast(Any, self)
        point = self._model.point(feed, {x.name: x.shape for x in session.get_inputs()})
        if point is None:
            return False
        try:
            table = self._model.table(core.blocks(plan), core.outputs, point)
            # The second run has an arena of its own: two would hold memory at once.
            core.give_back()
            rehearse(table, core.outputs, key, run, result)
        except NotKept as e:
            self._said = f"the plan of the model is not kept ({e})"
            warnings.warn(f"onnxmem_ort: {self._model.model}: the plan is not kept, the recorded run is packed: {e}", RuntimeWarning, stacklevel=4)
            return False
        core.load(key, table)
        return True


class InferenceSession(_Arena, _Base):
    __doc__ = _Arena.__doc__


def _new_core(arena: Arena, plans: int, outputs: bool, small: int) -> tuple[Core | None, str]:
    """Return a session of the library; None and why if "auto" does without."""
    try:
        return Core(plans, outputs, small), ""
    except RuntimeError as e:
        if arena != "auto":
            raise
        warnings.warn(f"{e}: ONNX Runtime's own allocator is used", RuntimeWarning, stacklevel=3)
        return None, str(e)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.2f} MiB"


def _log(said: Sequence[str]) -> None:
    import logging

    for line in said:
        logging.getLogger("onnxmem_ort").info("%s", line)


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
    shapes = tuple((name, *_shape(value)) for name, value in feed.items())
    return hash((shapes, tuple(names) if names else ())) & (1 << 64) - 1 | 1


def _shape(value: Any) -> tuple[object, ...]:
    """Return type and shape of an array or an OrtValue; of anything else, its length."""
    if hasattr(value, "dtype"):
        return value.dtype, tuple(value.shape)
    if isinstance(value, onnxruntime.OrtValue):
        return (value.data_type(), tuple(value.shape())) if value.is_tensor() else (value.data_type(),)
    return type(value).__name__, len(value) if hasattr(value, "__len__") else None


#: The session that began a run last, to be drawn by report.
_last: Callable[[], _Arena | None] = lambda: None


def report(path: str | os.PathLike[str] | None = None) -> Path:
    """Draw the arena of the session that ran last, as ``InferenceSession.report`` does."""
    session = _last()
    if session is None:
        raise ValueError("nothing has run in an arena: expected a run of onnxmem_ort.InferenceSession before")
    return session.report(path)


_installed = threading.Lock()

#: What install has replaced in ONNX Runtime's class, and what stood there; absent: nothing did.
_replaced: dict[str, Any] = {}

_ABSENT = object()


def install() -> None:
    """Give ONNX Runtime's own class what InferenceSession has, for all sessions from now on.

    It is the class that is changed, not its name: programs that have imported the name
    before, and subclasses, are served, too. Sessions that were made before keep their
    memory; there is a warning if there are any. Programs that use ONNX Runtime without
    this class, from C or by ``onnxruntime.capi``, are not reached.
    """
    with _installed:
        if _replaced:
            return
        for name, value in vars(_Arena).items():
            if name == "__init__" or not (name.startswith("__") and name.endswith("__")):
                _replaced[name] = vars(_Base).get(name, _ABSENT)
                setattr(_Base, name, value)
    before = _made_before()
    if before:
        warnings.warn(f"onnxmem_ort: {before} session(s) of ONNX Runtime were made before install(): they keep ONNX Runtime's own memory", RuntimeWarning, stacklevel=2)


def _made_before() -> int:
    """Count ONNX Runtime's sessions that have no arena because they were made before."""
    import gc

    # Types alone are asked: some objects answer isinstance by doing something.
    return sum(1 for o in gc.get_objects() if issubclass(type(o), _Base) and not isinstance(o, _Arena) and o._core is None)


def uninstall() -> None:
    """Undo install. Sessions that were made meanwhile keep their memory until they end."""
    with _installed:
        for name, value in _replaced.items():
            if value is _ABSENT:
                delattr(_Base, name)
            else:
                setattr(_Base, name, value)
        _replaced.clear()
