"""crosscheck/run corpus: make bare problems of the modules of modules.py and order them.

    crosscheck/run corpus trace FOLDER [NAME ...]   write FOLDER/PACKAGE__NAME.MODE.PAIRS.json.gz
    crosscheck/run corpus order FOLDER              order all problems of the folder; print the tables

MODE is inference or training; PAIRS is plain (no results in place of operands) or inplace.
A module that cannot be traced leaves a file PACKAGE__NAME.MODE.refused with the reason.
Files that are there are kept.
"""

import argparse
import functools
import gc
import gzip
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from onnxmem_torch import _problem, _trace

from . import modules, storages

SECONDS = 60  # of processor time to build and trace a module in one mode
BATCH = {"inference": 1, "training": 2}  # batch norm after a global pooling needs two


class Unset(TorchDispatchMode):
    """Leaves large tensors uninitialized: a module that is only traced needs no weights."""

    def __enter__(self):
        self.samples, torch.nn.init.trunc_normal_ = torch.nn.init.trunc_normal_, lambda t, *_, **__: t  # it samples until all is in range
        return super().__enter__()

    def __exit__(self, *raised):
        torch.nn.init.trunc_normal_ = self.samples
        return super().__exit__(*raised)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in ("normal_", "uniform_", "erfinv_", "fill_", "zero_", "clamp_", "mul_", "add_") and args[0].numel() > 4096:
            return args[0]
        return func(*args, **(kwargs or {}))


def main():
    parser = argparse.ArgumentParser(prog="crosscheck/run corpus", description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("trace", "order"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="of modules, as PACKAGE/NAME (default: all)")
    parser.add_argument("--binary", default="bin/onnxmem")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.what == "trace":
        for m in modules.MODULES:
            if not args.names or m.title in args.names:
                trace(m, args.folder)
    else:
        orders = [order(args.binary, path) for path in sorted(args.folder.glob("*.json.gz"))]
        print("\n".join(tables(orders)))


def trace(module, folder):
    """Write the four problems of a module, or the reason why it has none."""
    stem = module.title.replace("/", "__")
    for mode in ("inference", "training"):
        paths = {pairs: folder / f"{stem}.{mode}.{pairs}.json.gz" for pairs in ("plain", "inplace")}
        refused = folder / f"{stem}.{mode}.refused"
        if all(p.exists() for p in paths.values()) or refused.exists():
            continue
        began = time.process_time()
        signal.signal(signal.SIGPROF, _late)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        gc.disable()  # it would visit every node of the graph again and again
        try:
            with Unset(), torch.no_grad():
                built, args, kwargs = module.build(BATCH[mode])
            traced, step = step_of(built, args, kwargs, mode == "training")
            signal.setitimer(signal.ITIMER_PROF, 0)
            made = {pairs: _problem.named_problem(traced, step, module.title, pairs == "inplace", storages.ALIGNMENT) for pairs in paths}
            if wrong := storages.faults(traced.module, step, made["plain"]):
                raise AssertionError(f"{len(wrong)} differences from torch's storages, the first: {wrong[0]}")
            for pairs, path in paths.items():
                path.write_bytes(gzip.compress(json.dumps(made[pairs], separators=(",", ":")).encode(), mtime=0))
            said = "traced"
        except Exception as error:  # of any package: the reason is part of the result
            signal.setitimer(signal.ITIMER_PROF, 0)
            said = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
            refused.write_text(said + "\n")
        built = traced = step = made = args = kwargs = None
        gc.collect()
        print(f"{module.title} {mode}: {said} ({time.process_time() - began:.1f} s)", flush=True)


def step_of(module, args=(), kwargs=None, training=False):
    """Return a module's trace and its step: the forward pass in evaluation mode, or a step of SGD on the sum of mean squares."""
    module.train(training)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01) if training else None
    traced = _trace.joint(module, args, kwargs, loss=mean_squares if training else None, training=training)
    return traced, _problem.step_of(traced, updates=(optimizer, module) if training else None)


def mean_squares(result):
    """Return the sum of the mean squares of all tensors of a result that have a gradient."""
    return functools.reduce(torch.add, (t.square().mean() for t in _trace.leaves(result) if t.requires_grad))


def _late(*_):
    raise TimeoutError(f"more than {SECONDS} s")


def order(binary, path):
    """Order one problem at default effort; return the command's object."""
    done = subprocess.run([binary, "order", path, "--json"], stdout=subprocess.PIPE, check=True)
    result = json.loads(done.stdout)
    _, result["mode"], result["pairs"] = path.name.removesuffix(".json.gz").rsplit(".", 2)
    if not result["lower_bound_bytes"] <= result["peak_bytes"] <= result["program_order_peak_bytes"]:
        sys.exit(f"{path}: bound, peak and program order contradict each other")
    if result["pairs"] == "plain":  # these loads were those of torch's storages when the problem was made
        expected = max((load for *_, load in storages.steps(json.loads(gzip.decompress(path.read_bytes())))), default=0)
        if result["program_order_peak_bytes"] != expected:
            sys.exit(f"{path}: program order: expected {expected} bytes, found {result['program_order_peak_bytes']}")
    return result


def tables(orders):
    """Return the lines of the tables of docs/results/corpus.md."""
    lines = ["<!-- table: corpus/variants -->"]
    lines.append("| problems | number | nodes, median | proven | median ms | 95 % ms | max ms | saved, median | max |")
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for mode in ("inference", "training"):
        for pairs, title in (("plain", "no in-place results"), ("inplace", "in-place results")):
            rows = [o for o in orders if (o["mode"], o["pairs"]) == (mode, pairs)]
            if not rows:
                continue
            times = sorted(o["times_ms"]["total"] for o in rows)
            saved = [100 - 100 * o["peak_bytes"] / o["program_order_peak_bytes"] for o in rows if o["program_order_peak_bytes"]]
            late = times[min(len(times) - 1, len(times) * 95 // 100)]
            lines.append(
                f"| {mode}, {title} | {len(rows)} | {statistics.median(o['nodes'] for o in rows):.0f} | {sum(o['optimal'] for o in rows)}"
                f" | {statistics.median(times):.2g} | {late:.0f} | {times[-1]:.0f} | {statistics.median(saved):.1f} % | {max(saved):.1f} % |"
            )
    lines += ["", "<!-- table: corpus/open -->"]
    lines += ["| module | problem | nodes | bound | peak | gap |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for o in orders:
        if not o["optimal"]:
            gap = 100 * (o["peak_bytes"] / o["lower_bound_bytes"] - 1)
            lines.append(f"| {o['name']} | {o['mode']}, {o['pairs']} | {o['nodes']} | {o['lower_bound_bytes']} | {o['peak_bytes']} | {gap:.3f} % |")
    return lines


if __name__ == "__main__":
    main()
