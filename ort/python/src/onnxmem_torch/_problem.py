"""``problem``: a step of a model as the bare problem that ``onnxmem order`` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch

from ._costs import device_of, named, seconds
from ._prepare import dropouts, halve, prepare
from ._step import Step, Unsupported
from ._trace import Joint, joint, where
from ._updates import insert
from ._workspaces import Workspaces


def step_of(
    traced: Joint, workspaces: Optional[Workspaces] = None, updates: Optional[tuple[Any, Any]] = None, on: Optional[str] = None
) -> Step:
    """Return a traced training step with dropouts in two, so that their products may run again.

    updates are an optimizer and the model, whose parameters are updated within the backward pass.
    on names the device whose times are taken; by default it is that of the tensors.
    """
    graph = prepare(traced.module.graph, traced.num_fwd_outputs)
    names = [n.name for n in dropouts(graph)]
    graph = halve(graph, names) if names else graph
    if workspaces is not None:
        workspaces.mark(graph)
    if updates is not None:
        optimizer, model = updates
        owned = dict(model.named_parameters())
        known = {n: owned[title] for n in graph.find_nodes(op="placeholder") if (title := traced.titles.get(n.name, "")) in owned}
        if not insert(graph, traced.num_fwd_outputs, optimizer, known):
            raise Unsupported("none of the optimizer's parameters is an input of this graph")
    device = device_of(graph) if on is None else named(on)
    return Step(graph, traced.num_fwd_outputs, lambda node: seconds(node, device))


def problem(
    model: Any,
    inputs: Any,
    *,
    kwargs: Optional[Mapping[str, Any]] = None,
    loss: Optional[Callable[[Any], torch.Tensor]] = None,
    training: Optional[bool] = None,
    device: Optional[Any] = None,
    name: Optional[str] = None,
    on: Optional[str] = None,
) -> dict[str, Any]:
    """Return a step of a model as a bare problem of nodes and tensors.

        json.dump(onnxmem_torch.problem(model, (x, y)), open("step.json", "w"))

    ``onnxmem order``, ``explain``, ``compare`` and ``check`` read it. Each kernel is a node,
    called by its operator, module and line of source; each storage is a tensor. The node
    "boundary" stands between the forward and the backward pass. Parameters and inputs are
    resident and have the model's names. The arguments are those of ``estimate`` and ``frontier``.
    """
    traced = joint(model, inputs, kwargs, loss=loss, training=training, device=device)
    step = step_of(traced, on=on)
    made = step.problem(name or type(model).__name__)
    if not traced.training:
        made = _forward(made, step)
    for node, kernel in zip(made["nodes"], step.kernels):
        place = where(kernel)
        node["name"] = f"{kernel.name} ({place})" if place else kernel.name
    for owner, i in step.tensor.items():
        title = traced.titles.get(owner[0].name)
        if title:
            made["tensors"][i]["name"] = title
            made["tensors"][i]["kind"] = {"parameter": "parameter", "buffer": "state"}.get(traced.kinds[owner[0].name], "input")
    return made


def _forward(made: dict[str, Any], step: Step) -> dict[str, Any]:
    """Return a problem of inference: there is no boundary, and nothing behind it."""
    for t in made["tensors"]:
        t["consumers"] = [v for v in t["consumers"] if v != step.boundary]
    return {**made, "mode": "inference", "nodes": made["nodes"][: step.boundary]}
