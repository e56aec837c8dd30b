"""Train networks here and in PyTorch from what PyTorch's exporters wrote, and compare the loss of every step.

    crosscheck/run curves                       # all networks, exporters and optimizers
    crosscheck/run curves group_norm --table F  # one network; write the rows of docs/results/parameters.md

A file whose constants are trained in the place of its parameters has losses that fall, too.
Only those of the module itself tell: it takes the same steps in float64 from the same
weights, on the same batch, with the same labels and optimizer. Each network has a layer that
exporters write in several nodes, whose weights and biases begin as exporters and initial
values have them: ones and zeros beside ones and zeros.
"""

import argparse
import copy
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrizations

from . import parameters

_STEPS, _BATCH, _CLASSES = 100, 32, 10
_TOLERANCE = 1e-4  # of a loss, relative to it above 0.01: float32 against float64, through 100 steps
_OPTIMIZERS = {  # name of ours: learning rate; PyTorch's
    "sgd": (0.05, lambda p, rate: torch.optim.SGD(p, rate)),
    "momentum": (0.02, lambda p, rate: torch.optim.SGD(p, rate, momentum=0.9)),
    "adam": (0.003, lambda p, rate: torch.optim.Adam(p, rate)),
}
_EXPORTERS = {"dynamo": {"dynamo": True, "verbose": False, "external_data": False}, "TorchScript": {"dynamo": False}}
_IMAGE, _SEQUENCE, _ROW = (1, 28, 28), (12, 8), (16,)


class Last(nn.Module):
    """A recurrent layer's output at the last step, or a sequence's last row."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        out = self.part(x)
        return (out[0] if isinstance(out, tuple) else out)[:, -1]


def _images(norm):
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, 2, padding=1), norm,
        nn.GELU(), nn.Flatten(), nn.Linear(784, _CLASSES),
    )  # fmt: skip


def _rows(*parts):
    return nn.Sequential(nn.Linear(16, 32), *parts, nn.Linear(32, _CLASSES))


def _encoder():
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), Last(nn.Identity()), nn.Linear(8, _CLASSES))


def _moved(module):
    """Give all parameters other values: exporters merge equal ones, and drop biases of zeros."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.02 * torch.randn_like(p))
    return module


class Network:
    """A module, the shape of one of its inputs, the exporters that keep its parameters, and flags of optimize."""

    def __init__(self, shape, make, exporters=tuple(_EXPORTERS), flags=()):
        self.shape, self.make, self.exporters, self.flags = shape, make, exporters, flags


NETWORKS = {
    "group_norm": Network(_IMAGE, lambda: _images(nn.GroupNorm(4, 16))),
    "group_norm_of_one": Network(_IMAGE, lambda: _images(nn.GroupNorm(1, 16))),
    "instance_norm": Network(_IMAGE, lambda: _images(nn.InstanceNorm2d(16, affine=True))),
    "instance_norm_plain": Network(_IMAGE, lambda: _images(nn.InstanceNorm2d(16))),
    "layer_norm": Network(_ROW, lambda: _rows(nn.LayerNorm(32), nn.ReLU())),
    "rms_norm": Network(_ROW, lambda: _rows(nn.RMSNorm(32), nn.ReLU()), ("dynamo",)),  # TorchScript's refuses it
    # dynamo's writes the product of g and v, in the place of both
    "weight_norm": Network(_ROW, lambda: _rows(nn.Tanh(), parametrizations.weight_norm(nn.Linear(32, 32)), nn.ReLU()), ("TorchScript",)),
    "prelu": Network(_ROW, lambda: _rows(nn.PReLU(32), nn.Linear(32, 32, bias=False), nn.PReLU())),
    "lstm": Network(_SEQUENCE, lambda: nn.Sequential(Last(nn.LSTM(8, 16, batch_first=True)), nn.Linear(16, _CLASSES))),
    "gru": Network(_SEQUENCE, lambda: nn.Sequential(Last(nn.GRU(8, 16, batch_first=True)), nn.Linear(16, _CLASSES))),
    "encoder": Network(_SEQUENCE, lambda: _moved(_encoder())),
    # dynamo's drops the bias of zeros behind attention
    "encoder, --untie": Network(_SEQUENCE, _encoder, ("TorchScript",), ("--untie=.",)),
}


def batch(shape):
    """Return one batch with labels."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((_BATCH, *shape), dtype=np.float32), rng.integers(0, _CLASSES, _BATCH)


def theirs(module, x, labels, optimizer):
    """Return the losses of the module's steps in float64."""
    module = copy.deepcopy(module).double().train()
    rate, make = _OPTIMIZERS[optimizer]
    steps = make(module.parameters(), rate)
    losses = []
    for _ in range(_STEPS):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(module(torch.from_numpy(x).double()), torch.from_numpy(labels))
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return np.array(losses)


def ours(binary, path, x, labels, optimizer, work, flags=()):
    """Return the losses of the file's steps in the arena."""
    step, given = work / "step.onnx", work / "batch.npz"
    _json([binary, "optimize", "--json", "--train", f"--optimizer={optimizer}", *flags, path, step])
    np.savez(given, x=x, labels=labels)
    done = _json([binary, "run", "--json", f"--steps={_STEPS}", f"--inputs={given}", f"--input=learning_rate={_OPTIMIZERS[optimizer][0]}", step])
    return np.array(done["losses"])


def _json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    return json.loads(done.stdout)


def export(module, x, path, exporter):
    """Write the module as one of PyTorch's exporters does."""
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.onnx.export(copy.deepcopy(module).eval(), (torch.from_numpy(x),), str(path), input_names=["x"], **_EXPORTERS[exporter])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"default: all of {', '.join(NETWORKS)}")
    parser.add_argument("--binary", help="the command (default: it is built)")
    parser.add_argument("--table", type=pathlib.Path, help="write the table, in Markdown")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows, faults = [], 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        binary = args.binary or parameters.build(work)
        for name in args.networks or NETWORKS:
            network = NETWORKS[name]
            x, labels = batch(network.shape)
            torch.manual_seed(0)
            module = network.make()
            files = {e: work / f"{e}.onnx" for e in network.exporters}
            for exporter, path in files.items():
                export(module, x, path, exporter)
            for optimizer in _OPTIMIZERS:
                want = theirs(module, x, labels, optimizer)
                for exporter, path in files.items():
                    got = ours(binary, path, x, labels, optimizer, work, network.flags)
                    error = float((abs(got - want) / np.maximum(want, 0.01)).max())
                    wrong = not error <= _TOLERANCE or not want[-1] < want[0]
                    faults += wrong
                    rows.append((name, exporter, optimizer, want[0], want[-1], got[-1], error))
                    print(f"{name:20} {exporter:11} {optimizer:9} loss {want[0]:.4f} to {want[-1]:.6f}, here {got[-1]:.6f}, worst {error:.1e}{'  WRONG' if wrong else ''}", flush=True)
    print(f"{len(rows)} curves of {_STEPS} steps, {faults} wrong, worst {max(r[-1] for r in rows):.1e}")
    if args.table:
        args.table.write_text(_table(rows), encoding="utf-8")
    return 1 if faults else 0


def _table(rows):
    """Return a line for each network and optimizer: both exporters' last losses, and the worst step of all."""
    lines = [f"| network | optimizer | first loss | PyTorch, step {_STEPS} | {' | '.join(_EXPORTERS)} | worst step |", "| --- | --- | ---: | ---: | " + "---: | " * len(_EXPORTERS) + "---: |"]
    groups = {}
    for name, exporter, optimizer, first, last, here, error in rows:
        groups.setdefault((name, optimizer, f"{first:.4f}", f"{last:.6f}"), {})[exporter] = (here, error)
    for key, found in groups.items():
        ended = [f"{found[e][0]:.6f}" if e in found else "" for e in _EXPORTERS]
        lines.append(f"| {' | '.join([*key, *ended])} | {max(error for _, error in found.values()):.1e} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
