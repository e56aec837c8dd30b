#!/usr/bin/env python3
"""Regenerate the tables of docs/results from the commands that make them.

    bench/results.py                       # all tables that take at most a few minutes
    bench/results.py orders limits/steps   # the tables of one page, and one table
    bench/results.py --list                # names, commands, and which tables are slow

A generated table follows, on its page, a line

    *By `make results ARGS=PAGE/TABLE`: ...*

which this script writes, too. It has the command and, for measured times, the date and
the machine; it changes only when a figure changes. The text around the tables is
written by hand, and so are tables below a line that begins with "*By hand".

Needs only Python's standard library. ONNXMEM_DATA names the folder of the test data.
"""

import argparse
import dataclasses
import datetime
import functools
import os
import pathlib
import platform
import re
import subprocess
import sys
import typing

import gobench
import harness

PAGES = harness.ROOT / "docs/results"
LINE = re.compile(r"^\*By `make results ARGS=(?P<name>[\w/-]+)`.*\*\n\n(?P<table>(?:\|.*\n)+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a page: the command, and the function that makes the table's lines from its output."""

    name: str  # PAGE/TABLE
    command: str
    lines: typing.Callable = None  # output -> lines; None: the output contains the table, below <!-- table: NAME --> or alone
    slow: str = ""  # what it needs, if that is more than minutes and the test data
    timed: bool = False  # it contains times, which depend on the machine


def with_head(*columns):
    """Return a head and the rows that a Go test logs."""
    return lambda output, name: harness.head_lines(columns) + printed(output, name)


SETS = '"zoo=$ONNXMEM_DATA/zoo/*.onnx" "training, batch 1=$ONNXMEM_DATA/training/*-train-bs1.json*" "batch 32=$ONNXMEM_DATA/training/*-train-bs32.json*"'
PLACEMENT = f"bench/placement.py --each {SETS}"
TRAINING = "make crosscheck ARGS='--kind training --markdown'"
RUN = "make crosscheck ARGS='--kind run --jobs 1 --markdown'"
ORDER = "go test ./passes -run '^$' -bench Order -benchtime 3x"
SOLVE = "go test ./alloc -run '^$' -bench SolveInstances -benchtime 1x; go test ./alloc -count 1 -run TestSolveInstances -v"
PAPER = "go test ./alloc -count 1 -run TestPisarchykLee -v"

PEERS = "crosscheck/run peers bench/peers.py"

EDGE = "make crosscheck ARGS='--kind edge --kind tigris --markdown'"

LARGE = "crosscheck/run bench/large.py"

CORPUS = "make -s build && crosscheck/run corpus trace build/corpus >&2 && crosscheck/run corpus order build/corpus"

TABLES = (
    Table("corpus/variants", CORPUS, slow="hours, PyTorch", timed=True),
    Table("corpus/open", CORPUS, slow="hours, PyTorch"),
    Table("slices/peaks", "make crosscheck ARGS='--kind allowed --jobs 1 --markdown'", slow="half an hour, ONNX"),
    Table("caches/decoders", "make crosscheck ARGS='--kind decoders --jobs 1 --markdown'", slow="minutes, ONNX Runtime", timed=True),
    Table("slices/estimates", "crosscheck/run bench/slices.py", slow="minutes, ONNX Runtime", timed=True),
    Table("edge/smallest", EDGE, slow="minutes, ONNX Runtime, TiGrIS"),
    Table("edge/tigris", EDGE, slow="minutes, ONNX Runtime, TiGrIS"),
    Table("gradients/networks", TRAINING, slow="minutes, PyTorch, ONNX Runtime", timed=True),
    Table("gradients/optimizers", TRAINING, slow="minutes, PyTorch, ONNX Runtime"),
    Table("gradients/operators", "go test ./autodiff -count 1 -run 'TestRules$' -v", with_head("operator", "cases", "error")),
    Table("corners/functions", "crosscheck/run corners", slow="seconds, PyTorch"),
    Table("gradients/without", "go test ./autodiff -count 1 -run TestEveryOperatorIsAccountedFor -v", with_head("has", "operators", "which")),
    Table("kernels/avx2", "crosscheck/run bench/kernels.py --level avx2", slow="ONNX Runtime", timed=True),
    Table("kernels/avx512", "crosscheck/run bench/kernels.py --level avx512", slow="ONNX Runtime, AVX-512", timed=True),
    Table("kernels/operators", "crosscheck/run bench/operators.py", slow="ONNX Runtime", timed=True),
    Table("kernels/models", "crosscheck/run bench/kernels.py --models", slow="ONNX Runtime", timed=True),
    Table("onnxruntime-memory/zoo", "crosscheck/run bench/runtime.py zoo", slow="half an hour, ONNX Runtime, a C compiler"),
    Table("limits/traced", "bench/frontier.py traced", timed=True),
    Table("limits/optima", "go test ./schedule/budget -count 1 -run Optimum -v", gobench.budget_optima),
    Table("limits/links", "go test ./schedule/budget -run '^$' -bench Swap -benchtime 1x", gobench.swaps, slow="half an hour"),
    Table("limits/steps", "bench/frontier.py steps", slow="some minutes", timed=True),
    Table("limits/host", "bench/frontier.py host", slow="half an hour"),
    Table("orders/strategies", "go test ./schedule -count 1 -run TestStrategyFigures -v", with_head(
        "strategy", "bs1 median", "mean", "max", "optimal", "bs32 median", "mean", "max", "optimal", "inference, of 26")),
    Table("orders/optima", "make crosscheck ARGS='--kind optimum --markdown'", slow="HiGHS"),
    Table("orders/large", "go test ./schedule -run '^$' -bench 'Schedule/graph=(layered|transformer|recurrent|recurrent-adam|randwire)$' -benchtime 1x", gobench.large_orders, timed=True),
    Table("orders-all/traced", ORDER, functools.partial(gobench.orders, "traced"), slow="some minutes", timed=True),
    Table("orders-all/zoo", ORDER, functools.partial(gobench.orders, "zoo"), slow="some minutes", timed=True),
    Table("orders-all/steps", ORDER, functools.partial(gobench.orders, "zoo-train"), slow="some minutes", timed=True),
    Table("placement/objects", PAPER, with_head("strategy", "MobileNet v1", "MobileNet v2", "DeepLab v3", "Inception v3")),
    Table("placement/offsets", PAPER, with_head("strategy", "MobileNet v1", "MobileNet v2", "DeepLab v3", "Inception v3")),
    Table("placement/strategies", PLACEMENT, slow="some minutes"),
    Table("placement/allocators", "go test ./alloc -count 1 -run TestSimulatorsInstances -v", gobench.simulators),
    Table("placement-each/files", PLACEMENT, slow="some minutes", timed=True),
    Table("placement-large/growth", "go test ./alloc -run '^$' -bench 'Solve$/' -benchtime 1x", gobench.growth, timed=True),
    Table("placement-large/instances", SOLVE, gobench.instances, timed=True),
    Table("placement-large/minimalloc", "bench/minimalloc.py minimalloc/build/minimalloc minimalloc/benchmarks/challenging/*.csv", slow="MiniMalloc", timed=True),
    Table("placement-large/perfect", "go test ./alloc -run '^$' -bench Perfect -benchtime 1x", gobench.perfect, timed=True),
    Table("peers/threads-1", PEERS, slow="an hour, ONNX Runtime, OpenVINO", timed=True),
    Table("peers/threads-2", PEERS, slow="an hour, ONNX Runtime, OpenVINO", timed=True),
    Table("peers/start", PEERS, slow="an hour, ONNX Runtime, OpenVINO", timed=True),
    Table("process/models", "crosscheck/run ort bench/process.py --table models", slow="half an hour, ONNX Runtime"),
    Table("process/steps", 'bench/process.py --table --torch "$(crosscheck/run corpus python)" steps', slow="minutes, PyTorch"),
    Table("reference/nodes", "make crosscheck ARGS='--kind reference --markdown'", slow="an hour"),
    Table("running/operators", "go test ./vm -count 1 -run 'TestNodeTests$' -v", gobench.operator_tests),
    Table("running/models", RUN, slow="minutes, ONNX Runtime", timed=True),
    Table("running/steps", RUN, slow="minutes, ONNX Runtime"),
    Table("running/memory", "bench/memory.py", slow="an idle machine", timed=True),
    Table("solvers/orders", "crosscheck/run bench/solvers.py orders", slow="half an hour, HiGHS, OR-tools", timed=True),
    Table("solvers/offsets", "crosscheck/run bench/solvers.py offsets", slow="half an hour, HiGHS, OR-tools", timed=True),
    Table("solvers/anytime", "crosscheck/run bench/solvers.py anytime", slow="20 minutes, OR-tools", timed=True),
    Table("solvers/paper", "crosscheck/run bench/solvers.py paper"),
    Table("tools/page", "go test ./report -count 1 -run TestPageSize -v; go test -C report/browser -count 1 -run TestBrowser -v", gobench.report_pages, slow="Chromium", timed=True),
    Table("large/cards", LARGE, slow="half an hour, ONNX"),
    Table("large/beside", LARGE, slow="half an hour, ONNX"),
    Table("precision/peaks", "bench/precision.py", slow="half an hour"),
    Table("training-memory/networks", "bench/training.py --effort default", timed=True),
    Table("training-memory/lean", "bench/lean.py --effort default", slow="some minutes"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="pages and tables (default: all tables that are not slow)")
    parser.add_argument("--list", action="store_true", help="list the tables and run nothing")
    args = parser.parse_args()
    known = {t.name for t in TABLES} | {t.name.partition("/")[0] for t in TABLES}
    if unknown := set(args.names) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}: expected a page or a table of --list")
    chosen = [t for t in TABLES if {t.name, t.name.partition("/")[0]} & set(args.names) or not args.names and not (t.slow and not args.list)]
    if args.list:
        for t in chosen:
            print(f"{t.name:28}{t.command}{f'   ({t.slow})' if t.slow else ''}")
        return
    outputs = {}
    for table in chosen:
        if table.command not in outputs:
            outputs[table.command] = run(table.command)
        write(table, outputs[table.command])


def run(command):
    """Return the output of a command; end the script if it fails."""
    print(f"results: {command}", file=sys.stderr)
    done = subprocess.run(["bash", "-ec", command], cwd=harness.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"results: {command}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def write(table, output):
    """Replace a table on its page, and the line above it if a figure has changed."""
    lines = (table.lines or printed)(output, table.name)
    if len(lines) < 3:
        sys.exit(f"results: {table.name}: no rows in the output of {table.command}")
    path = PAGES / f"{table.name.partition('/')[0]}.md"
    text = path.read_text(encoding="utf-8")
    places = [m for m in LINE.finditer(text) if m["name"] == table.name]
    if len(places) != 1:
        sys.exit(f"results: {path}: {len(places)} lines that say ARGS={table.name}, expected one above a table")
    if places[0]["table"] != "".join(lines):
        text = text[: places[0].start()] + source(table) + "\n\n" + "".join(lines) + text[places[0].end() :]
        path.write_text(text, encoding="utf-8")


def source(table):
    """Return the line above a table: the command, and for times, the date and the machine."""
    taken = f" ({table.slow})" if table.slow else ""
    when = f"; {datetime.date.today()}, {machine()}" if table.timed or table.slow else ""
    return f"*By `make results ARGS={table.name}`{taken}: `{table.command}`{when}*"


def machine():
    """Return the processor's name and the number of cores."""
    name = platform.processor() or platform.machine()
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists() and (said := re.search(r"^model name\s*: (.*)$", info.read_text(encoding="utf-8"), re.MULTILINE)):
        name = said[1].strip()
    return f"{name}, {os.cpu_count()} cores"


def printed(output, name):
    """Return the lines of the table of that name in an output, or of the only table if it has no names."""
    tables, current = {"": []}, ""
    for line in output.splitlines():
        line = gobench.unlogged(line)
        if named := re.fullmatch(r"<!-- table: (\S+) -->", line):
            current = named[1]
            tables[current] = []
        elif line.startswith("|"):
            tables[current].append(line + "\n")
    return tables.get(name) or tables[""]


if __name__ == "__main__":
    main()
