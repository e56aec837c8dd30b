"""Have `order --solver` and `pack --solver` confirm our optima, with the libraries of OR-tools' wheel."""

import os
import pathlib
import sys
import time

from . import command, programs

_SOLVERS = ("cp-sat", "highs", "scip")
_LIMIT = "--time-limit=20s"


def find(work, data):
    """Return the problems of programs.py, and bare problems of whole networks, smallest first."""
    found = programs.find(work, data)
    if data and (data / "training").is_dir():
        networks = [f for f in (data / "training").glob("*-infer-bs1.json") if f not in found]
        found += sorted(networks, key=lambda f: f.stat().st_size)[:4]
        found.append(data / "training/alexnet-train-bs1.json")
    return found


def examine(problem, tool, work):
    """Let each solver confirm the optimum without knowing it; one that does not finish confirms nothing."""
    os.environ["VIRTUAL_ENV"] = sys.prefix  # where onnxmem looks for the libraries
    began = time.monotonic()
    kind, figure = ("pack", "arena_bytes") if problem.suffix == ".csv" else ("order", "peak_bytes")
    result = {"title": f"solvers/{problem.stem}", "faults": [], "confirmed": [], "seconds": 0}
    try:
        expected = tool.programs(kind, problem, {})
        result["size"] = expected["nodes" if kind == "order" else "buffers"]
        result["expected"] = expected[figure]
        for name in _SOLVERS:
            found = tool.solved(kind, problem, name, _LIMIT)
            if found[figure] != expected[figure]:
                result["faults"].append(f"with {name} {found[figure]}, without {expected[figure]}")
            solver = found["solver"]
            if solver["status"] == "optimal":
                result["confirmed"].append(name)
                if solver["bound_bytes"] != expected[figure]:
                    result["faults"].append(f"{name} is done with the bound {solver['bound_bytes']}, expected {expected[figure]}")
    except (command.Failed, ValueError) as err:
        result["faults"].append(str(err))
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} {result.get('size', '-'):>5} {result.get('expected', '-')} bytes, confirmed by {', '.join(result['confirmed']) or 'none'}, {result['seconds']} s"


def main():
    """Print the rows: python -m crosscheck.solvers BINARY DATA WORK."""
    binary, data, work = sys.argv[1:]
    pathlib.Path(work).mkdir(parents=True, exist_ok=True)
    results = []
    for problem in find(pathlib.Path(work), pathlib.Path(data)):
        results.append(examine(problem, command.Command(binary), pathlib.Path(work)))
        print(row(results[-1]), *results[-1]["faults"], flush=True)
    for name in _SOLVERS:
        sizes = [r["size"] for r in results if name in r["confirmed"]]
        print(f"{name}: {len(sizes)} of {len(results)} confirmed, of up to {max(sizes, default=0)} nodes or buffers")
    return 1 if any(r["faults"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
