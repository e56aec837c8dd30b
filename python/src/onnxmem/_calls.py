"""The functions of the package: each runs one command."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, Union, overload

from . import _direct
from ._arrays import Ints, Lists
from ._command import Flag, Output, call, flags
from ._direct import Limited, Ordered, Packed
from ._plan import Plan, Planned, plan_path
from ._record import Record, Result, decode


class _Message(Protocol):
    """A protobuf message, such as onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


#: A model: a path, the bytes of an ONNX file, a message of the package onnx, or a
#: planned model.
Model = Union[str, "os.PathLike[str]", bytes, _Message, Planned]
#: A bare problem: a path, or what stands in such a file (docs/formats/nodes.md).
Problem = Union[str, "os.PathLike[str]", bytes, Mapping[str, Any]]


def optimize(
    model: Model,
    out: str | os.PathLike[str] | None = None,
    *,
    dims: Mapping[str, int | str] | None = None,
    limit: int | str | None = None,
    train: bool | Mapping[str, Flag] = False,
    **options: Flag,
) -> Planned:
    """Plan a model.

    The planned model and its plan are returned; with out, they are also written there
    and beside it, and the model is read from that file when it is asked for.

    dims binds open dimensions by name or by place (``{"batch": 8, "x[2]": 128}``); a text
    such as "1..64" or "1,2,4" makes one plan for all of these lengths. limit is the
    largest peak, in bytes or as a text such as "8GiB" or "60%" of the peak without it:
    tensors are recomputed until it is met. train makes one training step first, and may
    have its flags: ``train={"optimizer": "adamw"}``; with out, the parameters' first
    values are beside it. options are further flags of ``onnxmem optimize``.

    Refused says which node or tensor is at fault; Failed, that a limit is not met, with
    the figures in ``error.result``.
    """
    line = flags({"json": True, "dim": dims, "limit": limit, "train": bool(train)})
    if isinstance(train, Mapping):
        line += flags(train)
    with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
        argument, stdin = _source(model)
        if out is not None:
            named = options.pop("plan", None)
            path, plan = Path(out), Path(str(named)) if named else plan_path(out)
            done = call(["optimize", argument, _path(out), f"--plan={plan}", *line, *flags(options)], stdin)
            return _planned(done, path, plan, plan.read_bytes(), None)
        plan = Path(folder, "plan.json")
        if options.get("frontier") or options.get("max_batch"):
            raise TypeError("frontier and max_batch need out")
        extra = [f"--params={Path(folder, 'params.onnx')}"] if train else []
        done = call(["optimize", argument, "-", f"--plan={plan}", *extra, *line, *flags(options)], stdin, data=True)
        return _planned(done, None, None, plan.read_bytes(), done.stdout)


def _planned(done: Output, path: Path | None, plan_file: Path | None, plan: bytes, model: bytes | None) -> Planned:
    return Planned(Plan(decode(plan)), done.result or Record(), done.messages, path, plan_file, model)


def verify(model: Model, plan: str | os.PathLike[str] | Mapping[str, Any] | None = None, **options: Flag) -> Result:
    """Check a plan against its model, trusting nothing.

    model is a planned model; without plan, it is a Planned or a file with its plan
    beside it. The result has ``valid``, ``violations`` and the recomputed summary. A plan
    that is not valid is a result, no exception.
    """
    if isinstance(model, Planned) and plan is None:
        plan = model.plan
    with _Written(plan) as file:
        argument, stdin = _source(model)
        return _result(["verify", argument, *([file] if file else []), *flags({"json": True, **_weights(model), **options})], stdin)


def explain(model: Model | Mapping[str, Any], **options: Flag) -> Result:
    """Explain why the peak is what it is, and what would lower it.

    model is a planned model, a model (planned for the explanation; dims and other flags
    as of optimize), or a bare problem of nodes and tensors. docs/formats/commands.md lists
    the keys of the result.
    """
    plan = model.plan if isinstance(model, Planned) else None
    with _Written(plan) as file:
        argument, stdin = _source(model)
        return _result(["explain", argument, *flags({"plan": file, "json": True, **_weights(model), **_dims(options)})], stdin)


def fit(model: Model, *, device_file: str | os.PathLike[str] | None = None, **options: Flag) -> Result:
    """Say on which devices a model fits, with which batch, at which price, and what would help.

    ``devices`` of the result has a row for each device, ``helps`` what needs less memory;
    docs/formats/commands.md lists the keys. dims and other flags are as of optimize, such as
    train=True; devices=["gpu"] leaves out the others.
    """
    file = None if device_file is None else _path(device_file)
    argument, stdin = _source(model)
    return _result(["fit", argument, *flags({"device_file": file, "json": True, **_weights(model), **_dims(options)})], stdin)


def compare(model: Model | Mapping[str, Any], **options: Flag) -> Result:
    """Compare every order and every placement strategy; ``rows`` has a line for each.

    model is a model, a bare problem of nodes and tensors, or one of buffers.
    """
    argument, stdin = _source(model)
    return _result(["compare", argument, "--json", *flags(_dims(options))], stdin)


@overload
def order(problem: Problem, **options: Flag) -> Result: ...


@overload
def order(
    problem: None = None,
    *,
    nodes: int,
    size: Ints,
    producer: Ints,
    consumers: Lists,
    output: Ints | None = None,
    resident: Ints | None = None,
    reuses: Lists | None = None,
    workspace: Ints | None = None,
    parent: Ints | None = None,
    offset: Ints | None = None,
    effort: str = "default",
    time_limit: float | None = None,
) -> Ordered: ...


def order(problem: Problem | None = None, **options: Any) -> Result | Ordered:
    """Order the nodes of a bare problem for the smallest peak.

    The result has ``order`` (the index of the node at each step), ``peak_bytes`` and
    ``lower_bound_bytes``.

    A problem, or its file, is ordered by the command; options are flags of ``onnxmem
    order``. The result has ``optimal``; with limit, ``feasible`` and ``steps``. A limit that
    is not met is a result, no exception.

    Arrays are ordered in this process, if libonnxmem is there. size, producer (-1: none) and
    consumers have an element for each tensor, and so have output, resident, reuses, parent
    and offset; workspace has one for each node. docs/formats/nodes.md has their meaning, and
    onnxmem.h that of parent. consumers, and other lists of lists, may also be two arrays of
    numpy: where the list of each tensor begins, with the end of the last, and the elements of
    all; so give lists of arrays as a list, not as a tuple. time_limit is in seconds.
    """
    if problem is None:
        own = {name: options.pop(name) for name in ("effort", "time_limit") if name in options}
        return _direct.order(_direct.Graph(**options), **own)
    argument, stdin = _source(problem)
    return _result(["order", argument, "--json", *flags(options)], stdin)


def limit(
    limit: int | str,
    *,
    nodes: int,
    size: Ints,
    producer: Ints,
    consumers: Lists,
    output: Ints | None = None,
    resident: Ints | None = None,
    reuses: Lists | None = None,
    workspace: Ints | None = None,
    cost: Ints | None = None,
    once: Ints | None = None,
    writes: Lists | None = None,
    parent: Ints | None = None,
    offset: Ints | None = None,
    host_link: int | None = None,
    recompute: bool = True,
    least: bool = False,
    effort: str = "default",
    time_limit: float | None = None,
) -> Limited:
    """Find steps within a limit, in which nodes run again, at the least extra time.

    limit is in bytes, or a text such as "60%" of the best order's peak. The arrays are those
    of order; cost is nanoseconds for each node, once says that a node must not run again,
    writes lists the tensors that it overwrites in place. With host_link, in bytes per second
    each way, tensors may be swapped to a host. With least, the steps of the smallest peak
    that is found are the result if the limit is missed. A limit that is missed is a result,
    no exception.
    """
    graph = _direct.Graph(nodes, size, producer, consumers, output, resident, reuses, workspace, cost, once, writes, parent, offset)
    return _direct.limit(graph, limit, host_link=host_link, recompute=recompute, least=least, effort=effort, time_limit=time_limit)


@overload
def pack(
    buffers: str | os.PathLike[str] | bytes | Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    capacity: int | str | None = None,
    **options: Flag,
) -> Result: ...


@overload
def pack(
    buffers: None = None,
    *,
    lower: Ints,
    upper: Ints,
    size: Ints,
    alignment: Ints | int | None = None,
    capacity: Ints | int | None = None,
    pool: Ints | None = None,
    fixed: Ints | None = None,
    hint: Ints | None = None,
    effort: str = "default",
    time_limit: float | None = None,
) -> Packed: ...


def pack(
    buffers: str | os.PathLike[str] | bytes | Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    *,
    capacity: Any = None,
    **options: Any,
) -> Result | Packed:
    """Place buffers in one arena: a buffer lives from step lower to before step upper.

    Arrays are packed in this process, if libonnxmem is there: ``pack(lower=, upper=, size=)``,
    lists or arrays of numpy, has ``offsets``, ``arena_bytes``, ``lower_bound_bytes`` and
    ``proven``. alignment is one for all, to which sizes are rounded up, too, or one for each
    offset. fixed has offsets that are required, hint those to try first (below 0: none).
    capacity in bytes gives ``fits``; several, and pool, the index of one for each buffer,
    give several arenas (all -1: any with room, the first ones before). time_limit is in
    seconds.

    Otherwise, buffers is a file, or a list of ``{"id", "lower", "upper", "size"}``, for the
    command, of which options are flags. The result has ``arena_bytes``,
    ``lower_bound_bytes``, ``optimal`` and ``placed``, the buffers with their ``offset``. With
    capacity, ``fits`` says whether they fit: True, False (proven) or None (not known).
    ``placed`` is there unless they do not fit.
    """
    if buffers is None:
        return _direct.pack(capacity=capacity, **options)
    source: Any = buffers
    if not isinstance(buffers, (str, os.PathLike, bytes, Mapping)):
        source = {"buffers": [dict(b) for b in buffers]}
    argument, stdin = _source(source)
    with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
        out = Path(folder, "placed.json")
        result = _result(["pack", argument, f"--out={out}", *flags({"json": True, "capacity": capacity, **options})], stdin)
        if out.exists():
            result["placed"] = decode(out.read_bytes())["buffers"]
    return result


def _result(line: list[str], stdin: bytes) -> Result:
    """Run a command whose result is an object, also with exit status 1."""
    done = call(line, stdin, answers=True)
    return Result(done.result or {}, done.messages)


def _dims(options: Mapping[str, Flag]) -> dict[str, Flag]:
    """Return flags in which dims, the name that optimize has for it, is dim."""
    return {"dim" if name == "dims" else name: value for name, value in options.items()}


def _weights(model: object) -> dict[str, Flag]:
    """Return the flag for a planned model in memory, whose external data may be elsewhere.

    A plan does not depend on them.
    """
    return {"allow_missing_weights": True} if isinstance(model, Planned) and model.path is None else {}


def _source(value: Model | Problem) -> tuple[str, bytes]:
    """Return the argument that names an input, and what standard input holds."""
    if isinstance(value, Planned):
        return ("-", value.model) if value.path is None else (_path(value.path), b"")
    if isinstance(value, (str, os.PathLike)):
        return _path(value), b""
    if isinstance(value, bytes):
        return "-", value
    if isinstance(value, Mapping):
        return "-", json.dumps(value).encode()
    if hasattr(value, "SerializeToString"):
        return "-", value.SerializeToString()
    raise TypeError(f"a {type(value).__name__}: expected a path, bytes, a dict or an onnx.ModelProto")


def _path(value: str | os.PathLike[str]) -> str:
    """Return a path that the command line takes for neither a flag nor a stream."""
    path = os.fspath(value)
    return os.path.join(os.curdir, path) if path.startswith("-") else path


class _Written:
    """A plan as a file: the given one, or a temporary one of a plan in memory."""

    def __init__(self, plan: str | os.PathLike[str] | Mapping[str, Any] | None) -> None:
        self._plan = plan
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> str | None:
        if self._plan is None or isinstance(self._plan, (str, os.PathLike)):
            return None if self._plan is None else _path(self._plan)
        self._folder = tempfile.TemporaryDirectory(prefix="onnxmem-")
        path = Path(self._folder.name, "plan.json")
        Plan(self._plan).save(path)
        return str(path)

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()
