"""What a loop writes over a tensor that it reads last, as Inductor's code does.

The code of a kernel then has one buffer for both. Inductor decides that while it writes the
code of an order of kernels; its estimate of an order's peak counts both buffers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from torch._inductor import config, ir
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.virtualized import V

from ._split import inside, units


def overwritten(kernel: Any, result: Callable[[str], bool]) -> list[tuple[str, list[str]]]:
    """Return the names of a kernel's buffers that its loops may write over others, with the names of those.

    Such a buffer is of the same size, and read at the same places by one loop alone, or before it
    in the same kernel. Whether another kernel still reads it depends on the order. result says
    whether a buffer is one of the graph's results.
    """
    if not config.inplace_buffers or config.combo_kernels or not V.graph.has_feature(kernel.get_device(), BackendFeature.INPLACE_BUFFERS):
        return []
    several = units(kernel)
    if len(several) != 1 or any(not _loop(n) for n in several[0]):
        return []
    removed = {b.get_name() for b in inside(kernel)}
    found = []
    for loop in several[0]:
        # Inductor takes the first that it can. What a loop before makes for this one alone has no buffer, but takes one then.
        reads = itertools.takewhile(lambda name: name not in removed, [d.name for d in loop.read_writes.reads])
        inputs = [a for name in reads for a in [loop.scheduler.name_to_buf.get(name)] if a is not None and not result(name)]
        for b in loop.get_outputs():
            if b.get_name() not in removed and _allocated(b):
                others = [a for a in inputs if _allocated(a) and _same_size(a, b) and _last(a, loop, several[0])]
                if others:
                    found.append((b.get_name(), [a.get_name() for a in others]))
    return found


def _loop(node: Any) -> bool:
    from torch._inductor.scheduler import SchedulerNode

    return type(node) is SchedulerNode and not node.is_template()


def _allocated(b: Any) -> bool:
    """Whether a buffer is one that Inductor's code allocates by itself, and may give away."""
    node = b.node
    if not isinstance(node, (ir.ComputedBuffer, ir.ExternKernelOut)) or type(node.get_output_spec()) is not ir.FixedLayout:
        return False
    if any(b.get_name() in getattr(V.graph, kept, ()) for kept in ("never_reuse_buffers", "never_reuse_but_free_buffers", "removed_buffers")):
        return False
    return bool(node.should_allocate()) and not node.get_inputs_that_alias_output() and not node.get_mutation_names()


def _same_size(a: Any, b: Any) -> bool:
    from torch._inductor.codegen.wrapper import can_match_buffer_size

    return a.mpi_buffer.size_free == a.mpi_buffer.size_alloc == b.mpi_buffer.size_alloc > 0 and bool(can_match_buffer_size(a.node, b.node))


def _last(a: Any, loop: Any, several: list[Any]) -> bool:
    """Whether the loops of a kernel read a buffer at one place, and but for one of them before that one.

    What only has to run behind the buffer counts for Inductor as a reader, and for the account not.
    """
    uses = [u for u in a.users if u.node is loop]
    if len(uses) != 1 or not uses[0].can_inplace or any(u.is_weak and u.node.get_name() not in loop.ancestors for u in a.users):
        return False
    within = [n for n in several if n is not loop and any(u.node is n for u in a.users)]
    places = {d for n in (*within, loop) for d in n.read_writes.reads_and_writes() if d.name == a.get_name()}
    return len(places) == 1 and all(n.get_name() in loop.ancestors for n in within)
