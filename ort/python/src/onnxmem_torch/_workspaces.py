"""Workspaces: what kernels take and give back while they run.

No shape tells them. So each kernel runs once, alone, on zeros of its own shapes: what it
takes at most beside its results is its workspace. Kernels of equal shapes are one. What was
measured is kept on disk, beside the plans.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ._planner import folder
from ._storages import concrete

#: The libraries whose kernels may run on zeros; others may have effects.
_LIBRARIES = ("aten", "torchvision")


@dataclass(frozen=True)
class _Shape:
    """A tensor to be made."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    type: torch.dtype
    device: torch.device

    @staticmethod
    def of(tensor: torch.Tensor) -> _Shape:
        return _Shape(tuple(map(concrete, tensor.shape)), tuple(map(concrete, tensor.stride())), tensor.dtype, tensor.device)

    def zeros(self) -> torch.Tensor:
        return torch.empty_strided(self.size, self.stride, dtype=self.type, device=self.device).zero_()


@dataclass(frozen=True)
class _Call:
    """A kernel's call, with shapes in the place of tensors."""

    func: Any
    args: Any
    kwargs: Any
    device: torch.device

    def run(self) -> Callable[[], Any]:
        """Make the tensors, and return what runs the kernel."""
        args, kwargs = pytree.tree_map_only(_Shape, _Shape.zeros, (self.args, self.kwargs))
        return lambda: self.func(*args, **kwargs)


class Workspaces:
    """The workspaces of kernels. note() them all first; sizes() then measures what is not known."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._known: dict[str, dict[str, int]] = {}  # by device
        #: Kernels that could not run.
        self.failed: set[str] = set()

    def note(self, func: Any, args: Any, kwargs: Any) -> str:
        """Return the key of a call of an operator; empty of one that is taken to have no workspace."""
        if not isinstance(func, torch._ops.OpOverload) or func.namespace not in _LIBRARIES or func.is_view:
            return ""
        if torch.Tag.data_dependent_output in func.tags:
            return ""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        try:
            leaves = [_plain(x) for x in leaves]
        except NotImplementedError:  # a tensor without strides
            return ""
        device = next((x.device for x in leaves if isinstance(x, _Shape)), None)
        if device is None:
            return ""
        text = repr((str(func), leaves, str(spec)))
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        if key not in self._calls:
            shapes = pytree.tree_unflatten(leaves, spec)
            self._calls[key] = _Call(func, shapes[0], shapes[1], device)
        return key

    def of(self, node: fx.Node) -> str:
        """Return the key of a node of a graph."""
        if node.op != "call_function" or any("val" not in n.meta for n in node.all_input_nodes):
            return ""
        args, kwargs = pytree.tree_map_only(fx.Node, lambda n: n.meta["val"], (node.args, node.kwargs))
        return self.note(node.target, args, kwargs)

    def sizes(self, keys: Sequence[str]) -> list[int]:
        """Return the bytes of calls."""
        self._measure([k for k in dict.fromkeys(keys) if k])
        return [self._known[_environment(self._calls[k].device)].get(k, 0) if k else 0 for k in keys]

    def mark(self, graph: fx.Graph) -> None:
        """Note the workspaces of a graph's nodes, where a step finds them."""
        keys = {n: key for n in graph.nodes if (key := self.of(n))}
        for node, size in zip(keys, self.sizes(list(keys.values()))):
            node.meta["onnxmem_workspace"] = size

    def _measure(self, keys: list[str]) -> None:
        groups: dict[str, list[str]] = {}
        for k in keys:
            groups.setdefault(_environment(self._calls[k].device), []).append(k)
        for environment, several in groups.items():
            known = self._known.setdefault(environment, _load(environment))
            missing = [k for k in several if k not in known and k not in self.failed]
            if not missing:
                continue
            device = self._calls[missing[0]].device
            with _alone(device):
                found = (_on_cuda if device.type == "cuda" else _on_cpu)([self._calls[k] for k in missing])
            for k, size in zip(missing, found):
                if size is None:
                    self.failed.add(k)
                else:
                    known[k] = size
            _store(environment, known)

    def note_of_failed(self) -> str:
        """Say which kernels are taken to have none; empty if all ran."""
        names = sorted({str(self._calls[k].func) for k in self.failed})
        why = "while another profiler is on" if torch.autograd._profiler_enabled() else "which did not run alone"
        return f"no workspace is known of {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}, {why}" if names else ""


def _plain(value: Any) -> Any:
    """Return an argument without its bytes."""
    if isinstance(value, torch.Tensor):
        return _Shape.of(value)
    return concrete(value) if isinstance(value, torch.SymInt) else value


@contextmanager
def _alone(device: torch.device) -> Iterator[None]:
    """Run kernels as they are, whatever modes the caller is in, and leave the generators as they were."""
    devices = [device] if device.type == "cuda" else []
    with _disable_current_modes(), torch.random.fork_rng(devices), torch.no_grad(), torch.autocast(device.type, enabled=False):
        yield


def _on_cpu(calls: Sequence[_Call]) -> list[Optional[int]]:
    """Measure by the profiler's events of allocation, in one session. There is one profiler: the caller's goes first."""
    from torch.profiler import ProfilerActivity, profile, record_function

    if torch.autograd._profiler_enabled():
        return [None] * len(calls)
    failed = set()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        for k, call in enumerate(calls):
            try:
                run = call.run()
                with record_function(f"onnxmem {k}"):
                    result = run()
                del run, result
            except Exception:  # of any kernel: its note says so
                failed.add(k)
    events = list(p.profiler.kineto_results.events())
    memory = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    spans = {int(e.name().split()[1]): (e.start_ns(), e.start_ns() + e.duration_ns()) for e in events if e.name().startswith("onnxmem ")}
    found: list[Optional[int]] = [None] * len(calls)
    at = 0
    for k, (begin, end) in sorted(spans.items(), key=lambda s: s[1]):
        load = most = 0
        while at < len(memory) and memory[at][0] <= end:
            if memory[at][0] >= begin:
                load += memory[at][1]
                most = max(most, load)
            at += 1
        found[k] = None if k in failed else max(most - load, 0)
    return found


def _on_cuda(calls: Sequence[_Call]) -> list[Optional[int]]:
    """Measure by the counters of CUDA's caching allocator, in the second run: the first makes what libraries keep."""
    found: list[Optional[int]] = []
    for call in calls:
        try:
            size = 0
            for _ in range(2):
                run = call.run()
                torch.cuda.synchronize(call.device)
                torch.cuda.reset_peak_memory_stats(call.device)
                result = run()
                size = torch.cuda.max_memory_allocated(call.device) - torch.cuda.memory_allocated(call.device)
                del run, result
            found.append(size)
        except Exception:  # of any kernel: its note says so
            found.append(None)
    return found


def _environment(device: torch.device) -> str:
    """Return what workspaces depend on besides kernel and shapes."""
    b = torch.backends
    parts: list[Any] = [torch.__version__, device.type, torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()]
    if device.type == "cuda":
        parts += [torch.cuda.get_device_name(device), b.cudnn.version(), b.cudnn.enabled, b.cudnn.benchmark, b.cudnn.deterministic, b.cudnn.allow_tf32]
    else:
        parts += [b.cpu.get_cpu_capability(), torch.get_num_threads(), torch._C._get_mkldnn_enabled()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _load(environment: str) -> dict[str, int]:
    place = folder()
    try:
        return dict(json.loads((place / f"workspaces-{environment}.json").read_bytes())) if place else {}
    except (OSError, ValueError):
        return {}


def _store(environment: str, known: dict[str, int]) -> None:
    """Write what is known, beside what others have written meanwhile; a folder that cannot be written to is no error."""
    place = folder()
    if place is None:
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        with open(place / f"workspaces-{environment}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with tempfile.NamedTemporaryFile("w", dir=place, delete=False) as file:
                json.dump({**_load(environment), **known}, file, sort_keys=True)
            os.replace(file.name, place / f"workspaces-{environment}.json")
    except OSError:
        pass
