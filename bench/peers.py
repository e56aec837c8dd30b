#!/usr/bin/env python3
"""Compare the time of models with ONNX Runtime's and OpenVINO's, for docs/results/peers.md.

    crosscheck/run peers bench/peers.py [options] [NAME...]

A table for each number of threads has the time of a step, and the last table the time from
the files to the first result, with all cores. Models are those of the zoo and the light
networks; names leave out the others. In each round the three take turns, each in a process
of its own: it starts, runs once, warms up and then runs steps for --burst seconds. A step's
time is the least of a burst, in milliseconds, and the table has the medians of the rounds;
a ratio is ours to that of the faster of the two. The first result of theirs is measured
after their modules are imported, and ours after the command has begun.

All get the same inputs, and OpenVINO has the shapes of the inputs and computes in float32.
Outputs are compared with ONNX Runtime's without optimizations: a row whose largest
difference, by the largest element, is above a thousandth (1e-2 for 16 bits, 5e-2 for 8) names it.

--under is a command that the measured processes run under, such as 'chrt --rr 50', which
keeps other processes of a busy machine away. Bursts are short, and --rest leaves it time.
Before each process a probe sees whether as many cores are free as it has threads, and
waits for them some seconds.
"""

import argparse
import json
import math
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import compared
import harness
import peersession

WORK = harness.ROOT / "build/peers"
SIDES = ("onnxmem", "onnxruntime", "openvino")
TITLES = {"onnxmem": "ours", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
BOUND = 1.05  # a ratio above it is marked
WARM = 3  # steps before a burst is sized
MOST = 2000  # steps of a burst
DEADLINE = 300  # seconds of a process
BUSY = 1.15  # a probe's time by the clock over that of a processor, above which the cores are not free
PROBES = 20  # at most, half a second apart


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], usage="%(prog)s [options] [NAME...]")
    parser.add_argument("--binary", type=pathlib.Path, default=harness.BINARY)
    parser.add_argument("--threads", type=int, action="append", help="may be repeated (default: 1 and 2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--burst", type=float, default=0.3, metavar="SECONDS")
    parser.add_argument("--rest", type=float, default=0, metavar="SECONDS", help="between two processes")
    parser.add_argument("--under", default="", metavar="COMMAND")
    parser.add_argument("--kept", type=pathlib.Path, metavar="FILE", help="keep figures in FILE, and take those that are there")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    args.binary, args.under = args.binary.resolve(), shlex.split(args.under)
    args.threads = args.threads or [1, 2]
    WORK.mkdir(parents=True, exist_ok=True)
    kept = compared.Kept(args.kept)
    rows = {}
    for name, source, dims, inputs in compared.found(args.binary, WORK, models(args.names)):
        rows[name] = kept.get(name, lambda: figures(args, name, source, dims, inputs))
        print(name, json.dumps(rows[name]), file=sys.stderr, flush=True)
    for threads in args.threads:
        table(f"peers/threads-{threads}", rows, str(threads), "step")
    table("peers/start", rows, str(max(args.threads)), "start")


def models(given):
    """Return the names of the models: those that are given, or all."""
    names = {*compared.zoo(), *compared.light()}
    if unknown := set(given) - names:
        sys.exit(f"peers.py: {', '.join(sorted(unknown))}: unknown: expected {', '.join(sorted(names))}")
    return set(given) or names


def figures(args, name, source, dims, inputs):
    """Measure a model by turns; return the figures by threads and side."""
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        planned, _ = compared.planned_in(folder, args.binary, source, dims)
        given, want = f"{folder}/given.npz", f"{folder}/want.npz"
        child([], ["given", source, inputs, given, want])
        done = {"error": {}}
        for threads in args.threads:
            sides = {side: {"step": [], "start": []} for side in SIDES}
            steps = {}
            for _ in range(args.rounds):
                for side in SIDES:
                    try:
                        once(args, side, (source, planned)[side == "onnxmem"], given, want, threads, sides[side], steps, done["error"])
                    except RuntimeError as failed:
                        print(f"peers.py: {name}: {side}: {failed}", file=sys.stderr)
                    time.sleep(args.rest)
            done[str(threads)] = {side: {k: statistics.median(v) for k, v in found.items() if v} for side, found in sides.items()}
    return done


def once(args, side, model, given, want, threads, found, steps, errors):
    """Run a side's process once: it adds the time of the start and of a step to found."""
    under = args.under + (["taskset", "-c", "1"] if threads == 1 else [])
    for _ in range(PROBES):
        if child(under, ["cores", threads])["ratio"] < BUSY:
            break
        time.sleep(0.5)
    if side != "onnxmem":
        got = child(under, [side, model, given, want, threads, args.burst])
        errors[side] = got["error"]
    else:
        out = f"{pathlib.Path(given).parent}/ours.npz"
        run = [*under, args.binary, "run", model, f"--inputs={given}", f"--workers={threads}", "--json"]
        if side not in steps:  # a first, unmeasured run: the length of a burst, and the outputs
            step = json.loads(command([*run, f"--steps={WARM}", f"--outputs={out}"]))["times_ms"]["step"]
            steps[side] = max(WARM, min(MOST, int(1e3 * args.burst / step)))
            errors[side] = peersession.difference(out, want)
        times = json.loads(command([*run, f"--steps={steps[side]}"]))["times_ms"]
        got = {"step": times["step"], "start": times["first"]}
    for key in ("step", "start"):
        found[key].append(got[key])


def child(under, words):
    return json.loads(command([*under, sys.executable, harness.ROOT / "bench/peersession.py", *words]).splitlines()[-1])


def command(words):
    """Return the standard output of a command; it raises RuntimeError with its last words if it fails."""
    try:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"more than {DEADLINE} s") from None
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:200]}")
    return done.stdout


def table(title, rows, threads, key):
    """Print a table, and to standard error its means."""
    print(f"<!-- table: {title} -->")
    harness.head("model", *TITLES.values(), "ratio", "above:")
    every = {"the faster": [], **{side: [] for side in SIDES[1:]}}
    above = []
    for name, row in rows.items():
        times = {side: row[threads][side].get(key) for side in SIDES}
        theirs = [t for side, t in times.items() if side != "onnxmem" and t]
        ratio = times["onnxmem"] / min(theirs) if theirs and times["onnxmem"] else None
        if ratio:
            every["the faster"].append(ratio)
            for side in SIDES[1:]:
                if times[side]:
                    every[side].append(times["onnxmem"] / times[side])
        words = [f"{BOUND}"] if ratio and ratio > BOUND else []
        words += [f"{TITLES[side]}: {f'error {e:.1e}' if math.isfinite(e) else 'other shapes'}" for side, e in row["error"].items() if e > allowed(name)]
        above += [name] if ratio and ratio > BOUND else []
        harness.row(name, *(ms(t) if t else "" for t in times.values()), f"{ratio:.2f}" if ratio else "", ", ".join(words))
    means = {who: math.exp(sum(map(math.log, r)) / len(r)) for who, r in every.items() if r}
    if len(rows) > 1 and means:
        harness.row("geometric mean", *("", *(f"{means[s]:.2f}" if s in means else "" for s in SIDES[1:])), f"{means['the faster']:.2f}", f"{len(above)} of {len(every['the faster'])}")
    print(flush=True)


def allowed(name):
    return 5e-2 if "int8" in name else 1e-2 if "fp16" in name else 1e-3


def ms(milliseconds):
    return f"{milliseconds:.3f}" if milliseconds < 1 else f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:.1f}"


if __name__ == "__main__":
    sys.exit(main())
