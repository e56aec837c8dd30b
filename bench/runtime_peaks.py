#!/usr/bin/env python3
"""Write the table of docs/results/onnxruntime.md: peaks of the zoo with the sharing of ONNX Runtime, and with its default order.

    bench/runtime_peaks.py [--only NAME]    ($ONNXMEM_DATA has zoo/; bin/onnxmem is built)

The dimensions are those of zoo/expected.csv.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLANS = (
    ("all", []),
    ("registered", ["--runtime", "onnxruntime"]),
    ("registered, default order", ["--runtime", "onnxruntime", "--order", "default"]),
    ("with an allocator", ["--runtime", "onnxruntime-arena"]),
    ("with an allocator, default order", ["--runtime", "onnxruntime-arena", "--order", "default"]),
)


def dims(model, inputs):
    """Return the flags that bind the open dimensions by their places; inputs is "x=2x3;y=4"."""
    done = subprocess.run([ROOT / "bin/onnxmem", "inspect", model, "--json", "--allow-missing-weights"], capture_output=True, text=True, check=True)
    assumed = {i["name"]: i["shape"] for i in json.loads(done.stdout)["inputs"]}
    flags = []
    for entry in filter(None, inputs.split(";")):
        name, shape = entry.split("=")
        flags += [f"--dim={name}[{i}]={n}" for i, n in enumerate(shape.split("x")) if n != "scalar" and int(n) != assumed[name][i]]
    return flags


def peak(model, flags, out):
    """Return the peak and whether it is the bound; a text if there is no plan."""
    done = subprocess.run([ROOT / "bin/onnxmem", "optimize", model, out, "--json", "--allow-missing-weights", *flags], capture_output=True, text=True, check=False)
    if done.returncode:
        return json.loads(done.stdout)["error"] if done.stdout else done.stderr.strip().splitlines()[-1]
    plan = json.loads(done.stdout)
    return plan["peak_bytes"], plan["schedule_optimal"]


def cell(found, best):
    """Return a table's cell: MiB, how much above the best order's peak, and a star for a proof."""
    if isinstance(found, str):
        return "refused"
    text = f"{found[0] / 2**20:.2f}" + ("*" if found[1] else "")
    if best and not isinstance(best, str) and found[0] > best[0]:
        text += f" (+{100 * (found[0] / best[0] - 1):.1f} %)"
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", metavar="NAME", help="only models whose names contain NAME")
    parser.add_argument("--after", default="", metavar="FILE", help="only models behind FILE in the alphabet")
    args = parser.parse_args()
    zoo = pathlib.Path(os.environ["ONNXMEM_DATA"]) / "zoo"
    print("| model | " + " | ".join(name for name, _ in PLANS) + " |")
    print("| --- |" + " ---: |" * len(PLANS))
    with tempfile.TemporaryDirectory() as folder:
        for row in csv.DictReader((zoo / "expected.csv").open(encoding="utf-8")):
            if args.only not in row["file"] or row["file"] <= args.after:
                continue
            bound = dims(zoo / row["file"], row["inputs"])
            found = [peak(zoo / row["file"], flags + bound, pathlib.Path(folder) / "out.onnx") for _, flags in PLANS]
            best = [None, None, found[1], None, found[3]]
            print(f"| {row['file'].removesuffix('.onnx')} | " + " | ".join(cell(f, b) for f, b in zip(found, best)) + " |", flush=True)


if __name__ == "__main__":
    main()
