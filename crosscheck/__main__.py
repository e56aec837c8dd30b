"""python -m crosscheck: check every model and every small problem, print a table; exit status 1 on any failure."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

from . import allowed, apart, cases, checker, command, decoders, edge, generation, halves, limits, optimum, pages, plain, programs, running, runtime_examples, runtime_order, runtime_sharing, sliced, solvers, table, tigris, training, trials, whole, workdir

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_TORCH = str(pathlib.Path(__file__).with_name("requirements-torch.txt"))  # 5.5 GB: only where it is used
_MODEL_SECONDS = 1200  # no model takes longer


def main():
    args = _arguments()
    began = time.monotonic()
    tool = command.Command(args.binary)
    data = args.data
    if not data or not (data / "zoo").is_dir():
        print(f"crosscheck: no test data {f'at {data}' if data else '(set ONNXMEM_DATA)'}: only testdata/light and the built-in networks")
        data = _ROOT / "testdata"
    chosen = _choose(cases.find(data, _networks(tool)), args)
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    workdir.prepare(work, data, chosen)
    if chosen:
        print(table.header(), flush=True)
    threads = max(1, (os.cpu_count() or 1) // args.jobs)
    titles = [c.title for c in sorted(chosen, key=lambda c: c.kind == "model")]  # the slowest to load first
    results = _each("examine", titles, table.row, args, data, work, {"threads": threads})
    optima = _others("optimum", optimum.find(), optimum, args, tool, work)
    optima += _others("programs", programs.find(work, args.data), programs, args, tool, work)
    optima += _others("solvers", solvers.find(work, args.data), solvers, args, tool, work)
    orders = _others("runtime", runtime_order.find(tool, _ROOT / "testdata", work), runtime_order, args, tool, work)
    orders += _others("runtime", runtime_examples.find(tool, data, work), runtime_examples, args, tool, work)
    orders += _others("runtime", runtime_sharing.find(tool, data, work), runtime_sharing, args, tool, work)
    steps = _training(args, data, work) + _whole(args, tool, data, work)
    runs = _running(args, data, work) + _plain(args, tool, data, work) + _autocast(args, tool, data, work)
    if not args.kind or "limit" in args.kind:
        runs += _others("limit", limits.find(tool, work, data), limits, args, tool, work)
    runs += _others("generation", generation.find(), generation, args, tool, work)
    if not args.kind or "checker" in args.kind:
        runs += _others("checker", checker.find(tool, work, args.subset), checker, args, tool, work)
    for kind, examiner in (("edge", edge), ("tigris", tigris)):
        if kind in (args.kind or ()):  # only if requested: a comparison, and no check of every build
            runs += _others(kind, examiner.find(tool, work), examiner, args, tool, work)
    for kind, examiner in (("slices", sliced), ("allowed", allowed), ("decoders", decoders)):
        if kind in (args.kind or ()):
            runs += _others(kind, examiner.find(tool, work, data), examiner, args, tool, work)
    if (not args.kind and not args.only) or "trials" in (args.kind or ()):
        runs.append(trials.examine(300))
        _print(trials.row, runs[-1])
    everything = results + optima + orders + steps + runs
    (work / "results.json").write_text(json.dumps(everything, indent=1), encoding="utf-8")
    for text in table.summary(results, optima, orders, steps, runs):
        print(text)
    if args.markdown:
        print("\n".join(pages.tables(everything)))
    print(f"crosscheck: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 1 if not everything or any(r["faults"] for r in everything) else 0


def _arguments():
    parser = argparse.ArgumentParser(prog="crosscheck", description="Check onnxmem's files with onnx.checker and ONNX Runtime.")
    parser.add_argument("--only", action="append", metavar="NAME", help="only cases whose names contain NAME; may be repeated")
    parser.add_argument("--subset", action="store_true", help="a few small but varied models (CI)")
    parser.add_argument("--kind", action="append", choices=("zoo", "light", "model", "optimum", "programs", "solvers", "runtime", "training", "run", "limit", "step", "reference", "edge", "tigris", "slices", "allowed", "decoders", "generation", "checker", "autocast", "trials"), help="zoo, light, model (built-in networks), optimum (by HiGHS), programs (every file for solvers, by HiGHS, CP-SAT and MiniZinc), solvers (--solver with each of them), runtime (orders of ONNX Runtime, and what it shares), training (by torch), run (onnxmem run), limit (recomputation), step (the training step of every model at full size), reference (every node of models and steps, by the reference evaluator), edge (the smallest peaks of slices, on networks for microcontrollers), tigris (the same networks in small memories, next to TiGrIS), slices (networks and steps in slices, next to the same whole), allowed (the smallest peaks of slices by the extra time that they may take), decoders (caches of a fixed capacity, next to caches that grow), generation (a decoder as ONNX Runtime's generation tools write it), checker (plans, also tampered ones, by the checker of examples/checker), autocast (steps in 16 bits, beside float32 and node by node) or trials (random networks under random options)")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/results, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of models at the same time (default: cores)")
    parser.add_argument("--binary", type=pathlib.Path, default=_ROOT / "bin/onnxmem", help="the command to check")
    parser.add_argument("--work", type=pathlib.Path, default=_ROOT / "build/crosscheck", help="folder for models and weights")
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("ONNXMEM_DATA") or None, help="folder that holds zoo/ and light/ (default: $ONNXMEM_DATA)")
    return parser.parse_args()


def _networks(tool):
    try:
        return tool.networks()
    except (command.Failed, ValueError, KeyError) as err:
        print(f"crosscheck: built-in networks are left out: {err}", file=sys.stderr)
        return []


def _choose(found, args):
    """Return the cases that the command line selects."""
    if args.subset:
        found = [c for c in found if c.title in cases.SUBSET]
    if args.kind:
        found = [c for c in found if c.kind in args.kind]
    if args.only:
        found = [c for c in found if any(name in c.title for name in args.only)]
    return found


def _others(kind, files, examiner, args, tool, work):
    """Examine files outside the list of cases; print a row for each."""
    if args.kind and kind not in args.kind:
        return []
    results = []
    for file in files:
        if args.only and not any(name in f"{kind}/{file.stem}" for name in args.only):
            continue
        results.append(examiner.examine(file, tool, work))
        _print(examiner.row, results[-1])
    return results


def _training(args, data, work):
    """Examine training steps; print a row for each."""
    if args.kind and "training" not in args.kind:
        return []
    titles = [t for t in training.find(args.subset, data) if not args.only or any(name in t for name in args.only)]
    if titles and not args.subset:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-r", _TORCH], check=True)
    return _each("training", titles, training.row, args, data, work, {"torch": not args.subset})


def _whole(args, tool, data, work):
    """Run the training step of every model, only if requested: it takes twenty minutes."""
    if "step" not in (args.kind or ()):
        return []
    chosen = [c for c in cases.find(data, _networks(tool)) if not args.only or any(name in c.title for name in args.only)]
    workdir.prepare(work, data, chosen)
    return _each("whole", [f"step/{c.title}" for c in chosen], whole.row, args, data, work)


def _running(args, data, work):
    """Run plans; print a row for each."""
    if args.kind and "run" not in args.kind:
        return []
    titles = [t for t in running.find(args.subset, data) if not args.only or any(name in t for name in args.only)]
    chosen = [c for c in cases.find(data, []) if f"run/{c.name}" in titles]
    workdir.prepare(work, data, chosen)
    if titles:
        print(running.header(), flush=True)
    return _each("running", titles, running.row, args, data, work)


def _plain(args, tool, data, work):
    """Compare every node of models and their steps with the reference evaluator, only if requested: it takes an hour."""
    if "reference" not in (args.kind or ()):
        return []
    networks = _networks(tool)
    titles = [t for t in plain.find(args.subset, data, networks) if not args.only or any(name in t for name in args.only)]
    workdir.prepare(work, data, [c for c in cases.find(data, networks) if any(t.endswith(c.title) for t in titles)])
    if titles:
        print(plain.header(), flush=True)
    return _each("plain", titles, plain.row, args, data, work, seconds=plain.SECONDS)


def _autocast(args, tool, data, work):
    """Compare steps in 16 bits with those in float32, and their nodes with the reference evaluator."""
    if args.kind and "autocast" not in args.kind:
        return []
    titles = [t for t in halves.find(args.subset, tool) if not args.only or any(name in t for name in args.only)]
    return _each("halves", titles, halves.row, args, data, work)


def _each(module, titles, row, args, data, work, options=None, seconds=_MODEL_SECONDS):
    """Examine each title in its own process; print a row for each."""
    results = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        pending = [pool.submit(apart.run, module, title, args.binary, work, data, options or {}, seconds) for title in titles]
        for done in concurrent.futures.as_completed(pending):
            results.append(done.result())
            _print(row, results[-1])
    return sorted(results, key=lambda r: r["title"])


def _print(row, result):
    """Print one row, and the faults below it."""
    print(row(result), flush=True)
    for text in result["faults"]:
        print(f"    {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
