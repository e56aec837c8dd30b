#!/usr/bin/env python3
"""Compare the time of training steps with PyTorch's: SGD, in float32 and in 16 bits.

    bench/steptimes.py [--threads 1 --threads 2] [--compile] [--batch 2] [--rounds 2] [--old PATH]
                       [--autocast bf16 --autocast fp16] [--under COMMAND] [NAME...]
    bench/steptimes.py --profile [--autocast bf16] [NAME...]

It prints a table for each number of threads (default: 1, then all cores). Ours and
PyTorch's take turns: in each round, our step and PyTorch's run some times. Times are
milliseconds of one step, the smallest and the median of the rounds; ratios are those of
the smallest ones. With one thread they are processor time, which other load on the machine
affects least; else times by the clock, which mean something on an idle machine alone.

With --compile, a column has PyTorch's step after torch.compile, which needs a C++ compiler.
The first run of a network compiles for a minute or two; the results stay in
build/bench/inductor. With --autocast, further columns have both sides' steps in 16 bits:
ours are planned with the same flag, and PyTorch's run in torch.autocast("cpu"), in float16
with its GradScaler. Where PyTorch lacks an operator, it says so, and the cell is a dash.
With --under, the measured processes run under a command, such as 'chrt --rr 50', and all
times are the least by the clock. With --old, another onnxmem takes its turn, too: the command of an
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
import shlex
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
    p.add_argument("--autocast", choices=["bf16", "fp16"], action="append", default=[])
    p.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND")
    p.add_argument("--old", type=pathlib.Path, help="another onnxmem")
    p.add_argument("--profile", action="store_true")
    args = p.parse_args()
    names = args.names or list(NETWORKS)
    with tempfile.TemporaryDirectory() as tmp:
        steps = {name: make_steps(name, args.batch, tmp, args.autocast) for name in names}
        if args.profile:
            harness.head("network", "ms", *(f"{i}.:" for i in range(1, 7)))
            for name, kinds in steps.items():
                for kind, step in kinds.items():
                    profile(f"{name} {kind}".strip(), step)
            return
        for i, threads in enumerate(args.threads or sorted({1, os.cpu_count()})):
            clock = "processor time" if threads == 1 and not args.under else "time by the clock"
            print(("\n" if i else "") + f"{threads} thread{'s' if threads > 1 else ''}, {clock}:\n")
            table(steps, threads, args)


def make_steps(name, batch, folder, autocast):
    """Plan our steps of a network, and return their paths by type, "" for float32."""
    dims, source = NETWORKS[name]
    model = f"{folder}/{name}.onnx"
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
    steps = {}
    for kind in ["", *autocast]:
        steps[kind] = f"{folder}/{name}{kind}.step.onnx"
        harness.answer("optimize", "--train", model, steps[kind], *bound, "--effort=fast", *([f"--autocast={kind}"] if kind else []))
    return steps


def table(steps, threads, args):
    measured = {}
    for kind in ["", *args.autocast]:
        of = f" {kind}" if kind else ""
        if args.old:
            measured["before" + of] = functools.partial(ours, args.old, kind)
        measured["ours" + of] = functools.partial(ours, harness.BINARY, kind)
        measured["PyTorch" + of] = functools.partial(theirs, kind)
        if args.compile and not kind:
            measured["compiled"] = functools.partial(theirs, kind, compiled=True)
    pairs = [(a, b) for a in ("before", "ours") for b in ("PyTorch", "compiled")]
    for kind in args.autocast:
        pairs += [(f"before {kind}", "before"), (f"ours {kind}", "ours"), (f"PyTorch {kind}", "PyTorch"), (f"ours {kind}", f"PyTorch {kind}")]
    pairs = [pair for pair in pairs if {*pair} <= measured.keys()]
    harness.head("network", *(column for title in measured for column in (title, "median")), *(f"{a} / {b}" for a, b in pairs))
    ratios = []
    for name, kinds in steps.items():
        times = {title: [] for title in measured}
        for _ in range(args.rounds):
            for title, measure in measured.items():
                times[title].append(measure(name, kinds, threads, args))
        ratios.append([min(times[a]) / min(times[b]) for a, b in pairs])
        cells = [t for title in measured for t in (min(times[title]), sorted(times[title])[len(times[title]) // 2])]
        harness.row(name, *(f"{t:.0f}" if t < math.inf else "–" for t in cells), *(f"{r:.2f}" if 0 < r < math.inf else "–" for r in ratios[-1]))
    if len(ratios) > 1:
        harness.row("geometric mean", *[""] * (2 * len(measured)), *map(mean, zip(*ratios, strict=True)))


def mean(ratios):
    """Return the geometric mean of the ratios of the networks that have one."""
    known = [math.log(r) for r in ratios if 0 < r < math.inf]
    return f"{math.exp(sum(known) / len(known)):.2f}" if known else "–"


def ours(command, kind, _, kinds, threads, args):
    """Return the time of our step in milliseconds."""
    step = kinds[kind]
    if threads > 1 or args.under:
        costs = json.loads(run(command, step, threads, MANY, "--json", under=args.under).stdout)
        return costs["times_ms"]["step"]
    spent = []
    for steps in (FEW, MANY):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(command, step, threads, steps)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return (spent[1] - spent[0]) / (MANY - FEW)


def run(command, step, threads, steps, *flags, under=()):
    return subprocess.run([*under, command, "run", step, f"--workers={threads}", f"--steps={steps}", *flags], check=True, capture_output=True)


def theirs(kind, name, _, threads, args, compiled=False):
    """Return the time of PyTorch's step in milliseconds, infinity if it has none."""
    flags = (["--compile"] if compiled else []) + ([f"--autocast={kind}"] if kind else [])
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(WORK / "inductor")}
    done = subprocess.run(
        [*args.under, sys.executable, harness.ROOT / "bench/torchsteps.py", name, f"--batch={args.batch}", f"--threads={threads}", f"--steps={MANY - FEW}", *flags],
        check=not kind, capture_output=True, text=True, env=os.environ | cache)
    if done.returncode:
        print(f"{name}: PyTorch's step in {kind}: {(done.stderr.strip().splitlines() or ['nothing said'])[-1]}", file=sys.stderr)
        return math.inf
    return json.loads(done.stdout.splitlines()[-1])["cpu_ms" if threads == 1 and not args.under else "wall_ms"]


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
