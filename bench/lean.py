#!/usr/bin/env python3
"""Measure how much leaner gradients reduce the peak of a training step, next to PyTorch's.

For each network it prints the peak of the step that PyTorch makes (folder training of
the test data), in PyTorch's order and in the best one, and the peak of our step in the
best order found: without leaner gradients (--no-lean all), with all of them, and with
all but one if that makes a difference. SGD, batch 32, MB (1e6 bytes) without
parameters and states.

    bench/lean.py [--effort default] [NAME...]
"""

import argparse
import csv
import pathlib
import subprocess
import tempfile

import harness

# A title, the source of the network, its other dimensions, PyTorch's step.
NETWORKS = [
    ("resnet50", "model/resnet50", [], "resnet50"),
    ("mobilenet_v2", "model/mobilenet_v2", [], "mobilenet_v2"),
    ("efficientnet_b0", "model/efficientnet_b0", [], "efficientnet_b0"),
    ("vit_b_16", "model/vit_b_16", [], "vit_b_16"),
    ("vgg16", "model/vgg16", [], None),
    ("gpt2, 512 tokens", "zoo/gpt2-dyn", ["sequence=512"], "gpt2"),
    ("llama_small, 512 tokens", "zoo/llama_small-dyn", ["sequence=512"], None),
    ("bert_base, 128 tokens", "zoo/bert_base-dyn", ["sequence=128"], "bert_base"),
    ("densenet121", "zoo/densenet121-dyn", [], "densenet121"),
    ("convnext_tiny", "zoo/convnext_tiny-dyn", [], "convnext_tiny"),
    ("googlenet, folded", "zoo/googlenet-dyn", [], None),
    ("mobilenet_v2, folded", "zoo/mobilenet_v2-dyn", [], None),
    ("resnet50, folded", "zoo/resnet50-dyn", [], None),
    ("unet", "zoo/unet-dyn", [], None),
]
LEANER = ["cross-entropy", "softmax", "norm", "mask", "pool", "dropout", "product", "in-place"]


def mb(n):
    return f"{n / 1e6:.0f}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--effort", default="default")
    args = p.parse_args()
    with open(harness.data("training", "expected.csv"), encoding="utf-8") as f:
        theirs = {row["file"].split(".")[0]: row for row in csv.DictReader(f)}
    harness.head("network", "PyTorch, its order", "best order", "ours, without leaner gradients", "ours", "proven:", "less than without", "more if one is left out:")
    with tempfile.TemporaryDirectory() as tmp:
        for title, source, dims, torch in NETWORKS:
            if args.names and title.split(",")[0] not in args.names:
                continue
            kind, _, name = source.partition("/")
            if kind == "model":
                model = pathlib.Path(tmp) / f"{name}.onnx"
                subprocess.run([harness.BINARY, "model", name, model], check=True, capture_output=True)
            else:
                model = harness.data(f"{source}.onnx")
            bound = [word for d in [f"batch={args.batch}", *dims] for word in ("--dim", d)]

            def step(*without):
                flags = [word for name in without for word in ("--no-lean", name)]
                return harness.answer("optimize", "--train", "--allow-missing-weights", "--effort", args.effort, model, f"{tmp}/o.onnx", *bound, *flags)

            program = best = ""
            if torch:
                row = theirs[f"{torch}-train-bs{args.batch}"]
                program = mb(int(row["program_order_peak_bytes"]))
                best = mb(harness.answer("order", harness.data("training", row["file"]))["peak_bytes"])
            fat, ours = step("all"), step()
            worth = []
            for one in LEANER:
                more = step(one)["peak_bytes"] / ours["peak_bytes"] - 1
                if more > 0.002:
                    worth.append((more, one))
            said = ", ".join(f"{one} {100 * more:.1f} %" for more, one in sorted(worth, reverse=True))
            less = f"{100 * (1 - ours['peak_bytes'] / fat['peak_bytes']):.1f} %"
            harness.row(title, program, best, mb(fat["peak_bytes"]), mb(ours["peak_bytes"]), "yes" if ours["schedule_optimal"] else "no", less, said)


if __name__ == "__main__":
    main()
