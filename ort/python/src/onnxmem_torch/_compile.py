"""``compile``: torch.compile with a limit on the memory of a training step."""

from __future__ import annotations

from typing import Any, Optional, Union
from weakref import WeakKeyDictionary

import torch
import torch._inductor

from ._again import Again
from ._arena import in_arena
from ._distributed import examine
from ._limit import Limit, PlanWarning, Report, parse
from ._partition import Partitioner
from ._scheduler import inductor_pass
from ._storages import BLOCK
from ._updates import Updates

#: Tensors like a parameter that an optimizer keeps for each.
_STATES = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "Adagrad": 1, "Adadelta": 2, "Rprop": 2}

#: The partitioners of compiled models.
_partitioners: WeakKeyDictionary[Any, Partitioner] = WeakKeyDictionary()


def states(optimizer: Any) -> int:
    """Return the bytes of an optimizer's states, whether they are there already or not."""
    count = 0
    for group in optimizer.param_groups:
        kept = _STATES.get(type(optimizer).__name__, 0)
        if type(optimizer).__name__ == "SGD":
            kept = 1 if group["momentum"] else 0
        if type(optimizer).__name__ == "RMSprop":
            kept = 1 + bool(group["momentum"]) + bool(group["centered"])
        kept += bool(group.get("amsgrad"))
        for p in group["params"]:
            count += kept * _rounded(p)
    return count


def _rounded(parameter: Any) -> int:
    """Return the bytes of a tensor like a parameter or a gradient."""
    size: int = parameter.numel() * parameter.element_size()
    return -(-size // BLOCK) * BLOCK


def compile(
    model: Any,
    *,
    limit: Limit = None,
    extra: Union[None, str, float] = None,
    backend: str = "inductor",
    optimizer: Optional[Any] = None,
    updates: bool = True,
    accumulate: bool = False,
    arena: bool = False,
    strict: bool = False,
    effort: str = "fast",
    **options: Any,
) -> Any:
    """Return the model compiled so that its training step stays below a limit.

        model = onnxmem_torch.compile(model, limit="60%")

    limit is a share of the peak of the best order without recomputation, parameters and
    optimizer states apart, or a size such as "20GiB" of everything, which asks for
    fullgraph=True and for the optimizer, whose states count. Instead of it, extra is the
    time that may be added, such as "10%", for the smallest peak that this buys.

    With an optimizer (SGD, Adam, AdamW) each parameter is updated within the backward
    pass, as soon as its gradient is there, which then is freed: ``backward()`` leaves no
    gradients, and ``optimizer.step()`` only ends the step. So gradients cannot be clipped,
    scaled or accumulated; what would go wrong unseen raises, but clipping does nothing.
    updates=False counts the optimizer's states alone. accumulate says that gradients are
    kept from call to call: they count, too, and updates stay apart.

    arena=True, on CUDA, takes the memory of the steps from packed arenas, as install() does,
    and each call begins an iteration(): a tight plan leaves more holes in the memory of
    PyTorch's allocator. It has to come before the first use of CUDA.

    backend is "inductor" or "aot_eager". options are further ones of torch.compile, with
    mode= or options= of Inductor.

    A model in shards (FSDP) is refused with NotImplementedError.

    What cannot be planned takes PyTorch's own partitioner, with a warning that says why; a
    limit that no plan meets gives the smallest plan, with a warning. strict raises instead.
    Inductor's kernels may need more than was planned, by its own account of them: then smaller
    plans are tried, and if none will do, a warning says so. For that, the backward pass is compiled
    with the forward pass. reports() has the figures. Where Inductor's cache is off or cannot take a graph, torch
    wraps this LimitError in an InductorError, as its inner_exception.
    """
    size, _ = parse(limit)
    if size is not None and not options.get("fullgraph"):
        raise ValueError(f"limit {limit!r}: bytes are of the whole step: say fullgraph=True, or give a share such as '60%'")
    kept = states(optimizer) if optimizer is not None else 0
    if accumulate:
        kept += sum(_rounded(p) for p in model.parameters() if p.requires_grad)
    partitioner = Partitioner(
        limit,
        extra=extra,
        states=kept,
        strict=strict,
        effort=effort,
        updates=Updates.of_optimizer(optimizer) if optimizer is not None and updates and not accumulate else None,
    )
    if not accumulate and partitioner.updates is None and isinstance(model, torch.nn.Module):
        partitioner.gradients = lambda: sum(_rounded(p.grad) for p in model.parameters() if p.grad is not None)
    examine(model, PlanWarning)
    compiled = _compiled(model, backend, partitioner, options)
    compiled = in_arena(compiled) if arena else compiled
    _partitioners[compiled] = partitioner
    return compiled


def reports(model: Any) -> list[Report]:
    """Return what was planned for a model or function that compile() has returned, graph by graph.

    It has a report for each graph that was planned in this process: one from a cache of PyTorch
    has none. ValueError if compile() has not returned the model.
    """
    if model not in _partitioners:
        raise ValueError(f"{type(model).__name__}: expected what onnxmem_torch.compile has returned")
    return list(_partitioners[model].reports)


def _compiled(model: Any, backend: str, partitioner: Partitioner, options: dict[str, Any]) -> Any:
    if backend == "inductor":
        given = {**_options(options), "custom_partitioner_fn": partitioner}
        if partitioner.limit is not None or partitioner.extra is not None:
            own = "_post_fusion_custom_pass" in given
            given = given if own else {**inductor_pass(partitioner.effort, partitioner).options(), **given}
        if partitioner.limit is None:
            return torch.compile(model, backend="inductor", options=given, **options)
        guards = {name: given.pop(name) for name in ("guard_filter_fn",) if name in given}
        names = {name: options.pop(name) for name in ("name",) if name in options}
        inner = torch._TorchCompileInductorWrapper(None, given, options.get("dynamic"), **names)
        return torch.compile(model, backend=Again(inner, partitioner), options=guards or None, **options)
    if backend == "aot_eager":
        return torch.compile(model, backend=aot_eager(partitioner), **options)
    raise ValueError(f'backend {backend!r}: expected "inductor" or "aot_eager"')


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Take options and mode of torch.compile out of its keywords; return the options of Inductor that they are."""
    given, mode = options.pop("options", None), options.pop("mode", None)
    if mode is None:
        return dict(given or {})
    if given is not None:  # as torch.compile does
        raise RuntimeError(f"mode={mode!r} and options: expected one of the two; torch._inductor.list_mode_options({mode!r}) gives the options of the mode")
    found: dict[str, Any] = torch._inductor.list_mode_options(mode, options.get("dynamic"))
    return dict(found)


def aot_eager(partitioner: Partitioner) -> Any:
    """Return a backend of torch.compile that runs the planned graphs by PyTorch's own kernels."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop

    # Boxed, so that saved tensors die when the backward pass has read them.
    return aot_autograd(fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=partitioner, keep_inference_input_mutations=True)
