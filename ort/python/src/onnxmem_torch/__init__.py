"""PyTorch's memory on CUDA in packed arenas, one for each stream.

    import onnxmem_torch

    onnxmem_torch.install()  # before the first use of CUDA

    for x, y in batches:
        with onnxmem_torch.iteration():
            ...

The first iterations are recorded; the command ``onnxmem`` packs them in the background;
from then on, every block has its place in an arena. Without ``iteration()``, the iteration
is the period of the stream of allocations. What deviates comes from the driver.
``memory()`` has the figures, ``report()`` draws the arena.

Sizes are bytes. Linux only. docs/pytorch.md of the project describes what is recorded and
what happens when an iteration deviates.
"""

from ._allocator import Memory, StreamMemory, install, iteration, memory, report, streams, trace, wait

__all__ = ["Memory", "StreamMemory", "install", "iteration", "memory", "report", "streams", "trace", "wait"]
