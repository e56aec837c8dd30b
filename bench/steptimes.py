#!/usr/bin/env python3
"""Compare the time of training steps with PyTorch's, eager, on one thread.

    bench/steptimes.py [--batch 2] [--rounds 3] [--old PATH] [NAME...]
    bench/steptimes.py --profile [NAME...]

Both take turns: in each round, our step and PyTorch's run some times. What is printed is
processor time, which other load on the machine affects least, of one step with SGD: the
smallest and the median of the rounds, ours, PyTorch's, and the ratio of the smallest ones.
With --old, another onnxmem takes its turn, too: the command of an earlier commit. With
--profile it prints which operators our step spends its time in. PyTorch's needs
torch and torchvision.
"""

import argparse
import collections
import json
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import harness

# Our network, and PyTorch's name of it if that differs.
NETWORKS = {"efficientnet_b0": "", "googlenet": "", "mnasnet": "mnasnet1_0", "mobilenet_v2": "", "resnet18": "", "resnet50": "", "vit_b_16": ""}
FEW, MANY = 1, 3  # steps of two runs, whose difference leaves out the preparation


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--old", type=pathlib.Path, help="another onnxmem")
    p.add_argument("--profile", action="store_true")
    p.add_argument("--torch", type=int, metavar="STEPS", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.torch:
        torch_steps(args.names[0], args.batch, args.torch)
        return
    old = ["before", "median"] if args.old else []
    if args.profile:
        harness.head("network", "ms", *(f"{i}.:" for i in range(1, 7)))
    else:
        harness.head("network", *old, "ours", "median", "PyTorch", "median", *(["before / PyTorch"] if old else []), "ours / PyTorch")
    ratios = []
    with tempfile.TemporaryDirectory() as tmp:
        for name in args.names or NETWORKS:
            model, step = f"{tmp}/{name}.onnx", f"{tmp}/{name}.step.onnx"
            subprocess.run([harness.BINARY, "model", name, model], check=True, capture_output=True)
            harness.answer("optimize", "--train", model, step, f"--dim=batch={args.batch}", "--effort=fast")
            if args.profile:
                profile(name, step)
            else:
                ratios.append(compare(name, step, args))
    if len(ratios) > 1:
        means = [f"{math.exp(sum(map(math.log, column)) / len(column)):.2f}" for column in zip(*ratios, strict=True)]
        harness.row("geometric mean", *[""] * (4 + len(old)), *means)


def compare(name, step, args):
    """Print a row and return the ratios to PyTorch."""
    commands = [args.old, harness.BINARY] if args.old else [harness.BINARY]
    spent = [[] for _ in commands]
    theirs = []
    for _ in range(args.rounds):
        for times, command in zip(spent, commands, strict=True):
            times.append((run(command, step, MANY) - run(command, step, FEW)) / (MANY - FEW))
        theirs.append(torch_time(name, args.batch))
    columns = [*spent, theirs]
    ratios = [min(times) / min(theirs) for times in spent]
    cells = [cell for times in columns for cell in (f"{min(times):.0f}", f"{sorted(times)[len(times) // 2]:.0f}")]
    harness.row(name, *cells, *(f"{r:.2f}" for r in ratios))
    return ratios


def run(command, step, steps):
    """Return the processor time of a run in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([command, "run", step, "--workers=1", f"--steps={steps}"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def torch_time(name, batch):
    done = subprocess.run(
        [sys.executable, __file__, f"--torch={MANY - FEW}", f"--batch={batch}", name], check=True, capture_output=True, text=True)
    return float(done.stdout)


def torch_steps(name, batch, steps):
    """Print the processor time of a step of PyTorch in milliseconds."""
    import torch
    import torchvision

    torch.set_num_threads(1)
    more = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    model = getattr(torchvision.models, NETWORKS[name] or name)(**more).train()
    images, labels = torch.randn(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.long)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for i in range(steps + 1):
        if i == 1:  # the first one prepares
            start = time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        loss.item()
    print((time.process_time() - start) / steps * 1e3)


def profile(name, step):
    """Print the operators that take most of a step, by the smallest of some times of each node."""
    costs = pathlib.Path(step).with_suffix(".costs.json")
    subprocess.run([harness.BINARY, "run", step, "--workers=1", f"--steps={MANY}", f"--costs-out={costs}"], check=True, capture_output=True)
    times = json.loads(costs.read_text())
    plan = json.loads(pathlib.Path(step.replace(".onnx", ".plan.json")).read_text())
    spent = collections.Counter()
    for node in plan["steps"]:
        op = node["op"]
        if op == "Conv":
            op = "Conv of weights" if ".grad/" in node["name"] else "Conv"
        spent[op] += times.get(node["name"], 0)
    whole = sum(spent.values())
    harness.row(name, f"{whole / 1e6:.0f}", *(f"{op} {100 * t / whole:.0f} %" for op, t in spent.most_common(6)))


if __name__ == "__main__":
    main()
