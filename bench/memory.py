#!/usr/bin/env python3
"""Compare the memory that a running plan touches with the plan's figures.

    bench/memory.py [--work build/bench]

Each model is planned and then run ten times in its own process, on one thread. The
column "touched" is the resident memory of the process afterwards, without the mapped
files of model and weights, minus that of a process that ran a model of four nodes. It
must be at most the sum of the arena, the parameters and states, the dynamic tensors,
packed weights, decoded constants and scratch as the session reports them, and 32 MiB.
If it is more, the exit status is 1. Linux only; needs only Python's standard library.
ONNXMEM_DATA names the folder of the test data.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import harness

SLACK = 32 * harness.MIB
PARTS = ("arena", "states", "dynamic", "packed", "decoded", "scratch")
MODELS = tuple((name, dims, batch) for name, dims in (("resnet50-dyn", ()), ("unet-dyn", ()), ("bert_base-dyn", ("sequence=128",))) for batch in (1, 8))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, default=harness.BINARY)
    parser.add_argument("--work", type=pathlib.Path, default=harness.ROOT / "build/bench", help="folder for models and 818 MiB of weights")
    args = parser.parse_args()
    if not harness.find_data("zoo"):
        print("no test data (set ONNXMEM_DATA): memory is not measured")
        return 0
    work = harness.zoo(args.work, *{name for name, _, _ in MODELS})
    test = args.work / "vm.test"
    subprocess.run(["go", "test", "-c", "-o", test.resolve(), "./vm"], cwd=harness.ROOT, check=True)
    harness.head("model", "batch", "nodes", *PARTS, "sum", "touched", "beyond", "allocations a run")
    worst = 0
    for name, dims, batch in MODELS:
        target = (work / f"{name}-memory.onnx").resolve()
        flags = [f"--dim={d}" for d in (f"batch={batch}", *dims)]
        subprocess.run([args.binary, "optimize", work / f"{name}.onnx", target, *flags], check=True, capture_output=True)
        worst = max(worst, measure(test.resolve(), target, name, batch))
    return 1 if worst > SLACK else 0


def measure(test, target, name, batch):
    """Print a row; return the number of bytes touched beyond the plan's figures."""
    done = subprocess.run(
        [test, "-test.run", "^$", "-test.bench", "Touched", "-test.benchtime", "1x"],
        cwd=harness.ROOT / "vm", env=os.environ | {"ONNXMEM_PLANNED": str(target)}, capture_output=True, text=True)
    found = {unit: float(n) for n, unit in re.findall(r"([\d.e+]+) (\S+)", done.stdout)}
    if done.returncode != 0 or "touched-B" not in found:
        sys.exit(f"{name}: {done.stdout}{done.stderr}")
    parts = [found[f"{p}-B"] for p in PARTS]
    beyond = found["touched-B"] - sum(parts)
    mib = [f"{b / harness.MIB:.1f}" for b in (*parts, sum(parts), found["touched-B"], beyond)]
    harness.row(name, batch, f"{found['nodes']:.0f}", *mib, f"{found['heap-allocs/step']:.0f}")
    return beyond


if __name__ == "__main__":
    sys.exit(main())
