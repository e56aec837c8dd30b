"""What Inductor's kernels need, beside the limit that they were planned for.

A plan knows kernels by what they will be fused to; Inductor fuses further, and copies what a
library wants otherwise. So its own account of both graphs is compared with the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Optional

import torch
from torch import fx

from ._step import behind, results
from ._storages import Owner, Storages, nbytes, tensors


class Lowering:
    """The graphs of a partition on their way through Inductor. Sizes are bytes.

    count is how many results of the forward graph are the model's. The caller holds them
    while the backward pass runs, which Inductor's account of it does not know.
    """

    #: The peak of the forward pass, once it is lowered.
    forward_bytes: Optional[int] = None

    def __init__(self, forward: fx.GraphModule, backward: fx.GraphModule, count: int) -> None:
        storages = Storages(forward.graph)
        made, saved = results(forward.graph, count)
        held = {o for n in made if isinstance(n, fx.Node) for o in storages.of(n) if o[0].op == "call_function"}
        handed = {n.name: set(storages.of(n)) for n in saved if isinstance(n, fx.Node)}
        taken = [n.name for n in backward.graph.find_nodes(op="placeholder") if not behind(n)]
        #: The inputs of the backward pass that are in the caller's hands, too.
        self.held = tuple(name for name in taken if handed.get(name, set()) & held)
        #: What the forward pass leaves that Inductor's account of the backward pass leaves out.
        self.left_bytes = sum(_bytes(o) for o in held.difference(*handed.values()))
        outputs = [*made, *saved]
        self._inputs = {i: n for i, n in enumerate(outputs) if i >= count and isinstance(n, fx.Node) and n.op == "placeholder"}

    def forward(self, peak: int, outputs: Sequence[str], inputs: Collection[str]) -> None:
        """Take the peak of the forward pass, and the names of its results and inputs.

        An input that is handed over in another layout is a copy, which lives on. Inductor's
        account of the backward pass takes it for the parameter.
        """
        self.forward_bytes = peak
        copies = {outputs[i]: n for i, n in self._inputs.items() if outputs[i] and outputs[i] not in inputs}
        self.left_bytes += sum(nbytes(t) for n in copies.values() for t in tensors(n) if t is not None)

    def needed(self, backward_bytes: int) -> Optional[int]:
        """Return the peak of both passes, by that of the backward pass; None if the forward pass came from a cache."""
        return None if self.forward_bytes is None else max(self.forward_bytes, backward_bytes + self.left_bytes)


def _bytes(owner: Owner) -> int:
    tensor = tensors(owner[0])[owner[1]]
    return 0 if tensor is None else nbytes(tensor)


def copied_inputs(gm: fx.GraphModule) -> dict[str, int]:
    """Return the parameters and images that convolutions want in another layout, with the bytes of a copy.

    Inductor makes one copy of each in the forward pass, and hands it to the backward pass,
    but for those that are handed over as they are.
    """
    from torch._inductor.graph import GraphLowering

    decide = getattr(GraphLowering, "decide_layout_opt", None)
    if decide is None or not decide(gm, is_inference=False):
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
