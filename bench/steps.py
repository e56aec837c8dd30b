#!/usr/bin/env python3
"""Compare what slices, nodes that run again, and both make of the memory of training steps of language models.

    bench/steps.py [--only NAME] [--effort fast] [--keep FOLDER]
    bench/steps.py --seconds [--only NAME] [--rounds 3]

Each step is planned with --frontier for one core (--device cpu): the extra time by
estimate for limits from 95 to 25 % of the smallest peak, by slices alone, by nodes that
run again alone, and by both. The table has, for each means, the smallest of these limits
that is met within 25 % more time. --keep keeps the plans in a folder, and plans nothing
that is there already. Needs the test data alone; weights are left out.

--seconds runs steps on one core: whole, in slices alone, as small as they get within 5 %
more time, with nodes that run again, and with slices as well, below the same limit. The plans take turns, and each node counts with its fastest run. Other work
on the machine may still slow the turns of one plan more than those of another; so the last
column compares nodes that run again with the other nodes of the same runs. The plans are
kept, so --only may run it step by step. It takes 1 GB for weights.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

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
RUNS = 2  # steps of each turn


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only steps whose title has this in it")
    parser.add_argument("--seconds", action="store_true", help="run steps and print their times")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the runs (default 3)")
    parser.add_argument("--effort", default="fast", help="of the search: fast (default), default or max")
    parser.add_argument("--keep", type=pathlib.Path, default=harness.ROOT / "build/bench/steps", help="folder for the plans")
    args = parser.parse_args()
    args.keep.mkdir(parents=True, exist_ok=True)
    if args.seconds:
        for step in TIMED:
            if args.only in title(*step[:3]):
                plan(args.keep, *step)
        harness.head("step", "plan:", "peak, MiB", "regions in slices", "nodes that run again", "estimated, %", "seconds", "measured, %", "estimated again, %", "measured again, %")
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
    yield f"slices, in {ALONE} %", f"{stem}.slices.onnx", ["--device=cpu", "--slices=any", f"--extra={ALONE}%", "--no-recompute"]
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
    fastest = {how: {} for how in plans}  # microseconds by the node's place
    for _ in range(rounds):
        for how, path in plans.items():
            for node, took in enumerate(nodes(path)):
                fastest[how][node] = min(took, fastest[how].get(node, took))
    spent = {how: sum(times.values()) / 1e6 for how, times in fastest.items()}
    whole = spent["whole"]
    for how, path in plans.items():
        made = json.loads(path.with_suffix(".plan.json").read_text())
        summary, least = made["summary"], spent[how]
        again = sum(fastest[how][i] for i, step in enumerate(made["steps"]) if step.get("again") is not None) / 1e6
        harness.row(
            title(network, batch, tokens), how, size(summary["peak_bytes"]), len(made.get("slices", {}).get("regions", [])), summary.get("recomputed_nodes", 0),
            f"{summary.get('total_cost_percent', summary.get('extra_cost_percent', 0)):.1f}", f"{least:.2f}", f"{100 * (least / whole - 1):+.1f}",
            f"{summary.get('extra_cost_percent', 0):.1f}", f"{100 * again / (least - again):.1f}")


def nodes(step):
    """Return the microseconds of the fastest run of each node, in the order of the step."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.json")
        subprocess.run([harness.BINARY, "run", step, "--workers=1", f"--steps={RUNS}", f"--profile={trace}"], check=True, capture_output=True)
        return [e["args"]["fastest_us"] for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]


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
