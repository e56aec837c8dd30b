"""The loads of graphs, and of planned steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ._load import Block, Load
from ._step import Step, behind, results, tangent
from ._storages import Owner, Storages, identity, nbytes, tensors
from ._trace import where


def title(node: fx.Node) -> str:
    """Return what a node is for the reader: its operator, module and line."""
    target = node.target
    name = target.name().removeprefix("aten::") if isinstance(target, torch._ops.OpOverload) else str(getattr(target, "__name__", target))
    place = where(node)
    return f"{name.partition('.')[0]} of {place}" if place else name.partition(".")[0]


class _Lives:
    """Collects the blocks of the graphs of a step, one graph after another."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.blocks: list[Block] = []
        #: What each step's kernel takes for itself, as far as it is known.
        self.workspaces: list[int] = []
        #: The block of a storage that goes from one graph to the next, by its identity.
        self.handed: dict[object, int] = {}

    def run(self, graph: fx.Graph, given: set[object]) -> dict[Owner, int]:
        """Add a graph's kernels; given are storages of the caller's. Return the blocks by owner."""
        storages = Storages(graph)
        first = len(self.steps)
        found: dict[Owner, int] = {}
        for n in graph.nodes:
            if n.op == "output":
                continue
            if storages.runs(n):
                self.steps.append(title(n))
                self.workspaces.append(n.meta.get("onnxmem_workspace", 0))
            now = max(len(self.steps) - 1, first)
            for m in n.all_input_nodes:
                for owner in storages.of(m):
                    if owner in found:
                        self.blocks[found[owner]].last = now
            for owner in storages.of(n):
                if owner[0] is not n or owner in found or n.op == "get_attr":
                    continue
                tensor = tensors(n)[owner[1]]
                assert tensor is not None
                key = identity(tensor)
                if n.op == "placeholder" and key in self.handed:
                    found[owner] = self.handed[key]
                elif n.op != "placeholder" or (key not in given and behind(n)):
                    found[owner] = len(self.blocks)
                    self.blocks.append(Block("the loss's gradient" if tangent(n) else self.steps[-1], nbytes(tensor), now, now))
        self.owners = storages
        return found

    def of(self, found: dict[Owner, int], values: Sequence[Any]) -> list[int]:
        """Return the blocks that results of the last graph lie in."""
        nodes = [v for v in values if isinstance(v, fx.Node)]
        return list(dict.fromkeys(found[o] for n in nodes for o in self.owners.of(n) if o in found))


def graph_load(forward: fx.GraphModule, backward: fx.GraphModule, num_fwd_outputs: int, how: str) -> Load:
    """Return the load of a forward and a backward graph as they run, one kernel after another."""
    lives = _Lives()
    given = {identity(t) for n in forward.graph.find_nodes(op="placeholder") for t in tensors(n) if t is not None}
    found = lives.run(forward.graph, given)
    outputs, saved = results(forward.graph, num_fwd_outputs)
    kept, held = lives.of(found, outputs), lives.of(found, saved)
    by_block = {k: owner for owner, k in found.items()}
    for k in [*kept, *held]:
        node, which = by_block[k]
        tensor = tensors(node)[which]
        assert tensor is not None
        lives.handed[identity(tensor)] = k
    boundary = len(lives.steps)
    found = lives.run(backward.graph, given)
    gradients = lives.of(found, pytree.arg_tree_leaves(*backward.graph.output_node().args))
    end = len(lives.steps) - 1
    for k in held:
        lives.blocks[k].last = max(lives.blocks[k].last, min(boundary, end))
    for k in [*kept, *gradients]:
        lives.blocks[k].last = end
    return Load(lives.steps, lives.blocks, boundary, end + 1, how).name(gradients, kept).beside(lives.workspaces)


def forward_load(module: fx.GraphModule, how: str) -> Load:
    """Return the load of a graph of inference."""
    lives = _Lives()
    found = lives.run(module.graph, set())
    kept = lives.of(found, pytree.arg_tree_leaves(*module.graph.output_node().args))
    end = len(lives.steps) - 1
    for k in kept:
        lives.blocks[k].last = end
    return Load(lives.steps, lives.blocks, end + 1, end + 1, how).name([], kept).beside(lives.workspaces)


def planned_load(step: Step, steps: Sequence[int], how: str) -> Load:
    """Return the load of a plan of a step."""
    makes: dict[int, list[int]] = {}
    reads: dict[int, list[int]] = {}
    for i, t in enumerate(step.tensors):
        if t.get("resident") or not t["bytes"]:
            continue
        makes.setdefault(t["producer"], []).append(i)
        for v in t["consumers"]:
            reads.setdefault(v, []).append(i)
    names = [title(n) for n in step.kernels] + ["between the forward and the backward pass"]
    blocks: list[Block] = []
    newest: dict[int, int] = {}
    for at, v in enumerate(steps):
        for i in reads.get(v, []):
            if i in newest:
                blocks[newest[i]].last = at
        for i in makes.get(v, []):
            newest[i] = len(blocks)
            blocks.append(Block(names[v], step.tensors[i]["bytes"], at, at))
    kept = [i for i, t in enumerate(step.tensors) if t.get("output") and i in newest]
    for i in kept:
        blocks[newest[i]].last = len(steps) - 1
    forward = {step.tensor[o] for n in step.forward if isinstance(n, fx.Node) for o in step.storages.of(n)}
    boundary = list(steps).index(step.boundary)
    load = Load([names[v] for v in steps], blocks, boundary, len(steps), how)
    load.name([newest[i] for i in kept if i not in forward], [newest[i] for i in kept if i in forward])
    return load.beside(step.nodes[v].get("workspace", 0) for v in steps)
