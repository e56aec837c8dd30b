#!/usr/bin/env python3
"""Plan models with --aliases and --no-aliases: the tables of docs/results/aliases.md.

    bench/aliases.py inference             the models of the zoo
    bench/aliases.py training              their training steps
    bench/aliases.py training --only unet  models whose name contains a text

A row for each model whose plan has aliases; the last line counts the others. Each plan is
verified. Sizes are MiB, at batch 1 and other open dimensions 1; seconds are processor
time of `optimize` without and with. Needs only Python's standard library; ONNXMEM_DATA
names the folder of the test data.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import harness

# Training steps that take minutes, or that have nothing to train.
LARGE = ("layered_24k-dyn", "resnet152-dyn", "xlm_roberta_base-dyn")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=("inference", "training"))
    parser.add_argument("--only", default="", help="models whose name contains this")
    args = parser.parse_args()
    harness.head("model", "peak", "with aliases", "lower bound", "arena", "with aliases", "tensors in parts", "s", "with aliases")
    same, refused = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(harness.data("zoo").glob("*.onnx")):
            if args.only not in path.stem or args.table == "training" and path.stem in LARGE:
                continue
            plans = [planned(path, pathlib.Path(folder, "planned.onnx"), args.table == "training", flag) for flag in ("--no-aliases", "--aliases")]
            if None in plans:
                refused.append(path.stem)
                continue
            (before, _, spent), (after, parts, spent_with) = plans
            if after["peak_bytes"] > before["peak_bytes"] or after["arena_bytes"] > before["arena_bytes"]:
                sys.exit(f"{path.stem}: worse with aliases")
            if parts is None:
                same += 1
                continue
            harness.row(
                path.stem,
                mib(before["peak_bytes"]),
                mib(after["peak_bytes"]),
                mib(after["lower_bound_bytes"]),
                mib(before["arena_bytes"]),
                mib(after["arena_bytes"]),
                parts,
                f"{spent:.2f}",
                f"{spent_with:.2f}",
            )
    print(f"\n{same} other models: the same plan.", file=sys.stderr)
    if refused:
        print(f"no training step: {', '.join(refused)}", file=sys.stderr)


def mib(n):
    """Return a size in MiB."""
    return f"{n / harness.MIB:.2f}"


def planned(path, out, train, flag):
    """Return the summary, the number of tensors in parts (None: no aliases) and the processor time; None if it is refused."""
    extra = ["--train"] if train else []
    before = os.times()
    done = subprocess.run(
        [harness.BINARY, "optimize", *extra, flag, "--allow-missing-weights", "--external-data=keep", path, out, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    after = os.times()
    if done.returncode:
        return None
    verdict = harness.answer("verify", out, "--allow-missing-weights", accept=(0, 1))
    if not verdict["valid"]:
        sys.exit(f"{path.stem} {flag}: not valid: {verdict['violations'][:3]}")
    plan = json.loads(out.with_suffix(".plan.json").read_text())
    parts = len(plan.get("spans", [])) if plan["sharing"].get("aliases") else None
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return json.loads(done.stdout), parts, spent


if __name__ == "__main__":
    main()
