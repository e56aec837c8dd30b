"""Which nodes of an FX graph make storages, and which only look at those of others.

A view has no kernel and no bytes of its own: it is merged into the storage that it looks at.
Storages are told apart by those of the fake tensors of a graph, ``node.meta["val"]``; where a
pass of Inductor has made a node anew, by the operator's schema.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import fx

#: What CUDA's caching allocator rounds a block up to, in bytes.
BLOCK = 512

#: The size of a dimension that only the data will tell.
UNKNOWN = 4096

#: A storage: the node that makes it, and which of its results it is.
Owner = tuple[fx.Node, int]

#: Operators that return their first argument's storage without saying so in their schema.
_LOOKS = {"aten::_unsafe_view", "aten::lift_fresh", "aten::_reshape_alias"}


def values(node: fx.Node) -> list[Any]:
    """Return the results of a node: fake tensors, symbolic numbers, objects, or None."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def tensors(node: fx.Node) -> list[Optional[torch.Tensor]]:
    """Return the results of a node, with None for each that is no tensor."""
    return [v if isinstance(v, torch.Tensor) else None for v in values(node)]


def concrete(size: Any) -> int:
    """Return a size as a number: of a symbolic one the size that it was traced with.

    Nothing is guarded on: a plan is valid for all sizes, only its peak is that of these.
    """
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return int(hint) if isinstance(hint, (int, float)) else UNKNOWN


def nbytes(tensor: torch.Tensor, align: int = BLOCK) -> int:
    """Return the bytes of a tensor's storage, rounded up to those of a block."""
    try:
        size = concrete(tensor.untyped_storage().nbytes())
    except NotImplementedError:  # a tensor without a storage, such as a sparse one
        size = elements(tensor) * tensor.element_size()
    return -(-size // align) * align


def elements(tensor: torch.Tensor) -> int:
    """Return the number of a tensor's elements."""
    count = 1
    for size in tensor.shape:
        count *= concrete(size)
    return count


def identity(tensor: torch.Tensor) -> object:
    """Return what two tensors have in common if and only if they share a storage."""
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError:
        return id(tensor)


def schema(node: fx.Node) -> Any:
    """Return the schema of a node's operator; None of a Python function or a higher-order operator."""
    return node.target._schema if isinstance(node.target, torch._ops.OpOverload) else None


def writes(node: fx.Node) -> bool:
    """Whether a node's operator writes to an argument."""
    return bool(getattr(schema(node), "is_mutable", False))


def written(node: fx.Node) -> Iterator[fx.Node]:
    """List the arguments that a node's operator writes to."""
    for k, argument in enumerate(schema(node).arguments if writes(node) else []):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[k] if k < len(node.args) else node.kwargs.get(argument.name)
            for x in given if isinstance(given, (list, tuple)) else [given]:
                if isinstance(x, fx.Node):
                    yield x


def impure(node: fx.Node) -> bool:
    """Whether a node has an effect beside its results and a generator's state.

    PyTorch tags attention as random even without dropout.
    """
    return bool(node.is_impure()) and torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())


def looks(node: fx.Node) -> bool:
    """Whether a node's operator returns its first argument's storage, as its schema says."""
    return isinstance(node.target, torch._ops.OpOverload) and (node.target.is_view or node.target.name() in _LOOKS)


def symbolic(node: fx.Node) -> bool:
    """Whether a node's value is a number that is known when the graph runs."""
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


class Storages:
    """The storages of a graph."""

    #: For each result of a node the storage that holds it; None if it is no tensor.
    owners: dict[fx.Node, list[Optional[Owner]]]

    def __init__(self, graph: fx.Graph) -> None:
        self.owners = {}
        for node in graph.nodes:
            if node.op != "output":
                self.owners[node] = self._item(node) if node.target is operator.getitem else self._results(node)

    def _item(self, node: fx.Node) -> list[Optional[Owner]]:
        """Return the owner of one result of a node with several."""
        whole, index = node.args[0], node.args[1]
        owners = self.owners[whole]
        if "val" in whole.meta and isinstance(index, int) and index < len(owners) and not isinstance(whole.meta["val"][index], (list, tuple)):
            return [owners[index]]
        # Of a higher-order operator whose results are nested, or not noted.
        return [None if t is None else (node, k) for k, t in enumerate(tensors(node))]

    def _results(self, node: fx.Node) -> list[Optional[Owner]]:
        """Return the owners of a node's results: itself, or what its inputs look at."""
        seen: dict[object, Owner] = {}
        first = None
        for m in node.all_input_nodes:
            for tensor, owner in zip(tensors(m), self.owners[m]):
                if tensor is not None and owner is not None:
                    seen.setdefault(identity(tensor), owner)
                    first = first or owner
        results: list[Optional[Owner]] = []
        for k, tensor in enumerate(tensors(node)):
            if tensor is None:
                results.append(None)
            else:
                results.append(seen.get(identity(tensor)) or (first if looks(node) else None) or (node, k))
        return results

    def of(self, node: fx.Node) -> list[Owner]:
        """Return the storages that a node's results lie in."""
        return [owner for owner in self.owners[node] if owner is not None]

    def owns(self, node: fx.Node) -> bool:
        """Whether a node makes the storage of one of its results."""
        return any(owner[0] is node for owner in self.of(node))

    def item(self, node: fx.Node) -> bool:
        """Whether a node takes a result out of a kernel with several, so that the two belong together."""
        if node.target is not operator.getitem:
            return False
        whole = node.args[0]
        return isinstance(whole, fx.Node) and (self.runs(whole) or self.item(whole))

    def runs(self, node: fx.Node) -> bool:
        """Whether a node runs a kernel: it makes a storage, writes, or has another effect."""
        if node.op != "call_function" or node.target is operator.getitem:
            return False
        if symbolic(node):
            # A size costs nothing; a number from the data is a kernel.
            return torch.Tag.data_dependent_output in getattr(node.target, "tags", ())
        return "val" not in node.meta or self.owns(node) or writes(node) or impure(node)
