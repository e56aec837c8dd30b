#!/usr/bin/env python3
"""On which cards models of billions of parameters run and train, for docs/results/large.md.

    crosscheck/run bench/large.py [--kept FOLDER] [NAME...]

The first table has each way to run or train a graph of data/large: its peak, arena + resident,
and what it costs to fit it on a card: the slices of its loss alone if the best order fits, else
the extra time of the largest limit of --frontier that does, with that of slices. A card of N GB
has N * 10^9 bytes for arena and parameters; most have 7 % more, which is left for the driver
and scratch.

The second has steps beside two usual ways of PyTorch. Both are sets of nodes that run again
in the backward pass. The script adds them to the step of onnxmem as nodes, and onnxmem
orders and prices them as it does its own:

    checkpoint      torch.utils.checkpoint for each layer: what it makes runs again, but
                    what the next layer reads
    knapsack B      torch.compile's activation_memory_budget: of the products and attentions,
                    the set that saves the most time in the share B of their bytes is kept,
                    and the backward pass makes the rest again from it

NAME leaves out the other graphs. --kept names a folder that keeps what this binary has planned.
No figure depends on the clock.
"""

import argparse
import collections
import dataclasses
import functools
import gzip
import hashlib
import json
import math
import pathlib
import re
import tempfile

import harness

CARDS = (8, 16, 24, 48, 80, 141)
GB, GIB = 10**9, 1 << 30
COMMON = ("--effort", "fast", "--allow-missing-weights", "--external-data", "keep")
SHARES = (0.5, 0.25)
PRODUCTS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "FlashAttention"}


@dataclasses.dataclass(frozen=True)
class Row:
    """A way to run or train a graph."""

    title: str
    graph: str
    way: str
    flags: str
    beside: bool = False  # a row of the second table, too

    @property
    def trains(self):
        return "--train" in self.flags

    def arguments(self):
        return (*self.flags.split(), *COMMON)


def rows():
    """Return the rows of the first table."""
    llama, step = "--dim batch=1 --dim sequence=8192 --attention", "--dim batch=1 --dim sequence=4096 --attention --train"
    gpt, vit = "--dim batch=8 --dim sequence=1024", "--dim batch=32"
    adapters = "--lora 8 --optimizer adamw"
    return (
        Row("Llama-3-8B, bf16", "llama8b-sdpa", "prefill, 8,192 tokens", llama),
        Row("", "llama8b-decode-23", "a token, 8,192 in caches", "--dim batch=1 --dim new=1 --kv-capacity 8192"),
        Row("", "llama8b-sdpa", "SGD, 1 x 4,096", step, beside=True),
        Row("", "llama8b-sdpa", "AdamW, 1 x 4,096", f"{step} --optimizer adamw"),
        Row("", "llama8b-sdpa", "adapters, AdamW, 1 x 4,096", f"{step} {adapters}"),
        Row("Qwen3-30B-A3B, 4 layers, bf16", "qwen3-30b-a3b-4l-128e", "prefill, 8,192 tokens", llama),
        Row("GPT-2 XL, fp32", "gpt2xl", "8 x 1,024 tokens", f"{gpt} --attention"),
        Row("", "gpt2xl", "AdamW, 8 x 1,024", f"{gpt} --attention --train --optimizer adamw"),
        Row("", "gpt2xl", "the same, --autocast bf16", f"{gpt} --attention --train --optimizer adamw --autocast bf16"),
        Row("", "gpt2xl", "adapters, bf16, 8 x 1,024", f"{gpt} --attention --train {adapters} --autocast bf16"),
        Row("ViT-G/14, fp32", "vit-g14", "32 pictures", vit),
        Row("", "vit-g14", "AdamW, 32 pictures", f"{vit} --train --attention --optimizer adamw"),
        Row("", "vit-g14", "the same, --autocast bf16", f"{vit} --train --attention --optimizer adamw --autocast bf16"),
        Row("", "vit-g14", "adapters, bf16, 32 pictures", f"{vit} --train --attention {adapters} --autocast bf16"),
        Row("Evoformer, 48 blocks, fp32", "evoformer48", "256 residues", "--attention"),
        Row("3D U-Net, fp32", "unet3d", "2 x 128³", "--dim batch=2"),
        Row("", "unet3d", "AdamW, 2 x 128³", "--dim batch=2 --train --loss mse --optimizer adamw"),
        Row("", "unet3d", "the same, --autocast bf16", "--dim batch=2 --train --loss mse --optimizer adamw --autocast bf16"),
        Row("Flux transformer, bf16", "flux", "1,024² picture", "--attention"),
        Row("SDXL UNet, fp16", "sdxl-unet", "2 x 1,024²", "--attention"),
        Row("SDXL VAE decoder, fp16", "sdxl-vae-decoder", "1,024² picture", ""),
        Row("Mamba-2 2.7B, fp32", "mamba2-2.7b", "1 x 2,048 tokens", ""),
    )


class Bench:
    """The folder of what is planned: unpacked graphs, planned files, answers of the command."""

    def __init__(self, folder):
        self.folder = folder
        self.binary = hashlib.sha256(pathlib.Path(harness.BINARY).read_bytes()).hexdigest()

    def graph(self, name):
        path = self.folder / f"{name}.onnx"
        if not path.exists():
            path.write_bytes(gzip.decompress(harness.data("large", f"{name}.onnx.gz").read_bytes()))
        return path

    def place(self, source, arguments):
        key = hashlib.sha256(json.dumps([self.binary, source.name, *arguments]).encode()).hexdigest()[:12]
        return self.folder / f"{source.stem[:40]}-{key}"

    def answer(self, source, *arguments, out=None):
        """Return what the command says of a plan, from the folder if it has been made before."""
        kept = self.place(source, arguments).with_suffix(".json")
        if not kept.exists() or out and not out.exists():
            kept.write_text(json.dumps(harness.answer("optimize", source, *([out] if out else []), *arguments)))
        return json.loads(kept.read_text())

    def planned(self, source, *arguments):
        """Return a planned file."""
        out = self.place(source, arguments).with_suffix(".onnx")
        self.answer(source, *arguments, out=out)
        return out


# The first table.


def gib(size):
    return f"{size / GIB:,.2f}"


def percent(extra):
    return f"{extra:.1f} %" if extra >= 0.05 else "0.0 %"


def together(found, extra):
    """Return the extra time, in per cent, of a plan's slices and of what takes extra per cent of the step with them."""
    return 100 * ((1 + (found.get("slice_cost_percent") or 0) / 100) * (1 + (extra or 0) / 100) - 1)


def on_card(found, size):
    """Return the extra time of the largest limit that fits on a card, that of slices included."""
    room = size * GB - found["resident_bytes"]
    if found["arena_bytes"] <= room:
        return "fits"
    below = (p["extra_cost_percent"] for p in found.get("frontier", []) if p["limit_bytes"] <= room)
    return next((percent(together(found, extra)) for extra in below if extra is not None), "no")


def cards(bench, chosen):
    """Print the first table."""
    harness.head("graph", "way:", "peak, GiB", "arena + resident", *(f"{c} GB" for c in CARDS))
    title = ""
    for row in chosen:
        title = row.title or title
        found = bench.answer(bench.graph(row.graph), *row.arguments(), "--frontier")
        harness.row(row.title, row.way, gib(found["peak_bytes"]), gib(found["total_bytes"]), *(on_card(found, c) for c in CARDS))


# The second table.


class Step:
    """A training step, and what may run again in it."""

    def __init__(self, path, costs):
        import onnx

        self.model = onnx.load(path, load_external_data=False)
        self.nodes = list(self.model.graph.node)
        self.cost = [costs.get(n.name, 0) for n in self.nodes]
        phase = [next((p.value for p in n.metadata_props if p.key == "onnxmem.phase"), "forward") for n in self.nodes]
        self.forward = [p == "forward" for p in phase]
        self.update = {k for k, p in enumerate(phase) if p == "update"}
        self.maker = {t: k for k, n in enumerate(self.nodes) for t in n.output if t}
        self.bytes = self.sizes()

    def sizes(self):
        """Return the bytes of each tensor that has a place in the plan."""
        places = (p.value for n in self.nodes for p in n.metadata_props if p.key == "onnxmem.offset")
        found = (re.fullmatch(r"(.+)=\w+:\d+:(\d+)", word) for text in places for word in text.split(" "))
        return {m[1]: int(m[2]) for m in found if m}

    def needed(self):
        """Return the tensors of forward nodes that other nodes read."""
        reads = {t for k, n in enumerate(self.nodes) if not self.forward[k] for t in n.input}
        return [t for t in self.maker if t in reads and self.forward[self.maker[t]]]

    @functools.cached_property
    def layers(self):
        """Return the layer of each forward node, None before the first and behind the last.

        A node that reads parameters of a layer, or what such a node makes, is of the last such
        layer; what stands between two layers belongs to the later, but where it reads what
        belongs to the earlier alone: the sum at its end.
        """
        labels, first, last = {}, {}, {}

        def number(t):
            m = re.search(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\..*?(__\d+)?$", t)
            return labels.setdefault(m.groups(), len(labels)) if m else None

        for k, n in enumerate(self.nodes):
            if self.forward[k]:
                known = [x for t in n.input for x in (number(t) if t not in self.maker else last.get(self.maker[t]),) if x is not None]
                last[k] = max(known, default=None)
        for k in sorted(last, reverse=True):
            n = self.nodes[k]
            own = [x for t in n.input if t not in self.maker and (x := number(t)) is not None]
            first[k] = min([*own, *first.get(k, [])], default=None)
            for t in n.input:
                if t in self.maker and first[k] is not None:
                    first.setdefault(self.maker[t], []).append(first[k])
        of = {}
        between = {k for k in last if last[k] is not None and first[k] != last[k]}
        for k in last:
            ends = k in between and any(t in self.maker and self.maker[t] not in between and of.get(self.maker[t]) == last[k] for t in self.nodes[k].input)
            of[k] = last[k] if k not in between or ends else first[k]
        return of

    @functools.cached_property
    def early(self):
        """Return the nodes of the backward pass that read no gradient, such as views of what the forward pass makes."""
        found = {}
        for k, n in enumerate(self.nodes):
            if not self.forward[k] and all(t not in self.maker or self.forward[self.maker[t]] or self.maker[t] in found for t in n.input):
                found[k] = True
        return found

    def checkpoint(self):
        """Return the tensors that are kept if each layer runs again, with what each may be made from."""
        of = self.layers
        kept = {t for k, n in enumerate(self.nodes) if self.forward[k] for t in n.input if t in self.maker and of[self.maker[t]] != of[k]}
        return kept | {t for t in self.maker if of.get(self.maker[t]) is None}

    def knapsack(self, share):
        """Return the tensors that are kept within a share of the bytes of products and attentions."""
        items = [k for k, n in enumerate(self.nodes) if self.forward[k] and n.op_type in PRODUCTS]
        size = {k: sum(self.bytes.get(t, 0) for t in self.nodes[k].output) for k in items}
        unit = max(1, share * sum(size.values()) / 4000)
        room = 4000
        best, took = [0] * (room + 1), []
        for k in items:
            w = math.ceil(size[k] / unit)
            grown = [best[r - w] + self.cost[k] if r >= w else -1 for r in range(room + 1)]
            took.append([g > b for g, b in zip(grown, best)])
            best = [max(g, b) for g, b in zip(grown, best)]
        kept, r = set(), room
        for k, taken in zip(reversed(items), reversed(took)):
            if taken[r]:
                kept.update(self.nodes[k].output)
                r -= math.ceil(size[k] / unit)
        return kept

    def again(self, kept):
        """Write the nodes that run again into a copy of the model; return it and their part of the time."""
        import onnx

        copies, names = {}, {}

        def made(t):
            if t not in self.maker or t in kept or not self.forward[self.maker[t]]:
                return t
            names[t] = f"{t}/second"
            return names[t]

        todo = [self.maker[t] for t in self.needed() if t not in kept]
        while todo:
            k = todo.pop()
            if k in copies:
                continue
            n = copies[k] = onnx.NodeProto()
            n.CopyFrom(self.nodes[k])
            n.name += "/second"
            n.input[:] = [made(t) for t in n.input]
            n.output[:] = [t and f"{t}/second" for t in n.output]
            todo += [self.maker[t] for t in self.nodes[k].input if made(t) != t]
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        nodes = []
        for k, n in enumerate(model.graph.node):
            if not self.forward[k]:
                n.input[:] = [made(t) for t in n.input]
            nodes.append(n)
        late = [nodes[k] for k in self.early if k not in self.update] + [copies[k] for k in sorted(copies)]
        nodes = in_order([n for k, n in enumerate(nodes) if k not in self.early and k not in self.update], late, [nodes[k] for k in sorted(self.update)])
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        for n in model.graph.node:
            for p in [p for p in n.metadata_props if p.key == "onnxmem.offset"]:
                n.metadata_props.remove(p)
        return model, 100 * sum(self.cost[k] for k in copies) / sum(self.cost)


def in_order(nodes, late, updates):
    """Return the nodes with each late one before the first that reads what it makes, and each update as soon as it may run."""
    made_late = {t: n for n in late for t in n.output if t}
    makers = {t: n for n in (*nodes, *late, *updates) for t in n.output if t}
    readers = {}
    for n in (*nodes, *late):
        for t in n.input:
            readers.setdefault(t, []).append(n)
    waits, after = {}, {}
    for n in updates:  # behind what makes its inputs, and what reads a parameter before it changes
        before = {id(makers[t]) for t in n.input if t in makers} | {id(m) for t in n.input if t not in makers for m in readers.get(t, [])}
        waits[id(n)] = len(before)
        for m in before:
            after.setdefault(m, []).append(n)
    done, order = set(), []

    def put(n):
        ready = [n]
        while ready:
            m = ready.pop()
            done.add(id(m))
            order.append(m)
            for u in after.get(id(m), []):
                waits[id(u)] -= 1
                if not waits[id(u)]:
                    ready.append(u)

    def place(n):
        stack = [(n, iter(n.input))]
        while stack:
            top, left = stack[-1]
            before = next((made_late[t] for t in left if t in made_late and id(made_late[t]) not in done), None)
            if before is not None:
                stack.append((before, iter(before.input)))
                continue
            stack.pop()
            if id(top) not in done:
                put(top)

    for n in updates:
        if not waits[id(n)] and id(n) not in done:
            put(n)
    for n in [*nodes, *late]:
        place(n)
    return order


def costs_of(plan):
    """Return the nanoseconds of each node of a plan below a limit."""
    return {s["name"]: s["cost_ns"] for s in json.loads(plan.read_text())["steps"]}


def beside(bench, chosen):
    """Print the second table."""
    harness.head("step", "way:", "peak, GiB", "extra time", "onnxmem at that peak", "no plan below")
    for row, title in chosen:
        source = bench.graph(row.graph)
        found = bench.answer(source, *row.arguments(), "--frontier")
        plain = bench.planned(source, *row.arguments(), "--disable-pass", "recast", "--disable-pass", "loss")
        limited = bench.planned(plain, "--limit", "90%", *COMMON)
        step = Step(plain, costs_of(limited.with_suffix(".plan.json")))
        ways = [("checkpoint", step.checkpoint()), *((f"knapsack {s}", step.knapsack(s)) for s in SHARES)]
        harness.row(title, "onnxmem, no limit", gib(found["peak_bytes"]), percent(together(found, found.get("extra_cost_percent"))), "", "")
        for name, kept in ways:
            import onnx

            model, extra = step.again(kept)
            path = bench.place(source, (*row.arguments(), name)).with_suffix(".ways")
            onnx.save(model, path)
            again = bench.answer(path, *COMMON, "--disable-pass", "recast", out=path.with_suffix(".onnx"))
            peak = again["peak_bytes"]
            limited = (*row.flags.split(), "--limit", peak, *COMMON[2:])
            bench.planned(source, *limited)
            ours = bench.answer(source, *limited)
            harness.row("", name, gib(peak), percent(together(again, extra)), percent(together(ours, ours["extra_cost_percent"])), percent(ours["extra_cost_lower_bound_percent"] or 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kept", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--table", choices=("cards", "beside"))
    args = parser.parse_args()
    chosen = [r for r in rows() if not args.names or r.graph in args.names]
    titles, last = {}, ""
    for r in chosen:
        last = r.title or last
        titles[r] = f"{last.split(',')[0]}, {r.way}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.kept or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(folder)
        if args.table != "beside":
            print("<!-- table: large/cards -->\n")
            cards(bench, chosen)
        if args.table != "cards":
            print("\n<!-- table: large/beside -->\n")
            beside(bench, [(r, titles[r]) for r in chosen if r.beside])


if __name__ == "__main__":
    main()
