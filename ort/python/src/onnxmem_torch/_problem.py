"""``problem``: a step of a model as the bare problem that ``onnxmem order`` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch

from ._costs import device_of, named, seconds
from ._fake import module_of
from ._prepare import dropouts, halve, prepare
from ._step import Step, Unsupported
from ._storages import BLOCK, Owner, concrete, elements, nbytes, tensors
from ._trace import Joint, joint, where
from ._updates import check, insert
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
        check(optimizer, "without optimizer=, the step leaves its gradients")
        if not traced.training:
            raise ValueError(f"optimizer {type(optimizer).__name__}: expected a training step, found inference")
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
    optimizer: Optional[Any] = None,
    inplace: bool = False,
    align: int = BLOCK,
) -> dict[str, Any]:
    """Return a step of a model as a bare problem of nodes and tensors.

        json.dump(onnxmem_torch.problem(model, (x, y)), open("step.json", "w"))

    ``onnxmem order``, ``explain``, ``compare`` and ``check`` read it. Each kernel is a node,
    called by its operator, module and line of source; each storage is a tensor, its bytes
    rounded up to align. The node "boundary" stands between the forward and the backward
    pass. Parameters and inputs are resident and have the model's names. With an optimizer,
    each parameter is updated in place. inplace lists the operands that elementwise results
    may overwrite. The other arguments are those of ``estimate`` and ``frontier``.
    """
    traced = joint(model, inputs, kwargs, loss=loss, training=training, device=device)
    step = step_of(traced, updates=None if optimizer is None else (optimizer, module_of(model)), on=on)
    return named_problem(traced, step, name or type(model).__name__, inplace, align)


def named_problem(traced: Joint, step: Step, name: str, inplace: bool, align: int) -> dict[str, Any]:
    """Return the problem of a step in program order, by the names of its model."""
    made = {**step.problem(name), "nodes": [dict(n) for n in step.nodes], "tensors": [dict(t) for t in step.tensors]}
    for node, kernel in zip(made["nodes"], step.kernels):
        place = where(kernel)
        node["name"] = f"{kernel.name} ({place})" if place else kernel.name
    for owner, i in step.tensor.items():
        tensor = made["tensors"][i]
        value = tensors(owner[0])[owner[1]]
        assert value is not None
        tensor["bytes"] = nbytes(value, align)
        title = traced.titles.get(owner[0].name)
        if title:
            tensor["name"] = title
            tensor["kind"] = {"parameter": "parameter", "buffer": "state"}.get(traced.kinds[owner[0].name], "input")
        if inplace and (found := _operands(step, owner)):
            tensor["reuses"] = found
    return _in_order(made, step) if traced.training else _forward(made, step)


def _operands(step: Step, owner: Owner) -> list[int]:
    """Return the tensors that an elementwise result may overwrite.

    They are made by kernels, have the same elements at the same places, and are read in this layout alone.
    """
    node = owner[0]
    result = node.meta.get("val")
    if not isinstance(result, torch.Tensor) or torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return []
    if elements(result) * result.element_size() != nbytes(result, 1):
        return []
    layouts: dict[Owner, set[Any]] = {}
    for m in node.all_input_nodes:
        for value, source in zip(tensors(m), step.storages.owners[m]):
            if value is not None and source is not None:
                layouts.setdefault(source, set()).add(_layout(value))
    made = {o: step.tensors[step.tensor[o]]["producer"] for o in layouts}
    return [step.tensor[o] for o, found in layouts.items() if 0 <= made[o] < step.boundary and found == {_layout(result)}]


def _layout(tensor: torch.Tensor) -> Any:
    return tensor.element_size(), tuple(map(concrete, tensor.shape)), tensor.stride(), tensor.storage_offset(), nbytes(tensor, 1)


def before_boundary(step: Step) -> set[int]:
    """Return the kernels that run before the backward pass begins, by index."""
    needs: dict[int, list[int]] = {}
    for t in step.tensors:
        for v in t["consumers"]:
            needs.setdefault(v, []).append(t["producer"])
    stack, found = [step.boundary], {-1}
    while stack:
        for p in needs.get(stack.pop(), []):
            if p not in found:
                found.add(p)
                stack.append(p)
    return found - {-1}


def _in_order(made: dict[str, Any], step: Step) -> dict[str, Any]:
    """Return a problem with its nodes in program order: the boundary behind what it needs."""
    ahead = before_boundary(step)
    order = sorted(range(len(made["nodes"])), key=lambda v: (v not in ahead, v != step.boundary, v))
    place = {v: k for k, v in enumerate(order)}
    for t in made["tensors"]:
        t["producer"] = place.get(t["producer"], -1)
        t["consumers"] = sorted(place[v] for v in t["consumers"])
    return {**made, "nodes": [made["nodes"][v] for v in order]}


def _forward(made: dict[str, Any], step: Step) -> dict[str, Any]:
    """Return a problem of inference: there is no boundary, and nothing behind it."""
    kept = [t for t in made["tensors"] if t["producer"] != step.boundary]  # controls stand behind all others
    for t in kept:
        t["consumers"] = [v for v in t["consumers"] if v != step.boundary]
    return {**made, "mode": "inference", "nodes": made["nodes"][: step.boundary], "tensors": kept}
