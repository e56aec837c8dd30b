"""The ways to run a step that ``estimate`` compares: PyTorch's partition, the smallest plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

import torch

from ._curve import size
from ._fake import Call, Fakes
from ._lives import forward_load, graph_load, planned_load, title
from ._load import Load
from ._planner import ordered
from ._prepare import prepare
from ._problem import step_of
from ._reserve import Reserve, reserve
from ._step import Step
from ._trace import Joint
from ._workspaces import Workspaces


@dataclass(frozen=True)
class Way:
    """One way to run a step. Sizes are bytes, parameters, inputs and states apart."""

    name: str
    load: Load
    #: What allocators take for it.
    reserve: Reserve
    #: Over the time of all kernels once, in per cent; of the smallest plans.
    extra_percent: float = 0.0
    #: What bounds the peak of all such plans; of the smallest plans.
    least: Optional[Least] = None

    @property
    def peak_bytes(self) -> int:
        """The most that is live at once."""
        return self.load.peak_bytes


@dataclass(frozen=True)
class Least:
    """What bounds the peak of every plan of a step, in any order and with any recomputation."""

    #: Proven: no plan has a smaller peak. Parameters, inputs and states apart.
    bytes: int
    #: The step that needs as much, and what it must hold besides its own results, the largest first.
    where: str
    tensors: list[tuple[str, int]]

    def __str__(self) -> str:
        names = ", ".join(f"{name} ({size(n)})" for name, n in self.tensors[:3])
        more = f" and {len(self.tensors) - 3} more" if len(self.tensors) > 3 else ""
        return f"no plan takes less than {size(self.bytes)}: {self.where}{': ' + names if names else ''}{more}"


def compiled(traced: Joint, update: Load, workspaces: Optional[Workspaces]) -> Way:
    """Return the graphs of PyTorch's min-cut with the update of eager PyTorch; of inference the graph as it was traced."""
    if not traced.training:
        if workspaces is not None:
            workspaces.mark(traced.module.graph)
        load = forward_load(traced.module, "the graph as it was traced")
        return Way("compiled", load, reserve(load))
    from functorch.compile import min_cut_rematerialization_partition

    whole = torch.fx.GraphModule(traced.module, prepare(traced.module.graph, traced.num_fwd_outputs))
    with torch._guards.tracing(torch._guards.TracingContext(traced.mode)):
        forward, backward = min_cut_rematerialization_partition(
            whole, (), num_fwd_outputs=traced.num_fwd_outputs, static_lifetime_input_indices=traced.static
        )
    if workspaces is not None:
        workspaces.mark(forward.graph)
        workspaces.mark(backward.graph)
    how = "PyTorch's min-cut, kernels as ATen has them; fused kernels take at most this"
    load = graph_load(forward, backward, traced.num_fwd_outputs, how).followed(update)
    return Way("compiled", load, reserve(load))


def inductor(model: Any, call: Call, loss: Any, fakes: Fakes, update: Load, workspaces: Optional[Workspaces]) -> Way:
    """Return Inductor's kernels of a training step without a limit."""
    from ._inductor import fused

    load = fused(model, call, loss, fakes, workspaces).followed(update)
    return Way("inductor", load, reserve(load))


def smallest(traced: Joint, update: Load, workspaces: Optional[Workspaces], effort: str, on: Optional[str]) -> Way:
    """Return the smallest plan, with the update of eager PyTorch."""
    step = step_of(traced, workspaces, on=on)
    return _smallest("smallest", step, "the plan with the smallest peak that was found", effort, update)


def updates(traced: Joint, model: Any, optimizer: Any, workspaces: Optional[Workspaces], effort: str, on: Optional[str]) -> Way:
    """Return the smallest plan of a step that updates each parameter within its backward pass."""
    step = step_of(traced, workspaces, (optimizer, model), on)
    return _smallest("updates", step, "the smallest plan with each parameter updated where its gradient is made", effort)


def _smallest(name: str, step: Step, how: str, effort: str, update: Optional[Load] = None) -> Way:
    found = ordered(step.problem(), "--least", f"--effort={effort}")
    load = planned_load(step, found["steps"], how)
    load = load.followed(update) if update is not None else load
    return Way(name, load, reserve(load), found["extra_cost_percent"] or 0.0, bound(step, found["least"]))


def bound(step: Step, found: Mapping[str, Any]) -> Least:
    """Return the bound of a step's peak in the words of its model."""
    names = {i: step.tensors[i]["name"] for i in found["tensors"]}
    for owner, i in step.tensor.items():
        if i in names:
            names[i] = title(owner[0]) if owner[0].op == "call_function" else names[i]
    places = {"start": "the first step holds all inputs", "end": "the end of the backward pass holds all gradients and results"}
    node = found.get("node")
    where = places.get(found["at"]) or ("the end of the forward pass" if node == step.boundary else f"{title(step.kernels[node])} and what it needs" if node is not None else "")
    if found["at"] == "way":
        where = f"the way to {where or 'the end of the backward pass'}"
    return Least(found["lower_bound_bytes"], where, [(names[i], step.tensors[i]["bytes"]) for i in found["tensors"] if step.tensors[i]["bytes"]])
