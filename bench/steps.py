#!/usr/bin/env python3
"""Compare what slices, nodes that run again, and both make of the memory of training steps of language models.

    bench/steps.py [--only NAME] [--effort fast] [--keep FOLDER]
    bench/steps.py --seconds [--only NAME]

Each step is planned with --frontier for one core (--device cpu): the extra time by
estimate for limits from 95 to 25 % of the smallest peak, by slices alone, by nodes that
run again alone, and by both. The table has, for each means, the smallest of these limits
that is met within 25 % more time. --keep keeps the plans in a folder, and plans nothing
that is there already. Needs the test data alone; weights are left out.

--seconds runs steps that take seconds on one core: whole, with nodes that run again, and
with slices as well, below the same limit. The plans take turns, two rounds of them, and
what is printed is the least processor time of a step. 10 minutes, and 1 GB for weights.
"""

import argparse
import json
import pathlib
import resource
import subprocess

import harness

# Title, file of the zoo, batch and tokens. GPT-2 has positions for 1,024.
STEPS = (
    ("gpt2", 1, 512),
    ("gpt2", 1, 1024),
    ("gpt2", 4, 1024),
    ("llama_small", 1, 512),
    ("llama_small", 1, 1024),
    ("llama_small", 1, 2048),
    ("llama_small", 1, 4096),
)
MOST = 25.0  # per cent of extra time
# Those that run, and the limit in per cent of the peak.
TIMED = (
    ("gpt2", 1, 512, 50),
    ("llama_small", 1, 1024, 50),
    ("llama_small", 4, 512, 35),
)
ROUNDS = 2
FEW, MANY = 1, 2  # steps of two runs, whose difference leaves out the preparation


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only steps whose title has this in it")
    parser.add_argument("--seconds", action="store_true", help="run steps and print their times")
    parser.add_argument("--effort", default="fast", help="of the search: fast (default), default or max")
    parser.add_argument("--keep", type=pathlib.Path, default=harness.ROOT / "build/bench/steps", help="folder for the plans")
    args = parser.parse_args()
    args.keep.mkdir(parents=True, exist_ok=True)
    if args.seconds:
        seconds(args)
        return
    steps = [s for s in STEPS if args.only in title(*s)]
    harness.head("step", "whole, MiB", "slices alone, MiB", "takes, %", "run again alone, MiB", "takes, %", "both, MiB", "takes, %", "impossible at, MiB")
    for step in steps:
        network, batch, tokens = step
        path = args.keep / f"{network}-{batch}x{tokens}.plan.json"
        if not path.exists():
            harness.answer(
                "optimize", harness.data("zoo", f"{network}-dyn.onnx"), path.with_name(path.name.replace(".plan.json", ".onnx")), f"--dim=batch={batch}", f"--dim=sequence={tokens}",
                "--train", "--loss=cross-entropy", "--fold=any", "--slices=any", "--frontier", "--device=cpu", f"--effort={args.effort}", "--allow-missing-weights")
        harness.row(title(*step), *cells(json.loads(path.read_text())))


def seconds(args):
    """Print for each step that runs what its plans take, by estimate and by measurement."""
    folder = harness.zoo(harness.ROOT / "build/bench", *{network for network, *_ in _dyn(TIMED)})
    harness.head("step", "plan:", "peak, MiB", "regions in slices", "nodes that run again", "estimated, %", "seconds", "measured, %")
    for network, batch, tokens, limit in TIMED:
        name = title(network, batch, tokens)
        if args.only not in name:
            continue
        plans = {}
        for how, flags in (("whole", []), (f"run again, {limit} %", ["--device=cpu", f"--limit={limit}%"]), (f"both, {limit} %", ["--device=cpu", f"--limit={limit}%", "--slices=any"])):
            target = folder / f"{network}-{batch}x{tokens}-{len(plans)}.onnx"
            made = harness.answer(
                "optimize", folder / f"{network}-dyn.onnx", target, f"--dim=batch={batch}", f"--dim=sequence={tokens}", "--train", "--loss=cross-entropy",
                "--fold=any", "--effort=fast", "--external-data=keep", *flags, accept=(0, 1))
            if "peak_bytes" in made:
                plans[how] = (target, made)
        spent = {how: [] for how in plans}
        for _ in range(ROUNDS):
            for how, (target, _made) in plans.items():
                spent[how].append((processor(target, MANY) - processor(target, FEW)) / (MANY - FEW))
        whole = min(spent["whole"])
        for how, (target, made) in plans.items():
            plan = json.loads(target.with_suffix(".plan.json").read_text())
            least = min(spent[how])
            harness.row(
                name, how, size(made["peak_bytes"]), len(plan.get("slices", {}).get("regions", [])), made.get("recomputed_nodes", 0),
                f"{made.get('total_cost_percent', made.get('extra_cost_percent', 0)):.1f}", f"{least:.2f}", f"{100 * (least / whole - 1):+.1f}")


def _dyn(steps):
    return [(f"{network}-dyn", *rest) for network, *rest in steps]


def processor(step, steps):
    """Return the processor time of a run in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([harness.BINARY, "run", step, "--workers=1", f"--steps={steps}"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def title(network, batch, tokens):
    return f"{network}, {batch} x {tokens:,}"


def cells(plan):
    """Return the peak and, for each means, the smallest limit that is met in time, and its extra time."""
    row = [size(plan["summary"]["peak_bytes"])]
    for cost in (lambda p: p["alone"]["slices_percent"], lambda p: p["alone"]["recompute_percent"], lambda p: p["extra_cost_percent"]):
        met = [(p["limit_bytes"], cost(p)) for p in plan["frontier"] if p.get("alone") and cost(p) is not None and cost(p) <= MOST]
        row += [size(met[-1][0]), f"{met[-1][1]:.1f}"] if met else ["–", "–"]
    impossible = [p["limit_bytes"] for p in plan["frontier"] if p.get("impossible")]
    return [*row, size(impossible[0]) if impossible else "–"]


def size(value):
    return f"{value / harness.MIB:,.0f}"


if __name__ == "__main__":
    main()
