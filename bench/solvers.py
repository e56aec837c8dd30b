#!/usr/bin/env python3
"""Measure what each reduction of OLLA's integer programs is worth to a solver.

    crosscheck/run bench/solvers.py orders     # programs for an order, and for an order and offsets at once
    crosscheck/run bench/solvers.py offsets    # programs for offsets, given lifetimes
    crosscheck/run bench/solvers.py paper      # OLLA's own figures beside ours, without a solver
    crosscheck/run bench/solvers.py anytime    # how far OLLA's program for an order is after 1, 10 and 60 s
    crosscheck/run bench/solvers.py orders --only mlp-train --seconds 20

The first two tables have columns and rows of each program, and the seconds of the processor that CP-SAT (two workers)
and HiGHS (one thread) take to prove an optimum. CP-SAT's hint is our result, HiGHS has none. The script fails if CP-SAT's
optimum, which is computed in integers, is not the same for all reductions, and not ours where that is known. HiGHS
computes in floating point: it may be wrong by some units where numbers are large, and the table says so.
"""

import argparse
import csv
import gzip
import json
import os
import pathlib
import sys
import tempfile

import harness

sys.path.insert(0, str(harness.ROOT))
from crosscheck import command, foreign  # noqa: E402

_OLLA = "all-spans,no-preserved,no-merging,no-sequence"
_LIFETIMES = ("", "levels", "all-spans", "no-preserved", "no-merging", "no-sequence", "levels,no-sequence", _OLLA)
_JOINT = ("offsets", "offsets,no-disjoint", "offsets,no-loads", "offsets,levels,no-sequence,no-loads", f"offsets,{_OLLA},no-disjoint,no-loads")
_OFFSETS = ("", "no-disjoint", "no-merging", "no-loads", "no-disjoint,no-merging,no-loads", "pyramid")
_OTHER = {"control-edges", "pyramid", "no-pairs", "no-workspaces", "no-pairs,no-workspaces"}  # may have another optimum
_ORDERS = {
    harness.ROOT / "crosscheck/problems/pairs.json": (*_LIFETIMES, "no-pairs", *_JOINT),
    harness.ROOT / "crosscheck/problems/mlp-train.json": (*_LIFETIMES, "control-edges", "no-pairs", "no-workspaces", *_JOINT),
    pathlib.Path("training/alexnet-train-bs1.json"): ("", "levels", "control-edges", "no-sequence"),
}
_BUFFERS = {
    harness.ROOT / "crosscheck/problems/mlp-train.json": _OFFSETS,
    pathlib.Path("training/alexnet-train-bs1.json"): _OFFSETS,
    pathlib.Path("dsa/tflite-inception_v3.csv"): _OFFSETS,
    pathlib.Path("dsa/minimalloc-A.1048576.csv"): _OFFSETS[:-1],
}
_TRACED = ("alexnet", "efficientnet_b0", "mobilenet_v2", "resnet18", "resnet50", "resnet3d_18", "transformer", "vit_b_16")
_HIGHS_COLUMNS = {"order": 400, "pack": 1000}  # larger programs take it minutes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table", choices=("orders", "offsets", "paper", "anytime"))
    parser.add_argument("--only", help="one problem")
    parser.add_argument("--seconds", type=int, default=60, help="of the processor, for each program and solver (default 60)")
    args = parser.parse_args()
    tool = command.Command(harness.BINARY)
    if args.table == "paper":
        _paper(tool)
        return
    if args.table == "anytime":
        _anytime(args.only)
        return
    harness.head("problem", "program:", "columns", "rows", "CP-SAT, s", "HiGHS, s", "optimum:")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for problem, variants in (_ORDERS if args.table == "orders" else _BUFFERS).items():
            name = problem.name.removesuffix(".json").removesuffix(".csv")
            if args.only and args.only != name:
                continue
            path = problem if problem.is_absolute() else harness.data(str(problem))
            if args.table == "offsets" and problem.suffix == ".json":
                path = _lifetimes(tool, path, work / "buffers.csv")
            _measure(tool, "pack" if args.table == "offsets" else "order", name, path, variants, work, args.seconds)


def _measure(tool, kind, name, problem, variants, work, seconds):
    known = {}  # whether offsets are asked for -> the optimum
    for names in variants:
        files = {"--lp": work / "p.lp", "--mps": work / "p.mps", "--cp-sat": work / "p.pb"}
        ours = tool.programs(kind, problem, files | ({"--ilp": names} if names else {}))
        unit = foreign.unit_of(files["--lp"])
        cells, optimum = [], None
        for path, threads in ((files["--cp-sat"], 2), (files["--mps"], 1)):
            if path.suffix == ".mps" and found["columns"] > _HIGHS_COLUMNS[kind]:
                cells.append("–")
                continue
            found = foreign.limited(path, seconds, threads)
            if found["optimum"] is None:
                cells.append(f"> {seconds}")
                continue
            cells.append(f"{found['seconds']:.2f}")
            if path.suffix == ".pb":
                optimum = found["optimum"] * unit
            elif optimum not in (None, found["optimum"] * unit):  # CP-SAT computes in integers, HiGHS does not
                cells[-1] += f", wrong by {found['optimum'] - optimum // unit} units"
        joint = "offsets" in names.split(",")
        best = ours["peak_bytes" if kind == "order" else "arena_bytes"]
        expected = known.get(joint, None if joint else best)
        verdict = "not found"
        if optimum is not None:
            if expected is None:
                expected = known[joint] = optimum
            if optimum != expected and not _OTHER & {names}:
                sys.exit(f"{name}, {names}: the optimum is {optimum}, expected {expected}")
            verdict = "ours" if optimum == best else f"{100 * (optimum / best - 1):+.1f} %"
        harness.row(name, f"`{names}`" if names else "all reductions", f"{found['columns']:,}", f"{found['rows']:,}", *cells, verdict)


def _paper(tool):
    """Print the reduction by reordering and the fragmentation, for the networks of the paper that were traced."""
    harness.head("network", "batch", "without resident, %", "with parameters, %", "with all resident, %", "PyTorch's fragmentation, %", "ours, %")
    with harness.data("training/expected.csv").open(newline="", encoding="utf-8") as file:
        expected = {r["file"]: {k: int(v) for k, v in r.items() if k != "file"} for r in csv.DictReader(file)}
    with tempfile.TemporaryDirectory() as folder:
        for batch in (1, 32):
            rows = []
            for name in _TRACED:
                file = next(f for f in expected if f.split(".")[0] == f"{name}-train-bs{batch}")
                problem, facts = harness.data("training", file), expected[file]
                parameters = sum(t["bytes"] for t in _read(problem)["tensors"] if t["kind"] == "parameter")
                before, after = facts["program_order_peak_bytes"], tool.programs("order", problem, {})["peak_bytes"]
                placed = tool.programs("pack", _lifetimes(tool, problem, pathlib.Path(folder, "buffers.csv")), {})
                reserved, requested = facts["cuda_reserved_peak"], facts["cuda_allocated_peak"]
                rows.append((
                    *[100 * (1 - (after + resident) / (before + resident)) for resident in (0, parameters, facts["resident_bytes"])],
                    100 * (reserved - requested) / reserved,
                    100 * (placed["arena_bytes"] - placed["max_load_bytes"]) / placed["arena_bytes"],
                ))  # fmt: skip
                harness.row(name, batch, *[f"{x:.1f}" for x in rows[-1]])
            harness.row("average of these", batch, *[f"{sum(column) / len(rows):.1f}" for column in zip(*rows)])


def _anytime(only):
    """Print the gap of OLLA's program for an order in each solver after some time, beside our own search."""
    os.environ["VIRTUAL_ENV"] = sys.prefix  # whose OR-tools the command opens
    times, solvers = {"1s": "1s", "10s": "10s", "60s": "1m0s"}, ("CP-SAT", "HiGHS")
    head = [f"{solver}, {t}:" for solver in solvers for t in times]
    harness.head("network", "nodes", "ours, ms", "ours", *head)
    for name in _TRACED:
        if only and only != name:
            continue
        problem = next(harness.data("training").glob(f"{name}-train-bs1.json*"))
        found = harness.answer("compare", problem, "--olla", ",".join(times))
        rows = {r["strategy"]: r for r in found["rows"] if r["group"] == "order"}
        cells = []
        for title in (f"olla ({solver}) {t}" for solver in solvers for t in times.values()):
            r = rows[title]
            why = r.get("left_out", "")
            if "is not there" in why:
                sys.exit(f"{title}: {why}")
            if why:
                cells.append("too large")
            elif r["over_bound_percent"] is None:
                cells.append("none")
            else:
                gap = r.get("solver_gap_percent")
                cells.append(f"{r['over_bound_percent']:.1f} / " + ("–" if gap is None else f"{gap:.1f}"))
        ours = rows["onnxmem"]
        harness.row(name, found["nodes"], f"{ours['ms']:.1f}", f"{ours['over_bound_percent']:.1f}", *cells)


def _read(problem):
    with gzip.open(problem, "rt") if problem.suffix == ".gz" else problem.open(encoding="utf-8") as file:
        return json.load(file)


def _lifetimes(tool, problem, path):
    """Write the buffers of our order, without in-place pairs, as a CSV."""
    order = tool.programs("order", problem, {})["order"]
    step = {v: i for i, v in enumerate(order)}
    given = _read(problem)
    lines = ["id,lower,upper,size"]
    for i, t in enumerate(given["tensors"]):
        if t.get("resident") or not t["bytes"]:
            continue
        maker = t.get("producer", -1)
        first = step[maker] if maker >= 0 else 0
        last = len(order) - 1 if t.get("output") else max([first, *(step[v] for v in t.get("consumers", ()))])
        lines.append(f"{i},{first},{last + 1},{t['bytes']}")
    lines += [f"w{v},{step[v]},{step[v] + 1},{n['workspace']}" for v, n in enumerate(given["nodes"]) if n.get("workspace")]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
