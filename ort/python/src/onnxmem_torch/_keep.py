"""Two operators that are the identity, but that tell Inductor what is to be in memory.

Inductor computes a value that reads few tensors again in each kernel that reads it, so that
these tensors have to stay there. Where a plan has the value in memory instead, it is kept.
And it returns the copy of an input in the layout that convolutions want. Where a plan has the
input alone, the same input is returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from ._loops import loops, reduces
from ._step import random
from ._storages import looks, writes

_library = torch.library.Library("onnxmem", "FRAGMENT")
_library.define("keep(Tensor value) -> Tensor")
_library.impl("keep", lambda value: value.clone(), "CompositeExplicitAutograd")
_library.impl("keep", lambda value: torch.empty_like(value), "Meta")
_library.define("same(Tensor(a) value) -> Tensor(a)")
_library.impl("same", lambda value: torch.ops.aten.alias.default(value), "CompositeExplicitAutograd")


def keep(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """Add the operator behind a node; return it."""
    _lower()
    kept = graph.call_function(torch.ops.onnxmem.keep.default, (node,))
    value = node.meta["val"]
    with value.fake_mode:
        kept.meta = {**node.meta, "val": torch.empty_like(value)}
    return kept


def keep_all(graph: fx.Graph, backward: set[fx.Node]) -> None:
    """Keep what a plan of operators has in memory, and Inductor might compute where it is read. backward are the nodes behind the boundary."""
    for n in list(graph.nodes):
        if n.op == "call_function" and n.all_input_nodes and _inlined(n, backward):
            with graph.inserting_after(n):
                kept = keep(graph, n)
            n.replace_all_uses_with(kept, delete_user_cb=lambda user, kept=kept: user is not kept)
            if n in backward:
                backward.add(kept)


def _inlined(node: fx.Node, backward: set[fx.Node]) -> bool:
    """Whether Inductor might compute what an operator makes in its readers alone: they are loops of the same pass."""
    if not isinstance(node.meta.get("val"), torch.Tensor) or looks(node) or writes(node) or random(node) or not loops(node) or reduces(node):
        return False
    return all(loops(r) and (r in backward) == (node in backward) for r in _readers(node))


def _readers(node: fx.Node) -> Iterator[fx.Node]:
    """List the operators that read a node or what looks at it."""
    for user in node.users:
        if looks(user):
            yield from _readers(user)
        else:
            yield user


def same(graph: fx.Graph, node: fx.Node, name: str) -> fx.Node:
    """Add the operator that returns an input of the graph as it is; return it."""
    _lower()
    new = graph.create_node("call_function", torch.ops.onnxmem.same.default, (node,), name=name)
    new.meta = dict(node.meta)
    return new


def _lower() -> None:
    """Tell Inductor of the operators."""
    from torch._inductor import ir, lowering
    from torch._inductor.virtualized import V

    target = torch.ops.onnxmem.keep.default
    if target in lowering.lowerings:
        return

    def return_same(value: Any) -> Any:
        V.graph.nodes_prefer_channels_last.discard(V.graph.current_node)
        return value

    def lower(value: Any) -> Any:
        node, graph = V.graph.current_node, V.graph
        if len(value.get_size()) == 4 and node in graph.nodes_prefer_channels_last:
            value = ir.ExternKernel.require_stride_order(value, ir.NHWC_STRIDE_ORDER)
        value.realize()
        return value

    lowering.register_lowering(target, type_promotion_kind=None)(lower)
    lowering.register_lowering(torch.ops.onnxmem.same.default, type_promotion_kind=None)(return_same)
