"""Problems as arrays: in this process where the library is there, else by the command."""

from __future__ import annotations

import ctypes
import json
import re
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import _library as lib
from ._arrays import Ints, Lists, Numbers, like, listed, nested, number, place, single, zeros
from ._command import call, flags
from ._errors import NotInstalled
from ._record import Record

_KINDS = ("cut", "first-of-set", "last-of-set", "search")

#: With more buffers than this, or tensors, a search is not tried in the main thread.
_LARGE = 1_000


@dataclass(frozen=True)
class Pool:
    """What is known of one arena."""

    arena_bytes: int
    lower_bound_bytes: int
    proven: bool
    fits: bool | None


@dataclass(frozen=True)
class Packed:
    """Places of buffers."""

    #: The offset of each buffer, in bytes: a list, or an array of numpy if lower is one.
    offsets: Sequence[int]
    #: The end of the highest buffer; of several pools, the sum.
    arena_bytes: int
    #: No arena of these buffers is smaller; of several pools, the sum, for this choice of pools.
    lower_bound_bytes: int
    #: The two are equal: no placement is better.
    proven: bool
    #: With capacity: True, False (proven impossible) or None (not known).
    fits: bool | None = None
    #: If fits is False: a few buffers, by index, that do not fit even alone.
    infeasible: Sequence[int] = ()
    #: The time limit ended the search: the result may differ from run to run.
    ended: bool = False
    #: With several capacities: the pool of each buffer, and what is known of each.
    pool: Sequence[int] | None = None
    pools: Sequence[Pool] = ()


@dataclass(frozen=True)
class Certificate:
    """What proves a bound: docs/formats/bounds.md has the kinds."""

    kind: str
    nodes: Sequence[int]
    value_bytes: int


@dataclass(frozen=True)
class Ordered:
    """An order of nodes."""

    #: The node of each step.
    order: Sequence[int]
    peak_bytes: int
    #: No order has a smaller peak.
    lower_bound_bytes: int
    proven: bool
    program_order_peak_bytes: int
    certificates: Sequence[Certificate] = field(repr=False, default=())
    ended: bool = False


@dataclass(frozen=True)
class Swap:
    """A tensor that leaves for a host and returns; out and into are indices into steps."""

    tensor: int
    out: int
    into: int


@dataclass(frozen=True)
class Limited:
    """Steps below a limit, in which nodes may run again."""

    #: Nodes as they run; of N nodes, N + 2k and N + 2k + 1 are out and in of swap k. Empty: none.
    steps: Sequence[int]
    limit_bytes: int
    #: True: the limit is kept; False: proven impossible; None: no steps were found.
    feasible: bool | None
    #: The peak of the steps; without any, the smallest that was found, or None.
    peak_bytes: int | None
    #: No steps have a smaller peak; None: not known (with a host).
    lower_bound_bytes: int | None
    best_order_peak_bytes: int
    #: Time that is added, in per cent of a step; None without steps.
    extra_cost_percent: float | None
    #: No steps within the limit take less; None: not known, or there are none.
    extra_cost_lower_bound_percent: float | None
    swaps: Sequence[Swap] = ()
    ended: bool = False


def pack(
    lower: Ints,
    upper: Ints,
    size: Ints,
    *,
    alignment: Ints | int | None = None,
    capacity: Ints | int | None = None,
    pool: Ints | None = None,
    fixed: Ints | None = None,
    hint: Ints | None = None,
    effort: str = "default",
    time_limit: float | None = None,
) -> Packed:
    """Place buffers that are live from step lower to before step upper."""
    count = len(lower)
    several = capacity is not None and not single(capacity)
    capacities = [number("capacity", v, -1) for v in listed(capacity)] if several else [-1 if capacity is None else number("capacity", capacity, 0)]
    if not capacities:
        raise ValueError("capacity: expected one at least, found an empty list")
    common = number("alignment", alignment, 1) if single(alignment) else None
    lib.options(effort, time_limit)  # for its errors
    n = Numbers()
    c = lib.Buffers(ctypes.sizeof(lib.Buffers), count)
    for name, values in (("lower", lower), ("upper", upper), ("size", size), ("fixed", fixed), ("hint", hint)):
        setattr(c, name, n.take(values, "q", count, name))
    c.common_alignment = common or 0
    c.alignment = n.take(None if common is not None else alignment, "q", count, "alignment")  # type: ignore[arg-type]
    c.pool_count, c.pool_capacity, c.pool = len(capacities), n.take(capacities), n.take(pool, "i", count, "pool")
    library = lib.library()
    if library is None:
        if pool is not None or len(capacities) > 1:
            raise NotInstalled(lib.missing("pools"))
        found = _pack_by_command(lower, upper, size, alignment if common is None else common, capacities[0], fixed, hint, effort, time_limit)
        if not several:
            return found
        only = Pool(found.arena_bytes, found.lower_bound_bytes, found.proven, found.fits)
        return replace(found, pool=like(lower, zeros("i", count)), pools=[only])
    offsets, pools, bad = zeros("q", count), zeros("i", count), zeros("B", count)
    packed = (lib.Packed * len(capacities))()

    def run(options: lib.Options, text: Any, length: int, _: Numbers = n) -> int:
        done: int = library.onnxmem_pack(
            ctypes.byref(c), ctypes.byref(options), place(offsets), packed, place(pools), place(bad), text, ctypes.c_size_t(length)
        )
        return done

    lib.call(run, effort, time_limit, lambda: any(p.ended for p in packed), count > _LARGE)
    known = [Pool(p.arena, p.bound, bool(p.proven), _known(p.fits)) for p in packed]
    return Packed(
        like(lower, offsets),
        sum(p.arena_bytes for p in known),
        sum(p.lower_bound_bytes for p in known),
        all(p.proven for p in known),
        known[0].fits if len(known) == 1 else None if any(p.fits is None for p in known) else all(p.fits for p in known),
        [i for i, b in enumerate(bad) if b] if any(bad) else [],
        any(p.ended for p in packed),
        like(lower, pools) if several else None,
        known if several else (),
    )


def _known(verdict: int) -> bool | None:
    return None if verdict < 0 else verdict == 1


def _pack_by_command(lower: Ints, upper: Ints, size: Ints, alignment: Any, capacity: int, fixed: Any, hint: Any, effort: str, time_limit: float | None) -> Packed:
    """Pack by the command: the same answer, after a few milliseconds more."""
    columns: dict[str, list[Any]] = {"id": [str(i) for i in range(len(lower))], "lower": listed(lower), "upper": listed(upper), "size": listed(size)}
    problem: dict[str, Any] = {}
    if single(alignment):
        problem["alignment"] = alignment
    elif alignment is not None:
        columns["alignment"] = listed(alignment)
    for name, values in (("offset", fixed), ("hint", hint)):
        if values is not None:
            columns[name] = [None if v < 0 else v for v in listed(values)]
    names = list(columns)
    problem["buffers"] = [{k: v for k, v in zip(names, row) if v is not None} for row in zip(*columns.values())]
    text = json.dumps(problem).encode()
    with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
        out = Path(folder, "placed.json")
        fits: bool | None = None
        infeasible: list[int] = []
        # The command writes no offsets beyond a capacity: then it runs again without one.
        for bound in (capacity, None) if capacity >= 0 else (None,):
            line = ["pack", "-", "--json", f"--out={out}", *flags({"capacity": bound, "effort": effort, "time_limit": _seconds(time_limit)})]
            result = call(line, text, answers=True).result or Record()
            if bound is not None:
                fits, infeasible = result.fits, [int(i) for i in result.get("infeasible", [])]
            if out.exists():
                break
        offsets = array("q", [b["offset"] for b in json.loads(out.read_bytes())["buffers"]])
    return Packed(like(lower, offsets), result.arena_bytes, result.lower_bound_bytes, result.optimal, fits, infeasible, "ended_by" in result)


def _seconds(time_limit: float | None) -> str | None:
    return None if time_limit is None else f"{time_limit}s"


@dataclass
class Graph:
    """Nodes and tensors as arrays: what order and limit take."""

    nodes: int
    size: Ints
    producer: Ints
    consumers: Lists
    output: Ints | None = None
    resident: Ints | None = None
    reuses: Lists | None = None
    workspace: Ints | None = None
    cost: Ints | None = None
    once: Ints | None = None
    writes: Lists | None = None
    parent: Ints | None = None
    offset: Ints | None = None

    def native(self, n: Numbers) -> lib.Graph:
        """Return the graph as C has it."""
        count = len(self.size)
        self.nodes = number("nodes", self.nodes, 0, lib.MOST_NODES)
        g = lib.Graph(ctypes.sizeof(lib.Graph), self.nodes, count)
        for name, code, length in (
            *((name, "q", self.nodes) for name in ("workspace", "cost")),
            ("once", "B", self.nodes),
            *((name, "q", count) for name in ("size", "offset")),
            *((name, "i", count) for name in ("producer", "parent")),
            *((name, "B", count) for name in ("output", "resident")),
        ):
            setattr(g, name, n.take(getattr(self, name), code, length, name))
        g.consumer_begin, g.consumer = n.lists(self.consumers, count, "consumers")
        g.reuse_begin, g.reuse = n.lists(self.reuses, count, "reuses")
        g.write_begin, g.write = n.lists(self.writes, self.nodes, "writes")
        return g

    def problem(self) -> dict[str, Any]:
        """Return the graph as the command reads it."""
        if self.parent is not None:
            raise NotInstalled(lib.missing("parents"))
        self.native(Numbers())  # for its errors
        nodes: list[dict[str, Any]] = [{} for _ in range(self.nodes)]
        for name in ("workspace", "cost", "once"):
            if getattr(self, name) is not None:
                for node, value in zip(nodes, listed(getattr(self, name))):
                    node[name] = bool(value) if name == "once" else value
        if self.writes is not None:
            for node, tensors in zip(nodes, nested(self.writes, self.nodes)):
                node["writes"] = tensors
        count = len(self.size)
        none = [False] * count
        rows = zip(
            listed(self.size),
            listed(self.producer),
            nested(self.consumers, count),
            listed(self.output) if self.output is not None else none,
            listed(self.resident) if self.resident is not None else none,
            nested(self.reuses, count),
        )
        names = ("bytes", "producer", "consumers", "output", "resident", "reuses")
        return {"nodes": nodes, "tensors": [dict(zip(names, (*row[:3], bool(row[3]), bool(row[4]), row[5]))) for row in rows]}


def order(graph: Graph, *, effort: str = "default", time_limit: float | None = None) -> Ordered:
    """Order the nodes of a graph."""
    lib.options(effort, time_limit)  # for its errors
    library = lib.library()
    if library is None:
        r = call(["order", "-", "--json", *flags({"effort": effort, "time_limit": _seconds(time_limit)})], json.dumps(graph.problem()).encode()).result or Record()
        proofs = [Certificate(c.kind, c.nodes, c.value_bytes) for c in r.certificates]
        return Ordered(like(graph.size, array("i", r.order)), r.peak_bytes, r.lower_bound_bytes, r.optimal, r.program_order_peak_bytes, proofs, "ended_by" in r)
    n = Numbers()
    g, found, nodes = graph.native(n), lib.Ordered(), zeros("i", graph.nodes)

    def run(options: lib.Options, text: Any, length: int, _: Numbers = n) -> int:
        library.onnxmem_free(found.certificates)  # of a try that was ended
        found.certificates, found.certificate_count = None, 0
        done: int = library.onnxmem_order(ctypes.byref(g), ctypes.byref(options), place(nodes), ctypes.byref(found), text, ctypes.c_size_t(length))
        return done

    try:
        lib.call(run, effort, time_limit, lambda: bool(found.ended), len(graph.size) > _LARGE)
        proofs = []
        for i in range(found.certificate_count):
            c = found.certificates[i]
            proofs.append(Certificate(_KINDS[c.kind], list(c.nodes[: c.node_count]), c.bytes))
    finally:
        library.onnxmem_free(found.certificates)
    return Ordered(like(graph.size, nodes), found.peak, found.bound, bool(found.proven), found.program_peak, proofs, bool(found.ended))


def limit(
    graph: Graph, limit: int | str, *, host_link: int | None = None, recompute: bool = True, least: bool = False, effort: str = "default", time_limit: float | None = None
) -> Limited:
    """Look for steps below a limit, in bytes or as a text such as "60%" of the best order's peak."""
    link = number("host_link", host_link, 0) if host_link is not None else 0
    if link and least:
        raise ValueError("least: expected no host_link: no bound is known with a host")
    if not link and not recompute:
        raise ValueError("recompute: expected a host_link where no node may run again")
    percent, size_limit = _goal(limit)
    lib.options(effort, time_limit)  # for its errors
    library = lib.library()
    if library is None:
        return _limit_by_command(graph, limit if percent else size_limit, link, recompute, least, effort, time_limit)
    goal = lib.Goal(ctypes.sizeof(lib.Goal), size_limit, percent, link, not recompute, least)
    n = Numbers()
    g, r = graph.native(n), lib.Limited()

    def run(options: lib.Options, text: Any, length: int, _: Numbers = n) -> int:
        library.onnxmem_free(r.steps)  # of a try that was ended
        r.steps = None
        done: int = library.onnxmem_limit(ctypes.byref(g), ctypes.byref(goal), ctypes.byref(options), ctypes.byref(r), text, ctypes.c_size_t(length))
        return done

    try:
        lib.call(run, effort, time_limit, lambda: bool(r.ended), len(graph.size) > _LARGE)
        steps = array("i", r.steps[: r.step_count] if r.step_count else [])
        swaps = [Swap(s.tensor, s.out, s.into) for s in r.swaps[: r.swap_count]] if r.step_count else []
    finally:
        library.onnxmem_free(r.steps)
    hosted, there = link > 0, r.step_count > 0 or r.feasible == 1
    return Limited(
        like(graph.size, steps),
        r.limit,
        _known(r.feasible),
        r.peak if there else None if hosted else r.peak or None,
        None if hosted else r.bound,
        r.best_order,
        r.extra_percent if there else None,
        None if hosted or r.feasible == 0 and not there else r.extra_at_least,
        swaps,
        bool(r.ended),
    )


def _goal(limit: Any) -> tuple[float, int]:
    """Return per cent, or 0 and bytes."""
    if not isinstance(limit, str):
        return 0, number("limit", limit, 0)
    if re.fullmatch(r"\d+(\.\d+)?%", limit) and 0 < float(limit[:-1]) <= 100:
        return float(limit[:-1]), 0
    raise ValueError(f'limit {limit!r}: expected bytes as an integer, or a text such as "60%"')


def _limit_by_command(
    graph: Graph, limit: int | str, host_link: int, recompute: bool, least: bool, effort: str, time_limit: float | None
) -> Limited:
    options: Mapping[str, Any] = {
        "json": True,
        "limit": limit,
        "host_link": f"{host_link}B/s" if host_link else None,
        "no_recompute": not recompute,
        "least": least,
        "effort": effort,
        "time_limit": _seconds(time_limit),
    }
    r = call(["order", "-", *flags(options)], json.dumps(graph.problem()).encode(), answers=True).result or Record()
    found = "steps" in r or bool(r.feasible)
    smallest = r.get("least", {})
    return Limited(
        like(graph.size, array("i", r.get("steps", []))),
        r.limit_bytes,
        r.feasible,
        r.peak_bytes if found else smallest.get("peak_bytes"),
        None if host_link else r.lower_bound_bytes if found else smallest.get("lower_bound_bytes"),
        r.best_order_peak_bytes,
        r.extra_cost_percent,
        r.extra_cost_lower_bound_percent,
        [Swap(s.tensor, s.out, s["in"]) for s in r.get("swaps", [])],
        "ended_by" in r,
    )
