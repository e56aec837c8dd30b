"""Train on real text in 16 bits here and under torch.autocast, from the same values on the same batches.

    crosscheck/run seeds                                    # both networks, bf16 and fp16
    crosscheck/run seeds gpt --type fp16 --table docs/results/precision.md

The text is this project's own documentation, by characters. A network is trained for 100 steps
of Adam from each of five seeds, which draw its values and its batches. Two runs whose roundings
differ part ways, so step by step they cannot be compared. What was chosen before the first run:
for each seed, the mean loss of our last ten steps is as near to PyTorch's as the standard
deviation of PyTorch's over the seeds, and the mean of the differences is below half of it.

float16 begins with a loss multiplied by 2^40, which overflows, and doubles the scale after 20
steps: torch.amp.GradScaler and --loss-scale dynamic must skip the same steps. The first run
showed that this holds only while the runs are together: after 43 and more steps the
convolutions, whose gradients have parted by then, overflow one to three steps sooner or later.
So the steps before the first doubled scale overflows must be the same, and later ones are told.
"""

import argparse
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn

from . import parameters, precision, precision_networks

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_SEEDS, _STEPS, _LAST, _RATE = 5, 100, 10, 0.003
_SCALE, _INTERVAL = 2.0**40, 20  # of float16's loss
_BATCH, _LENGTH = 16, 32
_WIDTH, _HEADS = 64, 4


class Block(nn.Module):
    """Attention to earlier characters, and a layer of products."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.all, self.out = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.up, self.down = nn.Linear(_WIDTH, 4 * _WIDTH), nn.Linear(4 * _WIDTH, _WIDTH)
        self.register_buffer("hidden", torch.triu(torch.full((_LENGTH, _LENGTH), -1e4), 1))

    def forward(self, x):
        q, k, v = (t.reshape(_BATCH, _LENGTH, _HEADS, -1).transpose(1, 2) for t in self.all(self.first(x)).chunk(3, -1))
        scores = q @ k.transpose(2, 3) / (_WIDTH // _HEADS) ** 0.5 + self.hidden
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(_BATCH, _LENGTH, _WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    """Two blocks; scores of the next character at every position."""

    def __init__(self, classes):
        super().__init__()
        self.words, self.places = nn.Embedding(classes, _WIDTH), nn.Parameter(torch.randn(_LENGTH, _WIDTH) * 0.02)
        self.blocks, self.last, self.scores = nn.Sequential(Block(), Block()), nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, classes)

    def forward(self, x):
        return self.scores(self.last(self.blocks(self.words(x) + self.places)))


class Convolutions(nn.Module):
    """Convolutions with BatchNormalization over the window, pooled; scores of the character after it."""

    def __init__(self, classes):
        super().__init__()
        self.words = nn.Embedding(classes, _WIDTH)
        layer = lambda stride: [nn.Conv1d(_WIDTH, _WIDTH, 3, stride, padding=1, bias=False), nn.BatchNorm1d(_WIDTH), nn.ReLU()]
        self.layers, self.scores = nn.Sequential(*layer(1), *layer(2), *layer(2)), nn.Linear(_WIDTH * _LENGTH // 4, classes)

    def forward(self, x):
        return self.scores(self.layers(self.words(x).transpose(1, 2)).flatten(1))


NETWORKS = {"gpt": (GPT, False), "convolutions": (Convolutions, True)}  # the class, and whether it scores only what follows the window


def text():
    """Return the characters of the documentation as numbers, and how many there are."""
    characters = np.frombuffer("".join(p.read_text(encoding="utf-8") for p in sorted((_ROOT / "docs").glob("*.md"))).encode("ascii", "replace"), np.uint8)
    known = np.unique(characters)
    return np.searchsorted(known, characters), len(known)


def batches(characters, only_last, seed):
    """Draw windows of the text, and what follows."""
    rng = np.random.default_rng(seed)
    for _ in range(_STEPS):
        at = rng.integers(0, len(characters) - _LENGTH - 1, _BATCH)
        windows = np.stack([characters[a : a + _LENGTH + 1] for a in at]).astype(np.int64)
        yield windows[:, :-1], windows[:, -1] if only_last else windows[:, 1:]


def theirs(module, given, kind):
    """Return the losses of PyTorch's steps, and which of them it skipped."""
    module = copy.deepcopy(module).train()
    optimizer = torch.optim.Adam(module.parameters(), _RATE)
    scaler = torch.amp.GradScaler("cpu", init_scale=_SCALE, growth_interval=_INTERVAL, enabled=kind == "fp16")
    losses, skipped = [], []
    for step, (x, labels) in enumerate(given):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=precision.TYPES[kind]):
            loss = precision.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(labels))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() < before:
            skipped.append(step)
        losses.append(loss.item())
    return np.array(losses), skipped


class Ours:
    """Our step of a network."""

    def __init__(self, binary, source, kind, work):
        self.binary, self.kind, self.work, self.path = binary, kind, work, work / f"step.{kind}.onnx"
        scale = ["--loss-scale=dynamic", f"--loss-scale-set=initial={_SCALE:.0f}", f"--loss-scale-set=interval={_INTERVAL}"] if kind == "fp16" else []
        self._run("optimize", "--train", "--optimizer=adam", "--effort=fast", f"--autocast={kind}", *scale, source, self.path)

    def steps(self, given):
        """Return the losses, and which steps were skipped: after them the scale is smaller."""
        folder = self.work / "batches"
        folder.mkdir(exist_ok=True)
        for step, (x, labels) in enumerate(given):
            np.savez(folder / f"{step:03}.npz", given0=x, labels=labels)
        rate = ["--workers=1", f"--input=learning_rate={_RATE}"]
        if self.kind != "fp16":
            return np.array(self._run("run", self.path, f"--inputs={folder}/*.npz", *rate)["losses"]), []
        losses, skipped, before = [], [], _SCALE
        saved, out, begin = self.work / "saved.onnx", self.work / "out.npz", []
        for step in range(_STEPS):
            self._run("run", self.path, f"--inputs={folder}/{step:03}.npz", *rate, *begin, f"--save={saved}", f"--outputs={out}")
            begin = [f"--params={saved}"]
            with np.load(out) as outputs:
                losses.append(float(outputs["loss"]))
                scale = float(outputs["loss_scale.new"])
            if scale < before:
                skipped.append(step)
            before = scale
        return np.array(losses), skipped

    def _run(self, *command):
        done = subprocess.run([self.binary, *map(str, command), "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"onnxmem {command[0]}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)


def compare(name, kind, binary, work):
    """Return a row of the table: losses at the end by seed, PyTorch's spread, and what was skipped."""
    make, only_last = NETWORKS[name]
    characters, classes = text()
    ends, faults, skips, same = [], [], [], 0
    for seed in range(_SEEDS):
        torch.manual_seed(seed)
        module, given = precision_networks.moved(make(classes)), list(batches(characters, only_last, seed))
        with tempfile.TemporaryDirectory(dir=work) as folder:
            folder = pathlib.Path(folder)
            precision.export(module, [torch.from_numpy(given[0][0])], folder / "network.onnx")
            here, skipped = Ours(binary, folder / "network.onnx", kind, folder).steps(given)
        want, expected = theirs(module, given, kind)
        ends.append((here[-_LAST:].mean(), want[-_LAST:].mean(), want[0]))
        skips.append(len(expected))
        early = [[s for s in steps if s < 2 * _INTERVAL] for steps in (skipped, expected)]
        if early[0] != early[1]:
            faults.append(f"seed {seed}: steps {skipped} were skipped, PyTorch skips {expected}")
        same += skipped == expected
    ends = np.array(ends)
    spread, off = ends[:, 1].std(ddof=1), ends[:, 0] - ends[:, 1]
    if not (abs(off) <= spread).all():
        faults.append(f"a loss is off by {abs(off).max():.4f}, expected at most {spread:.4f}")
    if not abs(off.mean()) <= spread / 2:
        faults.append(f"the losses are off by {off.mean():.4f} on average, expected at most {spread / 2:.4f}")
    return {
        "network": name, "type": kind, "first": ends[:, 2].mean(), "ours": ends[:, 0].mean(), "theirs": ends[:, 1].mean(),
        "spread": spread, "off": off.mean(), "most": abs(off).max(), "skipped": skips, "same": same, "faults": faults,
    }  # fmt: skip


def table(rows):
    """Return the rows as a table in Markdown."""
    lines = ["| network | type | first loss | PyTorch, last ten | ours | PyTorch's standard deviation over seeds | ours − PyTorch's, mean | largest | steps that PyTorch skips, each seed | the same here |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |"]
    for r in rows:
        same = f"{r['same']} of {_SEEDS}" if any(r["skipped"]) else ""
        lines.append(f"| {r['network']} | {r['type']} | {r['first']:.4f} | {r['theirs']:.4f} | {r['ours']:.4f} | {r['spread']:.4f} | {r['off']:+.4f} | {r['most']:.4f} | {', '.join(map(str, r['skipped'])) if any(r['skipped']) else ''} | {same} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"default: all of {', '.join(NETWORKS)}")
    parser.add_argument("--type", action="append", choices=precision.TYPES, help="default: both")
    parser.add_argument("--binary", help="the command (default: it is built)")
    parser.add_argument("--table", type=pathlib.Path, help="write the table into this page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        binary = args.binary or parameters.build(pathlib.Path(work))
        for name in args.networks or NETWORKS:
            for kind in args.type or precision.TYPES:
                rows.append(compare(name, kind, binary, work))
                r = rows[-1]
                print(f"{name:13} {kind} loss {r['first']:.4f} to {r['ours']:.4f}, PyTorch {r['theirs']:.4f} ± {r['spread']:.4f}; off {r['off']:+.4f}, at most {r['most']:.4f}; skipped {r['skipped']}, the same in {r['same']} runs", *r["faults"], sep="\n    ", flush=True)
    if args.table:
        precision.insert(args.table, "crosscheck/run seeds", table(rows))
    return 1 if any(r["faults"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
