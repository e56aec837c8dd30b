"""A training step as a bare problem of ``onnxmem order``: forward and backward in one.

Each kernel of the joint graph is a node, each storage a tensor. One node more, the
*boundary*, reads all results of the forward pass and makes the tangents. What a schedule has
before it is the forward graph, what stands behind it the backward graph; a tensor that was
made before and is read behind is saved, and a kernel that stands on both sides runs again.
So the peak of a schedule is that of the step, gradients included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Optional, Union

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy

from ._costs import Device, device_of, seconds
from ._storages import Owner, Storages, impure, nbytes, symbolic, tensors, writes, written

#: Arguments that a kernel reads for results alone that are never needed from a repetition:
#: BatchNorm reads its running statistics only for their next values.
_STATISTICS = {
    "aten::_native_batch_norm_legit_functional": (3, 4),
    "aten::_batch_norm_with_update_functional": (3, 4),
}


class Unsupported(Exception):
    """The graph has something that is not planned; PyTorch's partitioner takes it."""


def tangent(node: fx.Node) -> bool:
    """Whether a node is an input of the backward pass alone: the gradient of a result."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def seed(node: fx.Node, part: str) -> bool:
    """Whether a node is the state of a random generator for a part, "fwd" or "bwd"."""
    target = str(node.target)
    return node.op == "placeholder" and (f"{part}_seed" in target or f"{part}_base_offset" in target)


def backward_state(node: fx.Node) -> bool:
    """Whether a node holds what hooks hand to the backward pass."""
    return node.op == "placeholder" and type(node.meta.get("val")).__name__ == "BackwardState"


def behind(node: fx.Node) -> bool:
    """Whether an input exists only behind the boundary."""
    return tangent(node) or seed(node, "bwd") or backward_state(node)


def random(node: fx.Node) -> bool:
    """Whether a node may draw from a generator: of attention, only with dropout."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    for k, argument in enumerate(node.target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[k] if k < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
            return not (isinstance(given, (int, float)) and given == 0)
    return True


def results(graph: fx.Graph, count: int) -> tuple[list[Any], list[Any]]:
    """Return the results of the forward pass, which are the first of a joint graph, and of the backward pass."""
    outputs = pytree.arg_tree_leaves(*graph.output_node().args)
    return outputs[:count], outputs[count:]


def _nodes(values: Iterable[Any]) -> list[fx.Node]:
    return [v for v in values if isinstance(v, fx.Node)]


def _place(node: fx.Node) -> Optional[str]:
    """Return the part that AOTAutograd says a node belongs to: "forward", "backward" or None."""
    return {
        "is_forward": "forward",
        "must_be_in_forward": "forward",
        "is_backward": "backward",
        "must_be_in_backward": "backward",
    }.get(node.meta.get("partitioner_tag", ""))


class Step:
    """A joint graph as a problem.

    cost gives the seconds of a node; without it, the roofline of the graph's device.
    """

    #: The kernels, by their index in the problem.
    kernels: list[fx.Node]
    #: The index of a kernel; several kernels may have the same.
    index: dict[fx.Node, int]
    #: The index of the boundary.
    boundary: int
    #: What ``onnxmem order`` reads (docs/formats/nodes.md).
    nodes: list[dict[str, Any]]
    tensors: list[dict[str, Any]]
    #: The index of a storage among the tensors.
    tensor: dict[Owner, int]
    #: What depends on a tangent.
    late: set[fx.Node]
    #: Whose roofline gives the costs.
    device: Device

    def __init__(self, graph: Union[fx.Graph, fx.GraphModule], num_fwd_outputs: int, cost: Optional[Callable[[fx.Node], float]] = None) -> None:
        self.graph: fx.Graph = graph if isinstance(graph, fx.Graph) else graph.graph
        self.storages = Storages(self.graph)
        self.forward, self.backward = results(self.graph, num_fwd_outputs)
        self.kernels = [n for n in self.graph.nodes if self.storages.runs(n)]
        self.index = {n: i for i, n in enumerate(self.kernels)}
        self.boundary = len(self.kernels)
        self.late = self._late()
        self.device = device_of(self.graph)
        if cost is None:

            def cost(node: fx.Node) -> float:
                return seconds(node, self.device)

        self.nodes = [{"name": n.name, "op": str(n.target), "cost": round(1e9 * cost(n))} for n in self.kernels]
        for n, node in zip(self.kernels, self.nodes):
            if n.meta.get("onnxmem_workspace"):
                node["workspace"] = n.meta["onnxmem_workspace"]
        self.nodes.append({"name": "boundary", "op": "boundary", "cost": 0, "once": True, "writes": []})
        self.tensors, self.tensor = [], {}
        self._make()
        readers = self._read()
        self._write(readers)
        self._numbers()
        self._effects()
        self._results()
        for t in self.tensors:
            t["consumers"] = sorted(set(t["consumers"]))

    def problem(self, name: str = "step") -> dict[str, Any]:
        """Return the problem, which ``onnxmem order`` reads as JSON."""
        return {"name": name, "mode": "training", "nodes": self.nodes, "tensors": self.tensors}

    def operators(self, node: int) -> list[fx.Node]:
        """Return what a node of the problem runs: nothing, if it is the boundary."""
        return self.kernels[node : node + 1]

    def _late(self) -> set[fx.Node]:
        late: set[fx.Node] = set()
        for n in self.graph.nodes:
            if behind(n) or any(m in late for m in n.all_input_nodes):
                late.add(n)
        return late

    def _make(self) -> None:
        """Add the storages: the inputs', which are there from the beginning, and the kernels'."""
        for n in self.graph.nodes:
            if n.op in ("placeholder", "get_attr"):
                for owner in self.storages.of(n):
                    if behind(n):
                        self._add(owner, self.boundary, kind="gradient")
                    else:
                        self._add(owner, -1, kind="parameter", resident=True)
            elif n in self.index or self.storages.item(n):
                maker = n if n in self.index else n.args[0]
                kind = "gradient" if n in self.late else "activation"
                for owner in self.storages.of(n):
                    if owner[0] is n and owner not in self.tensor:
                        self._add(owner, self.index[maker], kind=kind)

    def _read(self) -> dict[Owner, list[int]]:
        """Add the readers of the storages; return them."""
        readers: dict[Owner, list[int]] = {}
        for n in self.kernels:
            skip = _STATISTICS.get(n.target.name() if isinstance(n.target, torch._ops.OpOverload) else "", ())
            used = pytree.arg_tree_leaves(*[a for k, a in enumerate(n.args) if k not in skip], **n.kwargs)
            for owner in dict.fromkeys(o for m in _nodes(used) for o in self._bytes(m)):
                self._reader(owner, self.index[n])
                readers.setdefault(owner, []).append(self.index[n])
        return readers

    def _bytes(self, node: fx.Node) -> list[Owner]:
        """Return the storages that have to be there for a value; a number needs none, once it is known."""
        return [] if symbolic(node) else self.storages.of(node)

    def _write(self, readers: dict[Owner, list[int]]) -> None:
        """What is overwritten in place has its readers first, and again only until then."""
        for n in self.kernels:
            i = self.index[n]
            for owner in dict.fromkeys(o for target in written(n) for o in self.storages.of(target)):
                self._overwrite(i, owner, readers.get(owner, []))
        for n in self.graph.nodes:
            # The caller overwrites this input when the forward pass has ended.
            if n.op == "placeholder" and n.meta.get("aot_runtime_epilogue_input_mutation"):
                for owner in self.storages.of(n):
                    self._reader(owner, self.boundary)
                    self._overwrite(self.boundary, owner, readers.get(owner, []))

    def _overwrite(self, writer: int, owner: Owner, readers: list[int]) -> None:
        """Let a node overwrite a storage, which it reads."""
        self.nodes[writer].setdefault("writes", []).append(self.tensor[owner])
        for r in readers:
            late = writer == self.boundary and self.kernels[r] in self.late
            if late or r > writer:
                raise Unsupported(f"{self.kernels[r].name} reads {owner[0].name} after it was overwritten")
            if r != writer:
                self._control(r, writer)

    def _numbers(self) -> None:
        """A kernel that reads a number runs behind those that tell it; the number itself has no bytes."""
        tell: dict[fx.Node, list[int]] = {}
        for n in self.graph.nodes:
            if n in self.index:
                for i in dict.fromkeys(i for m in n.all_input_nodes if symbolic(m) for i in tell[m]):
                    self._control(i, self.index[n])
                tell[n] = [self.index[n]]
            elif behind(n):
                tell[n] = [self.boundary]
            else:
                tell[n] = list(dict.fromkeys(i for m in n.all_input_nodes for i in tell[m]))

    def _effects(self) -> None:
        """What draws, writes or has another effect runs once, in program order, in its own part."""
        draws: Optional[int] = None
        effect: Optional[int] = None
        for i, n in enumerate(self.kernels):
            higher = not isinstance(n.target, torch._ops.OpOverload)
            # What only writes in place is ordered by what it writes.
            effects = impure(n) and not (writes(n) and n.target.namespace in ("aten", "onnxmem"))
            draw = random(n)
            # A kernel whose result's size only the data tells has one size.
            if draw or higher or effects or writes(n) or symbolic(n) or n.meta.get("unbacked_bindings"):
                self._once(i, n)
            if n.meta.get("recompute") is CheckpointPolicy.MUST_SAVE:  # a policy of torch.utils.checkpoint
                self.nodes[i]["once"] = True
            if draw or higher:  # a higher-order operator may draw inside
                if draws is not None:
                    self._control(draws, i)
                draws = i
            if effects and not draw:
                if effect is not None:
                    self._control(effect, i)
                effect = i

    def _once(self, i: int, n: fx.Node) -> None:
        """Let a kernel run once, in the part that it belongs to."""
        self.nodes[i]["once"] = True
        place = _place(n) or ("backward" if n in self.late else "forward")
        if n in self.late and place == "forward":
            raise Unsupported(f"{n.name} belongs to the forward pass, but depends on a tangent")
        if n not in self.late:
            self._control(*((self.boundary, i) if place == "backward" else (i, self.boundary)))

    def _results(self) -> None:
        """Results live to the end; those of the forward pass are made before the boundary."""
        for n in _nodes(self.forward):
            if n in self.late:
                raise Unsupported(f"the result {n.name} of the forward pass depends on a tangent")
            for owner in self.storages.of(n):
                self._reader(owner, self.boundary)
                self.tensors[self.tensor[owner]]["output"] = True
        for n in _nodes(self.backward):
            for owner in self.storages.of(n):
                self.tensors[self.tensor[owner]]["output"] = True

    def _add(self, owner: Owner, producer: int, **more: Any) -> None:
        node, k = owner
        tensor = tensors(node)[k]
        assert tensor is not None
        self.tensor[owner] = len(self.tensors)
        name = node.name if len(tensors(node)) == 1 else f"{node.name}.{k}"
        self.tensors.append({"name": name, "bytes": nbytes(tensor), "producer": producer, "consumers": [], **more})

    def _reader(self, owner: Owner, node: int) -> None:
        self.tensors[self.tensor[owner]]["consumers"].append(node)

    def _control(self, before: int, after: int) -> None:
        """Let a node run before another."""
        self.tensors.append({"name": f"control{len(self.tensors)}", "bytes": 0, "producer": before, "consumers": [after], "kind": "control"})
