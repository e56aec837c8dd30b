"""Plans of bare problems, and their cache: by libonnxmem in this process, or by the command ``onnxmem order``."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional, Union

from onnxmem import _command, _library
from onnxmem._command import call, version
from onnxmem._direct import Graph, Ordered
from onnxmem._direct import limit as below
from onnxmem._direct import order

#: This variable names the folder of plans; empty, none are kept on disk.
VARIABLE = "ONNXMEM_PLANS"


#: With more nodes than this, or tensors, the command plans: then its start is little, and a limit that is missed is not looked for twice.
_MOST = 3_000

#: The fields of nodes and tensors that libonnxmem is given, or has no use for; with others, the command plans.
_NODE = {"name", "op", "args", "workspace", "cost", "once", "writes"}
_TENSOR = {"name", "kind", "bytes", "producer", "consumers", "output", "resident", "reuses"}


@dataclass(frozen=True)
class Plan:
    """An order of a step's kernels, some of which may run again. Sizes are bytes."""

    #: The index of the node at each step; None if no plan was found.
    steps: Optional[list[int]]
    #: Whether the limit is met; False is proven, None means that none was found.
    feasible: Optional[bool]
    limit_bytes: Optional[int]
    peak_bytes: Optional[int]
    #: Of the best order without repetitions.
    best_peak_bytes: int
    lower_bound_bytes: Optional[int]
    #: If the limit is not met: what no plan can go below, and why (docs/formats/nodes.md).
    least: Optional[dict[str, Any]]
    #: Over the time of all kernels once, in per cent, and what any plan needs at least.
    extra_percent: float
    extra_bound_percent: Optional[float]
    repeated: int
    #: Seconds that planning took; 0 if the plan was in the cache.
    seconds: float


_kept: dict[str, Plan] = {}


@lru_cache(maxsize=1)
def planner() -> str:
    """Return the planner's version, which is part of a plan's key, with the library that is named."""
    return " ".join(filter(None, (version(), os.environ.get(_library.VARIABLE))))


def plan(problem: Mapping[str, Any], limit: Optional[Union[int, str]] = None, effort: str = "fast", least: bool = False) -> Plan:
    """Return a plan of a problem.

    limit is a peak in bytes, or a share of the best order's, such as "60%"; None asks for
    the best order alone. With least, a limit that no plan meets gives the smallest that is
    found, with ``feasible`` of the limit. Equal problems, limits and versions have equal plans, which are
    kept in memory and on disk.
    """
    text = json.dumps(problem, sort_keys=True, separators=(",", ":")).encode()
    key = hashlib.sha256(b"\0".join([planner().encode(), str(limit).encode(), effort.encode(), str(least).encode(), text])).hexdigest()
    found = _kept.get(key) or _load(key)
    if found is None:
        found = _here(problem, limit, effort) or _solve(text, limit, effort, least)
        _store(key, found)
    _kept[key] = replace(found, seconds=0.0)
    return found


def ordered(problem: Mapping[str, Any], *flags: str) -> dict[str, Any]:
    """Return what ``onnxmem order`` says about a problem."""
    return call(["order", "-", "--json", *flags], json.dumps(problem, separators=(",", ":")).encode()).result or {}


def _here(problem: Mapping[str, Any], limit: Optional[Union[int, str]], effort: str) -> Optional[Plan]:
    """Return a plan by libonnxmem; None where the command has to plan.

    That is where there is no library or another command is named, where a search may take long or
    much memory, and where the limit is missed: the command says why.
    """
    nodes, tensors = problem["nodes"], problem["tensors"]
    if effort != "fast" or max(len(nodes), len(tensors)) > _MOST or any(n.keys() - _NODE for n in nodes) or any(t.keys() - _TENSOR for t in tensors):
        return None
    if os.environ.get(_command.VARIABLE) and not os.environ.get(_library.VARIABLE) or _library.library() is None:
        return None
    began = time.perf_counter()
    graph = Graph(
        len(nodes),
        [t["bytes"] for t in tensors],
        [t.get("producer", -1) for t in tensors],
        [t.get("consumers") or [] for t in tensors],
        [bool(t.get("output")) for t in tensors],
        [bool(t.get("resident")) for t in tensors],
        [_list(t.get("reuses")) for t in tensors],
        [n.get("workspace", 0) for n in nodes],
        [n.get("cost", 0) for n in nodes],
        [bool(n.get("once")) for n in nodes],
        [n.get("writes") or [] for n in nodes],
    )
    found = order(graph, effort=effort) if limit is None else below(graph, limit, effort=effort)
    if isinstance(found, Ordered):
        return Plan(
            steps=list(found.order),
            feasible=True,
            limit_bytes=None,
            peak_bytes=found.peak_bytes,
            best_peak_bytes=found.peak_bytes,
            lower_bound_bytes=found.lower_bound_bytes,
            least=None,
            extra_percent=0.0,
            extra_bound_percent=0.0,
            repeated=0,
            seconds=time.perf_counter() - began,
        )
    if not found.feasible:
        return None
    return Plan(
        steps=list(found.steps),
        feasible=True,
        limit_bytes=found.limit_bytes,
        peak_bytes=found.peak_bytes,
        best_peak_bytes=found.best_order_peak_bytes,
        lower_bound_bytes=found.lower_bound_bytes,
        least=None,
        extra_percent=found.extra_cost_percent or 0.0,
        extra_bound_percent=found.extra_cost_lower_bound_percent,
        repeated=len(found.steps) - len(nodes),
        seconds=time.perf_counter() - began,
    )


def _list(reuses: Any) -> Any:
    return [] if reuses is None else [reuses] if isinstance(reuses, int) else reuses


def _solve(text: bytes, limit: Optional[Union[int, str]], effort: str, least: bool) -> Plan:
    began = time.perf_counter()
    flags = ([] if limit is None else [f"--limit={limit}"]) + ["--least"] * least
    result: dict[str, Any] = call(["order", "-", "--json", f"--effort={effort}", *flags], text, answers=True).result or {}
    feasible = result.get("feasible", True)
    steps = result.get("steps") or result.get("order")
    return Plan(
        steps=steps if feasible or least else None,
        feasible=feasible,
        limit_bytes=result.get("limit_bytes"),
        peak_bytes=result.get("peak_bytes") if feasible or least else None,
        least=result.get("least"),
        best_peak_bytes=result.get("best_order_peak_bytes", result["peak_bytes"]),
        lower_bound_bytes=result.get("lower_bound_bytes"),
        extra_percent=result.get("extra_cost_percent") or 0.0,
        extra_bound_percent=result.get("extra_cost_lower_bound_percent", 0.0),
        repeated=result.get("repeated_nodes", 0),
        seconds=time.perf_counter() - began,
    )


def folder() -> Optional[Path]:
    """Return the folder of what is kept; None if nothing is."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxmem" / "plans"


def _load(key: str) -> Optional[Plan]:
    place = folder()
    try:
        return Plan(**{**json.loads((place / f"{key}.json").read_bytes()), "seconds": 0.0}) if place else None
    except (OSError, ValueError, TypeError):
        return None  # not there, or of another version


def _store(key: str, found: Plan) -> None:
    """Write a plan; a folder that cannot be written to is no error."""
    place = folder()
    if place is None:
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place, delete=False) as file:
            json.dump(asdict(found), file)
        os.replace(file.name, place / f"{key}.json")
    except OSError:
        pass
