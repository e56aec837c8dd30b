"""Have solvers confirm our optima by every file that `onnxmem order` and `onnxmem pack` write for them.

HiGHS solves the LP and MPS files, CP-SAT the CpModelProto, and MiniZinc (if it is installed) its models. The programs
with each reduction left out have the same optimum.
"""

import csv
import json
import random
import time

from . import command, foreign, optimum

_SAME = ("levels", "all-spans", "no-preserved", "no-merging", "no-sequence", "levels,no-sequence,no-merging")
_SAME_JOINT = ("offsets,no-disjoint", "offsets,no-loads", "offsets,levels,no-merging")
_SAME_OFFSETS = ("no-disjoint", "no-merging", "no-loads", "no-disjoint,no-merging,no-loads")


def find(work, data):
    """Return the problems: those of crosscheck/problems, random ones, and some of the test data."""
    folder = work / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    found = optimum.find()
    for seed in range(12):
        found.append(folder / f"random-{seed}.json")
        found[-1].write_text(json.dumps(_draw(random.Random(seed))), encoding="utf-8")
    if data and (data / "training").is_dir():
        found.append(data / "training/alexnet-infer-bs1.json")
    for seed in range(12):
        found.append(folder / f"buffers-{seed}.csv")
        with found[-1].open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("id", "lower", "upper", "size", "alignment"), *_buffers(random.Random(seed))])
    if data and (data / "dsa").is_dir():
        found += [data / "dsa" / f"{name}.csv" for name in ("minimalloc-example.12", "iree-first", "tflite-inception_v3")]
    return found


def _draw(r):
    """Return a random bare problem: in-place pairs, workspaces, outputs, precedence without bytes."""
    nodes = r.randint(4, 8)
    tensors = [{"name": "x", "bytes": 8 * r.randint(1, 4), "consumers": r.sample(range(nodes), 2)}]
    for v in range(nodes):
        for _ in range(r.choice((1, 1, 1, 2))):
            later = range(v + 1, nodes)
            tensors.append({
                "name": f"t{len(tensors)}",
                "bytes": 0 if r.random() < 0.1 else 8 * r.randint(1, 4),
                "producer": v,
                "consumers": sorted(r.sample(later, min(len(later), r.randint(0, 3)))),
                "output": r.random() < 0.15,
                "reuses": [i for i, t in enumerate(tensors) if v in t["consumers"]] if r.random() < 0.6 else [],
            })  # fmt: skip
    return {
        "name": "random",
        "nodes": [{"name": f"n{v}", "op": "Op", "workspace": 8 * r.randint(0, 3) if r.random() < 0.3 else 0} for v in range(nodes)],
        "tensors": tensors,
    }


def _buffers(r):
    """Return the rows of random buffers, some of them aligned."""
    for i in range(r.randint(6, 12)):
        first = r.randint(0, 8)
        yield f"b{i}", first, first + r.randint(1, 4), 4 * r.randint(1, 8), r.choice((1, 1, 1, 8, 12))


def examine(problem, tool, work):
    """Write a problem in every form and compare the optima."""
    began = time.monotonic()
    kind = "pack" if problem.suffix == ".csv" else "order"
    result = {"title": f"programs/{problem.stem}", "faults": [], "solved": 0}
    stem = work / "programs" / problem.stem
    try:
        forms = {"--lp": ".lp", "--mps": ".mps.gz", "--cp-sat": ".pb"}
        ours = tool.programs(kind, problem, {flag: f"{stem}{end}" for flag, end in (forms | {"--minizinc": ".mzn"}).items()})
        result["expected"] = expected = ours["peak_bytes" if kind == "order" else "arena_bytes"]
        if not ours["optimal"]:
            result["faults"].append(f"{expected} bytes, bound {ours['lower_bound_bytes']}: not proven")
        unit = foreign.unit_of(f"{stem}.lp")
        small = kind == "pack" or ours["nodes"] <= 12
        for end in [*forms.values(), ".mzn"] if small else forms.values():
            _compare(result, f"{stem}{end}", unit, expected)
        for names in _SAME if kind == "order" else _SAME_OFFSETS:
            tool.programs(kind, problem, {"--cp-sat": f"{stem}.pb", "--ilp": names})
            _compare(result, f"{stem}.pb", unit, expected, names)
        if kind == "order" and small:
            tool.programs(kind, problem, {"--lp": f"{stem}.lp", "--cp-sat": f"{stem}.pb", "--ilp": "offsets"})
            arena = foreign.solve(f"{stem}.pb")["optimum"] * unit
            if arena < expected:
                result["faults"].append(f"the arena of the joint program, {arena}, is below the peak {expected}")
            for names in _SAME_JOINT:
                tool.programs(kind, problem, {"--cp-sat": f"{stem}.pb", "--ilp": names})
                _compare(result, f"{stem}.pb", unit, arena, names)
    except (command.Failed, ValueError) as err:
        result["faults"].append(str(err))
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def _compare(result, path, unit, expected, names=""):
    if not foreign.installed(path):
        return
    found = foreign.solve(path)["optimum"]
    if found * unit != expected:
        result["faults"].append(f"{foreign.name(path)} finds {found * unit} by {path} ({names or 'all reductions'}), expected {expected}")
    result["solved"] += 1


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} {result.get('expected', '-')} bytes, the same by {result['solved']} programs, {result['seconds']} s"
