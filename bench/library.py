#!/usr/bin/env python3
"""Measure a call of the planner through each way in: docs/results/library.md.

    make build lib
    PYTHONPATH=python/src ONNXMEM_COMMAND=bin/onnxmem ONNXMEM_LIBRARY=build/lib/libonnxmem.so bench/library.py [pack|order] [100 10000 100000]

Places and orders of made-up networks, whose bounds the first strategies reach, so that what is
measured is the way in. Go is what the command says of its own search. Each figure is the least
of some calls. With numpy, its arrays are measured, too; with cc, a program of C.
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


def by_command() -> Any:
    """Return a context in which arrays go to the command."""
    return mock.patch.object(_library, "library", lambda: None)


def in_c(host: Path, b: dict[str, list[int]]) -> float:
    """Return the time of onnxmem_pack in a program of C."""
    count = len(b["size"])
    numbers = [0, count, 1, -1, *b["lower"], *b["upper"], *b["size"], *[0] * count]
    done = subprocess.run([host, _library.library()._name, "latency"], input=struct.pack(f"{len(numbers)}q", *numbers), capture_output=True, check=True)  # type: ignore[union-attr]
    return float(done.stdout.split()[0])


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
            for what, file, call, faster in (
                ("pack", csv, lambda: onnxmem.pack(**b), lambda: onnxmem.pack(**arrays)),  # type: ignore[arg-type]
                ("order", problem, lambda: onnxmem.order(**g), None),
            ):
                if only and what not in only:
                    continue
                row = {"what": what, "count": count, "proven": call().proven}
                row["Go"] = min(json.loads(subprocess.run([onnxmem.command(), what, file, "--json"], capture_output=True, check=True).stdout)["times_ms"]["total"] for _ in range(3))
                if what == "pack" and host is not None:
                    row["C"] = in_c(host, b)
                if faster is not None and arrays is not None:
                    row["Python, numpy"] = least(faster)
                row["Python, lists"] = least(call)
                with by_command():
                    row["Python, by the command"] = least(call)
                row["command"] = least(lambda: subprocess.run([onnxmem.command(), what, file, "--json"], capture_output=True, check=True))
                print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}), flush=True)


if __name__ == "__main__":
    main()
