"""Write the tables of docs/results that come from a crosscheck, in Markdown.

A comment <!-- table: NAME --> names each table for bench/results.py.
"""

from . import allowed, decoders, edge, tigris


def tables(results):
    """Return the lines of all tables for which there are results."""
    lines = []
    for name, head, make in _TABLES:
        if rows := make(results):
            lines += ["", f"<!-- table: {name} -->", "", _line(head), _line("---" if i == 0 or title in _WORDS else "---:" for i, title in enumerate(head))]
            lines += [_line(row) for row in rows]
    return lines


def _line(cells):
    return f"| {' | '.join(map(str, cells))} |"


_WORDS = {"what it has", "bits", "poison"}  # columns that contain words, not numbers


def _of(results, *kinds):
    """Return the title without its kind and the result, for the given kinds, without results that have faults."""
    for result in results:
        kind, _, name = result["title"].partition("/")
        if kind in kinds and not result["faults"]:
            yield name, result


def _gradients(results):
    return [
        (name, f"{r['parameters']:,}", f"{r['nodes']:,}", _error(r["error"]), _error(r["difference"]), f"{r['autodiff_ms']:.0f}")
        for name, r in _of(results, "training")
        if "difference" in r and "error" in r and not name.startswith("loss-")
    ]


def _optimizers(results):
    return [(name, _error(r["error"])) for name, r in _of(results, "training") if "difference" not in r and "error" in r]


def _optima(results):
    return [(name, r["nodes"], r["has"], r["peak"]) for name, r in _of(results, "optimum")]


def _models(results):
    return [
        (name, r["nodes"], _error(r["error"]), "same", "clean", f"{r['ms']:.1f}", f"{r['ort_ms']:.1f}", f"{r['ms'] / r['ort_ms']:.2f}", f"{r['heap_allocs_per_step']:.0f}")
        for name, r in _of(results, "run")
        if "ort_ms" in r
    ]


def _steps(results):
    return [
        (name.removeprefix("train-"), r["nodes"], _error(r["gradients"]), _error(r["error"]), r["draws"], "same", "clean")
        for name, r in _of(results, "run")
        if "gradients" in r
    ]


def _nodes(results):
    """Make a row of each model and, if it was compared, of its training step."""
    found = {name: r for name, r in _of(results, "reference") if "compared_nodes" in r}
    rows, sums = [], [[0, 0.0], [0, 0.0]]
    for name in found:
        if name.startswith("step/"):
            continue
        row = [name.rpartition("/")[2]]
        for total, r in zip(sums, (found[name], found.get(f"step/{name}"))):
            row += [r["compared_nodes"], f"{r['worst']:.2f}"] if r else ["", ""]
            if r:
                total[0] += r["compared_nodes"]
                total[1] = max(total[1], r["worst"])
        rows.append(row)
    if rows:
        rows.append(["all", *(cell for nodes, worst in sums for cell in (f"{nodes:,}", f"{worst:.2f}"))])
    return rows


def _tigris(results):
    return [tigris.cells(r) for _, r in _of(results, "tigris")]


def _edge(results):
    return [edge.cells(r) for _, r in _of(results, "edge")]


def _decoders(results):
    return [decoders.cells(r) for _, r in _of(results, "decoders") if not r["faults"]]


def _allowed(results):
    return [allowed.cells(r) for _, r in _of(results, "allowed") if not r["faults"]]


def _error(value):
    return f"{value:.1e}".replace("e-0", "e-").replace("e+00", "") if value else "0"


_TABLES = (
    ("gradients/networks", ("network", "parameters", "nodes", "torch", "differences", "ms"), _gradients),
    ("gradients/optimizers", ("optimizer", "error"), _optimizers),
    ("orders/optima", ("problem", "nodes", "what it has", "peak here = HiGHS"), _optima),
    ("running/models", ("model", "nodes", "error", "bits", "poison", "ms", "ONNX Runtime, ms", "ratio", "allocations"), _models),
    ("running/steps", ("training step of", "nodes", "gradients", "losses", "draw", "bits", "poison"), _steps),
    ("slices/peaks", allowed.HEAD, _allowed),
    ("caches/decoders", decoders.HEAD, _decoders),
    ("edge/smallest", edge.HEAD, _edge),
    ("edge/tigris", tigris.HEAD, _tigris),
    ("reference/nodes", ("model", "nodes compared", "worst", "of the step: nodes compared", "worst"), _nodes),
)
