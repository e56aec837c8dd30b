"""The packed arena for a compiled step: each call of the model begins an iteration of its kind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ._allocator import install, iteration


def in_arena(compiled: Any) -> Any:
    """Return a compiled model or function whose steps take their memory from the packed arena.

    Raises RuntimeError, as install does, where there is no CUDA or where it was used before.
    """
    install()
    if not isinstance(compiled, torch.nn.Module):
        return _begins(compiled, lambda: True)
    compiled.forward = _begins(compiled.forward, lambda: compiled.training)
    return compiled


def _begins(run: Callable[..., Any], training: Callable[[], bool]) -> Callable[..., Any]:
    @functools.wraps(run)
    def step(*args: Any, **keywords: Any) -> Any:
        with iteration(_kind(training(), args, keywords)):
            return run(*args, **keywords)

    return step


def _kind(training: bool, args: tuple[Any, ...], keywords: dict[str, Any]) -> Hashable:
    """Return what calls that allocate alike have in common."""
    inputs = tree_leaves((args, keywords))
    return training, torch.is_grad_enabled(), tuple((tuple(x.shape), x.dtype) for x in inputs if isinstance(x, torch.Tensor))
