"""Training steps of PyTorch by the clock, on one core of the processor through Inductor: ours beside PyTorch's means, at equal peaks.

    PYTHONPATH=ort/python:ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python bench/torch_clock.py gpt2 >> rows.jsonl
    python bench/torch_clock.py --table rows.jsonl

The small networks of bench/torch_networks.py: eager, min-cut, budget 0.5, torch.utils.checkpoint
for each block, ours without a limit, and ours at the peaks that budget and checkpoints reach.
Where Inductor's kernels miss that peak, the limit is made smaller, at most twice. Peaks are
those that the profiler sees, above what lies there before a step. All ways are compiled
first; then a step of each runs by turns. The table has the fastest step of each.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
import types
import warnings

MIB = 2**20
TRIES = 3


class Way:
    """One way to run a step of a model."""

    def __init__(self, name, model, make=None, **patches):
        import torch._functorch.config as config

        self.name, self.model, self.more, self.times = name, model, {}, []

        def step(*inputs):
            return model(*inputs)

        # Dynamo keeps what it compiles by the code: each way has its own.
        self.step = types.FunctionType(step.__code__.replace(co_name=step.__name__), step.__globals__, step.__name__, None, step.__closure__)
        began = time.process_time()
        if make is not None:
            self.step = make(self.step)
        with config.patch(**patches, enable_autograd_cache=False):  # which would leave ours without reports
            self.run()
        self.run()
        self.more["compiling"] = time.process_time() - began
        self.peak = self._peak()

    def run(self):
        self.model.zero_grad(set_to_none=True)
        began = time.perf_counter()
        self.step(*self.model.inputs).backward()
        return time.perf_counter() - began

    def _peak(self):
        from torchtests.memory import peaks

        self.model.zero_grad(set_to_none=True)
        return peaks(lambda: self.step(*self.model.inputs).backward()).blocks

    def row(self):
        return {"way": self.name, "peak": self.peak, "median": statistics.median(self.times), "fastest": min(self.times), "turns": len(self.times), **self.more}


def compiled(step):
    import torch

    return torch.compile(step, fullgraph=True)


def ours(name, model, target=None, best=None):
    """Return ours without a limit, or at a peak that is not above target, in bytes; best is of the best order."""
    import onnxmem_torch

    limit, found = target, None
    for tried in range(TRIES if target else 1):
        share = f"{100 * limit / best}%" if target else None
        box = []
        way = Way(name, model, lambda step: box.append(onnxmem_torch.compile(step, limit=share, fullgraph=True)) or box[0])
        reports = onnxmem_torch.reports(box[0])
        if reports:
            r = reports[0]
            way.more |= {"best": r.best_peak_bytes, "planned": r.peak_bytes, "kernels": r.kernels_bytes, "warning": r.warning}
        way.more |= {"limit": limit, "tries": tried + 1, "target": target}
        if found is None or way.peak < found.peak:
            found = way
        if target is None or way.peak <= target:
            break
        print(f"{name}: {way.peak / MIB:.2f} MiB, above {target / MIB:.2f}", file=sys.stderr, flush=True)
        limit *= 0.998 * target / way.peak
    return found


def run(name, alone, seconds):
    import torch
    from torch_networks import build

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build(name, small=True)
    again = build(name, small=True, again=True)
    again.inputs = model.inputs

    def say(way):
        print(f"{name}: {way.name}: {way.peak / MIB:.2f} MiB, {way.more}", file=sys.stderr, flush=True)
        return way

    ways = [say(Way("eager", model)), say(Way("min-cut", model, compiled))]
    ways.append(say(ours("ours", model)))
    budget = say(Way("budget 0.5", model, compiled, activation_memory_budget=0.5))
    blocks = say(Way("checkpoint each block", again, compiled))
    for way in (budget, blocks):
        ways += [way, say(ours(f"ours = {way.name}", model, way.peak, ways[2].more["best"]))]
    with quiet(alone):
        for way in ways:
            way.run()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for way in ways:
                way.times.append(way.run())
    for way in ways:
        print(json.dumps({"network": name, **way.row()}), flush=True)


class quiet:
    """What a command says is a quiet machine: from its first line on, until its standard input ends."""

    def __init__(self, command):
        self.command = command

    def __enter__(self):
        if self.command:
            self.process = subprocess.Popen(shlex.split(self.command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.process.stdout.readline()

    def __exit__(self, *_):
        if self.command:
            self.process.stdin.close()
            self.process.wait()


def table(rows):
    print("| network | way | peak, MiB | ms, fastest step | beside min-cut |\n| --- | --- | ---: | ---: | ---: |")
    base = {r["network"]: r["fastest"] for r in rows if r["way"] == "min-cut"}
    for r in rows:
        cells = [r["network"], r["way"], f"{r['peak'] / MIB:.2f}", f"{1e3 * r['fastest']:.1f}", f"{100 * (r['fastest'] / base[r['network']] - 1):+.1f} %"]
        print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network", nargs="?", help="one of bench/torch_networks.py")
    parser.add_argument("--seconds", type=float, default=30, help="how long steps run by turns (default 30)")
    parser.add_argument("--alone", metavar="COMMAND", help="prints a line when nothing else runs, until its standard input ends")
    parser.add_argument("--table", metavar="FILE", help="print the rows in FILE as a table")
    args = parser.parse_args()
    if args.table:
        with open(args.table, encoding="utf-8") as file:
            return table([json.loads(line) for line in file])
    if args.network is None:
        parser.error("expected a network or --table")
    warnings.simplefilter("ignore")
    run(args.network, args.alone, args.seconds)


if __name__ == "__main__":
    main()
