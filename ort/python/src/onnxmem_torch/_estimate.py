"""``estimate``: what a training step needs, before anything is allocated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import torch
from torch.utils import _pytree as pytree

from onnxmem._command import call

from ._curve import lines_of, picture, size, table
from ._eager import eager
from ._fake import Fakes, call_of, module_of
from ._lives import forward_load, graph_load, planned_load, title
from ._load import PARAMETER_GRADIENT, PLURALS, Block, Load
from ._partition import parse
from ._prepare import prepare
from ._problem import step_of
from ._reserve import Reserve, reserve
from ._step import Step, Unsupported
from ._storages import identity, nbytes
from ._trace import Joint, TraceError, joint


@dataclass(frozen=True)
class Way:
    """One way to run a step. Sizes are bytes, parameters, inputs and states apart."""

    name: str
    load: Load
    #: What allocators take for it.
    reserve: Reserve
    #: Over the time of all kernels once, in per cent; of the smallest plan.
    extra_percent: float = 0.0

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


@dataclass
class Estimate:
    """What a step of a model needs. All sizes are bytes; ``print`` shows them."""

    title: str
    parameters: int
    buffers: int
    inputs: int
    #: The optimizer's states.
    states: int
    #: Of the parameters.
    gradients: int
    #: "eager" and, if the model is one graph, "compiled" and "smallest".
    ways: dict[str, Way]
    least: Optional[Least] = None
    notes: list[str] = field(default_factory=list)

    @property
    def resident(self) -> int:
        """What is there before a step, and after it: parameters, buffers, inputs and states."""
        return self.parameters + self.buffers + self.inputs + self.states

    def _way(self, way: Optional[str]) -> Way:
        if way is None:
            way = "eager"
        if way not in self.ways:
            raise ValueError(f"way {way!r}: expected one of {', '.join(self.ways)}")
        return self.ways[way]

    def peak(self, way: Optional[str] = None) -> int:
        """Return the peak of everything, in eager PyTorch or another way."""
        return self.resident + self._way(way).peak_bytes

    def reserved(self, way: Optional[str] = None) -> int:
        """Return what the caching allocator would reserve for everything; it may round what is resident up further."""
        return self.resident + self._way(way).reserve.caching

    def activations(self, way: Optional[str] = None) -> int:
        """Return what the forward pass leaves for the backward pass."""
        return self._way(way).load.saved_bytes

    def peak_node(self, way: Optional[str] = None) -> str:
        """Return the operator that runs at the peak, with its module."""
        return self._way(way).load.peak_node

    def live(self, way: Optional[str] = None) -> list[Block]:
        """Return what is live at the peak besides what is resident, the largest first."""
        return self._way(way).load.live()

    @property
    def smallest(self) -> Optional[int]:
        """The least memory that this step can possibly take, proven, of everything; None if it is not known."""
        return self.resident + self.least.bytes if self.least is not None else None

    def fits(self, device: Union[int, str, Any], way: Optional[str] = None) -> bool:
        """Whether a device holds what the allocator would reserve.

        device is a device of PyTorch such as "cuda:0", or its memory: bytes, or a text such as "24GiB".
        What CUDA itself takes, some hundred MiB, has to be left aside.
        """
        return self.reserved(way) <= _memory(device)

    def __str__(self) -> str:
        lines = [self.title]
        lines += [f"  {what:<12} {size(count):>10}" for what, count in self._resident()]
        lines += [""] + ["  " + line for line in lines_of(*self._table())]
        for way in self.ways.values():
            if way.name == "eager" or "eager" not in self.ways:
                lines += ["", f"  at the peak, {way.name}: {way.load.peak_node}"]
                lines += [f"  {size(b.bytes):>10}  {b.kind}: {b.title}" for b in way.load.live()[:8]]
                break
        if self.least is not None:
            lines += ["", f"  {self.least}"]
        return "\n".join(lines + [f"  {note}" for note in self.notes])

    def _resident(self) -> list[tuple[str, int]]:
        rows = [("parameters", self.parameters), ("buffers", self.buffers), ("inputs", self.inputs), ("states", self.states), ("gradients", self.gradients)]
        return [(what, count) for what, count in rows if count]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        ways = list(self.ways.values())
        rows = [["peak of the step", *(size(w.peak_bytes) for w in ways)]]
        for kind in PLURALS:
            counts = [w.load.kinds().get(kind, 0) for w in ways]
            if any(counts):
                rows.append(["  " + PLURALS[kind], *(size(c) if c else "" for c in counts)])
        rows.append(["caching allocator", *(size(w.reserve.caching) for w in ways)])
        rows.append(["  expandable_segments", *(size(w.reserve.expandable) for w in ways)])
        rows.append(["packed arena", *(size(w.reserve.arena) for w in ways)])
        rows.append(["peak of everything", *(size(self.peak(w.name)) for w in ways)])
        rows.append(["reserved", *(size(self.reserved(w.name)) for w in ways)])
        if any(w.extra_percent for w in ways):
            rows.append(["extra time", *(f"{w.extra_percent:.1f} %" if w.name == "smallest" else "" for w in ways)])
        return ["", *(w.name for w in ways)], rows

    def _repr_html_(self) -> str:
        from html import escape

        lines = []
        for w in self.ways.values():
            count = max(len(w.load.loads) - 1, 1)
            lines.append((w.name, [(k / count, x / 2**20) for k, x in enumerate(w.load.loads)]))
        eager = next(iter(self.ways.values()))
        marks = [(eager.load.boundary / max(len(eager.load.steps), 1), "backward")] if eager.load.boundary < len(eager.load.steps) else []
        live = [[f"{b.kind}: {b.title}", size(b.bytes)] for b in eager.load.live()[:10]]
        parts = [f"<b>{escape(self.title)}</b>", table(["resident", ""], [[what, size(count)] for what, count in self._resident()])]
        parts += [table(*self._table()), picture(lines, "operators, in the order in which they run", "MiB", marks)]
        parts += [table([f"at the peak, {eager.name}: {eager.load.peak_node}", ""], live)]
        parts += [f"<p>{escape(text)}</p>" for text in [*([str(self.least)] if self.least else []), *self.notes]]
        return "".join(parts)


def _memory(device: Union[int, str, Any]) -> int:
    """Return a device's memory in bytes."""
    if isinstance(device, torch.device) or (isinstance(device, str) and device.split(":")[0] in ("cuda", "xpu")):
        return int(torch.cuda.get_device_properties(device).total_memory)
    count, share = parse(device)
    if count is None or share is not None:
        raise ValueError(f'device {device!r}: expected a device such as "cuda:0", bytes, or a size such as "24GiB"')
    return count


def estimate(
    model: Any,
    inputs: Any,
    optimizer: Optional[Any] = None,
    *,
    kwargs: Optional[Mapping[str, Any]] = None,
    loss: Optional[Callable[[Any], torch.Tensor]] = None,
    training: Optional[bool] = None,
    device: Optional[Any] = None,
    effort: str = "fast",
) -> Estimate:
    """Return what a step of a model needs, in eager PyTorch, compiled, and at least.

        print(onnxmem_torch.estimate(model, (x, y), optimizer))

    Nothing is allocated or computed: model and inputs may be of the device "meta", or of the
    size that no device holds. Autocast is the caller's. inputs, kwargs, loss, training and
    device are as of ``compile``'s trace: the result has a loss, or loss makes one of it.
    effort is that of ``onnxmem order``, for the smallest plan.
    """
    model = module_of(model)
    given = call_of(inputs, kwargs)
    if training is None:
        training = model.training and torch.is_grad_enabled()
    parameters = list(model.parameters())
    fakes = Fakes((given, parameters), device)
    load, states = eager(model, inputs, kwargs, fakes=fakes, training=training, loss=loss, optimizer=optimizer)
    ways = {"eager": Way("eager", load, reserve(load))}
    result = Estimate(
        title=_title(model, training, fakes, parameters),
        parameters=_bytes(parameters),
        buffers=_bytes(model.buffers()),
        inputs=_bytes(t for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)),
        states=states,
        gradients=sum(b.bytes for b in load.blocks if b.kind == PARAMETER_GRADIENT),
        ways=ways,
        notes=[f"eager: {load.how}"],
    )
    try:
        traced = joint(model, inputs, kwargs, loss=loss, training=training, device=device, fakes=fakes)
        if traced.breaks:
            result.notes.append(f"compiled: as one graph; torch.compile breaks it: {traced.breaks}")
        _compiled(result, traced, effort)
    except (TraceError, Unsupported) as e:
        result.notes.append(f"compiled: {e}")
    return result


def _title(model: Any, training: bool, fakes: Fakes, parameters: list[torch.Tensor]) -> str:
    what = "a training step" if training else "inference"
    device = fakes.of(parameters[0]).device.type if parameters else "cpu"
    cast = f", autocast {str(torch.get_autocast_dtype(device)).removeprefix('torch.')}" if torch.is_autocast_enabled(device) else ""
    types = ", ".join(sorted({str(p.dtype).removeprefix("torch.") for p in parameters}))
    return f"{type(model).__name__}: {what} on {device}{', ' + types if types else ''}{cast}"


def _bytes(tensors: Any) -> int:
    return sum({identity(t): nbytes(t) for t in tensors}.values())


def _compiled(result: Estimate, traced: Joint, effort: str) -> None:
    """Add the graphs of PyTorch's min-cut and the smallest plan, each with the update of eager PyTorch."""
    update = result.ways["eager"].load
    how = "PyTorch's min-cut, kernels as ATen has them; fused kernels take at most this"
    if not traced.training:
        load = forward_load(traced.module, "the graph as it was traced")
        result.ways["compiled"] = Way("compiled", load, reserve(load))
        result.notes.append(f"compiled: {load.how}")
        return
    from functorch.compile import min_cut_rematerialization_partition

    whole = torch.fx.GraphModule(traced.module, prepare(traced.module.graph, traced.num_fwd_outputs))
    with torch._guards.tracing(torch._guards.TracingContext(traced.mode)):
        forward, backward = min_cut_rematerialization_partition(
            whole, (), num_fwd_outputs=traced.num_fwd_outputs, static_lifetime_input_indices=traced.static
        )
    load = graph_load(forward, backward, traced.num_fwd_outputs, how).followed(update)
    result.ways["compiled"] = Way("compiled", load, reserve(load))
    result.notes.append(f"compiled: {how}")
    step = step_of(traced)
    found = least(step, effort)
    load = planned_load(step, found["steps"], "the plan with the smallest peak that was found").followed(update)
    result.ways["smallest"] = Way("smallest", load, reserve(load), found["extra_cost_percent"] or 0.0)
    result.least = bound(step, found["least"])


def least(step: Step, effort: str) -> dict[str, Any]:
    """Return what ``onnxmem order --least`` says about a step."""
    text = json.dumps(step.problem(), separators=(",", ":")).encode()
    result: dict[str, Any] = call(["order", "-", "--json", "--least", f"--effort={effort}"], text).result or {}
    return result


def bound(step: Step, found: Mapping[str, Any]) -> Least:
    """Return the bound of a step's peak in the words of its model."""
    names = {i: step.tensors[i]["name"] for i in found["tensors"]}
    for owner, i in step.tensor.items():
        if i in names:
            names[i] = title(owner[0]) if owner[0].op == "call_function" else names[i]
    places = {"start": "the first step holds all inputs", "end": "the end of the backward pass holds all gradients and results"}
    node = found.get("node")
    where = places.get(found["at"]) or ("the end of the forward pass" if node == step.boundary else f"{title(step.kernels[node])} and what it needs" if node is not None else "")
    return Least(found["lower_bound_bytes"], where, [(names[i], step.tensors[i]["bytes"]) for i in found["tensors"] if step.tensors[i]["bytes"]])
