"""Another plan where Inductor's kernels need more than a limit that the plan meets.

What kernels need is known once Inductor has fused them. Then another plan of the same graph
leaves that much room below the limit, and so on, as often as the kernels need less by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional, TypeVar

import torch
import torch._functorch.config
from torch import fx

from ._limit import LimitError
from ._prepare import copied

if TYPE_CHECKING:
    from ._partition import Partitioner

Result = TypeVar("Result")

#: How many plans of a graph are tried; if none will do, the best of them is compiled.
_ATTEMPTS = 4


class Exceeded(LimitError):
    """Inductor's kernels need more bytes than the limit, and another plan than this may be tried."""

    def __init__(self, needed: int, planned: int, limit: int) -> None:
        super().__init__(f"kernels need {needed} bytes, the plan has {planned}, the limit is {limit}")
        self.needed, self.planned, self.limit = needed, planned, limit


class NoRoom(LimitError):
    """No plan below the limit leaves the room that was asked for."""


class Again:
    """Inductor, as a backend of torch.compile that has a graph planned again where its kernels exceed the limit.

    inner is Inductor with its options, among them the partitioner.
    """

    def __init__(self, inner: Any, partitioner: Partitioner) -> None:
        self.inner, self.partitioner = inner, partitioner
        self.__name__ = "inductor"  # which torch's messages say

    def __call__(self, gm: fx.GraphModule, inputs: list[Any]) -> Any:
        return compiled(self.partitioner, lambda: self.inner(_like(gm), inputs))

    def reset(self) -> None:
        """Forget what was recorded on a GPU, as torch asks of its own backend."""
        self.inner.reset()


def compiled(partitioner: Partitioner, attempt: Callable[[], Result]) -> Result:
    """Return what attempt compiles, of a plan whose kernels meet the limit, or of the best that is found.

    The backward pass is lowered with the forward pass, and not when it runs first, since
    another plan is one of both.
    """
    tried: dict[int, Exceeded] = {}  # by the room that was left to kernels, in bytes
    spare = missed = 0
    # Where updates lie in the graph is known only until a forward pass is compiled.
    with partitioner.one_key(), torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
        while True:
            last = spare in tried
            try:
                with partitioner.leaving(spare, len(tried), last):
                    return attempt()
            except Exception as e:
                found = exceeded(e)
                if last or (found is None and not tried):
                    raise
            if found is not None:
                tried[spare] = found.with_traceback(None)
            best = min(tried, key=lambda s: tried[s].needed)
            least = tried[best]
            over = least.needed - least.limit
            missed = 0 if best == spare else missed + 1
            spare = max(best, least.limit - least.planned) + (1 + missed) * over
            if found is None or len(tried) == _ATTEMPTS or spare >= least.limit or spare in tried:
                spare = best


def exceeded(error: BaseException) -> Optional[Exceeded]:
    """Return the error that says that kernels exceed the limit, which torch wraps; None if it is another."""
    seen: Optional[BaseException] = error
    while seen is not None and not isinstance(seen, Exceeded):
        seen = getattr(seen, "inner_exception", None) or seen.__cause__
    return seen


def _like(gm: fx.GraphModule) -> fx.GraphModule:
    """Return a module of the same parameters and of a copy of the graph, which Inductor changes."""
    like = fx.GraphModule(gm, copied(gm.graph))
    for old, new in zip(gm.graph.nodes, like.graph.nodes):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    like.__dict__.update({name: value for name, value in gm.__dict__.items() if name not in like.__dict__})
    like.meta = dict(gm.meta)
    for name, child in gm.named_children():
        if isinstance(child, fx.GraphModule) and hasattr(like, name):
            setattr(like, name, _like(child))
    return like
