#!/usr/bin/env python3
"""Plan models of the zoo for ranges of their dimensions, and verify the plans.

    bench/ranges.py [--only NAME] [--buckets | --train | --aliases]

Prints a table: the box, its points, those that the model refuses, at how many the arena
is the proven lower bound, the worst ratio of both, the seconds of processor time that
optimize and verify take, and what the ranges add to the plan's file. --buckets instead
compares one plan for all lengths with a plan for each power of two, and with the fewest
plans of a given waste, along one dimension. --train plans training steps, and compares
the corner with a plan for that batch alone. --aliases plans images of several heights and
widths without and with aliases; it opens these dimensions in the files, for which it needs
the onnx package. The rest needs Python 3 alone.
"""

import argparse
import json
import resource
import subprocess

import harness

SEQUENCES = {"batch": "1..8", "sequence": "1..512"}
LONG = {"batch": "1..4", "sequence": "1..1024"}
BATCH = {"batch": "1..64"}
NETWORKS = (
    ("bert_base-dyn", SEQUENCES, []),
    ("distilbert-dyn", SEQUENCES, []),
    ("xlm_roberta_base-dyn", SEQUENCES, []),
    ("gpt2-dyn", LONG, []),
    ("gpt2_past-dyn", {"batch": "1..4", "past": "1..1023"}, []),
    ("llama_small-dyn", LONG, []),
    ("transformer_functions-dyn", {"batch": "1..8", "sequence": "1..256"}, []),
    ("gru_lm-dyn", {"batch": "1..8", "sequence": "1..256"}, []),
    *((name, BATCH, []) for name in (
        "transformer_base-dyn", "alexnet-dyn", "convnext_tiny-dyn", "deeplabv3_resnet50-dyn", "densenet121-dyn",
        "efficientnet_b0-dyn", "googlenet-dyn", "mobilenet_v2-dyn", "mobilenet_v3_large-dyn", "randwire_ws-dyn",
        "res2net50_14w_8s-dyn", "resnet50-dyn", "resnet152-dyn", "sparse_mlp-dyn", "unet-dyn", "vgg16-dyn", "vit_b_16-dyn")),
    ("layered_24k-dyn", {"batch": "1..8"}, ["--effort", "fast"]),
    # With bodies: a Loop and an If, two Ifs.
    ("greedy_gru-script", BATCH, []),
    ("fasterrcnn_resnet50_fpn", {"width": "480..704:32"}, ["--dim", "height=480"]),
    # With caches of 1024 tokens.
    ("gpt2_past-dyn", {"batch": "1..8"}, ["--kv-capacity", "1024"]),
)

# Training steps.
BATCHES = {"batch": "2..32"}
STEPS = (
    *((name, BATCHES, []) for name in ("resnet50-dyn", "googlenet-dyn", "mobilenet_v2-dyn", "vgg16-dyn", "vit_b_16-dyn")),
    ("unet-dyn", BATCHES, ["--loss", "mse"]),
    ("bert_base-dyn", {"batch": "2..16"}, ["--dim", "sequence=128"]),
    ("gpt2-dyn", {"batch": "2..8"}, ["--dim", "sequence=128"]),
    ("gru_lm-dyn", BATCHES, ["--dim", "sequence=32"]),  # its cells are bodies of Scans
)

# Without and with aliases, at batch 1.
SIDES = {"height": "224..320:32", "width": "224..320:32"}
JOINED = (
    ("unet-dyn", {"height": "64..512:32", "width": "64..512:32"}, ["--dim", "batch=1"]),
    ("ghostnet_100-b1", SIDES, []),
    ("densenet121-b1", SIDES, []),
    ("googlenet-dyn", SIDES, ["--dim", "batch=1"]),
    ("squeezenet1_1-b1-inline", SIDES, []),
    ("res2net50_14w_8s-dyn", SIDES, ["--dim", "batch=1"]),
    ("vit_b_16-dyn", BATCH, []),
    ("transformer_base-dyn", {"batch": "1..16"}, []),
)

# Along one dimension, the others at one length.
LINES = (
    ("bert_base-dyn", {"batch": "8"}, "sequence", 512),
    ("distilbert-dyn", {"batch": "8"}, "sequence", 512),
    ("gpt2-dyn", {"batch": "8"}, "sequence", 1024),
    ("gpt2_past-dyn", {"batch": "8"}, "past", 1023),
    ("llama_small-dyn", {"batch": "8"}, "sequence", 1024),
    ("resnet50-dyn", {}, "batch", 64),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only networks whose name has this in it")
    parser.add_argument("--buckets", action="store_true", help="the table of buckets")
    parser.add_argument("--train", action="store_true", help="the table of training steps")
    parser.add_argument("--aliases", action="store_true", help="the table of aliases")
    args = parser.parse_args()
    folder = harness.ROOT / "build/bench/ranges"
    folder.mkdir(parents=True, exist_ok=True)
    if args.buckets:
        print("<!-- table: ranges/buckets -->\n")
        harness.head("network", "dimension:", "one plan: mean (worst)", "powers of two: plans, mean (worst)", "fewest plans for 1.25 / 1.5 / 2", "stacked: mean (worst)")
        for line in LINES:
            if args.only in line[0]:
                buckets(folder, *line)
        return
    if args.train:
        print("<!-- table: ranges/steps -->\n")
        harness.head("network", "box:", "points", "bound met at", "worst ratio", "corner, MiB", "that batch alone", "optimize, s", "verify, s")
        for network in STEPS:
            if args.only in network[0]:
                step(folder, *network)
        return
    if args.aliases:
        print("<!-- table: ranges/aliases -->\n")
        harness.head("network", "box:", "points", "bound met at", "corner, MiB", "with aliases", "smallest point, MiB", "with aliases", "tensors in parts", "optimize, s", "with aliases", "verify, s", "with aliases")
        for network in JOINED:
            if args.only in network[0]:
                joined(folder, *network)
        return
    print("<!-- table: ranges/models -->\n")
    harness.head("network", "box:", "points", "refused", "bound met at", "worst ratio", "corner, MiB", "optimize, s", "verify, s", "plan, KiB", "of which ranges")
    for network in NETWORKS:
        if args.only in network[0]:
            model(folder, *network)


def run(*command):
    """Runs onnxmem and returns its output and the seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = subprocess.run([harness.ROOT / "bin/onnxmem", *map(str, command)], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return text, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def dims(lengths):
    return [word for name, text in lengths.items() for word in ("--dim", f"{name}={text}")]


def optimize(folder, name, box, flags, source=None):
    out = folder / f"{name}.onnx"
    _, seconds = run("optimize", source or harness.data("zoo", f"{name}.onnx"), out, "--allow-missing-weights", "--external-data", "keep", *dims(box), *flags)
    return out, json.loads(out.with_suffix(".plan.json").read_text()), seconds


def model(folder, name, box, flags):
    out, plan, seconds = optimize(folder, name, box, flags)
    _, checked = run("verify", out, "--allow-missing-weights")
    size = out.with_suffix(".plan.json").stat().st_size
    r = plan.pop("ranges")
    own = size - len(json.dumps(plan, indent=1)) - 1
    worst = r["worst"]["arena_bytes"] / r["worst"]["lower_bound_bytes"]
    harness.row(name, ", ".join(f"{k} {v}" for k, v in box.items()), r["points"], r["refused"], r["optimal_points"], f"{worst:.3f}",
                f"{plan['summary']['arena_bytes'] / 2**20:.2f}", f"{seconds:.1f}", f"{checked:.1f}", f"{size / 1024:.0f}", f"{own / 1024:.0f}")


def step(folder, name, box, flags):
    flags = ["--train", *flags]
    out, plan, seconds = optimize(folder, name, box, flags)
    _, checked = run("verify", out, "--allow-missing-weights")
    corner = {dim: text.split("..")[-1] for dim, text in box.items()}
    _, alone, _ = optimize(folder, name, corner, flags)
    r = plan["ranges"]
    worst = r["worst"]["arena_bytes"] / r["worst"]["lower_bound_bytes"]
    harness.row(name, ", ".join(f"{k} {v}" for k, v in box.items()), r["points"], r["optimal_points"], f"{worst:.3f}",
                f"{plan['summary']['arena_bytes'] / 2**20:.2f}", f"{alone['summary']['arena_bytes'] / 2**20:.2f}", f"{seconds:.1f}", f"{checked:.1f}")


def joined(folder, name, box, flags):
    source = opened(folder, name) if "height" in box else None
    plans, spent, checked = [], [], []
    for flag in ("--no-aliases", "--aliases"):
        out, plan, seconds = optimize(folder, name, box, [*flags, flag], source)
        plans.append(plan)
        spent.append(seconds)
        checked.append(run("verify", out, "--allow-missing-weights")[1])
    before, after = (p["ranges"] for p in plans)
    for a, b in zip(before["table"], after["table"]):
        if b["arena_bytes"] > a["arena_bytes"]:
            raise SystemExit(f"{name}: larger with aliases at {a['dims']}")
    mib = [f"{bytes_ / 2**20:.2f}" for p in plans for bytes_ in (p["summary"]["arena_bytes"], p["ranges"]["smallest"]["arena_bytes"])]
    text = run("report", out.with_suffix(".plan.json"), "--text")[0].stdout
    parts = next((line.split()[1] for line in text.splitlines() if line.startswith("aliases")), "0")
    harness.row(name, ", ".join(f"{k} {v}" for k, v in box.items()), after["points"], after["optimal_points"], mib[0], mib[2], mib[1], mib[3],
                parts, *(f"{s:.1f}" for s in spent + checked))


def opened(folder, name):
    """A copy of a model whose images have any height and width."""
    import onnx

    model = onnx.load(harness.data("zoo", f"{name}.onnx"), load_external_data=False)
    for value in (*model.graph.input, *model.graph.output):
        shape = value.type.tensor_type.shape.dim
        if len(shape) == 4:
            for axis, side in ((2, "height"), (3, "width")):
                shape[axis].dim_param = side if value in model.graph.input else f"out_{side}"
    del model.graph.value_info[:]
    path = folder / f"{name}.open.onnx"
    onnx.save(model, path)
    return path


def arenas(plan, name, high):
    """The arena of each length from 1 on, by the stacking and the polynomials of the plan."""
    r, align = plan["ranges"], plan["alignment"]
    list_ = [None]
    for n in range(1, high + 1):
        sizes = [sum(t["factor"] * n ** t.get("powers", {}).get(name, 0) for t in p) for p in r["sizes"]]
        tops, arena = [0] * len(plan["steps"]), 0
        for b in r["stacking"]:
            buffer = plan["buffers"][b]
            size = (sizes[r["size_of"][b]] + align - 1) // align * align
            if size == 0:
                continue
            first, last = buffer["first"], buffer["last"] + 1
            end = max(tops[first:last]) + size
            tops[first:last] = [end] * (last - first)
            arena = max(arena, end)
        list_.append(arena)
    return list_


def buckets(folder, name, fixed, dim, high):
    _, plan, _ = optimize(folder, name, {**fixed, dim: f"1..{high}"}, [])
    r = plan["ranges"]
    arena = arenas(plan, dim, high)
    # Where the bound is met at all points, the arena of a length is its bound.
    ratio = r["worst"]["arena_bytes"] / r["worst"]["lower_bound_bytes"]
    bound = [a and a / ratio for a in arena]

    def waste(tops):
        list_, top = [], 0
        for n in range(1, high + 1):
            while tops[top] < n:
                top += 1
            list_.append(arena[tops[top]] / bound[n])
        return sum(list_) / len(list_), max(list_)

    powers = [1 << k for k in range(high.bit_length() + 1) if 1 << k < high] + [high]

    def fewest(most):
        count, top = 1, high
        for n in range(high, 0, -1):
            if arena[top] / bound[n] > most:
                count, top = count + 1, n
        return count

    one, two, stacked = waste([high]), waste(powers), waste(range(1, high + 1))
    harness.row(name, f"{dim} 1..{high}", f"{one[0]:.1f} ({one[1]:.0f})", f"{len(powers)}, {two[0]:.2f} ({two[1]:.2f})",
                " / ".join(str(fewest(m)) for m in (1.25, 1.5, 2)), f"{stacked[0]:.3f} ({stacked[1]:.3f})")


if __name__ == "__main__":
    main()
