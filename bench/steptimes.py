#!/usr/bin/env python3
"""Compare the time of training steps with PyTorch's: SGD, float32.

    bench/steptimes.py [--threads 1 --threads 2] [--compile] [--batch 2] [--rounds 2] [--old PATH] [NAME...]
    bench/steptimes.py --profile [NAME...]

It prints a table for each number of threads (default: 1, then all cores). Ours and
PyTorch's take turns: in each round, our step and PyTorch's run some times. Times are
milliseconds of one step, the smallest and the median of the rounds; ratios are those of
the smallest ones. With one thread they are processor time, which other load on the machine
affects least; else times by the clock, which mean something on an idle machine alone.

With --compile, a column has PyTorch's step after torch.compile, which needs a C++ compiler.
The first run of a network compiles for a minute or two; the results stay in
build/bench/inductor. With --old, another onnxmem takes its turn, too: the command of an
earlier commit. With --profile it prints which operators our step spends its time in.
PyTorch's steps are in torchsteps.py.
"""

import argparse
import collections
import functools
import json
import math
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import harness

# The networks, the dimensions of ours, and where it comes from: "" for onnxmem model, a
# file of the zoo, or "export" for PyTorch's network.
NETWORKS = {
    "mnasnet": ([], ""),
    "mobilenet_v2": ([], ""),
    "resnet18": ([], ""),
    "efficientnet_b0": ([], ""),
    "googlenet": ([], ""),
    "resnet50": ([], ""),
    "alexnet": ([], ""),
    "convnext_tiny": ([], "convnext_tiny-dyn"),
    "r3d_18": ([], ""),
    "vit_b_16": ([], ""),
    "bert": (["sequence=128"], ""),
    "gpt2": (["sequence=128"], "gpt2-dyn"),
    "lstm": (None, "export"),
}
FEW, MANY = 1, 3  # steps of two runs, whose difference leaves out the preparation
WORK = harness.ROOT / "build/bench"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--threads", type=int, action="append")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--old", type=pathlib.Path, help="another onnxmem")
    p.add_argument("--profile", action="store_true")
    args = p.parse_args()
    names = args.names or list(NETWORKS)
    with tempfile.TemporaryDirectory() as tmp:
        steps = {name: make_step(name, args.batch, tmp) for name in names}
        if args.profile:
            harness.head("network", "ms", *(f"{i}.:" for i in range(1, 7)))
            for name, step in steps.items():
                profile(name, step)
            return
        for i, threads in enumerate(args.threads or sorted({1, os.cpu_count()})):
            print(("\n" if i else "") + ("One thread, processor time:" if threads == 1 else f"{threads} threads, time by the clock:") + "\n")
            table(steps, threads, args)


def make_step(name, batch, folder):
    """Plan our step of a network and return its path."""
    dims, source = NETWORKS[name]
    model, step = f"{folder}/{name}.onnx", f"{folder}/{name}.step.onnx"
    if source == "export":
        subprocess.run([sys.executable, harness.ROOT / "bench/torchsteps.py", name, f"--batch={batch}", f"--export={model}"], check=True, capture_output=True)
    elif source:
        shutil.copyfile(harness.zoo(WORK, source) / f"{source}.onnx", model)
        if not (link := pathlib.Path(folder, "weights.bin")).exists():
            try:
                os.link(WORK / "zoo/weights.bin", link)
            except OSError:  # another file system
                shutil.copyfile(WORK / "zoo/weights.bin", link)
    else:
        subprocess.run([harness.BINARY, "model", name, model], check=True, capture_output=True)
    bound = [] if dims is None else [f"--dim={d}" for d in [f"batch={batch}", *dims]]
    harness.answer("optimize", "--train", model, step, *bound, "--effort=fast")
    return step


def table(steps, threads, args):
    measured = [("before", functools.partial(ours, args.old))] if args.old else []
    measured += [("ours", functools.partial(ours, harness.BINARY)), ("PyTorch", theirs)]
    if args.compile:
        measured.append(("compiled", functools.partial(theirs, compiled=True)))
    titles = [title for title, _ in measured]
    pairs = [(a, b) for a in ("before", "ours") for b in ("PyTorch", "compiled") if {a, b} <= set(titles)]
    harness.head("network", *(column for title in titles for column in (title, "median")), *(f"{a} / {b}" for a, b in pairs))
    ratios = []
    for name, step in steps.items():
        times = {title: [] for title in titles}
        for _ in range(args.rounds):
            for title, measure in measured:
                times[title].append(measure(name, step, threads, args.batch))
        ratios.append([min(times[a]) / min(times[b]) for a, b in pairs])
        cells = [f"{t:.0f}" for title in titles for t in (min(times[title]), sorted(times[title])[len(times[title]) // 2])]
        harness.row(name, *cells, *(f"{r:.2f}" for r in ratios[-1]))
    if len(ratios) > 1:
        means = [f"{math.exp(sum(map(math.log, column)) / len(column)):.2f}" for column in zip(*ratios, strict=True)]
        harness.row("geometric mean", *[""] * (2 * len(titles)), *means)


def ours(command, _, step, threads, __):
    """Return the time of our step in milliseconds."""
    if threads > 1:
        costs = json.loads(run(command, step, threads, MANY, "--json").stdout)
        return costs["times_ms"]["step"]
    spent = []
    for steps in (FEW, MANY):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(command, step, threads, steps)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return (spent[1] - spent[0]) / (MANY - FEW)


def run(command, step, threads, steps, *flags):
    return subprocess.run([command, "run", step, f"--workers={threads}", f"--steps={steps}", *flags], check=True, capture_output=True)


def theirs(name, _, threads, batch, compiled=False):
    """Return the time of PyTorch's step in milliseconds."""
    flags = ["--compile"] if compiled else []
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(WORK / "inductor")}
    done = subprocess.run(
        [sys.executable, harness.ROOT / "bench/torchsteps.py", name, f"--batch={batch}", f"--threads={threads}", f"--steps={MANY - FEW}", *flags],
        check=True, capture_output=True, text=True, env=os.environ | cache)
    return json.loads(done.stdout.splitlines()[-1])["cpu_ms" if threads == 1 else "wall_ms"]


def profile(name, step):
    """Print the operators that take most of a step, by the smallest of some times of each node."""
    costs = pathlib.Path(step).with_suffix(".costs.json")
    run(harness.BINARY, step, 1, MANY, f"--costs-out={costs}")
    times = json.loads(costs.read_text())
    plan = json.loads(pathlib.Path(step.replace(".onnx", ".plan.json")).read_text())
    spent = collections.Counter()
    for node in plan["steps"]:
        op = node["op"]
        if op == "Conv":
            op = "Conv of weights" if ".grad/" in node["name"] else "Conv"
        spent[op] += times.get(node["name"], 0)
    whole = sum(spent.values())
    harness.row(name, f"{whole / 1e6:.0f}", *(f"{op} {100 * t / whole:.0f} %" for op, t in spent.most_common(6)))


if __name__ == "__main__":
    main()
