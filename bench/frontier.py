#!/usr/bin/env python3
"""Measure the cost of limits below the best order's peak: the tables of docs/results/limits.md.

    bench/frontier.py traced          steps traced from PyTorch (folder budget of the test data)
    bench/frontier.py steps           steps that onnxmem makes, batch 32
    bench/frontier.py host            the same steps, with swapping to a host
    bench/frontier.py traced --only resnet50-train-bs1

The tables show the extra time in per cent at limits in per cent of the peak, and
its lower bound in brackets. Costs are modelled; the effort is the default. Seconds
are processor time. Needs only Python's standard library; ONNXMEM_DATA names the
folder of the test data.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

import harness

LIMITS = (90, 80, 70, 60, 50, 40, 30)
LINKS = (12, 25)  # GB/s

# A title, the source of the network, its other dimensions.
STEPS = (
    ("resnet50", "model/resnet50", ()),
    ("mobilenet_v2", "model/mobilenet_v2", ()),
    ("efficientnet_b0", "zoo/efficientnet_b0-dyn", ()),
    ("vit_b_16", "zoo/vit_b_16-dyn", ()),
    ("gpt2, 512 tokens", "zoo/gpt2-dyn", ("--dim=sequence=512",)),
    ("resnet50, folded", "zoo/resnet50-dyn", ()),
    ("mobilenet_v2, folded", "zoo/mobilenet_v2-dyn", ()),
)
HOSTED = ("resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b_16")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=("traced", "steps", "host"))
    parser.add_argument("--only", help="one step")
    parser.add_argument("--effort", default="default")
    args = parser.parse_args()
    percents = [f"{limit} %" for limit in LIMITS]
    if args.table == "traced":
        harness.head("step", "nodes", "peak MB", *percents, "s")
        for path in sorted(harness.data("budget").glob("*.json.gz")):
            name = path.name.removesuffix(".json.gz")
            if args.only in (None, name):
                found, seconds = spent("order", path, "--frontier", f"--effort={args.effort}")
                harness.row(name, found["nodes"], found["peak_bytes"] // 10**6, *(bounded(p) for p in points(found)), f"{seconds:.1f}")
        return
    if args.table == "steps":
        harness.head("step", "nodes", "peak", *percents, "s")
    else:
        harness.head("step", "GB/s", "by:", *percents)
    with tempfile.TemporaryDirectory() as folder:
        for title, source, dims in STEPS:
            if args.only not in (None, title) or args.table == "host" and title not in HOSTED:
                continue
            command = ("optimize", "--train", "--allow-missing-weights", model(source, folder), "--frontier", "--dim=batch=32", *dims, f"--effort={args.effort}")
            found, seconds = spent(*command)
            if args.table == "steps":
                harness.row(title, found["nodes"], round(found["peak_bytes"] / harness.MIB), *(bounded(p) for p in points(found)), f"{seconds:.0f}")
                continue
            harness.row(title, "-", "repeat", *map(extra, points(found)))
            for link in LINKS:
                for way, flags in (("swap", ["--no-recompute"]), ("both", [])):
                    harness.row("", link, way, *map(extra, points(harness.answer(*command, f"--host-link={link}GB/s", *flags))))


def spent(*args):
    """Run onnxmem; return its result and the seconds of processor time that it took."""
    before = os.times()
    found = harness.answer(*args)
    after = os.times()
    return found, after.children_user + after.children_system - before.children_user - before.children_system


def model(source, folder):
    """Return the file of a network; write it first if the network is built in."""
    kind, _, name = source.partition("/")
    if kind == "zoo":
        return harness.data(f"{source}.onnx")
    path = pathlib.Path(folder, f"{name}.onnx")
    subprocess.run([harness.BINARY, "model", name, path], check=True, capture_output=True)
    return path


def points(found):
    """Return the points of the curve at LIMITS. It has one every 5 per cent, down to the first that is proven impossible."""
    by_percent = {round(100 * p["limit_bytes"] / found["peak_bytes"]): p for p in found["frontier"]}
    return [by_percent.get(limit) for limit in LIMITS]


def extra(point):
    if not point or point["extra_cost_lower_bound_percent"] is None and point["extra_cost_percent"] is None:
        return "impossible"
    return "none" if point["extra_cost_percent"] is None else f"{point['extra_cost_percent']:.2f}"


def bounded(point):
    said = extra(point)
    return said if said == "impossible" else f"{said} ({point['extra_cost_lower_bound_percent']:.2f})"


if __name__ == "__main__":
    main()
