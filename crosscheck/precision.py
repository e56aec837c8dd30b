"""Compare steps in 16 bits with those of torch.autocast; the same network in float64 judges both.

    crosscheck/run precision                            # all networks, bf16 and fp16
    crosscheck/run precision resnet18 --type bf16       # some
    crosscheck/run precision alexnet --draws 8          # with more data, which tells chance from a cause
    crosscheck/run precision --table docs/results/precision.md   # write the tables of that page

Each network is exported from PyTorch, and `optimize --train --autocast` makes its step. From the
same parameters, the same data and the same labels, PyTorch's CPU computes loss and gradients
under torch.autocast, and again in float64. An error is the norm of what is off over the norm of
float64's gradient, the root of its mean square over the draws of data. What is allowed was
chosen before the first figure was seen:

- the geometric mean over the parameters of our error over PyTorch's is at most 1.05;
- no gradient of 64 elements or more is off by more than twice PyTorch's error;
- the loss is off by at most 10 times PyTorch's error, which is what the 99th percentile of such
  a ratio is if both errors are drawn from the same distribution twice, and the geometric mean of
  these ratios over all networks is at most 1.9, three of its standard deviations for eighteen
  networks; errors of a loss below a rounding error of float32 count as that.

Parameters whose gradient is structurally zero, such as a bias before BatchNormalization, have
none to compare: they are counted. float16 has the loss multiplied by 1024 on both sides.
"""

import argparse
import contextlib
import copy
import json
import logging
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
from torch import nn

from . import autograd, parameters, precision_networks

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_DRAWS = 2
_MEAN, _MOST, _LOSS, _LOSSES = 1.05, 2.0, 10.0, 1.9  # of our error over PyTorch's; see above
_FEW = 64  # elements of a parameter, below which a single error is chance
_SCALE = 1024.0  # of the loss, for float16
_ROUNDING = 2.0**-24


def cross_entropy(scores, labels):
    """Return the mean cross-entropy of scores whose classes are last."""
    return nn.functional.cross_entropy(scores.flatten(0, -2), labels.flatten())


def differentiate(module, given, labels, kind=None):
    """Return loss and gradients by name, computed by PyTorch: in the module's type, or under autocast."""
    module.train().zero_grad()
    scale = _SCALE if kind == torch.float16 else 1.0
    with torch.autocast("cpu", dtype=kind, enabled=kind is not None):
        loss = cross_entropy(module(*given), labels)
    (loss * scale).backward()
    return loss.item(), {n: p.grad.numpy() / scale for n, p in module.named_parameters() if p.grad is not None}


def export(module, given, path):
    """Write the module with the names of its parameters, BatchNormalization apart from convolutions."""
    logging.disable(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            copy.deepcopy(module).eval(), tuple(given), str(path), dynamo=False, opset_version=17, do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE, input_names=[f"given{i}" for i in range(len(given))])  # fmt: skip


class Step:
    """Our step of an exported file, with its gradients as outputs."""

    def __init__(self, binary, source, kind, work):
        self.binary, self.path, self.work = binary, work / f"step.{kind}.onnx", work
        scale = [f"--loss-scale={_SCALE:g}"] if kind == "fp16" else []
        self._run("optimize", "--train", f"--autocast={kind}", "--keep-gradients", "--effort=fast", *scale, source, self.path)
        said = {p.key: p.value for p in onnx.load(self.path, load_external_data=False).metadata_props}
        pairs = [entry.rpartition("=") for entry in json.loads(said["onnxmem.gradients"])]
        self.gradients = {name: gradient for name, _, gradient in pairs}

    def differentiate(self, given, labels):
        """Return loss and gradients by name."""
        arrays = {f"given{i}": v.numpy() for i, v in enumerate(given)} | {"labels": labels.numpy()}
        feed, out = self.work / "feed.npz", self.work / "out.npz"
        np.savez(feed, **arrays)
        self._run("run", "--workers=1", self.path, f"--inputs={feed}", "--input=learning_rate=0", f"--outputs={out}")
        with np.load(out) as made:
            return float(made["loss"]), {n: made[g] for n, g in self.gradients.items()}

    def _run(self, *command):
        done = subprocess.run([self.binary, *map(str, command)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"onnxmem {command[0]}: {done.stderr.strip()[-300:]}")


class Errors:
    """The squares of relative errors by parameter, and of the loss, over the draws."""

    def __init__(self):
        self.loss, self.gradients = 0.0, {}

    def add(self, found, want, names):
        loss, gradients = found
        self.loss += (abs(loss - want.loss) / abs(want.loss)) ** 2
        for name in names:
            exact = want.gradients[name]
            off = float(np.linalg.norm((gradients[name] - exact).ravel()) / np.linalg.norm(exact.ravel()))
            self.gradients[name] = self.gradients.get(name, 0.0) + off**2

    def root(self, square, draws):
        return (square / draws) ** 0.5


def compare(name, kinds, binary, work, count=_DRAWS):
    """Yield the comparison of a network for each type."""
    network = precision_networks.NETWORKS[name]
    module = network.module()
    judge = copy.deepcopy(module).double()
    draws = [network.draw(module, seed) for seed in range(count)]
    source = work / "network.onnx"
    export(module, draws[0][0], source)
    steps = {kind: Step(binary, source, kind, work) for kind in kinds}
    ours, theirs = ({kind: Errors() for kind in kinds} for _ in range(2))
    names, vanishing = None, 0
    for given, labels in draws:
        exact = [v.double() if v.is_floating_point() else v for v in given]
        want = autograd.Reference(*differentiate(judge, exact, labels), {})
        if names is None:
            zero = set(want.vanishing())
            names, vanishing = [n for n in want.gradients if n not in zero], len(zero)
        for kind in kinds:
            here = steps[kind].differentiate(given, labels)
            if missing := set(want.gradients) - set(here[1]):
                raise RuntimeError(f"not trained here: {', '.join(sorted(missing)[:4])}")
            ours[kind].add(here, want, names)
            with torch.backends.mkldnn.flags(enabled=False) if network.plain else contextlib.nullcontext():
                theirs[kind].add(differentiate(module, given, labels, TYPES[kind]), want, names)
        del want
    sizes = {n: p.numel() for n, p in module.named_parameters()}
    for kind in kinds:
        yield verdict(name, kind, network.said, ours[kind], theirs[kind], sizes, vanishing, count)


def verdict(name, kind, said, ours, theirs, sizes, vanishing, draws):
    """Return a row of the table, with its faults."""
    ratios = {n: max(g, 1e-300) ** 0.5 / max(theirs.gradients[n], 1e-300) ** 0.5 for n, g in ours.gradients.items()}
    many = {n: r for n, r in ratios.items() if sizes[n] >= _FEW}
    worst = max(many, key=many.get)
    middle = lambda e: e.root(float(np.median(list(e.gradients.values()))), draws)
    row = {
        "network": name, "type": kind, "data": said, "parameters": len(ratios), "vanishing": vanishing,
        "draws": draws, "loss": ours.root(ours.loss, draws), "their_loss": theirs.root(theirs.loss, draws), "gradient": middle(ours), "their_gradient": middle(theirs),
        "mean": float(np.exp(np.mean(np.log(list(ratios.values()))))), "most": many[worst], "worst": worst, "faults": [],
    }  # fmt: skip
    row["loss_ratio"] = max(row["loss"], _ROUNDING) / max(row["their_loss"], _ROUNDING)
    if not row["mean"] <= _MEAN:
        row["faults"].append(f"the geometric mean of our errors over PyTorch's is {row['mean']:.3f}, expected at most {_MEAN}")
    if not row["most"] <= _MOST:
        row["faults"].append(f"the gradient of {worst} is off {row['most']:.2f} times as far as PyTorch's, expected at most {_MOST:g}")
    if not row["loss_ratio"] <= _LOSS:
        row["faults"].append(f"the loss is off {row['loss_ratio']:.1f} times as far as PyTorch's, expected at most {_LOSS:g}")
    return row


def table(rows):
    """Return the rows as a table in Markdown."""
    lines = ["| network | data | draws | type | parameters | error of the loss | PyTorch's | median error of a gradient | PyTorch's | ours / PyTorch's, geometric mean | largest |", "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for r in rows:
        lines.append(f"| {r['network']} | {r['data']} | {r['draws']} | {r['type']} | {r['parameters']} | {r['loss']:.1e} | {r['their_loss']:.1e} | {r['gradient']:.1e} | {r['their_gradient']:.1e} | {r['mean']:.3f} | {r['most']:.2f} |")
    return "\n".join(lines) + "\n"


def insert(path, name, rows):
    """Replace the table of a page that follows the line naming the command."""
    text = path.read_text(encoding="utf-8")
    text, n = re.subn(rf"(^\*By hand: `{name}`[^\n]*\n\n)(?:\|[^\n]*\n)+", lambda m: m[1] + rows, text, flags=re.MULTILINE)
    if n != 1:
        raise SystemExit(f"{path}: {n} tables by {name}, expected one")
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"default: all of {', '.join(precision_networks.NETWORKS)}")
    parser.add_argument("--type", action="append", choices=TYPES, help="default: both")
    parser.add_argument("--draws", type=int, default=_DRAWS, help="of data, for each network (default: %(default)s)")
    parser.add_argument("--binary", help="the command (default: it is built)")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows; those of networks that do not run are kept")
    parser.add_argument("--table", type=pathlib.Path, help="write the table into this page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    kept = {}
    if args.json and args.json.exists():
        kept = {(r["network"], r["type"]): r for r in json.loads(args.json.read_text())}
    with tempfile.TemporaryDirectory() as work:
        binary = args.binary or parameters.build(pathlib.Path(work))
        for name in args.networks or precision_networks.NETWORKS:
            with tempfile.TemporaryDirectory(dir=work) as folder:
                for row in compare(name, args.type or list(TYPES), binary, pathlib.Path(folder), args.draws):
                    kept[name, row["type"]] = row
                    said = f"loss off {row['loss']:.1e} (PyTorch {row['their_loss']:.1e}), gradients {row['gradient']:.1e} ({row['their_gradient']:.1e}), mean ratio {row['mean']:.3f}, largest {row['most']:.2f} of {row['worst']}"
                    print(f"{name:24} {row['type']} {said}", *row["faults"], sep="\n    ", flush=True)
            if args.json:
                args.json.write_text(json.dumps(list(kept.values())))
    rows = [kept[n, k] for n in precision_networks.NETWORKS for k in TYPES if (n, k) in kept]
    losses = float(np.exp(np.mean(np.log([r["loss_ratio"] for r in rows]))))
    faults = sum(bool(r["faults"]) for r in rows) + (losses > _LOSSES and len(rows) >= len(precision_networks.NETWORKS))
    print(f"{len(rows)} steps, {faults} wrong; errors of losses over PyTorch's: geometric mean {losses:.2f}; of gradients: {np.exp(np.mean(np.log([r['mean'] for r in rows]))):.3f}")
    if args.table:
        insert(args.table, "crosscheck/run precision", table(rows))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
