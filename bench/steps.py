#!/usr/bin/env python3
"""Compare what slices, nodes that run again, and both make of the memory of training steps of language models.

    bench/steps.py [--only NAME] [--effort fast] [--keep FOLDER]

Each step is planned with --frontier for one core (--device cpu): the extra time by
estimate for limits from 95 to 25 % of the smallest peak, by slices alone, by nodes that
run again alone, and by both. The table has, for each means, the smallest of these limits
that is met within 25 % more time. --keep keeps the plans in a folder, and plans nothing
that is there already. Needs the test data alone; weights are left out.
"""

import argparse
import json
import pathlib

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only steps whose title has this in it")
    parser.add_argument("--effort", default="fast", help="of the search: fast (default), default or max")
    parser.add_argument("--keep", type=pathlib.Path, default=harness.ROOT / "build/bench/steps", help="folder for the plans")
    args = parser.parse_args()
    args.keep.mkdir(parents=True, exist_ok=True)
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
