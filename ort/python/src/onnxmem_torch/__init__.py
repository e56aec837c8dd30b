"""PyTorch in less memory: training steps below a limit, and packed arenas on CUDA.

    model = onnxmem_torch.compile(model, limit="60%")

compiles a model so that its training step needs at most 60 % of the memory, at the least
extra time. docs/torch-compile.md of the project describes limits and what is planned.

On CUDA, an arena for each stream holds what a step allocates:

    import onnxmem_torch

    onnxmem_torch.install()  # before the first use of CUDA

    for x, y in batches:
        with onnxmem_torch.iteration():
            ...

The first iterations are recorded; the command ``onnxmem`` packs them in the background;
from then on, every block has its place in an arena. Without ``iteration()``, the iteration
is the period of the stream of allocations. What deviates comes from the driver.
``memory()`` and ``memory_stats()`` have the figures, ``report()`` draws the arena.

Sizes are bytes. Linux only. docs/pytorch.md of the project describes what is recorded and
what happens when an iteration deviates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._allocator import Memory, StreamMemory, install, iteration, memory, memory_stats, report, streams, trace, wait

if TYPE_CHECKING:
    from ._compile import compile, reports
    from ._estimate import Estimate, estimate
    from ._frontier import Frontier, frontier
    from ._limit import LimitError, PlanWarning
    from ._partition import Partitioner
    from ._problem import problem
    from ._scheduler import inductor_pass

#: What needs PyTorch, by the module that has it: it is imported when it is used.
_LATE = {
    "Estimate": "_estimate",
    "Frontier": "_frontier",
    "LimitError": "_limit",
    "Partitioner": "_partition",
    "PlanWarning": "_limit",
    "compile": "_compile",
    "estimate": "_estimate",
    "frontier": "_frontier",
    "inductor_pass": "_scheduler",
    "problem": "_problem",
    "reports": "_compile",
}

__all__ = [
    "Estimate",
    "Frontier",
    "LimitError",
    "Memory",
    "Partitioner",
    "PlanWarning",
    "StreamMemory",
    "compile",
    "estimate",
    "frontier",
    "inductor_pass",
    "install",
    "iteration",
    "memory",
    "memory_stats",
    "problem",
    "report",
    "reports",
    "streams",
    "trace",
    "wait",
]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
