"""Measures PyTorch's training steps below limits of memory on a GPU, beside PyTorch's own means.

    PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python bench/gpu/steps_torch.py [--minutes 14] [--out FILE]

It needs PyTorch 2.11 or later, CUDA and nothing else: no network, no other package. Six
networks, bf16 (autocast) and TF32; rows are written as they are measured, the most telling
first, until the time is over:

- aot_eager: what is planned beside what CUDA's allocator says, without fusion;
- inductor: milliseconds of min-cut, of limits, of activation_memory_budget and of
  torch.utils.checkpoint for each block;
- the same limit with expandable_segments:True, and in the packed arena.

--device cpu --small shows that everything starts, without sizes of memory.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

SECONDS = 150  # that a group of rows may take
MIB = 2**20
COLUMNS = ("network", "precision", "backend", "way", "planned_mib", "allocated_mib", "reserved_mib", "ms", "plan_extra_percent", "compile_s")
KEPT, SHARED = "min-cut", ("limit 100%", "limit 70%", "limit 50%")
GROUPS = [  # environment of a process, backend, ways; for each network and precision
    ({}, "aot_eager", (KEPT, "limit 70%")),
    ({}, "inductor", (KEPT, *SHARED, "budget 0.5", "checkpoint")),
    ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}, "inductor", ("limit 70%",)),
    ({"STEPS_ARENA": "1"}, "inductor", ("limit 70%",)),
    ({}, "inductor", ("budget 0.3", "budget 0.1", "limit 60%", "limit 40%")),
]


class Attention(nn.Module):
    """A block of a transformer. norm_first: GPT-2 and ViT; else BERT. gated: RMSNorm and SwiGLU, as in Llama."""

    def __init__(self, width, heads, causal=False, norm_first=True, gated=False):
        super().__init__()
        self.heads, self.causal, self.norm_first, self.gated = heads, causal, norm_first, gated
        norm = nn.RMSNorm if gated else nn.LayerNorm
        inner = width * 11 // 4 if gated else 4 * width
        self.norms = nn.ModuleList([norm(width), norm(width)])
        self.inputs, self.output = nn.Linear(width, 3 * width, bias=not gated), nn.Linear(width, width, bias=not gated)
        self.up, self.down = nn.Linear(width, (1 + gated) * inner, bias=not gated), nn.Linear(inner, width, bias=not gated)
        self.drop = nn.Dropout(0.0 if gated else 0.1)

    def attend(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.inputs(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.drop(self.output(y.transpose(1, 2).flatten(2)))

    def transform(self, x):
        y = self.up(x)
        if self.gated:
            gate, y = y.chunk(2, -1)
            y = functional.silu(gate) * y
        else:
            y = functional.gelu(y)
        return self.drop(self.down(y))

    def forward(self, x):
        for norm, part in zip(self.norms, (self.attend, self.transform)):
            x = x + part(norm(x)) if self.norm_first else norm(x + part(x))
        return x


class Residual(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inner, width, stride):
        super().__init__()
        outer = 4 * width
        shapes = ((inner, width, 1, 1), (width, width, 3, stride), (width, outer, 1, 1))
        self.parts = nn.ModuleList(nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o)) for i, o, k, s in shapes)
        self.side = nn.Identity()
        if inner != outer or stride > 1:
            self.side = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.parts[0](x).relu()
        return (self.parts[2](self.parts[1](y).relu()) + self.side(x)).relu()


class Chain(nn.Module):
    """Blocks between a beginning and an end, and the loss. again: each block below torch.utils.checkpoint."""

    def __init__(self, begin, blocks, end):
        super().__init__()
        self.begin, self.blocks, self.end, self.again = begin, nn.ModuleList(blocks), end, False

    def run(self, block, *x):
        return checkpoint(block, *x, use_reentrant=False) if self.again else block(*x)

    def forward(self, x, labels):
        x = self.begin(x)
        for block in self.blocks:
            x = self.run(block, x)
        return functional.cross_entropy(self.end(x).flatten(0, -2).float(), labels.flatten())


class Words(nn.Module):
    def __init__(self, words, width, length):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)

    def forward(self, ids):
        return self.word(ids) + self.place.weight[: ids.shape[1]]


class Patches(nn.Module):
    def __init__(self, width, size, patch):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.place = nn.Parameter(torch.randn((size // patch) ** 2, width) * 0.02)

    def forward(self, x):
        return self.cut(x).flatten(2).transpose(1, 2) + self.place


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


class UNet(Chain):
    """Five levels of two convolutions, and back."""

    def __init__(self, width):
        def two(i, o):
            return nn.Sequential(*(m for a in (i, o) for m in (nn.Conv2d(a, o, 3, padding=1), nn.GroupNorm(8, o), nn.ReLU())))

        widths = [width << k for k in range(5)]
        super().__init__(nn.Identity(), [two(i, o) for i, o in zip([3, *widths], widths)], nn.Conv2d(width, 2, 1))
        self.ups = nn.ModuleList(nn.ConvTranspose2d(w, w // 2, 2, 2) for w in widths[:0:-1])
        self.joins = nn.ModuleList(two(w, w // 2) for w in widths[:0:-1])

    def forward(self, x, labels):
        kept = []
        for k, block in enumerate(self.blocks):
            x = self.run(block, functional.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for up, join, side in zip(self.ups, self.joins, kept[-2::-1]):
            x = self.run(join, torch.cat((side, up(x)), 1))
        return functional.cross_entropy(self.end(x).float(), labels)


def language(layers, width, heads, words, batch, length, **options):
    blocks = [Attention(width, heads, **options) for _ in range(layers)]
    model = Chain(Words(words, width, length), blocks, nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words, bias=False)))
    return model, torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch, length))


def network(name, small):
    """Return a module, its inputs and its labels."""
    if name == "resnet50":
        batch, size, counts = (2, 64, (1, 1, 1, 1)) if small else (64, 224, (3, 4, 6, 3))
        blocks, inner = [], 64
        for width, count in zip((64, 128, 256, 512), counts):
            for k in range(count):
                blocks.append(Residual(inner, width, 2 if k == 0 and width > 64 else 1))
                inner = 4 * width
        begin = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        end = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000))
        return Chain(begin, blocks, end), torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))
    if name == "unet":
        width, batch, size = (8, 2, 32) if small else (64, 8, 256)
        return UNet(width), torch.randn(batch, 3, size, size), torch.randint(0, 2, (batch, size, size))
    if name == "vit":
        layers, width, batch, size = (2, 64, 2, 32) if small else (12, 768, 64, 224)
        end = nn.Sequential(Mean(), nn.LayerNorm(width), nn.Linear(width, 1000))
        blocks = [Attention(width, width // 64) for _ in range(layers)]
        return Chain(Patches(width, size, 16), blocks, end), torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))
    sizes = {"gpt2": (12, 768, 12, 50257, 8, 1024), "bert": (12, 768, 12, 30522, 32, 512), "llama": (16, 2048, 16, 32000, 2, 2048)}
    options = {"gpt2": {"causal": True}, "bert": {"norm_first": False}, "llama": {"causal": True, "gated": True}}
    return language(*((2, 64, 2, 128, 2, 32) if small else sizes[name]), **options[name])


def compiled(model, backend, way, arena):
    """Return the model compiled in a way, and its partitioner if it is ours."""
    import onnxmem_torch
    from onnxmem_torch._compile import aot_eager
    from torch._functorch import config

    kind, _, value = way.partition(" ")
    model.again = kind == "checkpoint"
    config.activation_memory_budget = float(value) if kind == "budget" else 1.0
    if kind != "limit":
        return torch.compile(model, backend="aot_eager" if backend == "aot_eager" else "inductor", fullgraph=True), None
    partitioner = onnxmem_torch.Partitioner(value)
    options = {"backend": aot_eager(partitioner)} if backend == "aot_eager" else {"options": {"custom_partitioner_fn": partitioner}}
    step = torch.compile(model, fullgraph=True, **options)
    if arena:
        from onnxmem_torch._arena import in_arena

        step = in_arena(step)
    return step, partitioner


def measure(args, model, inputs, backend, way, precision):
    """Return a row: peaks above what lies there before a step, and the fastest of some steps."""
    cuda, arena = args.device == "cuda", bool(os.environ.get("STEPS_ARENA"))
    torch._dynamo.reset()
    step, partitioner = compiled(model, backend, way, arena)
    cast = torch.autocast(args.device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    finish = torch.cuda.synchronize if cuda else lambda: None

    def once():
        model.zero_grad(set_to_none=True)
        finish()
        began = time.perf_counter()
        with cast:
            loss = step(*inputs)
        loss.backward()
        finish()
        return time.perf_counter() - began

    first = once()
    times = [once() for _ in range(3 if args.small else 5)]
    row = {"ms": round(1e3 * min(times), 2), "compile_s": round(first - min(times), 1)}
    if cuda and not arena:  # an allocator from outside has no such statistics
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        once()
        row["allocated_mib"] = round((torch.cuda.max_memory_allocated() - before) / MIB, 1)
        row["reserved_mib"] = round((torch.cuda.max_memory_reserved() - reserved) / MIB, 1)
    if cuda and arena:
        import onnxmem_torch

        onnxmem_torch.wait(60)
        for _ in range(4):
            once()
        row["reserved_mib"] = round(onnxmem_torch.memory()["arena_bytes"] / MIB, 1)
    if partitioner is not None and partitioner.reports:
        report = partitioner.reports[0]
        row |= {"planned_mib": round(report.peak_bytes / MIB, 1), "plan_extra_percent": round(report.extra_percent, 2)}
    return row


def child(args):
    """Measure the ways of one network in one precision; a line of JSON for each."""
    name, precision, backend, *ways = args.child
    if os.environ.get("STEPS_ARENA") and args.device == "cuda":
        import onnxmem_torch

        onnxmem_torch.install()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(0)
    model, *inputs = network(name, args.small)
    model, inputs = model.to(args.device).train(), [x.to(args.device) for x in inputs]
    for way in ways:
        try:
            row = measure(args, model, inputs, backend, way, precision)
        except Exception as e:
            row = {"error": f"{type(e).__name__}: {str(e)[:200]}"}
        print(json.dumps({"network": name, "precision": precision, "backend": backend, "way": way, **row}), flush=True)


def write(file, rows, version):
    head = f"PyTorch {version}; MiB above parameters and inputs, ms of forward and backward pass, the fastest of 5\n\n"
    lines = [f"| {' | '.join(COLUMNS)} |", "| " + " | ".join(["---"] * len(COLUMNS)) + " |"]
    lines += ["| " + " | ".join(str(r.get(c, r.get("error", "") if c == "ms" else "")) for c in COLUMNS) + " |" for r in rows]
    Path(file).write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description="Training steps below limits, beside PyTorch's own means.")
    parser.add_argument("--minutes", type=float, default=14)
    parser.add_argument("--out", default="steps-torch.md")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="networks of a few layers")
    parser.add_argument("--networks", default="gpt2,resnet50,llama,vit,bert,unet")
    parser.add_argument("--precisions", default="bf16,tf32")
    parser.add_argument("--backends", default="aot_eager,inductor")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.child:
        return child(args)
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("steps_torch.py: expected CUDA, found none: --device cpu --small shows that it starts")
    end, rows = time.monotonic() + 60 * args.minutes, []
    groups = [g for g in GROUPS if g[1] in args.backends.split(",")]
    jobs = [(g, n, p) for p in args.precisions.split(",") for g in groups for n in args.networks.split(",")]
    write(args.out, rows, torch.__version__)
    for (environment, backend, ways), name, precision in jobs:
        left = end - time.monotonic()
        if left < (20 if args.device == "cuda" else 0):
            print("the time is over", file=sys.stderr)
            break
        tag = ", ".join(k for k, on in (("expandable", "PYTORCH_ALLOC_CONF" in environment), ("arena", "STEPS_ARENA" in environment)) if on)
        if tag and args.device == "cpu":
            continue
        command = [sys.executable, __file__, "--device", args.device, *(["--small"] if args.small else []), "--child", name, precision, backend, *ways]
        run = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
        clock = threading.Timer(min(left, SECONDS if args.device == "cuda" else left), run.kill)
        clock.start()
        for line in run.stdout:
            if line.startswith("{"):
                row = json.loads(line)
                row["way"] += f" ({tag})" if tag else ""
                rows.append(row)
                print(json.dumps(row), flush=True)
                write(args.out, rows, torch.__version__)  # each row: what ends this program may come from outside
        run.wait()
        clock.cancel()


if __name__ == "__main__":
    main()
