"""Eager PyTorch on fake tensors: what autograd and Python hold, and for how long.

Python and autograd's engine really run; only kernels do not. A storage is live from the
operator that makes it until its last reference is gone.
"""

from __future__ import annotations

import copy
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ._fake import Fakes, call_of, loss_of, module_of, name_of
from ._load import Block, Load
from ._storages import identity, nbytes
from ._workspaces import Workspaces


class _Watch(TorchDispatchMode):
    """Notes each storage that an operator makes, and when it is freed."""

    def __init__(self, names: Mapping[int, str], workspaces: Optional[Workspaces] = None) -> None:
        super().__init__()
        self.names, self.workspaces = names, workspaces
        #: The calls of the steps, by the keys of workspaces.
        self.calls: list[str] = []
        self.steps: list[str] = []
        self.blocks: list[Block] = []
        #: The block of a live storage; -1 of those that were there before.
        self.live: dict[object, int] = {}
        #: The type of the device at work.
        self.device = "cpu"
        self.modules: list[str] = []
        self._refs: dict[object, Any] = {}
        self._made: dict[int, str] = {}  # by autograd's sequence number: the module

    def resident(self, tensors: Any) -> None:
        """Leave out the storages of tensors."""
        for t in tensors:
            self.live[identity(t)] = -1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            try:
                return func(*args)
            except RuntimeError:  # a number that only the data tells: optimizers count and clip
                return 1.0
        out = func(*args, **(kwargs or {}))
        where = self._where()
        self.steps.append(f"{str(func).removeprefix('aten.').rpartition('.')[0]}{' of ' + where if where else ''}")
        if self.workspaces is not None:
            self.calls.append(self.workspaces.note(func, args, kwargs or {}))
        for t in pytree.tree_leaves(out):
            if isinstance(t, torch.Tensor):
                self._note(t)
        return out

    def _where(self) -> str:
        """Return the module that an operator runs in, or whose gradient it computes."""
        node = torch._C._current_autograd_node()
        if node is not None:
            return self._made.get(node._sequence_nr(), "")
        module = self.modules[-1] if self.modules else ""
        # An operator without a gradient has no number: the last one was taken by one before it.
        self._made.setdefault(torch._C._autograd._get_sequence_nr() - 1, module)
        return module

    def _note(self, tensor: torch.Tensor) -> None:
        key = identity(tensor)
        if key in self.live:
            return
        self.live[key] = len(self.blocks)
        self.blocks.append(Block(self.steps[-1], nbytes(tensor), len(self.steps) - 1, -1))

        def freed(_: Any, key: object = key) -> None:
            self._refs.pop(key, None)
            k = self.live.pop(key, -1)
            if k >= 0:
                self.blocks[k].last = max(len(self.steps) - 1, self.blocks[k].first)

        self._refs[key] = weakref.ref(tensor.untyped_storage(), freed)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Follow which module runs."""

        def enter(module: Any, args: Any) -> None:
            self.modules.append(self.names.get(id(module), ""))

        def leave(module: Any, args: Any, result: Any) -> None:
            if self.modules:
                self.modules.pop()

        hooks = torch.nn.modules.module
        handles = [hooks.register_module_forward_pre_hook(enter), hooks.register_module_forward_hook(leave)]
        try:
            with self:
                yield
        finally:
            for h in handles:
                h.remove()


def optimizer_of(optimizer: Any, fakes: Fakes) -> Any:
    """Return an optimizer like another, for the fake parameters, with states of its own."""
    fake = copy.copy(optimizer)
    fake.param_groups = [{**g, "params": [fakes.of(p) for p in g["params"]]} for g in optimizer.param_groups]
    fake.state = defaultdict(dict)
    for p, state in optimizer.state.items():
        fake.state[fakes.of(p)] = pytree.tree_map_only(torch.Tensor, fakes.of, dict(state))
    return fake


def tensors_of(state: Any) -> list[torch.Tensor]:
    """Return the tensors of an optimizer's states."""
    return [t for s in state.values() for t in pytree.tree_leaves(dict(s)) if isinstance(t, torch.Tensor)]


def eager(
    model: Any,
    inputs: Any,
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    fakes: Fakes,
    training: bool,
    loss: Optional[Callable[[Any], torch.Tensor]] = None,
    optimizer: Optional[Any] = None,
    workspaces: Optional[Workspaces] = None,
) -> tuple[Load, int]:
    """Run a step of eager PyTorch on fake tensors; return its load, and the bytes of the optimizer's states.

    The step is a forward pass, its backward pass and, with an optimizer, an update, of
    an iteration that begins without gradients and with the states. The model's result is
    held to the end, as by a caller who assigns it to a name.
    """
    model = module_of(model)
    args, named = fakes.call(call_of(inputs, kwargs))
    names = {id(m): name for name, m in model.named_modules()}
    with fakes.within(model), torch.set_grad_enabled(training), fakes.mode:
        owned = [*model.parameters(), *model.buffers()]
        states: list[torch.Tensor] = []
        update = None
        if optimizer is not None and training:
            update = optimizer_of(optimizer, fakes)
            owned += [p for g in update.param_groups for p in g["params"]]
            states = _first_update(update)
        for p in owned:
            p.grad = None
        watch = _Watch(names, workspaces)
        watch.device = owned[0].device.type if owned else "cpu"
        watch.resident([*owned, *states, *(t for t in pytree.tree_leaves((args, named)) if isinstance(t, torch.Tensor))])
        load = _watched(watch, model, args, named, training, loss, update)
        kept = {identity(p.grad): None for p in owned if p.grad is not None}
        load.name([watch.live[k] for k in kept if watch.live.get(k, -1) >= 0], [])
        for p in owned:
            p.grad = None
    if workspaces is not None:
        load.beside(workspaces.sizes(watch.calls))
    return load, sum(nbytes(t) for t in states)


def _first_update(optimizer: Any) -> list[torch.Tensor]:
    """Let an optimizer make its states; return them."""
    for g in optimizer.param_groups:
        for p in g["params"]:
            p.grad = torch.empty_like(p) if p.requires_grad else None
    with _Watch({}):
        optimizer.step()
    return [t for t in tensors_of(optimizer.state) if t.dim() > 0]


def _watched(watch: _Watch, model: Any, args: Any, kwargs: Any, training: bool, loss: Any, optimizer: Any) -> Load:
    with watch.inside():
        result = model(*args, **kwargs)
        value = None
        if training:
            value = loss(result) if loss is not None else loss_of(result)
            if value is None:
                raise ValueError(f"the model's result is {name_of(result)}: expected a scalar loss, an output with .loss, or loss=")
            if loss is not None:
                del result
        boundary = len(watch.steps)
        # Only the forward pass is within the caller's autocast, whose end frees the casts that it keeps.
        torch.clear_autocast_cache()
        with torch.autocast(watch.device, enabled=False):
            if value is not None:
                value.backward()
            update = len(watch.steps)
            if optimizer is not None:
                optimizer.step()
    end = len(watch.steps) - 1
    blocks = watch.blocks
    for b in blocks:
        b.last = end if b.last < 0 else b.last
    return Load(watch.steps, blocks, boundary, update, "Python and autograd on fake tensors")
