#!/usr/bin/env python3
"""Compare what slices, nodes that run again, and both make of the memory of training steps of language models.

    bench/steps.py [--only NAME] [--effort fast] [--keep FOLDER]
    bench/steps.py --seconds [--only NAME] [--rounds 2]

Each step is planned with --frontier for one core (--device cpu): the extra time by
estimate for limits from 95 to 25 % of the smallest peak, by slices alone, by nodes that
run again alone, and by both. The table has, for each means, the smallest of these limits
that is met within 25 % more time. --keep keeps the plans in a folder, and plans nothing
that is there already. Needs the test data alone; weights are left out.

--seconds runs steps on one core: whole, with nodes that run again, and with slices as
well, below the same limit; batches of several sequences in slices alone, too, as small as
they get within 5 % more time. The plans take turns, and what is printed is the least
processor time of a step: a run of two steps less a run of one. The plans are kept, so
--only may run it step by step. It takes 1 GB for weights.
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
    ("gpt2", 1, 1024, 50),
    ("gpt2", 4, 512, 50),
    ("llama_small", 1, 512, 50),
    ("llama_small", 1, 1024, 50),
    ("llama_small", 1, 2048, 35),
    ("llama_small", 1, 4096, 35),
    ("llama_small", 4, 512, 35),
)
ALONE = 5  # per cent that slices alone may take
FEW, MANY = 1, 2  # steps of two runs, whose difference leaves out the preparation


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only steps whose title has this in it")
    parser.add_argument("--seconds", action="store_true", help="run steps and print their times")
    parser.add_argument("--rounds", type=int, default=2, help="turns of the runs (default 2)")
    parser.add_argument("--effort", default="fast", help="of the search: fast (default), default or max")
    parser.add_argument("--keep", type=pathlib.Path, default=harness.ROOT / "build/bench/steps", help="folder for the plans")
    args = parser.parse_args()
    args.keep.mkdir(parents=True, exist_ok=True)
    if args.seconds:
        for step in TIMED:
            if args.only in title(*step[:3]):
                plan(args.keep, *step)
        harness.head("step", "plan:", "peak, MiB", "regions in slices", "nodes that run again", "estimated, %", "seconds", "measured, %")
        for step in TIMED:
            if args.only in title(*step[:3]):
                seconds(args.keep, args.rounds, *step)
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


def ways(network, batch, tokens, limit):
    """Return the plans of a step that runs: what each is called, its file's name and its flags."""
    stem = f"timed-{network}-{batch}x{tokens}"
    yield "whole", f"{stem}.whole.onnx", []
    if batch > 1:
        yield f"slices, in {ALONE} %", f"{stem}.slices.onnx", ["--device=cpu", "--slices=any", f"--extra={ALONE}%"]
    yield f"run again, {limit} %", f"{stem}.again-{limit}.onnx", ["--device=cpu", f"--limit={limit}%"]
    yield f"both, {limit} %", f"{stem}.both-{limit}.onnx", ["--device=cpu", f"--limit={limit}%", "--slices=any"]


def plan(folder, network, batch, tokens, limit):
    """Plan a step in each way, unless the plan is there."""
    wanted = [(name, flags) for _, name, flags in ways(network, batch, tokens, limit) if not (folder / "zoo" / name).with_suffix(".plan.json").exists()]
    if wanted:
        source = harness.zoo(folder, f"{network}-dyn") / f"{network}-dyn.onnx"
        for name, flags in wanted:
            harness.answer(
                "optimize", source, folder / "zoo" / name, f"--dim=batch={batch}", f"--dim=sequence={tokens}", "--train", "--loss=cross-entropy",
                "--fold=any", "--effort=fast", "--external-data=keep", *flags, accept=(0, 1))  # 1: no plan below the limit was found


def seconds(folder, rounds, network, batch, tokens, limit):
    """Print for a step what its plans take, by estimate and by measurement."""
    plans = {how: folder / "zoo" / name for how, name, _ in ways(network, batch, tokens, limit) if (folder / "zoo" / name).exists()}
    spent = {how: [] for how in plans}
    for _ in range(rounds):
        for how, path in plans.items():
            spent[how].append((processor(path, MANY) - processor(path, FEW)) / (MANY - FEW))
    whole = min(spent["whole"])
    for how, path in plans.items():
        made = json.loads(path.with_suffix(".plan.json").read_text())
        summary, least = made["summary"], min(spent[how])
        harness.row(
            title(network, batch, tokens), how, size(summary["peak_bytes"]), len(made.get("slices", {}).get("regions", [])), summary.get("recomputed_nodes", 0),
            f"{summary.get('total_cost_percent', summary.get('extra_cost_percent', 0)):.1f}", f"{least:.2f}", f"{100 * (least / whole - 1):+.1f}")


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
