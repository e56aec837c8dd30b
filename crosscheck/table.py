"""Print the results as text."""

from . import running

_COLUMNS = ("model", "nodes", "planned", "verified", "checker", "identical", "order", "shapes", "seconds")
_VERDICTS = ("planned", "verified", "checker", "identical", "order")
_WIDTHS = (34, 6, 8, 9, 8, 10, 8, 14, 8)


def header():
    return "\n".join(
        [
            "order: yes~N: N nodes wait for what the runtime inserts (casts); shapes: equal/bounded/dynamic",
            line(_COLUMNS),
        ]
    )


def row(result):
    cells = [result["title"], result.get("nodes", "-")]
    cells += [_verdict(result.get(v)) for v in _VERDICTS]
    if result.get("moved"):
        cells[-1] += f"~{result['moved']}"
    counts = result.get("counts", "-")
    cells.append(counts if result.get("shapes", True) else counts + " FAIL")
    return line([*cells, result["seconds"]])


def line(cells):
    first = str(cells[0]).ljust(_WIDTHS[0])
    return (first + "".join(str(c).rjust(w) for c, w in zip(cells[1:], _WIDTHS[1:]))).rstrip()


def _verdict(value):
    return {True: "yes", False: "NO", None: "-"}[value]


def summary(results, optima, orders, steps, runs):
    """Return the closing lines."""
    count = {v: sum(bool(r.get(v)) for r in results) for v in (*_VERDICTS, "shapes")}
    everything = [*results, *optima, *orders, *steps, *runs]
    passed = _sound(everything)
    return [
        f"models planned {count['planned']} / verified {count['verified']} / bit-identical {count['identical']}"
        f" out of {len(results)}; checker {count['checker']}, order {count['order']}, shapes {count['shapes']}",
        f"optima confirmed {_sound(optima)} out of {len(optima)}; the runtime's own orders met on {_sound(orders)} out of {len(orders)}"
        f"; training steps right {_sound(steps)} out of {len(steps)}; plans run {_sound(runs)} out of {len(runs)}",
        *running.speed(runs),
        f"{passed} passed, {len(everything) - passed} failed",
    ]


def _sound(results):
    return sum(not r["faults"] for r in results)
