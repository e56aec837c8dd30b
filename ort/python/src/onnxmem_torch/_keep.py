"""Three operators that are the identity, but that tell Inductor what is to be in memory.

Inductor computes a value that reads few tensors again in each kernel that reads it, so that
these tensors have to stay there. Where a plan has the value in memory instead, it is kept.
And it returns the copy of an input in the layout that convolutions want. Where a plan has the
input alone, the same input is returned. And it returns gradients of convolutions' weights in
their layout, which autograd copies once more, at the end of the backward pass, when all
gradients are there. A settled gradient is copied where it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from ._loops import loops, reduces
from ._step import behind, random
from ._storages import looks, writes

_library = torch.library.Library("onnxmem", "FRAGMENT")
_library.define("keep(Tensor value) -> Tensor")
_library.impl("keep", lambda value: value.clone(), "CompositeExplicitAutograd")
_library.impl("keep", lambda value: torch.empty_like(value), "Meta")
_library.define("same(Tensor(a) value) -> Tensor(a)")
_library.impl("same", lambda value: torch.ops.aten.alias.default(value), "CompositeExplicitAutograd")
_library.define("settled(Tensor value) -> Tensor")
_library.impl("settled", lambda value: value.clone(memory_format=torch.contiguous_format), "CompositeExplicitAutograd")
_library.impl("settled", lambda value: torch.empty_like(value, memory_format=torch.contiguous_format), "Meta")


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


def settle(graph: fx.Graph, gradients: Sequence[Any]) -> list[fx.Node]:
    """Copy gradients into the layout of their parameters where Inductor may make them in that of convolutions; return the copies.

    gradients are results of the graph, one for each of its inputs ahead of the boundary.
    """
    found: dict[fx.Node, fx.Node] = {}
    inputs = [n for n in graph.find_nodes(op="placeholder") if not behind(n)]
    for n, parameter in zip(gradients, inputs):
        if not isinstance(n, fx.Node) or n in found or not _differs(n.meta.get("val"), parameter.meta.get("val")):
            continue
        _lower()
        with graph.inserting_after(n):
            settled = graph.call_function(torch.ops.onnxmem.settled.default, (n,))
        value = n.meta["val"]
        with value.fake_mode:
            settled.meta = {**n.meta, "val": torch.empty_like(value, memory_format=torch.contiguous_format)}
        n.replace_all_uses_with(settled, delete_user_cb=lambda user: user.op == "output")
        found[n] = settled
    return list(found.values())


def _differs(gradient: Any, parameter: Any) -> bool:
    """Whether a gradient of images' convolutions may have another layout than its parameter, which autograd copies then."""
    if not isinstance(gradient, torch.Tensor) or not isinstance(parameter, torch.Tensor) or parameter.dim() != 4:
        return False
    fixed = all(isinstance(d, int) for d in (*gradient.shape, *parameter.shape)) and gradient.shape == parameter.shape
    return fixed and parameter.is_contiguous() and not parameter.is_contiguous(memory_format=torch.channels_last)


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

    def settle_here(value: Any) -> Any:
        V.graph.nodes_prefer_channels_last.discard(V.graph.current_node)
        return ir.ExternKernel.require_exact_strides(value, ir.FlexibleLayout.contiguous_strides(value.get_size()))

    def lower(value: Any) -> Any:
        node, graph = V.graph.current_node, V.graph
        if len(value.get_size()) == 4 and node in graph.nodes_prefer_channels_last:
            value = ir.ExternKernel.require_stride_order(value, ir.NHWC_STRIDE_ORDER)
        value.realize()
        return value

    lowering.register_lowering(target, type_promotion_kind=None)(lower)
    lowering.register_lowering(torch.ops.onnxmem.same.default, type_promotion_kind=None)(return_same)
    lowering.register_lowering(torch.ops.onnxmem.settled.default, type_promotion_kind=None)(settle_here)
