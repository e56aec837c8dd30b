"""Inductor's kernels without their compiler's time: all of a network in one library, not optimized.

Inductor hands each kernel of the processor to the compiler of C++ by itself, which takes far longer
than these tests. What is tested is what the kernels compute, so here their sources, as
Inductor writes them, are compiled when the first of them is called, each source once.
"""

from __future__ import annotations

import ctypes
import re
import unittest.mock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._inductor import config, cpp_builder
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import CppCodeCache

_NUMBERS = {"float": ctypes.c_float, "double": ctypes.c_double}
_ENTRY = re.compile(r'(extern "C"\s+(?:__attribute__\(\([^)]*\)\)\s+)?void\s+)kernel\(')


class _Library(CppCodeCache):
    """Compiles without PyTorch's libraries, behind a header that is compiled once for all."""

    cpp_compile_command_flags = {"include_pytorch": False, "shared": True}

    @classmethod
    def _get_uncompiled_header(cls, device: str) -> str:
        return "torch/csrc/inductor/cpp_prefix.h"


class Sources:
    """Kernels that are not compiled yet."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._new: list[str] = []
        self._found: dict[str, Any] = {}

    def kernel(self, types: Sequence[str], source: str) -> Callable[..., None]:
        """Return a function that calls a kernel with tensors and numbers."""
        name = self._names.get(source)
        if name is None:
            name = self._names[source] = f"kernel{len(self._names)}"
            renamed, count = _ENTRY.subn(rf"\1{name}(", source)
            assert count == 1, source
            self._new.append(renamed)
        numbers = [None if "*" in t else _NUMBERS.get(t.removeprefix("const ").strip(), ctypes.c_int64) for t in types]

        def call(*arguments: Any) -> None:
            function = self._function(name)
            function(*(ctypes.c_void_p(_address(a)) if number is None else number(a) for a, number in zip(arguments, numbers, strict=True)))

        return call

    def _function(self, name: str) -> Any:
        if name not in self._found:
            if self._new:
                with unittest.mock.patch.object(cpp_builder, "_get_optimization_cflags", _not_optimized):
                    library = _Library.load("\n".join(self._new))
                for new in list(self._names.values())[-len(self._new) :]:
                    self._found[new] = getattr(library, new)
                    self._found[new].restype = None
                self._new = []
        return self._found[name]


def _not_optimized(*_: Any, **__: Any) -> tuple[list[str], list[str]]:
    return ["O0", "DNDEBUG"], []


def _address(argument: Any) -> int:
    return argument.data_ptr() if isinstance(argument, torch.Tensor) else int(argument)


@contextmanager
def together(idle: bool = False) -> Iterator[None]:
    """Let what Inductor compiles inside be compiled together. idle: its kernels do nothing, and take no compiler."""
    sources = Sources()

    def kernel(_: AsyncCompile, types: Sequence[str], source: str) -> Callable[..., None]:
        return (lambda *_: None) if idle else sources.kernel(types, source)

    scalar = {"fx_graph_cache": False, "cpp.vec_isa_ok": False}
    with config.patch(scalar), unittest.mock.patch.object(AsyncCompile, "cpp_pybinding", kernel):
        yield
