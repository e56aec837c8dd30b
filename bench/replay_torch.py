"""Replays recorded training steps through PyTorch's allocator, as onnxmem_torch has it, without a GPU.

    python bench/replay_torch.py RECORDING.jsonl.gz ...

prints a line of a table for each recording of bench/record_traces.py: what PyTorch's own
allocator reserves for an iteration that repeats (onnxmem pack), and what the arena takes
after the first iterations were played, and one of them 20 times more. ONNXMEM_LIBCUDA names
a driver whose memory is the host's (vm/cuda/fake); PYTHONPATH has onnxmem and onnxmem_torch,
ONNXMEM_COMMAND and ONNXMEM_ORT_LIBRARY name what was built. --period: without marks.

    python bench/replay_torch.py --changing RECORDING.jsonl.gz ...

plays all runs once, each as an iteration of the kind that the sizes of its first blocks tell
(as the shape of the inputs would), and as one of one kind for all: the share of hits, and the most that is taken from the driver as a multiple of
the largest load, both without what lives from before the runs.
"""

import gzip
import json
import sys
import time
from pathlib import Path

import onnxmem_torch
from onnxmem._command import call
from onnxmem_torch import _allocator

STEADY = 20  # iterations
FIRST = 10  # blocks that tell the kind of an iteration


def recording(file):
    """Return the events before the first run, and those of each run."""
    with gzip.open(file, "rt") as f:
        events = [json.loads(line) for line in f]
    marks = [i for i, e in enumerate(events) if "mark" in e]
    return events[: marks[0]], [events[a + 1 : b] for a, b in zip(marks, [*marks[1:], len(events)])]


class Program:
    """A program that allocates; each stream is another program."""

    def __init__(self, stream):
        self.library, self.stream, self.live = _allocator._installed().library, stream, {}
        self.seconds = self.calls = 0

    def play(self, events, shift=0):
        malloc, free, live, stream = self.library.onnxmem_torch_malloc, self.library.onnxmem_torch_free, self.live, self.stream
        began = time.perf_counter()
        for e in events:
            if "alloc" in e:
                live[e["alloc"] + shift] = malloc(e["size"], 0, stream), e["size"]
                assert live[e["alloc"] + shift][0]
            elif e["free"] + shift in live:
                address, size = live.pop(e["free"] + shift)
                free(address, size, 0, stream)
        self.seconds += time.perf_counter() - began
        self.calls += len(events)


def replay(file, stream, marked):
    before, runs = recording(file)
    program = Program(stream)

    def iteration(events, shift=0):
        if marked:
            with onnxmem_torch.iteration():
                pass
        program.play(events, shift)
        onnxmem_torch.wait()

    program.play(before)
    for run in runs[:-1]:
        iteration(run)
    steady, blocks = runs[-2], sum("alloc" in e for e in runs[-2])
    memory = lambda: next(s for s in onnxmem_torch.streams() if s["stream"] == stream)
    more = 0
    while not memory()["plans"]:
        more += 1
        iteration(steady, more * blocks)
    iteration(steady, (more + 1) * blocks)  # what was recorded has gone
    start = memory()
    program.seconds = program.calls = 0
    for k in range(STEADY):
        iteration(steady, (more + 2 + k) * blocks)
    end = memory()
    assert end["hits"] - start["hits"] + end["misses"] - start["misses"] == STEADY * blocks
    return start, end, program.seconds / program.calls


def change(file, stream, kinds):
    """Play all runs; return the kinds, the share of hits, the most taken, and the largest load."""
    before, runs = recording(file)
    program = Program(stream)
    program.play(before)
    memory = lambda: next(s for s in onnxmem_torch.streams() if s["stream"] == stream)
    weights = sum(size for _, size in program.live.values())
    live, load, sizes = {}, 0, []
    for run in runs:
        sizes.append(tuple(e["size"] for e in run if "alloc" in e))
        for e in run:
            if "alloc" in e:
                live[e["alloc"]] = (e["size"] + 511) // 512 * 512
                load = max(load, sum(live.values()))
            else:
                live.pop(e["free"], None)
    for run, of in zip(runs, sizes):
        with onnxmem_torch.iteration(of[:FIRST] if kinds else None):
            program.play(run)
        onnxmem_torch.wait()
    end = memory()
    return len({of[:FIRST] for of in sizes}), end["hits"] / sum(map(len, sizes)), end["driver_peak_bytes"] - weights, load


def changing(files):
    print("| recording | runs | kinds | largest load | hits, a plan for each kind | most taken | hits, one plan | most taken |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for i, file in enumerate(files):
        row = [Path(file).name.split(".")[0], f"{len(recording(file)[1]):,}"]
        for kinds in (True, False):
            count, hits, taken, load = change(file, 1000 + 16 * (2 * i + kinds), kinds)
            row += [f"{count:,}", f"{load:,}"] if kinds else []
            row += [f"{hits:.1%}", f"{taken / load:.2f}"]
        print("| " + " | ".join(row) + " |", flush=True)


def main(files, marked):
    print("| recording | blocks | largest load | PyTorch reserves | fragmentation | arena | fragmentation | less | misses |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    ratios = []
    for i, file in enumerate(files):
        start, end, seconds = replay(file, 16 * (i + 1), marked)
        found = call(["pack", f"--trace={file}", "--align=512", "--json"]).result
        load, reserved, arena = end["live_peak_bytes"], found["reserved_bytes"]["pytorch"], end["arena_bytes"]
        theirs, ours = 1 - load / reserved, 1 - load / arena
        ratios.append(1 - ours / theirs)
        name = Path(file).name.split(".")[0]
        blocks = (end["hits"] - start["hits"]) // STEADY
        print(f"| {name} | {blocks:,} | {load:,} | {reserved:,} | {theirs:.2%} | {arena:,} | {ours:.2%} | {ratios[-1]:.1%} | {end['misses']} |", flush=True)
        print(f"{name}: {1e6 * seconds:.2f} µs a call, through ctypes; most taken {end['driver_peak_bytes']:,}, now {end['driver_bytes']:,}", file=sys.stderr)
    print(f"mean: fragmentation is {sum(ratios) / len(ratios):.1%} less", file=sys.stderr)


if __name__ == "__main__":
    _allocator._state = _allocator._State()  # install() without PyTorch
    if "--changing" in sys.argv:
        changing([a for a in sys.argv[1:] if not a.startswith("--")])
        sys.exit()
    main([a for a in sys.argv[1:] if not a.startswith("--")], "--period" not in sys.argv)
