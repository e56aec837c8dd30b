"""Inductor's kernels of a step, before it is compiled: lowered on fake tensors, fused and ordered.

Both graphs go through Inductor up to the order of its fused kernels; no code is made. The
bytes are those of its own account of buffers. The step is min-cut's, without a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional, TypeVar

import torch
from torch import fx
from torch._inductor import memory
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from ._fake import Call, Fakes
from ._lives import title
from ._load import Block, Load
from ._prepare import copied
from ._scheduler import Account, Problem, output_names
from ._step import Unsupported, behind
from ._storages import concrete, nbytes
from ._trace import by_dynamo
from ._workspaces import Workspaces

Found = TypeVar("Found")


class _Stop(Exception):
    """Ends the lowering once the kernels are there."""


class _Parts(CustomPartitionerFn):
    """A partitioner that keeps min-cut's two graphs as Inductor would get them."""

    def __init__(self) -> None:
        self.found: Optional[tuple[fx.GraphModule, fx.GraphModule]] = None
        #: How many results of the first graph are the model's.
        self.count = 0

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], *, num_fwd_outputs: int, **more: Any) -> Any:
        from functorch.compile import min_cut_rematerialization_partition

        self.found = min_cut_rematerialization_partition(gm, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
        self.count = num_fwd_outputs
        raise _Stop

    def uuid(self) -> Any:
        return None

    def backend(self) -> Any:
        """Return Inductor with this partitioner, as a backend of torch.compile."""
        from torch._inductor.compile_fx import compile_fx

        return partial(compile_fx, config_patches={"custom_partitioner_fn": self})


@dataclass
class _Kernels:
    """The kernels of one graph in Inductor's order, with the names of its results."""

    titles: list[str]
    #: The keys of their workspaces.
    workspaces: list[str]
    #: Name, bytes, first and last step; the first is -1 of an input, the last None of a result.
    buffers: list[tuple[str, int, int, Optional[int]]]
    results: list[str]
    #: The strides of the results; None of those that are no tensors.
    strides: list[Optional[list[int]]]
    #: The last step that reads a tensor, by its name.
    read: dict[str, int]


def fused(model: Any, call: Call, loss: Optional[Callable[[Any], torch.Tensor]], fakes: Fakes, workspaces: Optional[Workspaces]) -> Load:
    """Return the load of the kernels of a training step. Unsupported says why there is none."""
    parts = _Parts()
    try:
        by_dynamo(model, call, loss, fakes, parts)
        if parts.found is None:
            raise Unsupported("Inductor got no graph of a forward and a backward pass")
        forward, backward = parts.found
        look = partial(_kernels, workspaces=workspaces)
        ahead = lower(forward, False, (), look)
        after = lower(backward, True, ahead.strides[parts.count :], look)
    except Unsupported:
        raise
    except Exception as e:  # of any part of Inductor
        text = str(e).strip().partition("\n")[0]
        raise Unsupported(f"Inductor does not lower this step: {type(e).__name__}{': ' if text else ''}{text}") from e
    inputs = [n.name for n in backward.graph.find_nodes(op="placeholder") if not behind(n)]
    load = _load(ahead, after, parts.count, inputs, _cloned(forward, after.strides))
    return load if workspaces is None else load.beside(workspaces.sizes(ahead.workspaces + after.workspaces))


def _cloned(forward: fx.GraphModule, strides: Sequence[Optional[list[int]]]) -> int:
    """Return the bytes of the largest gradient that has not the layout of its parameter, but strides; 0 if all have.

    Autograd copies one of these after the other, once the backward pass has made them all.
    """
    parameters = [n.meta["val"] for n in forward.graph.find_nodes(op="placeholder")]
    pairs = [(p, s) for p, s in zip(parameters, strides) if isinstance(p, torch.Tensor) and s is not None and len(s) == p.dim()]
    return max((nbytes(p) for p, s in pairs if any(concrete(d) > 1 and concrete(a) != b for d, a, b in zip(p.shape, p.stride(), s))), default=0)


def _load(ahead: _Kernels, after: _Kernels, count: int, inputs: list[str], cloned: int) -> Load:
    """Return the load of both graphs, and of what autograd copies behind them, in bytes.

    count results of the first are the model's; inputs are those of the second that it hands over.
    """
    titles = ahead.titles + after.titles + (["a gradient's copy in the layout of its parameter"] if cloned else [])
    boundary, end = len(ahead.titles), len(titles) - 1
    handed = dict(zip(inputs, ahead.results[count:]))
    returned, given = set(ahead.results[:count]), set(ahead.results[count:])
    blocks: list[Block] = []
    # A copy of a parameter, in the layout that convolutions want, has the parameter's name behind the boundary.
    known = {b[0] for b in after.buffers}
    copies = {made_by: name for name, made_by in handed.items() if name not in known}
    # Both graphs number their buffers from 0.
    made: dict[str, int] = {}
    for name, size, first, last in ahead.buffers:
        made[name] = len(blocks)
        stop = boundary - 1 if last is None else last
        if name in given:  # what no kernel reads is in the caller's hands to the end
            stop = boundary + after.read.get(copies[name], len(after.titles) - 1) if name in copies else boundary
        blocks.append(Block(ahead.titles[max(first, 0)], size, max(first, 0), end if name in returned else stop))
    later: dict[str, int] = {}
    for name, size, first, last in after.buffers:
        stop = end if last is None else boundary + last
        if first < 0 and handed.get(name) in made:
            block = blocks[made[handed[name]]]
            block.last = max(block.last, stop)
        elif first < 0 and name not in handed:
            blocks.append(Block("the loss's gradient", size, boundary, stop))
        elif first >= 0:
            later[name] = len(blocks)
            blocks.append(Block(after.titles[first], size, boundary + first, stop))
    if cloned:
        blocks.append(Block(titles[end], cloned, end, end))
    load = Load(titles, blocks, boundary, end + 1, "Inductor's kernels by its own account, of min-cut's graphs")
    return load.name([later[n] for n in after.results if n in later], [made[n] for n in ahead.results[:count] if n in made])


def lower(gm: fx.GraphModule, backward: bool, strides: Sequence[Optional[list[int]]], look: Callable[[list[Any]], Found]) -> Found:
    """Lower a graph of fake tensors up to Inductor's fused kernels; return what look finds in them.

    strides are those of the graph's first inputs, where they are known.
    """
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner

    found: list[Found] = []

    def stop(nodes: list[Any]) -> list[Any]:
        found.append(look(nodes))
        raise _Stop

    inputs = [n.meta["val"] for n in gm.graph.find_nodes(op="placeholder")]
    mode = next(x.fake_mode for x in inputs if isinstance(x, torch.Tensor))
    with config.patch(_post_fusion_custom_pass=stop, fx_graph_cache=False), torch._guards.tracing(torch._guards.TracingContext(mode)), mode:
        inputs[: len(strides)] = [x if s is None else x.new_empty_strided(x.size(), s) for x, s in zip(inputs, strides)]
        try:
            compile_fx_inner(fx.GraphModule(gm, copied(gm.graph)), inputs, is_backward=backward)
        except Exception:
            if not found:
                raise
    if not found:
        raise Unsupported(f"the graph of the {'backward' if backward else 'forward'} pass has no kernels")
    return found[0]


def _kernels(nodes: list[Any], workspaces: Optional[Workspaces]) -> _Kernels:
    scheduler, outputs = nodes[0].scheduler, OrderedSet(V.graph.get_output_names())
    inputs = OrderedSet(V.graph.graph_inputs.keys())
    order = memory.reorder_for_peak_memory(nodes, scheduler.name_to_buf, scheduler.name_to_fused_node, inputs, outputs)
    account = Account()
    problem = Problem(nodes, account.prepare(nodes), account.outputs)
    index = {n: i for i, n in enumerate(nodes)}
    step = {index[n]: s for s, n in enumerate(order)}
    buffers: list[tuple[str, int, int, Optional[int]]] = []
    for b in problem.buffers:
        first = step.get(b.maker, -1)
        last = None if b.output else max((step[r] for r in b.readers), default=max(first, 0))
        buffers.append((b.name, b.size, first, last))
    origins = [_origins(n) for n in order]
    titles = [title(o[-1]) if o else "a copy in another layout" for n, o in zip(order, origins)]
    keys = [workspaces.of(o[-1]) if workspaces is not None and n.is_extern() and o else "" for n, o in zip(order, origins)]
    read = {d.name: s for s, n in enumerate(order) for d in n.read_writes.reads}
    return _Kernels(titles, keys, buffers, output_names(), result_strides(), read)


def result_strides() -> list[Optional[list[int]]]:
    """Return the strides of the results of the graph that is being lowered; None of those that are no tensors."""
    return [list(map(int, x.get_stride())) if x.has_tensor_output() else None for x in V.graph.graph_outputs]


def _origins(node: Any) -> list[fx.Node]:
    """Return the operators of a kernel that are noted, in their order."""
    found = {o for n in node.get_nodes() if n.node is not None for o in n.node.get_origins() if o.op == "call_function"}
    return sorted(found)
