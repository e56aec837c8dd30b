#!/usr/bin/env python3
"""Compare what onnxmem fit says of a process with processes of onnxmem run, for docs/fit.md.

    crosscheck/run bench/fit.py [NAME...]

Models are of the zoo, with weights, at the shapes of their inputs. A process runs three steps on
random inputs; its peak is the largest resident set that the system counted.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import compared
import harness

WORK = harness.ROOT / "build/fit"
NAMES = ("bert_base-b1", "densenet121-b1", "efficientnet_b0-dyn", "gpt2-dyn", "mobilenet_v2-dyn", "resnet18-b1", "resnet50-dyn", "unet-b1", "vgg11-b1", "vit_b_16-b1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    harness.head("model", "onnxmem fit, MiB", "measured", "difference")
    for name, source, dims, _ in compared.found(harness.BINARY, WORK, args.names or NAMES):
        said = json.loads(compared.run([harness.BINARY, "fit", source, "--devices", "8 GiB", "--json", *dims]))["process_bytes"]
        with tempfile.TemporaryDirectory(dir=source.parent) as folder:
            planned, _ = compared.planned_in(folder, harness.BINARY, source, dims)
            peak = measured([harness.BINARY, "run", planned, "--steps", "3", "--json"])
        harness.row(name, f"{said / (1 << 20):.1f}", f"{peak / (1 << 20):.1f}", f"{100 * (said / peak - 1):+.1f} %")


def measured(command):
    """Return the peak of a process in bytes."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"fit.py: {' '.join(map(str, command))}: {said.decode()[-200:]}")
    return usage.ru_maxrss << 10


if __name__ == "__main__":
    main()
