# mypy: disable-error-code="import-not-found, import-untyped"
"""The memory of ExecuTorch's programs, planned by onnxmem.

    from executorch.exir import ExecutorchBackendConfig, to_edge
    import onnxmem.executorch

    config = ExecutorchBackendConfig(memory_planning_pass=onnxmem.executorch.memory_planning())
    program = to_edge(torch.export.export(model, inputs)).to_executorch(config)

memory_planning() is ExecuTorch's pass with two changes: the nodes are put into an order of
small peak first, and the tensors are packed by onnxmem next to ExecuTorch's own algorithm, of
which the smaller plan is taken. The parts are there alone, too: algorithm is one for
MemoryPlanningAlgorithmSuite, and order a pass for ``passes=[...]``, for programs whose memory
another pass plans.

The package executorch is imported when a function is called.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ._calls import pack
from ._graph import Planned, reordered, settle

__all__ = ["algorithm", "memory_planning", "order"]


def memory_planning(*, order_nodes: bool = True, **options: Any) -> Any:
    """Return a memory planning pass for ``ExecutorchBackendConfig(memory_planning_pass=...)``.

    options are those of ExecuTorch's MemoryPlanningPass, such as ``alloc_graph_input=False``
    or ``alignment=64``. Without order_nodes, the nodes keep their order.

    ``exported_program().graph_module.meta["onnxmem"]`` of the program says what was found, in
    bytes: ``buffers``, the arena of each with a lower bound for this order (without one if
    memory of several devices is planned), and ``order``, the peaks of the order before and
    after with a lower bound for all orders, None if there are several nodes of control flow, or if
    one of the inputs, which are planned, changes and results are not planned: these programs
    keep their order.
    """
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy

    options.setdefault("memory_planning_algo", MemoryPlanningAlgorithmSuite([greedy, algorithm]))
    return _planning()(order_nodes, **options)


def order(graph_module: Any) -> Any:
    """Put the nodes of a graph into the order of the smallest peak that is found: a pass.

    Placeholders and outputs keep their places, and so do nodes that write to what others
    read, draw random numbers, call a delegate or have another effect, among each other. A
    graph with several nodes of control flow keeps its order, because their results lie in
    memory that they share.

    In ``passes=[onnxmem.executorch.order]``, which run before ExecuTorch knows which inputs are
    weights, inputs count as if they were held throughout.
    """
    from torch.fx.passes.infra.pass_base import PassResult

    return PassResult(graph_module, reordered(graph_module)[0])


def algorithm(
    alignment: int,
    specs: Iterable[Any],
    graph_module: Any,
    graph_signature: Any,
    extra_padding: int = 0,
) -> Any:
    """Place tensors: an algorithm for ExecuTorch's MemoryPlanningAlgorithmSuite.

    specs are TensorSpecs with lifetimes, whose two ends are inclusive. Those of one mem_id
    share a buffer, above what the bodies of control flow need there; a spec within the
    storage of another lies where that one does. Sizes and offsets are multiples of alignment.
    ``graph_module.meta["onnxmem"]["buffers"]`` then has the sizes of this plan.
    """
    from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult

    buffers: dict[int, list[Any]] = defaultdict(list)
    backed = []
    for spec in specs:
        spec.realign(alignment)
        if spec.storage_base is None:
            buffers[1 if spec.mem_id is None else spec.mem_id].append(spec)
        else:
            backed.append(spec)
    below = getattr(graph_module, "input_mem_buffer_sizes", None) or []
    sizes = [0] * (max(buffers, default=1) + 1)
    places: dict[Any, Any] = {}
    figures = []
    for mem_id, members in buffers.items():
        start = -(-below[mem_id] // alignment) * alignment if len(below) > mem_id else 0
        offsets, found = _packed(members, alignment)
        for spec, offset in zip(members, offsets, strict=True):
            # One object: in the arena, any two tensors may lie in the same bytes.
            places[spec] = SpecAllocResult(mem_id, 0, start + offset)
        sizes[mem_id] = start + found["arena_bytes"] + extra_padding
        figures.append({"mem_id": mem_id, **{k: start + v for k, v in found.items()}})
    for spec in backed:
        root, offset = spec, 0
        while root.storage_base is not None:
            root, offset = root.storage_base, offset + root.storage_base_offset
        if root not in places:
            raise ValueError(f"{spec}: expected the storage that it lies in among those to place")
        at = places[root]
        places[spec] = SpecAllocResult(at.mem_id, at.mem_obj_id, at.mem_offset + offset)
    graph_module.meta.setdefault("onnxmem", {})["buffers"] = figures
    return MemoryAlgoResult(places, sizes)


# A suite keeps results by name and logs that of the best.
algorithm.__name__ = "onnxmem"


def _packed(specs: list[Any], alignment: int) -> tuple[list[int], dict[str, int]]:
    """Pack tensors in one arena; return their offsets, and its size with a lower bound in bytes.

    Packing is in units of the alignment, of which all sizes are multiples.
    """
    items = [
        {"id": str(i), "lower": s.lifetime[0], "upper": s.lifetime[1] + 1, "size": s.allocated_memory // alignment}
        for i, s in enumerate(specs)
        if s.allocated_memory
    ]
    offsets = [0] * len(specs)
    if not items:
        return offsets, {"arena_bytes": 0, "lower_bound_bytes": 0}
    found = pack(items)
    for b in found.placed:
        offsets[int(b.id)] = b.offset * alignment
    return offsets, {k: found[k] * alignment for k in ("arena_bytes", "lower_bound_bytes")}


def _correct(found: dict[str, Any], graph_module: Any) -> None:
    """Let the figures be those of the plan that was taken, with the bytes of bodies."""
    sizes = graph_module.meta["non_const_buffer_sizes"]
    if "non_const_buffer_device" in graph_module.meta:  # one call of the algorithm for each device
        found["buffers"] = [{"mem_id": i, "arena_bytes": n} for i, n in enumerate(sizes) if i]
    for b in found.get("buffers", ()):
        b["arena_bytes"] = sizes[b["mem_id"]]
    below = getattr(graph_module, "input_mem_buffer_sizes", None) or []
    bodies = sum(map(min, sizes, below))
    if found.get("order"):
        found["order"] = {k: v + bodies for k, v in found["order"].items()}


@functools.cache
def _planning() -> Any:
    """Return the class of the pass. ExecuTorch's must be there to be derived from."""
    from executorch.exir.passes import MemoryPlanningPass

    class OnnxmemPlanning(MemoryPlanningPass):  # type: ignore[misc, unused-ignore]
        """ExecuTorch's memory planning, after an order of small peak."""

        def __init__(self, order_nodes: bool, **options: Any) -> None:
            super().__init__(**options)
            self.order_nodes = order_nodes

        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            if self.alloc_graph_output:
                settle(graph_module)
            found = graph_module.meta.setdefault("onnxmem", {})
            if self.order_nodes:
                planned = Planned(self.alloc_graph_input, self.alloc_graph_output, self.alloc_mutable_buffers, self.alignment)
                found["order"] = reordered(graph_module, graph_signature, planned)[1]
            result = super().run(graph_module, graph_signature)
            _correct(found, graph_module)
            return result

    return OnnxmemPlanning
