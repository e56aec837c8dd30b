"""What is done to a joint graph before it is planned: dead code, equal nodes, dropout in two.

The graph that PyTorch's partitioner would get stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any, Optional

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ._step import random, results
from ._storages import identity, impure, symbolic, tensors, writes


def prepare(graph: fx.Graph, num_fwd_outputs: int) -> fx.Graph:
    """Return a copy of a joint graph without dead and equal nodes."""
    kept = copied(graph)
    kept.eliminate_dead_code()
    _merge(kept, num_fwd_outputs)
    return kept


def halve(graph: fx.Graph, names: Collection[str]) -> fx.Graph:
    """Return a copy of a prepared graph with the named dropouts in two."""
    halved = copied(graph)
    for node in dropouts(halved):
        if node.name in names:
            _split(halved, node)
    return halved


def copied(graph: fx.Graph) -> fx.Graph:
    """Return a copy of a graph, of the same names."""
    kept = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    result = kept.graph_copy(graph, copies, return_output_node=True)
    assert result is not None
    output = kept.output(result[0])
    output.meta = dict(graph.output_node().meta)
    for old, new in copies.items():
        new.meta = dict(old.meta)
    return kept


def dropouts(graph: fx.Graph) -> list[fx.Node]:
    """Return the dropouts that draw a mask and multiply by it in one kernel."""
    nodes = graph.find_nodes(op="call_function", target=torch.ops.aten.native_dropout.default)
    return [n for n in nodes if n.args[2] and n.args[1] not in (0.0, 1.0) and _same_draws(n)]


def _same_draws(node: fx.Node) -> bool:
    """Whether the two halves of a dropout draw the same mask as one kernel: on the processor, in a row.

    A dropout of a transposed tensor draws in the order of memory, bernoulli in that of its results.
    """
    return all(t is None or (t.device.type == "cpu" and t.is_contiguous()) for t in tensors(node))


def product(name: str) -> str:
    """Return the name of the product of a dropout that was split."""
    return f"{name}_product"


def _split(graph: fx.Graph, node: fx.Node) -> None:
    """Make a dropout a mask, which is drawn once, and a product, which may run again.

    As one kernel it runs once, so that the product, four bytes an element, had to be kept;
    a mask has one. The draws and the products are the same bits.
    """
    aten = torch.ops.aten
    x, p, _ = node.args
    made = node.meta["val"]
    items = {u.args[1]: u for u in node.users}
    with graph.inserting_before(node):
        room = graph.call_function(aten.empty_like.default, (x,), {"dtype": torch.bool})
        mask = graph.call_function(aten.bernoulli.p, (room, 1 - p))
        # Two products, as dropout computes: native_dropout_backward rounds its factor to the type
        # of the results, and Inductor has no code for it.
        half = graph.call_function(aten.mul.Tensor, (x, mask))
        out = graph.create_node("call_function", aten.mul.Tensor, (half, 1 / (1 - p)), name=product(node.name))
    with made[1].fake_mode:
        space, kept = torch.empty_like(made[1]), torch.empty_like(made[0])
    for new, value in ((room, space), (mask, made[1]), (half, kept), (out, made[0])):
        new.meta = {**node.meta, "val": value}
    for k, new in ((0, out), (1, mask)):
        if k in items:
            items[k].replace_all_uses_with(new)
            graph.erase_node(items[k])
    graph.erase_node(node)


def _merge(graph: fx.Graph, num_fwd_outputs: int) -> None:
    """Merge equal nodes, but not one that only the forward pass needs with one of the backward pass.

    Results of the graph stay apart, since callers may write to them.
    """
    if _written_between(graph):
        return
    forward, backward = results(graph, num_fwd_outputs)
    needed = _needed(backward)
    returned = {identity(t) for n in [*forward, *backward] if isinstance(n, fx.Node) for t in tensors(n) if t is not None}
    seen: dict[Hashable, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or not _mergeable(node) or any(t is not None and identity(t) in returned for t in tensors(node)):
            continue
        key = _key(node)
        if key is None:
            continue
        first = seen.setdefault((key, node in needed), node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _written_between(graph: fx.Graph) -> bool:
    """Whether the graph computes something after it has written in place."""
    written = False
    for node in graph.nodes:
        if node.op == "call_function":
            if written and not writes(node):
                return True
            written = written or writes(node)
    return False


def _needed(outputs: list[Any]) -> set[fx.Node]:
    """Return all nodes that results depend on."""
    stack = [n for n in outputs if isinstance(n, fx.Node)]
    needed: set[fx.Node] = set()
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    return needed


def _mergeable(node: fx.Node) -> bool:
    """Whether a second run of a node gives the same, and nothing else happens."""
    if symbolic(node):
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        # Of memory that is not initialized, each has its own.
        return not (random(node) or impure(node) or writes(node) or "empty" in node.target.name())
    return getattr(node.target, "__module__", "") == "_operator"


def _key(node: fx.Node) -> Optional[Hashable]:
    """Return what equal nodes have in common; None if that cannot be said."""
    leaves, shape = pytree.tree_flatten((node.args, node.kwargs))
    # repr tells 0.0 from -0.0, and NaN is equal to itself.
    parts = tuple(x if isinstance(x, fx.Node) else (type(x), repr(x)) for x in leaves)
    key = (node.target, str(shape), parts, repr(node.meta.get("custom")))
    try:
        hash(key)
    except TypeError:
        return None
    return key
