#!/usr/bin/env python3
"""Print the proven peaks of training steps in float32, in 16 bits, with adapters, and with both.

    bench/precision.py [--batch 1 --batch 32] [--keep FILE.json] [NAME...]

Each step is AdamW's of a built-in network. A cell is the peak of the arena and the total with
weights and states, in MiB. "+ 1.2 %": the order is not proven optimal, and the bound is that
much below the peak; without it the peak is the least of any order. A plan with little effort
that is not proven is made again with the default effort. --keep has the figures of plans that
an earlier call has made, and takes those of this one.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import harness

DIMS = {"bert": ["sequence=128"], "xlmr": ["sequence=128"], "transformer": ["source=32", "target=32"]}
LORA = ["--lora=8"]
KINDS = {"float32": [], "bf16": ["--autocast=bf16"], "LoRA": LORA, "LoRA, bf16": ["--autocast=bf16", *LORA]}


def networks():
    return [n["name"] for n in harness.answer("model")["networks"]]


def plan(model, out, dims, flags):
    """Return the summary of a step: with little effort, or with more if that leaves a gap."""
    for effort in ("fast", "default"):
        done = subprocess.run(
            [harness.BINARY, "optimize", "--train", "--optimizer=adamw", "--json", f"--effort={effort}", *flags, *(f"--dim={d}" for d in dims), model, out],
            capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            return {"refused": (done.stderr.strip().splitlines() or ["nothing said"])[-1]}
        made = json.loads(done.stdout)
        if made["schedule_optimal"]:
            break
    return {k: made[k] for k in ("peak_bytes", "lower_bound_bytes", "total_bytes", "schedule_optimal", "nodes")}


def cell(made):
    """Return peak, gap and total as two cells."""
    if "refused" in made:
        return ["–", "–"]
    peak, bound = made["peak_bytes"], made["lower_bound_bytes"]
    gap = "" if made["schedule_optimal"] else f" + {100 * (peak - bound) / peak:.1f} %"
    return [f"{peak / harness.MIB:,.1f}{gap}", f"{made['total_bytes'] / harness.MIB:,.1f}"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--batch", type=int, action="append")
    p.add_argument("--keep", type=pathlib.Path)
    args = p.parse_args()
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    titles = [t for kind in KINDS for t in (f"{kind}: peak", "total")]
    harness.head("network", "batch", *titles)
    with tempfile.TemporaryDirectory() as tmp:
        for name in args.names or networks():
            model = f"{tmp}/{name}.onnx"
            subprocess.run([harness.BINARY, "model", name, model], check=True, capture_output=True)
            for batch in args.batch or [1, 32]:
                cells = []
                for kind, flags in KINDS.items():
                    key = f"{name} {batch} {kind}"
                    if key not in kept:
                        kept[key] = plan(model, f"{tmp}/step.onnx", [f"batch={batch}", *DIMS.get(name, [])], flags)
                        if args.keep:
                            args.keep.write_text(json.dumps({k: v for k, v in kept.items() if "refused" not in v}))
                    cells += cell(kept[key])
                harness.row(name, batch, *cells)


if __name__ == "__main__":
    main()
