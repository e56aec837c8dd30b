#!/usr/bin/env python3
"""Best fit in the order of time: the rule of MLIR's static memory planner, for comparison.

    examples/memory-pass/bestfit.py four.mlir
    examples/memory-pass/bestfit.py --compare PROGRAM buffers.csv ...

From the descriptions of its pull requests (llvm-project #205125 and #207403), written anew: the
allocations go in the order in which they become live, each into the smallest gap between those
that are still live, and at the end where none is large enough. The program is the pass of this
folder in C++ or Rust; each CSV (id,lower,upper,size) is written as a list of memref.alloc and
memref.dealloc, and given to both.
"""

from __future__ import annotations

import bisect
import re
import subprocess
import sys
import time
from pathlib import Path

ALIGNMENT = 64
BITS = re.compile(r"memref<((?:\d+x)*)[bfi]*(\d+)>$")


def best_fit(lower: list[int], upper: list[int], size: list[int]) -> tuple[list[int], int]:
    """Return offsets and the arena, in bytes."""
    offsets = [0] * len(size)
    live: list[tuple[int, int, int]] = []  # offset, end, buffer: ascending
    arena = 0
    for i in sorted(range(len(size)), key=lambda i: lower[i]):
        live = [x for x in live if upper[x[2]] > lower[i]]
        need = -(-size[i] // ALIGNMENT) * ALIGNMENT
        at, smallest, end = None, None, 0
        for begin, stop, _ in live:
            if need <= begin - end and (smallest is None or begin - end < smallest):
                at, smallest = end, begin - end
            end = max(end, stop)
        # What is free up to the end of the arena is a gap, too.
        if at is None or need <= arena - end < smallest:
            at = end
        offsets[i] = at
        arena = max(arena, at + need)
        bisect.insort(live, (at, at + need, i))
    return offsets, arena


def read(lines: list[str]) -> tuple[list[int], list[int], list[int]]:
    """Return the lifetimes and sizes of a list of memref.alloc and memref.dealloc."""
    lower: list[int] = []
    upper: list[int] = []
    size: list[int] = []
    of: dict[str, int] = {}
    for step, line in enumerate(lines):
        words = line.split()
        if len(words) > 2 and words[2] == "memref.alloc()":
            match = BITS.search(line)
            if match is None:
                raise SystemExit(f"line {step + 1}: expected a memref of constant shape")
            bits = int(match[2])
            for d in match[1].split("x")[:-1]:
                bits *= int(d)
            of[words[0]] = len(size)
            lower.append(step)
            upper.append(step + 1)
            size.append((bits + 7) // 8)
        elif words[:1] == ["memref.dealloc"]:
            upper[of[words[1]]] = step
    return lower, upper, size


def as_list(csv: Path) -> list[str]:
    """Return the buffers of a CSV as a list of operations, in the order of time."""
    header, *rows = (line.split(",") for line in csv.read_text().splitlines())
    column = {"start": "lower", "begin": "lower"}
    names = [column.get(n, n) for n in header]
    events = []
    for k, row in enumerate(rows):
        b = dict(zip(names, row))
        last = int(b["upper"]) if "upper" in b else int(b["end"]) + 1
        if int(b["size"]) > 0:
            memref = f"memref<{b['size']}xi8>"
            events.append((int(b["lower"]), 1, k, f"  %{k} = memref.alloc() {{alignment = {ALIGNMENT} : i64}} : {memref}"))
            events.append((last, 0, k, f"  memref.dealloc %{k} : {memref}"))
    return [text for _, _, _, text in sorted(events)]


def timed(lines: list[str]) -> tuple[int, float]:
    lower, upper, size = read(lines)
    began = time.perf_counter()
    _, arena = best_fit(lower, upper, size)
    return arena, (time.perf_counter() - began) * 1e3


def main() -> None:
    if sys.argv[1:2] != ["--compare"]:
        arena, ms = timed(Path(sys.argv[1]).read_text().splitlines())
        print(f"best fit: arena {arena} bytes, {ms:.2f} ms")
        return
    print("| list | buffers | best fit: arena | above the bound | ms | onnxmem: arena | above the bound | ms |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in sys.argv[3:]:
        lines = as_list(Path(name))
        arena, ms = timed(lines)
        done = subprocess.run([sys.argv[2]], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
        match = re.fullmatch(r"(\d+) buffers, arena (\d+) bytes, none is below (\d+), ([\d.]+) ms\s*", done.stderr)
        assert match is not None, done.stderr
        count, ours, bound = (int(x) for x in match.groups()[:3])
        print(f"| `{Path(name).stem}` | {count:,} | {arena:,} | {100 * (arena / bound - 1):.2f} % | {ms:.2f} | {ours:,} | {100 * (ours / bound - 1):.2f} % | {match[4]} |")


if __name__ == "__main__":
    main()
