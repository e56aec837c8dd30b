"""Operands of which Inductor's kernels read the shape alone.

The gradient of an average pooling needs the size of its input and none of its values, yet
takes the input itself. So PyTorch's partitioner saves the input for the backward pass, where
it stays to the end, since no kernel is its last reader.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

#: Operators whose second operand is read for its shape, with the number of a window's dimensions,
#: and its largest size: for larger ones Inductor calls a library, which wants a tensor.
_POOLINGS = {
    torch.ops.aten.avg_pool2d_backward.default: (2, 25),
    torch.ops.aten.avg_pool3d_backward.default: (3, 125),
}


def unread(graph: fx.Graph) -> None:
    """Give operators that read only the shape of an operand a view of that shape, of their gradient."""
    for target, (dims, largest) in _POOLINGS.items():
        for n in graph.find_nodes(op="call_function", target=target):
            gradient, operand, window = n.args[:3]
            shape = operand.meta["val"].shape
            if math.prod(window) <= largest and all(isinstance(d, int) for d in shape):
                n.update_arg(1, _expanded(graph, n, gradient, dims, list(shape)))


def _expanded(graph: fx.Graph, reader: fx.Node, value: fx.Node, dims: int, shape: list[int]) -> fx.Node:
    """Add, before a reader, a view of a value that has a shape: its first elements along the last dims, repeated."""
    aten = torch.ops.aten
    ways: list[tuple[Any, tuple[Any, ...]]] = [(aten.slice.Tensor, (d, 0, 1)) for d in range(-dims, 0)]
    with graph.inserting_before(reader), value.meta["val"].fake_mode:
        for target, args in [*ways, (aten.expand.default, (shape,))]:
            view = graph.call_function(target, (value, *args))
            view.meta = {**reader.meta, "val": target(value.meta["val"], *args)}
            value = view
    return value
