"""Make tables from the output of "go test": from benchmarks and logs of tests.

Each function takes the output and the table's name, which it ignores, and returns
the lines of the table.
"""

import re

from harness import head_lines, line

_LOGGED = re.compile(r"^\s+\w+_test\.go:\d+: ")


def unlogged(text):
    """Return a line of a test's log without the file and line that go test puts before it."""
    return _LOGGED.sub("", text).rstrip()


def benchmarks(output, name):
    """Yield the keys and the metrics by unit of each run of a benchmark: NAME/key=value/word-2  1  5 ns/op."""
    for text in output.splitlines():
        words = text.split()
        if not words or not re.match(rf"Benchmark{name}(/|-\d+$|$)", words[0]) or len(words) < 4:
            continue
        parts = re.sub(r"-\d+$", "", words[0]).split("/")[1:]
        keys = dict(part.split("=", 1) if "=" in part else ("", part) for part in parts)
        yield keys, {unit: float(value) for value, unit in zip(words[2::2], words[3::2])}


def orders(chosen, output, _):
    """All problems of one set."""
    rows = []
    for keys, found in benchmarks(output, "Order"):
        if keys["set"] == chosen:
            peak, bound = found["B-peak"], found["B-bound"]
            gap = "proven" if peak == bound else f"{100 * (peak / bound - 1):.4f} %"
            sizes = (found[unit] for unit in ("nodes", "B-program", "B-bound", "B-peak"))
            rows.append((keys["graph"], *(f"{size:.0f}" for size in sizes), gap, _ms(found), f"{found['allocs/op']:.0f}"))
    return _table(("graph", "nodes", "program order", "bound", "peak", "gap:", "ms", "allocs"), rows)


def large_orders(output, _):
    """A row for each generator, a column for each number of nodes."""
    cells = {}
    for keys, found in benchmarks(output, "Schedule"):
        cells.setdefault(keys["graph"], {})[int(keys["nodes"])] = f"{_ms(found)} ms, {found['MiB-peak']:.0f} MiB"
    return _pivot("graph", cells, lambda n: [f"{n:,}"], lambda cell: [cell])


def growth(output, _):
    """A row for each generator, three columns for each number of buffers."""
    cells = {}
    for keys, found in benchmarks(output, "Solve"):
        mib = f"{found['MiB']:.1f}" if found["MiB"] < 1 else f"{found['MiB']:.0f}"
        cells.setdefault(keys["lifetimes"], {})[int(keys["n"])] = (_seconds(found["ns/op"] / 1e9), mib, f"{found['gap-%']:.2g}")
    return _pivot("lifetimes", cells, lambda n: [f"{n:,}: s", "MiB", "gap %"], list)


def perfect(output, _):
    """A row for each kind of packing, two columns for each number of buffers."""
    titles = {"few-steps": "n/2 steps, 1,000 bytes", "small-sizes": "n steps, 64 bytes", "generic": "4n steps, 1 MiB"}
    cells = {}
    for keys, found in benchmarks(output, "Perfect"):
        title = titles[keys["kind"]] + (f", {keys['away'].rstrip('%')} % taken away" if keys["away"] != "0%" else "")
        cells.setdefault(title, {})[int(keys["buffers"])] = (f"{found['solved']:.0f}", _seconds(found["s/packing"]))
    return _pivot("cut into", cells, lambda n: [f"{n:,} buffers", "s"], list)


def instances(output, _):
    """The arenas of the benchmark, with the times that a test logs for MiniMalloc's capacity."""
    fitted = dict(re.findall(r": (minimalloc-\w\.\d+) .* ([\d.]+) ms$", output, re.MULTILINE))
    rows = []
    for keys, found in benchmarks(output, "SolveInstances"):
        name, arena, bound = keys["instance"], found["arena-B"], found["bound-B"]
        ms = _rounded(float(fitted[name])) if name in fitted else ""
        title = re.sub(r"\.1048576$", "", name)
        rows.append((title, f"{found['buffers']:,.0f}", f"{bound:,.0f}", f"{arena:,.0f}", "yes" if arena == bound else "no", _ms(found), ms))
    return _table(("instance", "buffers", "largest load", "arena", "proven:", "ms", "ms, capacity 1,048,576"), rows)


def simulators(output, _):
    """Compare allocators on three of the instances."""
    shown = ("somas-resnet50", "somas-pangu_2.6B", "tflite-inception_v3")
    cells = {}
    for text in map(unlogged, output.splitlines()):
        words = text.split()
        if len(words) == 3 and words[0] in shown:
            cells.setdefault(words[1], {})[words[0]] = words[2]
    return _table(("allocator", *shown), [(name, *(found.get(x, "") for x in shown)) for name, found in cells.items()])


def budget_optima(output, _):
    """Compare plans with the optimum of random graphs."""
    logged = re.compile(
        r"(.+): (\d+) graphs: (\d+) feasible, plan = optimum (\d+), no plan found (\d+); "
        r"sums of bounds (\d+), optima (\d+), plans (\d+); impossible (\d+), proven (\d+)")
    head = ("family", "graphs", "feasible limits", "plan = optimum", "no plan found", "sum of bounds", "of optima", "of plans", "impossible limits", "of them proven")
    return _table(head, [m.groups() for text in output.splitlines() if (m := logged.fullmatch(unlogged(text)))])


def swaps(output, _):
    """Show the lowest limit that is feasible with each link, and the extra time at two limits."""
    found = {}
    for keys, metrics in benchmarks(output, "Swap"):
        if "link" in keys:
            found.setdefault((keys["graph"], keys["link"].removesuffix("GBps")), {})[keys[""]] = metrics
    scores = ("DOA", "AOA", "WDOA", "SWDOA", "searched", "exchange")
    rows = []
    for (graph, link), by in found.items():
        lowest = ("-" if by["free"][f"{s}%"] < 0 else f"{by['free'][f'{s}%']:.0f}" for s in scores)
        extra = ("none" if (x := by[way][f"extra%@{percent}"]) < 0 else f"{x:.1f}" for percent in (60, 40) for way in ("swap", "both"))
        rows.append((graph, link, *lowest, *extra))
    return _table(("step", "GB/s", *scores[:-1], "exchanged", "60 %: swap", "both", "40 %: swap", "both"), rows)


def operator_tests(output, _):
    """Count ONNX's operator tests that a session passes."""
    logged = re.search(r"(\d+) tests: (\d+) claimed, (\d+) pass; of (\d+) that ONNX Runtime passes, (\d+) pass \(([\d.]+ %)\)", output)
    if not logged:
        return []
    every, claimed, passed, runtimes, both, share = logged.groups()
    rows = [("all", every), ("claimed by `vm`", claimed), ("pass", passed), ("passed by ONNX Runtime", runtimes), ("of these, passed by `vm`", f"{both} ({share})")]
    return _table(("", "tests"), rows)


def report_pages(output, _):
    """Show the sizes of the report's page and the time and memory that it takes to draw it."""
    logged = re.compile(
        r"(\d+) buffers, a page of (\d+) bytes: both pictures are drawn in ([\d.]+) ms \(least of 40; median ([\d.]+),.*"
        r"the marks under the cursor in ([\d.]+) ms \(median ([\d.]+)\)")
    rows = [(int(m[1]), int(m[2]), *m.groups()[2:]) for m in logged.finditer(output)]
    rows += [(int(n), int(size), "", "", "", "") for n, size in re.findall(r": (\d+) nodes: (\d+) bytes$", output, re.MULTILINE)]
    known = {buffers: row for row in reversed(rows) for buffers in [row[0]]}
    head = ("buffers", "page", "a draw: least", "median", "under the cursor: least", "median")
    return _table(head, [(f"{n:,}", f"{size:,} B", *rest) for n, size, *rest in (known[n] for n in sorted(known))])


def _table(head, rows):
    return head_lines(head) + [line(row) for row in rows] if rows else []


def _pivot(first, cells, columns, content):
    """Make a table; cells maps a row's title to the column's number to the text."""
    numbers = sorted({n for row in cells.values() for n in row})
    head = [first, *(title for n in numbers for title in columns(n))]
    return _table(head, [(title, *(c for n in numbers for c in content(row[n]))) for title, row in cells.items()])


def _ms(found):
    return _rounded(found["ns/op"] / 1e6)


def _rounded(ms):
    return f"{ms:.2f}" if ms < 1 else f"{ms:.1f}" if ms < 10 else f"{ms:,.0f}"


def _seconds(s):
    return f"{s:.1f}" if s >= 0.1 else f"{s:.3f}" if s >= 0.01 else f"{s:.1g}"
