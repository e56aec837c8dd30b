#!/usr/bin/env python3
"""Compare training steps made by onnxmem with those made by PyTorch.

For each network and batch it prints the arena of our step with updates last in
program order, the arena in our order with updates interleaved, the bound, and the
memory of PyTorch's own step (training/expected.csv of the test data: in program
order, and as its allocator reserves it, without parameters and optimizer states).
SGD, MiB.

    bench/training.py [--batch 1 --batch 32] [NAME...]
"""

import argparse
import csv
import subprocess
import tempfile

import harness

# Our network, its source file, its other dimensions, and the name of
# PyTorch's in expected.csv.
NETWORKS = [
    ("alexnet", [], "alexnet"),
    ("bert", ["sequence=128"], "bert_base"),
    ("efficientnet_b0", [], "efficientnet_b0"),
    ("googlenet", [], None),
    ("mnasnet", [], None),
    ("mobilenet_v2", [], "mobilenet_v2"),
    ("r3d_18", [], "resnet3d_18"),
    ("resnet18", [], "resnet18"),
    ("resnet50", [], "resnet50"),
    ("transformer", ["source=32", "target=32"], "transformer"),
    ("vgg16", [], None),
    ("vit_b_16", [], "vit_b_16"),
    ("xlmr", ["sequence=128"], None),
]


def mib(n):
    return f"{n / 2**20:.1f}"


def optimize(model, out, dims, *flags):
    """Return the figures of one step."""
    return harness.answer("optimize", "--train", model, out, *flags, *(f"--dim={d}" for d in dims))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--batch", type=int, action="append")
    p.add_argument("--effort", default="default")
    args = p.parse_args()
    theirs = {}
    with open(harness.data("training", "expected.csv"), encoding="utf-8") as f:
        for row in csv.DictReader(f):
            theirs[row["file"].split(".")[0]] = row
    harness.head("network", "batch", "nodes", "updates last, program order", "ours", "bound", "proven:", "arena", "ms", "PyTorch, program order", "PyTorch's allocator")
    with tempfile.TemporaryDirectory() as tmp:
        for name, dims, torch in NETWORKS:
            if args.names and name not in args.names:
                continue
            model = f"{tmp}/{name}.onnx"
            subprocess.run([harness.BINARY, "model", name, model], check=True, capture_output=True)
            for batch in args.batch or [1, 32]:
                bound = [f"batch={batch}", *dims]
                naive = optimize(model, f"{tmp}/o.onnx", bound, "--updates", "last", "--schedule", "program", "--effort", "fast")
                ours = optimize(model, f"{tmp}/o.onnx", bound, "--effort", args.effort)
                row = theirs.get(f"{torch}-train-bs{batch}", {})
                base = int(row["resident_bytes"]) if row else 0
                peak = mib(int(row["program_order_peak_bytes"])) if row else ""
                cuda = mib(int(row["cuda_reserved_peak"]) - base) if row else ""
                sizes = [mib(n) for n in (naive["peak_bytes"], ours["peak_bytes"], ours["lower_bound_bytes"])]
                ms = sum(ours["times_ms"][stage] for stage in ("autodiff", "schedule", "place"))
                harness.row(name, batch, ours["nodes"], *sizes, "yes" if ours["schedule_optimal"] else "no", mib(ours["arena_bytes"]), f"{ms:.0f}", peak, cuda)


if __name__ == "__main__":
    main()
