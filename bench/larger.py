#!/usr/bin/env python3
"""Compute the time of steps on more cores from times on one and two, for docs/results/larger.md.

    bench/larger.py [--rounds 3] [--seconds 1] [--under COMMAND] [--kept FILE] PLANNED.onnx...

Each model is run by turns with one worker and with two, and the least time of each node is
taken. A kind of kernel that takes t1 on one core and t2 on two has the parallel fraction
2 (1 - t2 / t1), between 0 and 1, and a node of it takes on n cores, by Amdahl's law,

    t1 (1 - fraction) + t1 fraction / n + barrier (n - 2)

or t2 times what the kind loses, if it is slower on two cores than on one. A node that takes
less than SMALL on one core keeps the time that it has on two. Kinds that move memory gain no
more than the memory does: a core moves CORE, the cores that share a cache of the last level
at most CLUSTER, and all at most SOCKET, unless the arena and the weights fit in those
caches. CORE and CLUSTER are what one core and two move here; that eight move no more than
two, SOCKET, and the growth of a barrier are assumed.

The tables are: kinds, times of steps, scratch. --under is a command that measured runs
are started with, such as 'chrt -f 50'; with one worker they stay on one core. --kept names
a file that keeps what was measured.
"""

import argparse
import collections
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import harness

CORES = (4, 8, 16, 64)
CORE, CLUSTER, SOCKET = 31e9, 62e9, 350e9  # bytes a second: updates of weights on one core, on two; assumed
TOGETHER, CACHE = 8, 32 << 20  # cores that share a cache of the last level, and its bytes: assumed
SMALL = 20  # microseconds
BARRIER = 0.2  # microseconds that each worker more adds to a node: assumed

# Kinds of kernels: what nodes say of operator and algorithm, and whether memory bounds them.
KINDS = (
    ("gradient of a convolution's weights", "ConvWeightGrad", False),
    ("gradient of an image, depthwise", "ConvTranspose.*depthwise", False),
    ("gradient of an image, transposed convolution", "ConvTranspose", False),
    ("depthwise convolution", "Conv .*depthwise", False),
    ("1 x 1 convolution", "Conv .*1x1", False),
    ("3 x 3 convolution", r"Conv .*[^x0-9]3x3(x3)?\b", False),
    ("other convolution", "Conv ", False),
    ("product of some rows", "(MatMul|Gemm|Einsum|FusedMatMul) ", False),
    ("recurrent network, loop", "(GRU|LSTM|RNN|Scan|Loop) ", False),
    ("attention", "Attention", False),
    ("gradient of a normalization", ".*gradient of a normalization", True),
    ("update of a weight", "Sub 2 nodes at once: Mul, Sub", True),
    ("normalization, softmax", ".*(Normalization|Softmax)", True),
    ("pooling, resizing, sum along axes", ".*(Pool|Resize|Reduce|Upsample)", True),
    ("copy", "(Transpose|Concat|Split|Slice|Gather|Expand|Pad|Tile|DepthToSpace|SpaceToDepth|ConstantOfShape)", True),
    ("function of elements", "", True),
)


def kind_of(operator, algorithm):
    """Return the place in KINDS of a node."""
    words = f"{operator.removeprefix('onnxmem::')} {algorithm}"
    return next(i for i, (_, pattern, _) in enumerate(KINDS) if re.match(pattern, words))


def fraction(one, two):
    """Return the parallel fraction of a kind from its times on one core and on two."""
    return min(1.0, max(0.0, 2 * (1 - two / one))) if one else 0.0


def rate(cores):
    """Return the bytes a second that so many cores move."""
    return min(cores * CORE, -(-cores // TOGETHER) * CLUSTER, SOCKET)


def node_time(one, two, share, loss, cores, streams):
    """Return the time of a node: share is its kind's parallel fraction, and loss what two cores take longer than one."""
    if one < SMALL:
        return two
    if share == 0:
        return one * max(1.0, loss)
    gain = min(cores, rate(cores) / CORE) if streams else cores
    return one * (1 - share) + one * share / gain + BARRIER * max(0, cores - 2)


def step_time(nodes, shares, losses, cores, held):
    """Return the time of a step: nodes are (kind, time on one core, on two), held the bytes of the arena and the weights."""
    fits = held <= -(-cores // TOGETHER) * CACHE
    return sum(node_time(one, two, shares[kind], losses[kind], cores, KINDS[kind][2] and not fits) for kind, one, two in nodes)


def kinds(models):
    """Return the number of nodes of each kind that are not small, and their times on one core and on two."""
    found = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for model in models.values():
        for kind, one, two in (node for node in model["nodes"] if node[1] >= SMALL):
            found[kind][0] += 1
            found[kind][1] += one
            found[kind][2] += two
    return found


def measure(model, args):
    """Return a model's nodes (kind, µs on one core, on two), the bytes that it holds, and scratch by workers."""
    best = ({}, {})
    for _ in range(args.rounds):
        for i, workers in enumerate((1, 2)):
            for name, words, micros in profile(model, workers, args):
                kind, least = best[i].get(name, (kind_of(*words), micros))
                best[i][name] = kind, min(least, micros)
    scratch = {}
    for workers in (1, 2, *CORES):
        said = run(model, workers, 1, [])
        scratch[str(workers)] = said["scratch_bytes"]
    held = said["total_bytes"] + said["packed_bytes"]
    return {"nodes": [(kind, one, best[1][name][1]) for name, (kind, one) in best[0].items()], "held": held, "scratch": scratch}


def profile(model, workers, args):
    """Yield the name, the operator with its algorithm, and the least time of each node."""
    under = [*args.under, *(["taskset", "-c", "1"] if workers == 1 else [])]
    steps = max(3, min(300, int(1e3 * args.seconds / run(model, workers, 2, under)["times_ms"]["step"])))
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        run(model, workers, steps, under, f"--profile={file.name}")
        events = json.loads(pathlib.Path(file.name).read_text())["traceEvents"]
    for event in events:
        said = event.get("args", {})
        if event.get("ph") == "X" and "fastest_us" in said:
            yield event["name"], (said["op"], said.get("algorithm", "")), said["fastest_us"]


def run(model, workers, steps, under, *more):
    command = [*under, harness.BINARY, "run", model, f"--workers={workers}", f"--steps={steps}", "--json", *more]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="PLANNED.onnx")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a burst")
    parser.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND")
    parser.add_argument("--kept", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    kept = json.loads(args.kept.read_text()) if args.kept and args.kept.exists() else {}
    for model in args.models:
        name = model.stem.removesuffix("-pl")
        if name not in kept:
            kept[name] = measure(model, args)
            if args.kept:
                args.kept.write_text(json.dumps(kept))
        print(name, file=sys.stderr, flush=True)
    tables({m.stem.removesuffix("-pl"): kept[m.stem.removesuffix("-pl")] for m in args.models})


def tables(models):
    found = kinds(models)
    shares = collections.defaultdict(float, {kind: fraction(one, two) for kind, (_, one, two) in found.items()})
    losses = collections.defaultdict(lambda: 1.0, {kind: two / one for kind, (_, one, two) in found.items()})
    harness.head("kind", "nodes", "ms on one core", "on two", "speed-up", "parallel")
    for kind, (nodes, one, two) in sorted(found.items()):
        harness.row(KINDS[kind][0], nodes, ms(one), ms(two), f"{one / two:.2f}" if two else "", f"{shares[kind]:.2f}")
    small = [node[1:] for model in models.values() for node in model["nodes"] if node[1] < SMALL]
    one, two = (sum(times) for times in zip(*small)) if small else (0, 0)
    harness.row(f"nodes below {SMALL} µs, of all kinds", len(small), ms(one), ms(two), f"{one / two:.2f}" if two else "", "")
    print()
    harness.head("model", "1", "2", "2, computed", *map(str, CORES), *(f"speed-up on {n}" for n in CORES))
    for name, model in models.items():
        one, two = (sum(node[i] for node in model["nodes"]) for i in (1, 2))
        more = [step_time(model["nodes"], shares, losses, n, model["held"]) for n in (2, *CORES)]
        harness.row(name, *map(ms, (one, two, *more)), *(f"{one / t:.1f}" for t in more[1:]))
    print()
    harness.head("model", *(f"{n} workers" if n > 1 else "one worker" for n in (1, 2, *CORES)))
    for name, model in models.items():
        harness.row(name, *(f"{n / harness.MIB:.2f}" for n in model["scratch"].values()))


def ms(micros):
    return f"{micros / 1e3:.3g}" if micros < 1e6 else f"{micros / 1e3:.0f}"


if __name__ == "__main__":
    sys.exit(main())
