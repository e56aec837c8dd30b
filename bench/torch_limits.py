"""Peak and extra time of each way to partition a training step of PyTorch, beside ours at the same peak.

    PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python bench/torch_limits.py resnet50 >> rows.jsonl
    python bench/torch_limits.py --table rows.jsonl

Networks of bench/torch_networks.py at their real sizes on fake tensors, float32: eager's
kernels, one after another. Times are their roofline on an A100 (90 TFLOP/s, 1.3 TB/s, 2 µs
each); peaks are those of the graphs as they run, gradients included, parameters and inputs
apart. Ways: eager's partition, PyTorch's min-cut, its activation_memory_budget, and
torch.utils.checkpoint for each block; then ours at the peak of each of them, and at shares
of the best order's peak. A line of JSON for each; seconds are of the processor, with the command's.
"""

import argparse
import json
import os
import resource
import time
import warnings

os.environ.setdefault("ONNXMEM_PLANS", "")  # none from before

MIB = 2**20
BUDGETS = (0.75, 0.5, 0.3, 0.1, 0.0)
SHARES = (90, 80, 70, 60, 50, 40, 30, 20)
#: Why a row has PyTorch's partition: ours planned none.
MIN_CUT = "min-cut partitions it"
HEAD = "| network (kernels' time, parameters) | way | peak, MiB | of eager's | extra time | ours: peak | extra time | bound | planning, s |"


def spent():
    """Seconds of the processor, with those of commands that have ended."""
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Network:
    """A network's joint graph, and what partitions of it need and take."""

    def __init__(self, name, again=False):
        import torch
        from onnxmem_torch import _trace
        from torch_networks import build

        model = build(name, again=again, device="meta")
        self.name = name
        self.parameters = sum(p.numel() * p.element_size() for p in model.parameters())
        self.joint = _trace.joint(model, model.inputs, device="cpu", training=True)
        self.more = {"num_fwd_outputs": self.joint.num_fwd_outputs, "static_lifetime_input_indices": self.joint.static}
        self.guard = lambda: torch._guards.tracing(torch._guards.TracingContext(self.joint.mode))

    def parts(self, partition):
        """Return the graphs of a partition and the processor's seconds that it took."""
        from onnxmem_torch._prepare import copied
        from torch import fx

        joint = fx.GraphModule(self.joint.module, copied(self.joint.module.graph))
        began = spent()
        with self.guard():
            graphs = partition(joint, (), **self.more)
        return graphs, spent() - began

    def measured(self, graphs):
        """Return peak and time of a forward and a backward graph."""
        from onnxmem_torch import _lives
        from onnxmem_torch._costs import DEFAULT, seconds
        from onnxmem_torch._storages import Storages

        load = _lives.graph_load(*graphs, self.joint.num_fwd_outputs, "")
        time = sum(seconds(n, DEFAULT) for g in graphs for s in [Storages(g.graph)] for n in g.graph.nodes if s.runs(n))
        return load.peak_bytes, time


def run(name):
    """Measure all ways of a network; yield a row for each."""
    import torch
    import torch._functorch.config
    from functorch.compile import default_partition, min_cut_rematerialization_partition

    import onnxmem_torch
    from onnxmem_torch import _step
    from onnxmem_torch._costs import DEFAULT

    _step.device_of = lambda graph: DEFAULT
    plain = Network(name)
    eager = None

    def row(way, network, partition, budget=1.0, **more):
        nonlocal eager
        with torch._functorch.config.patch(activation_memory_budget=budget):
            graphs, took = network.parts(partition)
        peak, time = network.measured(graphs)
        eager = eager or (peak, time)
        figures = {"peak": peak, "extra": 100 * (time / eager[1] - 1), "cpu": took}
        return {"network": name, "parameters": network.parameters, "seconds": eager[1], "eager": eager[0], "way": way, **figures, **more}

    def ours(way, limit):
        partition = onnxmem_torch.Partitioner(limit)
        found = row(way, plain, partition)
        if not partition.reports:
            return {**found, "met": False, "why": MIN_CUT}
        report = partition.reports[0]
        if report.peak_bytes != found["peak"]:
            found["planned"] = report.peak_bytes
        base = (1 + found["extra"] / 100) / (1 + report.extra_percent / 100)  # of this step, with its dropouts in two
        bound = report.extra_bound_percent
        found["bound"] = None if bound is None else 100 * (base * (1 + bound / 100) - 1)
        met = report.limit_bytes is None or report.peak_bytes <= report.limit_bytes
        return {**found, "met": met, "why": report.warning, "resident": report.resident_bytes, "best": report.best_peak_bytes, "limit": report.limit_bytes}

    ways = [row("eager", plain, default_partition), row("min-cut", plain, min_cut_rematerialization_partition)]
    ways += [row(f"budget {b}", plain, min_cut_rematerialization_partition, b) for b in BUDGETS]
    ways.append(row("checkpoint each block", Network(name, again=True), min_cut_rematerialization_partition))
    yield from ways
    best = ours("ours", None)
    yield best
    for way in ways if best["why"] != MIN_CUT else []:
        if way["peak"] < best["peak"]:
            yield ours(f"ours = {way['way']}", way["peak"] + best["resident"])
    for share in SHARES:
        yield ours(f"ours {share}%", f"{share}%")


def table(rows):
    """Print the ways of networks with ours at their peaks, and ours at shares of the best order's peak."""
    names = list(dict.fromkeys(r["network"] for r in rows))
    of = {(r["network"], r["way"]): r for r in rows}
    print(HEAD + "\n| --- | --- |" + " ---: |" * 7)
    from torch_networks import TITLES

    for name in names:
        first = f"{TITLES[name]} ({1e3 * of[name, 'eager']['seconds']:.0f} ms, {of[name, 'eager']['parameters'] / MIB:,.0f} MiB)"
        for way in [w for n, w in of if n == name and not w.startswith("ours")]:
            r, o = of[name, way], of.get((name, f"ours = {way}"))
            cells = [first, way, f"{r['peak'] / MIB:,.0f}", f"{100 * r['peak'] / r['eager']:.0f} %", f"{r['extra']:.2f} %"]
            cells += [f"{o['peak'] / MIB:,.0f}" if o["met"] else f"none ({o['peak'] / MIB:,.0f})", *figures(o), f"{o['cpu']:.1f}"] if o else [""] * 4
            print("| " + " | ".join(cells) + " |")
            first = ""
    print("\n| network | best order, MiB |" + "".join(f" {s} % |" for s in SHARES) + " smallest, MiB |\n| --- |" + " ---: |" * (len(SHARES) + 2))
    for name in names:
        mine = [of[name, f"ours {s}%"] for s in SHARES]
        cells = [f"{figures(r)[0]} ({figures(r)[1]})" if r["met"] else next((w for w in ("impossible", MIN_CUT) if w in (r["why"] or "")), "none") for r in mine]
        least = min((r["peak"] for r in mine if not r["met"] and r["why"] != MIN_CUT), default=None)
        print("| " + " | ".join([TITLES[name], f"{of[name, 'ours']['peak'] / MIB:,.0f}", *cells, "" if least is None else f"{least / MIB:,.0f}"]) + " |")


def figures(row):
    bound = row.get("bound")
    return [f"{row['extra']:.2f} %", "" if bound is None else f"{bound:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network", nargs="?", help="one of bench/torch_networks.py")
    parser.add_argument("--table", metavar="FILE", help="print the rows in FILE as tables")
    args = parser.parse_args()
    if args.table:
        with open(args.table, encoding="utf-8") as file:
            return table([json.loads(line) for line in file])
    if args.network is None:
        parser.error("expected a network or --table")
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    for row in run(args.network):
        print(json.dumps(row), flush=True)
    print(f"{args.network}: {time.perf_counter() - began:.0f} s", file=__import__("sys").stderr)


if __name__ == "__main__":
    main()
