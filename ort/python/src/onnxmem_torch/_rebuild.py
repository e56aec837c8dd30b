"""The graphs of a plan: the joint graph in its order, and from that the forward and the backward graph."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import fx

from ._keep import keep, same
from ._step import Step, Unsupported, backward_state, behind, seed, tangent
from ._storages import symbolic, values, writes


@dataclass
class Planned:
    """A joint graph in the order of a plan, repeated kernels as copies of their own."""

    graph: fx.Graph
    #: What runs behind the boundary.
    backward: set[fx.Node]
    forward_outputs: list[Any]
    backward_outputs: list[Any]


class _Order:
    """Writes a joint graph anew, kernel by kernel."""

    def __init__(self, step: Step, kept: Collection[fx.Node]) -> None:
        self.step, self.kept = step, kept
        self.graph = fx.Graph()
        self.backward: set[fx.Node] = set()
        self.behind = False
        #: The newest copy of each node, and the copies of its inputs.
        self.now: dict[fx.Node, tuple[fx.Node, tuple[fx.Node, ...]]] = {}
        #: Numbers, by the last of the nodes that they need: they are made as soon as they are known.
        self.numbers: dict[fx.Node, list[fx.Node]] = {}
        self._find_numbers()

    def _find_numbers(self) -> None:
        """Let every symbolic number be made once, as soon as what it is taken from is there."""
        position: dict[fx.Node, int] = {}
        needs: dict[fx.Node, set[fx.Node]] = {}
        for k, n in enumerate(self.step.graph.nodes):
            position[n] = k
            if self.fixed(n):
                needs[n] = {n}
            else:
                needs[n] = set().union(*(needs[m] for m in n.all_input_nodes))
        self.needs = {n: needs[n] for n in needs if n.op == "call_function" and symbolic(n) and not self.fixed(n)}
        for n, sources in self.needs.items():
            for s in sources:
                self.numbers.setdefault(s, []).append(n)

    def fixed(self, node: fx.Node) -> bool:
        """Whether a node has a place of its own in the plan, so that views and numbers alone are free."""
        return node.op in ("placeholder", "get_attr") or node in self.step.index or self.step.storages.item(node)

    def copy(self, node: fx.Node) -> fx.Node:
        new = self.graph.node_copy(node, self.value)
        new.meta = dict(node.meta)
        self.now[node] = (new, tuple(self.now[m][0] for m in node.all_input_nodes))
        if self.behind:
            self.backward.add(new)
        if node in self.kept:
            written = keep(self.graph, new)
            self.now[node] = (written, self.now[node][1])
            if self.behind:
                self.backward.add(written)
            return written
        return new

    def value(self, node: fx.Node) -> fx.Node:
        """Return the newest copy of a node; a view is made anew wherever the pass or its input has changed."""
        if self.fixed(node) or (node in self.needs and node in self.now):
            if node not in self.now:
                raise Unsupported(f"{node.name} is read before it is made")
            return self.now[node][0]
        inputs = tuple(self.value(m) for m in node.all_input_nodes)
        if node in self.now:
            new, read = self.now[node]
            if read == inputs and (new in self.backward) == self.behind:
                return new
        return self.copy(node)

    def make(self, node: fx.Node) -> None:
        """Copy a node that has a place in the plan, its results, and the numbers that are now known."""
        first = node not in self.now
        self.copy(node)
        for user in node.users:
            if self.step.storages.item(user):
                self.make(user)
        if first:
            for number in self.numbers.get(node, []):
                if number not in self.now and all(s in self.now for s in self.needs[number]):
                    self.value(number)


def order(step: Step, steps: Sequence[int], kept: Collection[fx.Node] = ()) -> Planned:
    """Return the joint graph in the order of the steps. What is kept is written to memory by Inductor."""
    o = _Order(step, kept)
    for n in step.graph.nodes:
        if n.op in ("placeholder", "get_attr"):
            o.behind = behind(n)
            o.make(n)
    o.behind = False
    forward: Optional[list[Any]] = None
    for s in steps:
        if s == step.boundary:
            forward = [o.value(n) if isinstance(n, fx.Node) else n for n in step.forward]
            o.behind = True
        else:
            o.make(step.kernels[s])
    assert forward is not None
    backward = [o.value(n) if isinstance(n, fx.Node) else n for n in step.backward]
    output = o.graph.output((*forward, *backward))
    output.meta = dict(step.graph.output_node().meta)
    o.graph.eliminate_dead_code()
    _mask(o.graph)
    return Planned(o.graph, o.backward, forward, backward)


def _mask(graph: fx.Graph) -> None:
    """Let operators make only those of their results that are read: of a gradient that runs again, often one."""
    for n in graph.nodes:
        schema = getattr(n.target, "_schema", None) if n.op == "call_function" else None
        place = next((k for k, a in enumerate(schema.arguments) if a.name == "output_mask"), len(n.args)) if schema else len(n.args)
        if place == len(n.args) or not all(u.target is operator.getitem for u in n.users):
            continue
        taken = {u.args[1] for u in n.users}
        mask = [asked and k in taken for k, asked in enumerate(n.args[place])]
        if mask != list(n.args[place]):
            n.update_arg(place, mask)
            n.meta = {**n.meta, "val": tuple(v if asked else None for v, asked in zip(n.meta["val"], mask))}


def hand_over(planned: Planned, names: Collection[str]) -> None:
    """Hand inputs of convolutions to the backward pass as they are.

    Inductor hands over a copy of an input where a convolution of the forward pass wants another
    layout; the copy then lives on until the backward pass. Here the input itself is saved, so
    autograd refuses a backward pass after it has changed, as without a compiler.
    Each reader has a copy of its own, so that what is computed from it has the layout, too;
    what updates a parameter gets the parameter.
    """
    first = next((n for n in planned.graph.nodes if n in planned.backward), None)
    for n in planned.graph.find_nodes(op="placeholder"):
        readers = [r for r in n.users if r in planned.backward]
        value = n.meta.get("val")
        if n.name not in names or not readers or first is None or not value.is_contiguous() or any(not isinstance(d, int) for d in value.shape):
            continue
        layout = torch.channels_last if value.dim() == 4 else torch.channels_last_3d
        # By its name Inductor knows a parameter, which its account leaves out.
        with planned.graph.inserting_before(first):
            handed = same(planned.graph, n, f"{n.name}_same")
        for r in readers:
            r.replace_input_with(n, handed if writes(r) else _copy(planned, r, handed, layout))


def _copy(planned: Planned, before: fx.Node, source: fx.Node, layout: torch.memory_format) -> fx.Node:
    """Insert a copy of a tensor in another layout into the backward pass."""
    target = torch.ops.aten.clone.default
    with planned.graph.inserting_before(before), source.meta["val"].fake_mode:
        node = planned.graph.call_function(target, (source,), {"memory_format": layout})
        node.meta = {**source.meta, "val": target(source.meta["val"], memory_format=layout)}
    planned.backward.add(node)
    return node


@dataclass
class _Saved:
    """What the forward pass hands to the backward pass, in the order that AOTAutograd expects."""

    tensors: list[fx.Node]
    objects: list[fx.Node]
    numbers: list[fx.Node]

    def after_results(self) -> list[fx.Node]:
        return self.tensors + self.objects + self.numbers

    def before_tangents(self) -> list[fx.Node]:
        return self.numbers + self.tensors + self.objects


def _saved(planned: Planned) -> _Saved:
    """Find what the backward pass reads and has not made."""
    read: dict[fx.Node, None] = {}
    inside = [n for n in planned.graph.nodes if n in planned.backward]
    for n in [*(m for n in inside for m in n.all_input_nodes), *(n for n in planned.backward_outputs if isinstance(n, fx.Node))]:
        if n not in planned.backward and n.op != "get_attr":
            read[n] = None
    tensors: list[fx.Node] = []
    unchecked: list[fx.Node] = []
    objects: list[fx.Node] = []
    numbers: list[fx.Node] = []
    for n in planned.graph.nodes:  # in the order in which they are made
        if n not in read:
            continue
        (value,) = values(n) if len(values(n)) == 1 else (None,)
        if isinstance(value, torch.Tensor):
            # What a custom function has put on its context is not checked for changes.
            (unchecked if n.meta.get("saved_tensor_with_no_vc_check") else tensors).append(n)
        elif symbolic(n):
            numbers.append(n)
        else:
            raise Unsupported(f"{n.name} would be saved for the backward pass, but is neither a tensor nor a number")
    return _Saved(tensors + unchecked, objects, numbers)


def _extract(planned: Planned, inputs: Iterable[fx.Node], part: set[fx.Node], outputs: list[Any]) -> fx.Graph:
    """Return the graph of one pass."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for n in inputs:
        copies[n] = graph.placeholder(n.name)
        copies[n].meta = n.meta  # shared by both graphs, as AOTAutograd has it
    for n in planned.graph.nodes:
        if n.op == "get_attr" or (n.op == "call_function" and n in part and n not in copies):
            copies[n] = graph.node_copy(n, copies.__getitem__)
            copies[n].meta = dict(n.meta)
    graph.output(tuple(copies[x] if isinstance(x, fx.Node) else x for x in outputs))
    for n in reversed(list(graph.nodes)):
        if n.op == "get_attr" and not n.users:
            graph.erase_node(n)
    graph.lint()
    return graph


def _describe(graph: fx.Graph, descriptions: list[Any]) -> None:
    """Note on a graph's results what they are, and which lines of the program made them."""
    output = graph.output_node()
    output.meta["desc"] = descriptions
    output.meta["output_stack_traces"] = [x.meta.get("stack_trace") if isinstance(x, fx.Node) else None for x in output.args[0]]


def _descriptions(step: Step) -> list[Any]:
    """Return AOTAutograd's descriptions of a joint graph's results."""
    count = len(step.forward) + len(step.backward)
    described = torch.utils._pytree.arg_tree_leaves(step.graph.output_node().meta.get("desc", [None] * count))
    return described if len(described) == count else [None] * count


def _saved_descriptions(saved: _Saved) -> list[Any]:
    """Return AOTAutograd's descriptions of what is saved; None where this version has none."""
    try:
        from torch._functorch._aot_autograd import descriptors
    except ImportError:
        return [None] * len(saved.after_results())
    plain = getattr(descriptors, "SavedForBackwardsAOTOutput", lambda _: None)
    unchecked = getattr(descriptors, "SavedForBackwardsNoVcCheckAOTOutput", plain)
    return [(unchecked if n.meta.get("saved_tensor_with_no_vc_check") else plain)(i) for i, n in enumerate(saved.after_results())]


def split(gm: fx.GraphModule, step: Step, planned: Planned, static: Optional[Sequence[int]] = None) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Return the forward and the backward graph of a plan.

    static are the indices of the inputs that stay where they are from call to call.
    """
    inputs = planned.graph.find_nodes(op="placeholder")
    primals = [n for n in inputs if not behind(n) and not seed(n, "fwd")]
    for k, n in enumerate(primals):
        if static is not None:
            n.meta["is_static_input"] = k in set(static)
    saved = _saved(planned)
    ahead = {n for n in planned.graph.nodes if n not in planned.backward}
    forward = _extract(
        planned,
        primals + [n for n in inputs if seed(n, "fwd")],
        ahead,
        planned.forward_outputs + saved.after_results(),
    )
    backward = _extract(
        planned,
        saved.before_tangents()
        + [n for n in inputs if tangent(n)]
        + [n for n in inputs if seed(n, "bwd")]
        + [n for n in inputs if backward_state(n)],
        planned.backward,
        planned.backward_outputs,
    )
    described = _descriptions(step)
    _describe(forward, described[: len(step.forward)] + _saved_descriptions(saved))
    _describe(backward, described[len(step.forward) :])
    for n in backward.nodes:
        if n.op in ("call_function", "get_attr"):
            n.meta["autograd_backward"] = True
    return _module(gm, forward), _module(gm, backward)


def _module(gm: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """Return a module of a graph, whose code is written when it is called: Inductor, which lowers the graph, does not."""
    try:
        from torch.fx._lazy_graph_module import _make_graph_module as make  # lazy where torch.compile asks for it
    except ImportError:
        make = fx.GraphModule
    module: fx.GraphModule = make(gm, graph)
    return module
