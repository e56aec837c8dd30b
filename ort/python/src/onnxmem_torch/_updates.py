"""Updates of parameters within the backward pass, so that gradients die at their update.

A joint graph ends with the gradients of all parameters, which are there at once. Here each
gets an operator behind it that runs the optimizer's own step for that one parameter; the
gradient is no result any more. ``optimizer.step()`` then finds no gradients of these
parameters, and is still called: it ends the step.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Optional

import torch
from torch import fx

from ._step import tangent
from ._storages import BLOCK, identity, nbytes

#: The optimizers whose step treats each parameter by itself.
OPTIMIZERS = ("SGD", "Adam", "AdamW")

#: The options of a group that decide its updates' workspaces.
_DECIDES = ("weight_decay", "maximize", "nesterov", "fused", "decoupled_weight_decay")

_library = torch.library.Library("onnxmem", "DEF")
_library.define("update(Tensor(a!) parameter, Tensor gradient) -> ()")


def _run(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    """Update the parameter whose memory this is."""
    for updates in list(_all):
        found = updates.of(parameter)
        if found is not None:
            updates.update(*found, gradient)
            return
    raise RuntimeError("onnxmem_torch: a parameter was moved, or its optimizer is gone: compile the model again")


_library.impl("update", _run, "CompositeExplicitAutograd")
_library.impl("update", lambda parameter, gradient: None, "Meta")

_all: weakref.WeakSet[Updates] = weakref.WeakSet()


class Updates:
    """The updates of an optimizer's parameters."""

    def __init__(self, optimizer: Any) -> None:
        check(optimizer, "updates=False leaves its step apart")
        self.optimizer = optimizer
        self._places: dict[tuple[int, torch.Size], tuple[dict[str, Any], Any]] = {}
        #: What was updated since the last step of the optimizer.
        self._done: set[Any] = set()
        # The optimizer keeps this object by its hooks, and so the registration.
        optimizer.register_step_pre_hook(self._before)
        optimizer.register_step_post_hook(self._after)
        _all.add(self)

    @staticmethod
    def of_optimizer(optimizer: Any) -> Updates:
        """Return the updates of an optimizer, of which there is one object for all graphs."""
        return next((u for u in _all if u.optimizer is optimizer), None) or Updates(optimizer)

    def of(self, parameter: torch.Tensor) -> Optional[tuple[dict[str, Any], Any]]:
        """Return the group and the parameter that lie in a tensor's memory."""
        place = (parameter.data_ptr(), parameter.shape)
        found = self._places.get(place)
        if found is None or found[1].data_ptr() != place[0]:
            self._places = {(p.data_ptr(), p.shape): (g, p) for g in self.optimizer.param_groups for p in g["params"]}
            found = self._places.get(place)
        return found

    def update(self, group: dict[str, Any], parameter: Any, gradient: torch.Tensor) -> None:
        """Run the optimizer's step for one parameter."""
        if parameter in self._done:
            raise RuntimeError(
                "onnxmem_torch: a parameter would be updated twice between two steps of the optimizer: "
                "it is in several compiled graphs, or gradients are accumulated: expected updates=False"
            )
        if parameter.grad is not None:
            raise RuntimeError("onnxmem_torch: a parameter has a gradient already: expected zero_grad() before, or updates=False")
        self._done.add(parameter)
        # The same object to its step, but for one parameter, and without hooks.
        one = object.__new__(type(self.optimizer))
        one.__dict__.update(self.optimizer.__dict__)
        one.param_groups = [{**group, "params": [parameter]}]
        one._optimizer_step_pre_hooks = OrderedDict()
        one._optimizer_step_post_hooks = OrderedDict()
        parameter.grad = gradient
        try:
            type(self.optimizer).step(one)
        finally:
            parameter.grad = None

    def _before(self, *_: Any) -> None:
        for parameter in self._done:
            if parameter.grad is not None:
                raise RuntimeError("onnxmem_torch: a parameter that was updated has another gradient: it is used outside of the graph, too: expected updates=False")

    def _after(self, *_: Any) -> None:
        self._done.clear()

    def key(self) -> str:
        """Return what the updates of the graph that is compiled now depend on: which of its inputs are whose, and their workspaces."""
        groups = [({k: g[k] for k in _DECIDES if k in g}, [_place(p) for p in g["params"]]) for g in self.optimizer.param_groups]
        return f"{type(self.optimizer).__name__} {groups}"

    def insert(self, graph: fx.Graph, num_fwd_outputs: int) -> int:
        """Let a joint graph update its parameters; return how many of them."""
        inputs = [n for n in graph.nodes if n.op == "placeholder" and not tangent(n)]
        return insert(graph, num_fwd_outputs, self.optimizer, self._known(inputs))

    def _known(self, inputs: list[fx.Node]) -> dict[fx.Node, Any]:
        """Return the optimizer's parameters among the inputs of a graph, found by their fake tensors."""
        values = [n.meta.get("val") for n in inputs]
        mode = next((v.fake_mode for v in values if hasattr(v, "fake_mode")), None)
        if mode is None:
            return {}
        places: dict[object, list[fx.Node]] = {}
        for n, v in zip(inputs, values):
            if isinstance(v, torch.Tensor):
                places.setdefault(identity(v), []).append(n)
        known: dict[fx.Node, Any] = {}
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                fake = mode.from_tensor(p, static_shapes=True)
                nodes = places.get(identity(fake), [])
                if len(nodes) == 1 and nbytes(fake) == nbytes(nodes[0].meta["val"]) and fake.shape == nodes[0].meta["val"].shape:
                    known[nodes[0]] = p
        return known


def _place(parameter: Any) -> str:
    """Return where the function that is compiled now has a parameter, such as "L['self'].weight"; empty if it has not.

    Once its forward pass is compiled, no place is known any more: from then on the graph that is
    compiled has the updates in it.
    """
    context = torch._guards.TracingContext.try_get()
    found = context.tensor_to_context.get(parameter) if context is not None else None
    source = getattr(found, "tensor_source", None)
    return "" if source is None else str(source.name)


def supported(optimizer: Any) -> bool:
    """Whether an optimizer's step treats each parameter by itself."""
    return type(optimizer).__name__ in OPTIMIZERS and type(optimizer).__module__.split(".")[0] == "torch"


def check(optimizer: Any, instead: str) -> None:
    """Raise ValueError for an optimizer that is not supported; instead says what else there is."""
    if not supported(optimizer):
        raise ValueError(f"optimizer {type(optimizer).__name__}: expected one of {', '.join(OPTIMIZERS)}; {instead}")


def lower() -> None:
    """Tell Inductor that what reads a parameter is computed before its update.

    It gives an operator that it does not know its place among the kernels before it looks what else
    reads the tensors that the operator writes; what is not in memory by then would read the new numbers.
    """
    from torch._inductor import lowering
    from torch._inductor.virtualized import V

    target = torch.ops.onnxmem.update.default
    if target in lowering.lowerings:
        return
    update = lowering.fallback_handler(target)

    def lowered(parameter: Any, gradient: Any) -> Any:
        parameter.realize()
        V.graph.mark_buffer_mutated(parameter.get_name())
        return update(parameter, gradient)

    lowering.register_lowering(target, type_promotion_kind=None)(lowered)


def workspace(optimizer: Any, group: Mapping[str, Any], parameter: torch.Tensor) -> int:
    """Return the bytes that a parameter's update needs for the time of its run."""
    if group.get("fused"):
        return 0
    count = bool(group["weight_decay"]) + bool(group.get("maximize"))
    if type(optimizer).__name__ == "SGD":
        count += bool(group["nesterov"])
    else:
        decoupled = type(optimizer).__name__ == "AdamW" or group.get("decoupled_weight_decay")
        count += 2 - (bool(group["weight_decay"]) and bool(decoupled))
    size: int = parameter.numel() * parameter.element_size()
    return count * -(-size // BLOCK) * BLOCK


def insert(graph: fx.Graph, num_fwd_outputs: int, optimizer: Any, known: Mapping[fx.Node, Any]) -> int:
    """Let a joint graph update those inputs that are known parameters; return how many of them.

    A parameter whose gradient is returned to another place, or that is not the
    optimizer's, stays as it is.
    """
    inputs = [n for n in graph.nodes if n.op == "placeholder" and not tangent(n)]
    output = graph.output_node()
    results = list(output.args[0])
    gradients = results[num_fwd_outputs:]
    if len(inputs) != len(gradients):
        return 0
    groups = {id(p): g for g in optimizer.param_groups for p in g["params"]}
    count = 0
    for k, (primal, gradient) in enumerate(zip(inputs, gradients)):
        parameter = known.get(primal)
        if id(parameter) not in groups or not isinstance(gradient, fx.Node):
            continue
        with graph.inserting_before(output):
            node = graph.call_function(torch.ops.onnxmem.update.default, (primal, gradient))
        size = workspace(optimizer, groups[id(parameter)], parameter)
        node.meta = {"val": None, "partitioner_tag": "must_be_in_backward", "onnxmem_workspace": size}
        results[num_fwd_outputs + k] = None
        count += 1
    output.args = (tuple(results),)
    return count
