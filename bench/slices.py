#!/usr/bin/env python3
"""Compare the estimated cost of slices with the measured one, in onnxmem run and in ONNX Runtime.

    bench/slices.py [--only NAME] [--rounds 3] [--plan | --time]

Plans networks of the zoo whole and below a limit that slices alone meet, for one core
(--device cpu), and runs both alternately on one thread; the least time counts. ONNX
Runtime runs without its optimizations, so that it runs the file's graph; its results are
compared, too. --plan only plans, --time only runs what was planned, so that the runs
alone can have a core for themselves (taskset -c 1 chrt -f 10). Needs onnx, onnxruntime
and numpy: "crosscheck/run bench/slices.py" provides them.
"""

import argparse
import json
import sys
import time

import harness
import numpy as np
import onnx

sys.path.insert(0, str(harness.ROOT))
from crosscheck import feeds, runtime, sliced  # noqa: E402

# Title, file of the zoo, limit in per cent of the peak, lengths of dimensions, and whether
# the product with the vocabulary is left out, whose logits no slices make smaller.
NETWORKS = (
    ("resnet50, batch 1", "resnet50-dyn", 50, {"batch": 1}, False),
    ("resnet50, batch 8", "resnet50-dyn", 30, {"batch": 8}, False),
    ("mobilenet_v2, batch 1", "mobilenet_v2-dyn", 20, {"batch": 1}, False),
    ("mobilenet_v2, batch 8", "mobilenet_v2-dyn", 25, {"batch": 8}, False),
    ("vit_b_16, batch 1", "vit_b_16-b1", 56, {}, False),
    ("vit_b_16, batch 8", "vit_b_16-dyn", 50, {"batch": 8}, False),
    ("unet, batch 1", "unet-b1", 65, {}, False),
    ("bert_base, 512 tokens", "bert_base-dyn", 50, {"batch": 1, "sequence": 512}, False),
    ("gpt2, 512 tokens", "gpt2-dyn", 60, {"batch": 1, "sequence": 512}, True),
    ("llama_small, 1024 tokens", "llama_small-dyn", 50, {"batch": 1, "sequence": 1024}, True),
)
EXACT = 1e-6  # the largest difference in ONNX Runtime, relative to the largest element


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only networks whose title has this in it")
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs (default 3)")
    phase = parser.add_mutually_exclusive_group()
    phase.add_argument("--plan", action="store_true", help="only plan")
    phase.add_argument("--time", action="store_true", help="only run what was planned")
    args = parser.parse_args()
    networks = [n for n in NETWORKS if args.only in n[0]]
    folder = harness.zoo(harness.ROOT / "build/bench", *{n[1] for n in networks})
    if not args.time:
        for network in networks:
            plan(folder, *network)
    if args.plan:
        return
    print("<!-- table: slices/estimates -->\n")
    harness.head("network", "whole, MiB", "sliced, MiB", "slices, at most", "extra time: estimated, %", "measured, %", "ONNX Runtime, %", "differs by")
    for network in networks:
        measure(folder, args.rounds, *network)


def paths(folder, title):
    stem = title.replace(" ", "-").replace(",", "")
    return [folder / f"{stem}.{kind}.onnx" for kind in ("whole", "sliced")]


def plan(folder, title, file, limit, dims, headless):
    """Plan a network whole and in slices."""
    source = folder / f"{file}.onnx"
    if headless:
        model = onnx.load(source, load_external_data=False)
        sliced.remove_head(model.graph)
        source = folder / f"{file}.headless.onnx"
        onnx.save(model, source)
    whole, cut = paths(folder, title)
    dims = [f"--dim={k}={v}" for k, v in dims.items()]
    harness.answer("optimize", source, whole, *dims, "--no-aliases")  # slices have none, either
    harness.answer("optimize", source, cut, *dims, "--slices=exact", f"--limit={limit}%", "--device=cpu")


def measure(folder, rounds, title, file, limit, dims, headless):
    """Print the row of a network."""
    pair = paths(folder, title)
    made = json.loads(pair[1].with_suffix(".plan.json").read_text())
    summary = made["summary"]
    graph = onnx.load(pair[0], load_external_data=False).graph
    shapes = {name: tuple(dims.get(d, 1) if isinstance(d, str) else d for d in lengths) for name, lengths in feeds.declared(graph).items()}
    given = feeds.make(graph, shapes)
    ours = least(rounds, pair, lambda path: harness.answer("run", path, "--workers=1", "--steps=5")["times_ms"]["step"])
    sessions = {path: runtime.session(path) for path in pair}
    names = [o.name for o in sessions[pair[0]].get_outputs()]
    outputs = {}

    def run(path):
        began = time.perf_counter()
        outputs[path] = sessions[path].run(names, given)
        return time.perf_counter() - began

    for path in pair:  # the first run allocates
        run(path)
    theirs = least(4 * rounds, pair, run)
    differs = max(float(abs(b - a).max() / max(abs(a).max(), np.finfo("f").tiny)) for a, b in zip(outputs[pair[0]], outputs[pair[1]]))
    harness.row(
        title, f"{summary['unsliced_peak_bytes'] / harness.MIB:.2f}", f"{summary['peak_bytes'] / harness.MIB:.2f}",
        max(r["count"] for r in made["slices"]["regions"]), f"{summary['total_cost_percent']:.1f}", more(ours), more(theirs), f"{differs:.0e}" if differs else "0")
    if differs > EXACT:
        sys.exit(f"{title}: results in slices differ by {differs:.1e} in ONNX Runtime: expected at most {EXACT:.0e}")


def least(rounds, pair, run):
    """Return the least times of alternating runs."""
    times = [[run(path) for path in pair] for _ in range(rounds)]
    return [min(column) for column in zip(*times)]


def more(pair):
    return f"{100 * (pair[1] / pair[0] - 1):+.1f}"


if __name__ == "__main__":
    main()
