#!/usr/bin/env python3
"""Time MiniMalloc and onnxmem pack on the same instances, alternately.

Build MiniMalloc (github.com/google/minimalloc) as its README says (cmake, Release);
its repository holds the instances, named LETTER.CAPACITY.csv. Each run is a process
on one core. The time is the wall-clock time that the program reports for solving; for
onnxmem it includes reading, for MiniMalloc it does not. The table shows the minimum
of RUNS. The programs alternate, so that both see the same load. A run of MiniMalloc
is stopped after LIMIT seconds, and counts as LIMIT.

    bench/minimalloc.py MINIMALLOC/build/minimalloc MINIMALLOC/benchmarks/challenging/*.csv
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import tempfile

import harness


def theirs(binary, path, capacity, limit, out):
    """Return the seconds and whether the program found a placement."""
    command = ["timeout", str(limit), binary, f"--capacity={capacity}", f"--input={path}", f"--output={out}"]
    done = subprocess.run(command, capture_output=True, text=True)
    said = re.search(r"Elapsed time ([\d.]+)s", done.stdout + done.stderr)
    if done.returncode == 124 or not said:
        return limit, False
    return float(said[1]), done.returncode == 0


def ours(path, capacity, out):
    command = [harness.BINARY, "pack", path, "--capacity", str(capacity), "--out", out, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "GOMAXPROCS": "1"})
    if done.returncode not in (0, 1):
        raise SystemExit(f"{path}: {done.stderr}")
    answer = json.loads(done.stdout)
    return answer["times_ms"]["total"] / 1e3, answer.get("fits", False)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("minimalloc", type=pathlib.Path)
    p.add_argument("instances", nargs="+", type=pathlib.Path)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--limit", type=float, default=600)
    args = p.parse_args()
    harness.head("instance", "buffers", "MiniMalloc, ms", "onnxmem, ms", "times faster")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.csv"
        for path in args.instances:
            capacity = int(path.name.split(".")[-2])
            pairs = [(theirs(args.minimalloc, path, capacity, args.limit, out), ours(path, capacity, out)) for _ in range(args.runs)]
            (a, solved), (b, fits) = min(x for x, _ in pairs), min(y for _, y in pairs)
            ratios.append(a / b)
            over = "" if solved else "not placed, "
            buffers = sum(1 for line in path.open() if line.strip()) - 1
            harness.row(path.name.split(".")[0], buffers, f"{over}{a * 1e3:,.0f}", f"{'' if fits else 'not placed, '}{b * 1e3:,.1f}", f"{a / b:,.0f}")
    print(f"\nGeometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.1f} times faster")


if __name__ == "__main__":
    main()
