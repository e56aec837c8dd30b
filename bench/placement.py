#!/usr/bin/env python3
"""Compare placements over folders of models and bare problems.

    bench/placement.py zoo=$ONNXMEM_DATA/zoo/*.onnx train=$ONNXMEM_DATA/training/*-train-*.json*

runs `bin/onnxmem compare --json` on each file and prints a Markdown table: how often a
strategy's arena equals the peak, and the ratio of arena to peak, median and maximum.
--each adds a row per file with the fragmentation of our arena and of allocators in per
cent. Times are wall-clock times.
"""

import argparse
import glob
import os
import statistics
import sys

import harness

SHOWN = ["pytorch", "tensorflow-bfc", "onnxruntime-bfc", "onnxruntime-bfc-exact", "malloc-best-fit"]


def compare(binary, path):
    table = harness.answer("compare", path, binary=binary)
    table["at"] = {(r["group"], r["strategy"]): r for r in table["rows"] if "left_out" not in r}
    return table


def name(table):
    return os.path.basename(table["file"]).split(".")[0]


def summary(sets):
    harness.head("strategy", *(column for title, _ in sets for column in (f"{title}: at the peak", "median", "max")))
    keys = {(r["group"], r["strategy"]): None for _, tables in sets for t in tables for r in t["rows"] if r["group"] != "order"}
    for key in keys:
        cells = [f"`{key[1]}`"]
        for _, tables in sets:
            taken = [t["at"][key]["arena_bytes"] / t["max_load_bytes"] for t in tables if key in t["at"] and t["max_load_bytes"]]
            if not taken:
                cells += ["-"] * 3
                continue
            cells += [f"{taken.count(1.0)}/{len(taken)}", f"{statistics.median(taken):.3f}", f"{max(taken):.3f}"]
        harness.row(*cells)


def each(sets):
    harness.head("file", "buffers", "peak, bytes", "arena, bytes", "ms", "onnxmem", *SHOWN)
    for _, tables in sets:
        for t in tables:
            ours = t["at"]["placement", "onnxmem"]
            harness.row(name(t), t["buffers"], t["max_load_bytes"], ours["arena_bytes"], f"{ours['ms']:.2f}", f"{ours['fragmentation_percent']:.2f}",
                *(f"{t['at']['allocator', s]['fragmentation_percent']:.2f}" for s in SHOWN))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sets", nargs="+", metavar="TITLE=GLOB")
    p.add_argument("--binary", default=harness.BINARY)
    p.add_argument("--each", action="store_true", help="a row per file, too")
    args = p.parse_args()
    sets = []
    for s in args.sets:
        title, _, pattern = s.partition("=")
        files = sorted(glob.glob(pattern))
        if not files:
            sys.exit(f"{pattern}: no files")
        sets.append((title, [compare(args.binary, f) for f in files]))
    print("<!-- table: placement/strategies -->\n")
    summary(sets)
    print()
    for title, tables in sets:
        ms = [t["at"]["placement", "onnxmem"]["ms"] for t in tables]
        print(f"{title}: {len(tables)} files, placed in {statistics.median(ms):.2f} ms at the median, {max(ms):.1f} ms at most")
    if args.each:
        print("\n<!-- table: placement-each/files -->\n")
        each(sets)


if __name__ == "__main__":
    main()
