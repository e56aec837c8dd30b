"""``estimate``: what a training step needs, before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import torch
from torch.utils import _pytree as pytree

from ._curve import lines_of, picture, size, table
from ._eager import eager
from ._fake import Fakes, call_of, module_of
from ._load import PARAMETER_GRADIENT, PLURALS, Block
from ._limit import parse
from ._reserve import reserve
from ._step import Unsupported
from ._storages import identity, nbytes
from ._trace import TraceError, joint
from ._updates import supported
from ._ways import Least, Way, compiled, inductor, smallest, updates
from ._workspaces import Workspaces


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
    #: "eager" and, if the model is one graph, "compiled" and "smallest"; "inductor" with that backend,
    #: "updates" with an optimizer.
    ways: dict[str, Way]
    notes: list[str] = field(default_factory=list)

    @property
    def resident(self) -> int:
        """What is there before a step, and after it: parameters, buffers, inputs and states."""
        return self.parameters + self.buffers + self.inputs + self.states

    def add(self, name: str, make: Callable[[], Way]) -> None:
        """Add a way, or a note of why there is none."""
        try:
            way = self.ways[name] = make()
        except Unsupported as e:
            self.notes.append(f"{name}: {e}")
        else:
            self.notes.append(f"{name}: {way.load.how}")

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
    def least(self) -> Optional[Least]:
        """What bounds the peak of every plan of this step; None if it is not known."""
        return min((w.least for w in self.ways.values() if w.least), key=lambda x: x.bytes, default=None)

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
            rows.append(["extra time", *(f"{w.extra_percent:.1f} %" if w.least else "" for w in ways)])
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
    workspaces: bool = False,
    on: Optional[str] = None,
    backend: Optional[str] = None,
) -> Estimate:
    """Return what a step of a model needs, in eager PyTorch, compiled, and at least.

        print(onnxmem_torch.estimate(model, (x, y), optimizer))

    Nothing is allocated or computed: model and inputs may be of the device "meta", or of the
    size that no device holds. Autocast is the caller's. inputs, kwargs, loss, training and
    device are as of ``compile``'s trace: the result has a loss, or loss makes one of it.
    effort is that of ``onnxmem order``, for the smallest plan; on, such as "A100", names the
    device whose times price what runs again. With workspaces, each kernel
    runs once on zeros of its shapes, to find what it takes for itself. backend="inductor" adds
    the kernels that Inductor would make of the step, which takes as long as lowering it.
    """
    if backend not in (None, "inductor"):
        raise ValueError(f'backend {backend!r}: expected "inductor" or None')
    model = module_of(model)
    given = call_of(inputs, kwargs)
    if training is None:
        training = model.training and torch.is_grad_enabled()
    parameters = list(model.parameters())
    fakes = Fakes((given, parameters), device)
    recorder = Workspaces() if workspaces else None
    load, states = eager(model, inputs, kwargs, fakes=fakes, training=training, loss=loss, optimizer=optimizer, workspaces=recorder)
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
    except TraceError as e:
        result.notes.append(f"compiled: {e}")
    else:
        if traced.breaks:
            result.notes.append(f"compiled: as one graph; torch.compile breaks it: {traced.breaks}")
        result.add("compiled", lambda: compiled(traced, load, recorder))
        if training and backend is not None:
            result.add("inductor", lambda: inductor(model, given, loss, fakes, load, recorder))
        if training:
            result.add("smallest", lambda: smallest(traced, load, recorder, effort, on))
        if training and optimizer is not None and supported(optimizer):
            result.add("updates", lambda: updates(traced, model, optimizer, recorder, effort, on))
    if recorder is None:
        result.notes.append("workspaces of kernels are not counted: workspaces=True runs each kernel once")
    elif recorder.note_of_failed():
        result.notes.append(recorder.note_of_failed())
    return result


def _title(model: Any, training: bool, fakes: Fakes, parameters: list[torch.Tensor]) -> str:
    what = "a training step" if training else "inference"
    device = fakes.of(parameters[0]).device.type if parameters else "cpu"
    cast = f", autocast {str(torch.get_autocast_dtype(device)).removeprefix('torch.')}" if torch.is_autocast_enabled(device) else ""
    types = ", ".join(sorted({str(p.dtype).removeprefix("torch.") for p in parameters}))
    return f"{type(model).__name__}: {what} on {device}{', ' + types if types else ''}{cast}"


def _bytes(tensors: Any) -> int:
    return sum({identity(t): nbytes(t) for t in tensors}.values())
