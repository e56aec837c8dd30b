#!/usr/bin/env python3
"""Measure the whole process of optimize, all cases in one run.

Weights: optimize of a model with 1 GiB of weights in the file, alternating with cp of
the same file; it prints the ratio of the times, and the memory that optimize itself
needs (anonymous pages; the pages of the mapped file belong to the page cache).
Time: optimize of three models of the zoo, whose weights are external data.

    bench/spine.py [--runs 7] [--work build/bench]

Needs only Python's standard library. Memory is sampled on Linux only. ONNXMEM_DATA
names the folder of the test data.
"""

import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time

import harness


LAYERS, WIDTH = 16, 4096  # 16 weights of 64 MiB
ZOO = (("resnet50-b1", ()), ("bert_base-b1", ()), ("layered_24k-dyn", ("--dim=batch=2",)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="of each measure (default 7)")
    parser.add_argument("--binary", type=pathlib.Path, default=harness.BINARY)
    parser.add_argument("--work", type=pathlib.Path, default=harness.ROOT / "build/bench", help="folder for some 4 GiB of files")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    print(f"{'process':44}{'median':>10}{'least':>10}{'most':>10}{'memory':>12}")
    weights(args)
    zoo(args)


def weights(args):
    source, copy, planned = (args.work / name for name in ("weights.onnx", "copy.onnx", "planned.onnx"))
    if not source.exists():
        write_chain(source)
    turns = {copy: ("cp", source, copy), planned: (args.binary, "optimize", source, planned)}
    runs = {copy: [], planned: []}
    for i in range(args.runs + 1):
        # Each run starts with the same free memory and nothing to write back, and
        # the two programs take turns in going first.
        for target in (copy, planned) if i % 2 else (planned, copy):
            for path in turns:
                path.unlink(missing_ok=True)
            os.sync()
            runs[target].append(measure(*turns[target]))
    copies, plans = runs[copy][1:], runs[planned][1:]  # the first turn fills the page cache
    size = source.stat().st_size
    row(f"cp of {size / harness.MIB:.0f} MiB", copies)
    row(f"optimize of {size / harness.MIB:.0f} MiB", plans)
    ratios = [p.seconds / c.seconds for p, c in zip(plans, copies)]
    print(f"optimize / cp, median of {len(ratios)} pairs: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    for path in turns:
        path.unlink(missing_ok=True)


def zoo(args):
    if not harness.find_data("zoo"):
        print("no test data (set ONNXMEM_DATA): the zoo is left out")
        return
    work = harness.zoo(args.work, *(name for name, _ in ZOO))
    for name, flags in ZOO:
        runs = [measure(args.binary, "optimize", work / f"{name}.onnx", work / "planned.onnx", *flags) for _ in range(args.runs + 1)]
        row(f"optimize {name}", runs[1:])


class Run:
    """Run one process; return the seconds and its maximum of anonymous bytes (None: unknown)."""

    def __init__(self, seconds, memory):
        self.seconds, self.memory = seconds, memory


def measure(*command):
    """Run a command to its end; it must succeed."""
    began = time.perf_counter()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = []
    sampler = threading.Thread(target=sample, args=(process.pid, peak))
    sampler.start()
    said = process.stderr.read()
    process.wait()
    seconds = time.perf_counter() - began
    sampler.join()
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {process.returncode}: {said.decode(errors='replace')}")
    return Run(seconds, max(peak, default=None))


def sample(pid, peak):
    """Sample a process's anonymous bytes every millisecond until it ends."""
    while True:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                lines = [line for line in f if line.startswith("RssAnon:")]
        except (FileNotFoundError, ProcessLookupError):
            return
        if not lines:  # a zombie: it has ended, but its parent has not read its status
            return
        peak.append(int(lines[0].split()[1]) * 1024)
        time.sleep(0.001)


def row(title, runs):
    times = [r.seconds * 1000 for r in runs]
    memory = [r.memory for r in runs if r.memory is not None]
    held = f"{max(memory) / harness.MIB:.1f} MiB" if memory else "-"
    print(f"{title:44}" + "".join(f"{t:7.0f} ms" for t in (statistics.median(times), min(times), max(times))) + f"{held:>12}", flush=True)


def write_chain(path):
    """Write a chain of LAYERS times MatMul and Relu with its weights in raw_data, by
    the field numbers of onnx.proto."""
    rng = random.Random(1)
    block = rng.randbytes(harness.MIB)
    raw = WIDTH * WIDTH * 4
    nodes = b""
    for i in range(LAYERS):
        nodes += field(1, field(1, f"x{i}") + field(1, f"w{i}") + field(2, f"m{i}") + field(3, f"MatMul_{i}") + field(4, "MatMul"))
        nodes += field(1, field(1, f"m{i}") + field(2, f"x{i + 1}") + field(3, f"Relu_{i}") + field(4, "Relu"))
    heads = [number(1, WIDTH) * 2 + number(2, 1) + field(8, f"w{i}") + tag(9, 2) + varint(raw) for i in range(LAYERS)]
    tensors = [tag(5, 2) + varint(len(head) + raw) + head for head in heads]
    ends = field(2, "chain") + field(11, value("x0")) + field(12, value(f"x{LAYERS}"))
    size = len(nodes) + len(ends) + sum(map(len, tensors)) + LAYERS * raw
    with open(path.with_suffix(".part"), "wb") as f:
        f.write(number(1, 8) + field(8, number(2, 17)) + tag(7, 2) + varint(size) + nodes)
        for i, tensor in enumerate(tensors):
            f.write(tensor)
            for j in range(raw // harness.MIB):
                f.write(block[i + j :] + block[: i + j])
        f.write(ends)
    path.with_suffix(".part").rename(path)


def value(name):
    """Return a ValueInfoProto: one row of WIDTH floats."""
    dims = field(1, number(1, 1)) + field(1, number(1, WIDTH))
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, dims)))


def field(n, content):
    data = content.encode() if isinstance(content, str) else content
    return tag(n, 2) + varint(len(data)) + data


def number(n, value):
    return tag(n, 0) + varint(value)


def tag(n, wire):
    return varint(n << 3 | wire)


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


if __name__ == "__main__":
    main()
