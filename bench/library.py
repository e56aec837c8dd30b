#!/usr/bin/env python3
"""Measure a call of the planner through each way in: docs/results/library.md.

    make build lib
    PYTHONPATH=python/src ONNXMEM_COMMAND=bin/onnxmem ONNXMEM_LIBRARY=build/lib/libonnxmem.so bench/library.py [pack|order|limit] [100 10000 100000]

Places and orders of made-up networks, whose bounds the first strategies reach, so that what is
measured is the way in. Go is what the command says of its own search. A limit is the peak of the
best order, which is searched for first. Each figure is the least of some: of three processes for Go,
of five calls of one process in C, of all calls in 0.4 s in Python and of the command. With numpy,
its arrays are measured, too; with cc, a program of C.
"""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable
from unittest import mock

import onnxmem
from onnxmem import _library

ROOT = Path(__file__).parents[1]


def buffers(count: int) -> dict[str, list[int]]:
    """Return buffers of a long network: most live for two or three steps, some for hundreds."""
    draw = random.Random(count)
    upper = [i + 2 + draw.randrange(2) + (draw.randrange(300) if i % 50 == 0 else 0) for i in range(count)]
    return {"lower": list(range(count)), "upper": upper, "size": [64 << draw.randrange(8) for _ in range(count)]}


def graph(count: int) -> dict[str, Any]:
    """Return a network of as many nodes as tensors: blocks of five with a branch each."""
    draw = random.Random(count)
    consumers: list[list[int]] = [[i + 1] if i % 5 else [i + 1, i + 4] for i in range(count)]
    consumers = [[c for c in list if c < count] for list in consumers]
    return {"nodes": count, "size": [64 << draw.randrange(8) for _ in range(count)], "producer": list(range(count)), "consumers": consumers}


def least(call: Callable[[], object], seconds: float = 0.4) -> float:
    """Return the least time of some calls, in milliseconds."""
    best, began = float("inf"), time.perf_counter()
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - start)
        if now - began > seconds:
            return best * 1e3


def flat_lists(numpy: Any, lists: list[list[int]]) -> tuple[Any, Any]:
    """Return lists as two arrays."""
    begin = numpy.concatenate(([0], numpy.cumsum([len(x) for x in lists])))
    return begin.astype(numpy.int64), numpy.array([x for each in lists for x in each], numpy.int32)


def by_command() -> Any:
    """Return a context in which arrays go to the command."""
    return mock.patch.object(_library, "library", lambda: None)


def in_c(host: Path, mode: str, numbers: list[int]) -> list[float]:
    """Return the times that a program of C prints."""
    done = subprocess.run([host, _library.library()._name, mode], input=struct.pack(f"{len(numbers)}q", *numbers), capture_output=True, check=True)  # type: ignore[union-attr]
    return [float(x) for x in done.stdout.replace(b",", b" ").split() if x.replace(b".", b"").isdigit()]


def buffer_numbers(b: dict[str, list[int]]) -> list[int]:
    """Return buffers as the program of C reads them."""
    count = len(b["size"])
    return [0, count, 1, -1, *b["lower"], *b["upper"], *b["size"], *[0] * count]


def graph_numbers(g: dict[str, Any]) -> list[int]:
    """Return a graph as the program of C reads it, with a limit of 100 % of the best order's peak."""
    n = g["nodes"]
    begin = [0]
    for readers in g["consumers"]:
        begin.append(begin[-1] + len(readers))
    none = [0] * n
    flat = [c for readers in g["consumers"] for c in readers]
    return [0, 100, 0, n, n, *none, *none, *none, *none, 0, *g["size"], *g["producer"], *begin, *flat, *none, *none, *none, 0]


def main() -> None:
    try:
        import numpy
    except ImportError:
        numpy = None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        host: Path | None = Path(folder, "host")
        if subprocess.run(["cc", "-std=gnu11", "-O2", f"-I{ROOT / 'lib'}", ROOT / "lib/testdata/host.c", "-o", str(host), "-ldl", "-pthread"], check=False).returncode:
            host = None
        only = [x for x in sys.argv[1:] if not x.isdigit()]
        for count in [int(x) for x in sys.argv[1:] if x.isdigit()] or [100, 10_000, 100_000]:
            b, g = buffers(count), graph(count)
            arrays = {k: numpy.array(v) for k, v in b.items()} if numpy else None
            csv, problem = Path(folder, "b.csv"), Path(folder, "p.json")
            csv.write_text("id,lower,upper,size\n" + "".join(f"{i},{l},{u},{s}\n" for i, (l, u, s) in enumerate(zip(b["lower"], b["upper"], b["size"]))))
            problem.write_text(json.dumps(onnxmem._direct.Graph(**g).problem()))
            split = {**g, "size": numpy.array(g["size"]), "producer": numpy.array(g["producer"], "int32"), "consumers": flat_lists(numpy, g["consumers"])} if numpy else None
            timed = in_c(host, "graphs", graph_numbers(g)) if host is not None and (not only or {"order", "limit"} & set(only)) else []
            packed = in_c(host, "latency", buffer_numbers(b))[:1] if host is not None and (not only or "pack" in only) else []
            for what, file, more, call, faster, c in (
                ("pack", csv, [], lambda: onnxmem.pack(**b), lambda: onnxmem.pack(**arrays), packed),  # type: ignore[arg-type]
                ("order", problem, [], lambda: onnxmem.order(**g), lambda: onnxmem.order(**split), timed[:1]),  # type: ignore[arg-type]
                ("limit", problem, ["--limit=100%"], lambda: onnxmem.limit("100%", **g), lambda: onnxmem.limit("100%", **split), timed[1:]),  # type: ignore[arg-type]
            ):
                if only and what not in only:
                    continue
                found = call()
                row = {"what": what, "count": count, "proven": found.feasible if what == "limit" else found.proven}
                line = [onnxmem.command(), what if what != "limit" else "order", file, *more, "--json"]
                times = [json.loads(subprocess.run(line, capture_output=True, check=True).stdout)["times_ms"] for _ in range(3)]
                row["Go"] = min(t["total"] + t.get("limit", 0) for t in times)
                if c:
                    row["C"] = c[0]
                if arrays is not None:
                    row["Python, numpy"] = least(faster)
                row["Python, lists"] = least(call)
                row["command"] = least(lambda: subprocess.run(line, capture_output=True, check=True))
                with by_command():
                    row["Python, by the command"] = least(call)
                print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}), flush=True)


if __name__ == "__main__":
    main()
