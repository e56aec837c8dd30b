"""A model on fake tensors, which have shapes and storages but no bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

#: Positional and named arguments of a call.
Call = tuple[tuple[Any, ...], dict[str, Any]]


def call_of(inputs: Any, kwargs: Optional[Mapping[str, Any]] = None) -> Call:
    """Return the arguments of ``model(*inputs)``: one tensor is one argument, a mapping names them."""
    if isinstance(inputs, Mapping):
        return (), {**inputs, **(kwargs or {})}
    if isinstance(inputs, (list, tuple)):
        return tuple(inputs), dict(kwargs or {})
    return (inputs,), dict(kwargs or {})


class Fakes:
    """Fake tensors, one for each real one, however often it is met.

    Tensors on the device "meta" are taken to be on device, which is by default the one that
    PyTorch would take for training: a GPU if there is one.
    """

    def __init__(self, given: Any, device: Optional[Any] = None) -> None:
        self.mode = detect_fake_mode(pytree.tree_leaves(given)) or FakeTensorMode(allow_non_fake_inputs=True)
        self.device = torch.device(device) if device is not None else None
        self._of: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the real one is kept, so that its id stays its own

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the fake of a tensor; a fake tensor is its own, unless it is on another device."""
        kept = self._of.get(id(tensor))
        if kept is None:
            kept = self._of[id(tensor)] = (tensor, self._make(tensor))
        return kept[1]

    def _make(self, tensor: torch.Tensor) -> torch.Tensor:
        device = self.device or tensor.device
        if device.type == "meta":
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        fake = tensor if isinstance(tensor, FakeTensor) else self.mode.from_tensor(tensor, static_shapes=True)
        if fake.device.type != device.type:
            with self.mode:
                moved = torch.empty_strided(fake.size(), fake.stride(), dtype=fake.dtype, device=device)
            fake = torch.nn.Parameter(moved, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else moved.requires_grad_(tensor.requires_grad)
        return fake

    def call(self, call: Call) -> Call:
        """Return a call with fake tensors in the place of all tensors."""
        args, kwargs = pytree.tree_map_only(torch.Tensor, self.of, call)
        return args, kwargs

    @contextmanager
    def within(self, model: Any) -> Iterator[None]:
        """Give the modules of a model fake parameters and buffers for a while.

        Whatever a module keeps beside them meanwhile is forgotten.
        """
        modules = list(model.modules())
        kept = [(m, dict(m.__dict__), dict(m._parameters), dict(m._buffers)) for m in modules]
        try:
            for m in modules:
                for name, p in m._parameters.items():
                    if p is not None:
                        m._parameters[name] = self.of(p)
                for name, b in m._buffers.items():
                    if b is not None:
                        m._buffers[name] = self.of(b)
            yield
        finally:
            for m, attributes, parameters, buffers in kept:
                for name in set(m.__dict__) - set(attributes):
                    del m.__dict__[name]
                m.__dict__.update(attributes)
                m._parameters.clear()
                m._parameters.update(parameters)
                m._buffers.clear()
                m._buffers.update(buffers)


def module_of(model: Any) -> Any:
    """Return the model itself of one that torch.compile returned.

    A function is refused: which parameters it has, and so which would be given fake gradients, is not known.
    """
    model = getattr(model, "_orig_mod", model)
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"the model is {type(model).__name__}: expected a torch.nn.Module; a function is written as one's forward")
    return model


def loss_of(result: Any) -> Optional[torch.Tensor]:
    """Return the loss in a model's result: a scalar, an attribute or key ``loss``, or the first of several."""
    if isinstance(result, torch.Tensor):
        return result if result.numel() == 1 and result.requires_grad else None
    found = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(found, torch.Tensor):
        return found
    return loss_of(result[0]) if isinstance(result, (list, tuple)) and result else None


def name_of(result: Any) -> str:
    """Say what a result is, for an error."""
    if isinstance(result, torch.Tensor):
        return f"a tensor of shape {tuple(result.shape)}"
    return type(result).__name__
