"""Records the allocations of PyTorch programs on the CPU, as JSON lines for pack --trace.

    python bench/record_traces.py FOLDER [NAME ...]

writes FOLDER/NAME.jsonl.gz for each program below; cnn-train also as PyTorch's profiler
exports it (FOLDER/cnn-train.chrome.json.gz). Each run begins with a mark. Needs torch;
the shapes are from a generator with a fixed seed.
"""

import gzip
import json
import os
import random
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.side = None
        if stride > 1 or inner != outer:
            self.side = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return functional.relu(y + (x if self.side is None else self.side(x)))


def resnet():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for outer in (64, 128, 256, 512):
        layers += [Block(width, outer, 1 if outer == width else 2), Block(outer, outer, 1)]
        width = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inner, width, stride):
        super().__init__()
        outer = 4 * width
        self.body = nn.Sequential(
            *(nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
            *(nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)),
        )
        self.side = None
        if inner != outer:
            self.side = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        return functional.relu(self.body(x) + (x if self.side is None else self.side(x)), inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            layers.append(Bottleneck(inner, width, 2 if i == 0 and width > 64 else 1))
            inner = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class GPT(nn.Module):
    """GPT-2 of 12 layers (Radford et al. 2019), on fewer words."""

    def __init__(self, words=8192, width=768, length=128, layers=12, again=False):
        super().__init__()
        self.again = again  # layers run again in the backward pass (Chen et al. 2016)
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 12, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, words):
        length = words.shape[1]
        x = self.word(words) + self.place.weight[:length]
        mask = self.mask[:length, :length]
        if not self.again:
            return self.layers(x, mask, is_causal=True) @ self.word.weight.T
        for layer in self.layers.layers:
            x = checkpoint(layer, x, mask, is_causal=True, use_reentrant=False)
        return self.layers.norm(x) @ self.word.weight.T


class Seq2Seq(nn.Module):
    """An encoder and a decoder of LSTM cells, step by step, as in Sutskever et al. 2014."""

    def __init__(self, words=1000, width=128):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.encode = nn.LSTMCell(width, width)
        self.decode = nn.LSTMCell(width, width)
        self.out = nn.Linear(width, words)

    def encoded(self, source):
        state = None
        for word in source:
            state = self.encode(self.embed(word), state)
        return state

    def forward(self, source, target):
        state, loss = self.encoded(source), 0
        for before, word in zip(target[:-1], target[1:]):
            state = self.decode(self.embed(before), state)
            loss = loss + functional.cross_entropy(self.out(state[0]), word)
        return loss

    def translate(self, source, length):
        state = self.encoded(source)
        word, words = torch.zeros(1, dtype=torch.int64), []
        for _ in range(length):
            state = self.decode(self.embed(word), state)
            word = self.out(state[0]).argmax(1)
            words.append(word)
        return torch.stack(words)


def cnn_train(choose, runs=5):
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4096, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    for _ in range(runs):
        yield
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def resnet_train(choose, runs=8):
    model = resnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(runs):
        images, labels = torch.randn(2, 3, 96, 96), torch.randint(0, 1000, (2,))
        yield
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def resnet50_train(choose, runs=6):
    """With all parameters in one call of the optimizer, as is PyTorch's default on CUDA."""
    model = resnet50()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
    for _ in range(runs):
        images, labels = torch.randn(8, 3, 96, 96), torch.randint(0, 1000, (8,))
        yield
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def gpt_train(choose, runs=6, again=False):
    model = GPT(again=again)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    for _ in range(runs):
        words = torch.randint(0, 8192, (4, 129))
        yield
        optimizer.zero_grad()
        functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten()).backward()
        optimizer.step()


def resnet_sizes(choose, runs=60):
    model = resnet().eval()
    with torch.no_grad():
        for _ in range(runs):
            images = torch.randn(1, 3, *[choose.choice((96, 128, 160, 192))] * 2)
            yield
            model(images)


def resnet_last(choose, runs=60):
    """Batches of 8, of which every tenth is the rest of the data, 3; from run 30 on, batches of 6."""
    model = resnet().eval()
    with torch.no_grad():
        for k in range(runs):
            images = torch.randn(3 if k % 10 == 9 else 8 if k < 30 else 6, 3, 96, 96)
            yield
            model(images)


def seq2seq_train(choose, runs=60, longest=50, batch=32):
    model = Seq2Seq()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(runs):
        source = torch.randint(0, 1000, (choose.randint(max(2, longest // 10), longest), batch))
        target = torch.randint(0, 1000, (choose.randint(max(2, longest // 10), longest), batch))
        yield
        optimizer.zero_grad()
        model(source, target).backward()
        optimizer.step()


def seq2seq_infer(choose, runs=60):
    model = Seq2Seq().eval()
    with torch.no_grad():
        for _ in range(runs):
            source = torch.randint(0, 1000, (choose.randint(5, 50), 1))
            yield
            model.translate(source, 100)


PROGRAMS = {
    "cnn-train": cnn_train,
    "resnet-train": resnet_train,
    "resnet50-train": resnet50_train,
    "gpt-train": gpt_train,
    "gpt-again": lambda choose: gpt_train(choose, again=True),
    "resnet-sizes": resnet_sizes,
    "resnet-last": resnet_last,
    "seq2seq-train": seq2seq_train,
    "seq2seq-short": lambda choose: seq2seq_train(choose, 10, 8, 4),
    "seq2seq-infer": seq2seq_infer,
}


def record(name, folder):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        steps = PROGRAMS[name](random.Random(1))
        next(steps)
        done = False
        while not done:
            with record_function("ProfilerStep#"):
                done = next(steps, "done") == "done"
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "trace.json")
        p.export_chrome_trace(path)
        with open(path) as f:
            text = json.load(f)
    events = [(e["ts"], 1, e["args"]) for e in text["traceEvents"] if e.get("name") == "[memory]"]
    events += [(e["ts"], 0, None) for e in text["traceEvents"] if e.get("name") == "ProfilerStep#" and e.get("cat") == "user_annotation"]
    events.sort(key=lambda e: e[:2])
    if name == "cnn-train":
        with gzip.GzipFile(os.path.join(folder, name + ".chrome.json.gz"), "wb", mtime=0) as f:
            f.write(json.dumps(text).encode())
    live, number = {}, 0
    with gzip.GzipFile(os.path.join(folder, name + ".jsonl.gz"), "wb", mtime=0) as f:
        for _, _, args in events:
            if args is None:
                line = {"mark": "run"}
            elif args["Bytes"] > 0:
                if args["Addr"] in live:
                    f.write(b'{"free": %d}\n' % live.pop(args["Addr"]))
                line = {"alloc": number, "size": args["Bytes"]}
                live[args["Addr"]] = number
                number += 1
            elif args["Addr"] in live:
                line = {"free": live.pop(args["Addr"])}
            else:
                continue
            f.write(json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    folder, names = sys.argv[1], sys.argv[2:] or list(PROGRAMS)
    os.makedirs(folder, exist_ok=True)
    for name in names:
        record(name, folder)
