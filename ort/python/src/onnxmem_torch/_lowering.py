"""What Inductor's kernels need, beside the limit that they were planned for.

A plan knows kernels by what they will be fused to; Inductor fuses further, and copies what a
library wants otherwise. So its own account of both graphs is compared with the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Optional

import torch
from torch import fx

from ._limit import Report
from ._step import behind, results
from ._storages import Owner, Storages, nbytes, tensors


#: What is noted on each node of a planned graph under this name: the number of its partition.
_MARK = "onnxmem_partition"

#: What is noted on a planned graph under this name is part of its key in Inductor's cache.
_ROOM = "onnxmem_room"


class Lowering:
    """The graphs of a partition on their way through Inductor. Sizes are bytes.

    count is how many results of the forward graph are the model's. The caller holds them
    while the backward pass runs, which Inductor's account of it does not know.
    """

    #: What was planned.
    report: Optional[Report] = None
    #: How many plans of the graph were tried before: of one that was, the forward pass may be in Inductor's cache.
    attempt = 0
    #: The peaks of the passes, once they are lowered.
    forward_bytes: Optional[int] = None
    backward_bytes: Optional[int] = None

    def __init__(self, forward: fx.GraphModule, backward: fx.GraphModule, count: int) -> None:
        storages = Storages(forward.graph)
        made, saved = results(forward.graph, count)
        held = {o for n in made if isinstance(n, fx.Node) for o in storages.of(n) if o[0].op == "call_function"}
        handed = {n.name: set(storages.of(n)) for n in saved if isinstance(n, fx.Node)}
        taken = [n.name for n in backward.graph.find_nodes(op="placeholder") if not behind(n)]
        #: The inputs of the backward pass that are in the caller's hands, too.
        self.held = tuple(name for name in taken if handed.get(name, set()) & held)
        self._results_bytes = sum(_bytes(o) for o in held.difference(*handed.values()))
        self._copies_bytes = self._unread_bytes = 0
        outputs = [*made, *saved]
        inputs = {i: n for i, n in enumerate(outputs) if i >= count and isinstance(n, fx.Node) and n.op == "placeholder"}
        self._inputs = {i: sum(nbytes(t) for t in tensors(n) if t is not None) for i, n in inputs.items()}

    def forward(self, peak: int, outputs: Sequence[str], inputs: Collection[str]) -> None:
        """Take the peak of the forward pass, and the names of its results and inputs.

        An input that is handed over in another layout is a copy, which lives on. Inductor's
        account of the backward pass takes it for the parameter.
        """
        self.forward_bytes = peak
        copies = {outputs[i]: size for i, size in self._inputs.items() if outputs[i] and outputs[i] not in inputs}
        self._copies_bytes = sum(copies.values())

    def backward(self, unread: int) -> None:
        """Take the bytes that the backward pass is handed, but none of its kernels reads."""
        self._unread_bytes = unread

    @property
    def left_bytes(self) -> int:
        """What is there while the backward pass runs that Inductor's account of it leaves out."""
        return self._results_bytes + self._copies_bytes + self._unread_bytes

    def needed(self) -> int:
        """Return the peak of the passes that were lowered: one may come from a cache, or follow later."""
        return max(self.forward_bytes or 0, 0 if self.backward_bytes is None else self.backward_bytes + self.left_bytes)

    def room(self, backward: bool) -> Optional[int]:
        """Return the bytes that the kernels of a pass may need at most; None without a limit.

        That is the limit, or what the plan has where it misses the limit.
        """
        if self.report is None or self.report.limit_bytes is None:
            return None
        return max(self.report.limit_bytes, self.report.peak_bytes) - (self.left_bytes if backward else 0)


def mark(number: int, lowering: Lowering, forward: fx.GraphModule, backward: fx.GraphModule) -> None:
    """Note on the graphs of a partition which it is: the backward pass may be lowered long after others' forward passes.

    Equal graphs that are planned for another room are told apart by Inductor's cache.
    """
    for part in (forward, backward):
        part.meta[_ROOM] = repr((lowering.room(part is backward), lowering.held, lowering.attempt))
        for n in part.graph.nodes:
            n.meta[_MARK] = number


def marked(graph: fx.Graph) -> Optional[int]:
    """Return the number of the partition that a graph is of, None if it is of none."""
    return next((n.meta[_MARK] for n in graph.nodes if _MARK in n.meta), None)


def _bytes(owner: Owner) -> int:
    tensor = tensors(owner[0])[owner[1]]
    return 0 if tensor is None else nbytes(tensor)


def channels_last(gm: fx.GraphModule) -> bool:
    """Whether Inductor has the convolutions of a graph compute in another layout."""
    from torch._inductor.graph import GraphLowering

    decide = getattr(GraphLowering, "decide_layout_opt", None)
    return decide is not None and bool(decide(gm, is_inference=False))


def copied_inputs(gm: fx.GraphModule) -> dict[str, int]:
    """Return the parameters and images that convolutions want in another layout, with the bytes of a copy.

    Inductor makes one copy of each in the forward pass, and hands it to the backward pass,
    but for those that are handed over as they are.
    """
    if not channels_last(gm):
        return {}
    copies: set[fx.Node] = set()
    for n in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default):
        for x in n.args[:2]:
            value = x.meta["val"]
            layout = torch.channels_last if value.dim() == 4 else torch.channels_last_3d
            fixed = all(isinstance(d, int) for d in value.shape)
            if x.op == "placeholder" and fixed and value.dim() in (4, 5) and not value.is_contiguous(memory_format=layout):
                copies.add(x)
    return {n.name: nbytes(n.meta["val"]) for n in copies}


def copied_bytes(nodes: Iterable[fx.Node], copies: Mapping[str, int]) -> int:
    """Return the bytes of the copies that convolutions among the nodes read."""
    aten = torch.ops.aten
    convolutions = (n for n in nodes if n.target in (aten.convolution.default, aten.convolution_backward.default))
    return sum(copies.get(m.name, 0) for n in convolutions for m in n.all_input_nodes)
