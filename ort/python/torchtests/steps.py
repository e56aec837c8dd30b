"""Training steps of one network, compiled in several ways, and what these must have in common."""

import copy
import time
import unittest.mock
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends import common
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import aot_autograd
from torch._functorch import config as functorch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, partition_fn
from torch._inductor.decomposition import select_decomp_table

import onnxmem_torch
from onnxmem_torch._again import compiled as again

from .memory import Measured, peaks
from .networks import Network

STEPS = 3
Graph = Callable[..., Any]
Compiler = Callable[[fx.GraphModule, list[Any]], Graph]


@dataclass(frozen=True)
class Trained:
    """What three steps of SGD leave: losses, the last gradients by parameter (None stays None), parameters and buffers."""

    losses: list[torch.Tensor]
    gradients: dict[str, torch.Tensor | None]
    state: dict[str, torch.Tensor]

    def differs(self, other: "Trained") -> list[str]:
        """Return the names of what has not the same bits."""
        names = [f"loss {i}" for i, (a, b) in enumerate(zip(self.losses, other.losses, strict=True)) if not _same(a, b)]
        names += [f"gradient of {n}" for n, g in self.gradients.items() if not _same(g, other.gradients[n])]
        return names + [n for n, t in self.state.items() if not _same(t, other.state[n])]

    def distance(self, other: "Trained") -> float:
        """Return the largest difference of a loss, relative to it, or of a gradient, relative to its network's largest."""
        pairs = [(a / a.abs(), b / a.abs()) for a, b in zip(self.losses, other.losses, strict=True)]
        largest = max(float(g.abs().max()) for g in self.gradients.values() if g is not None)
        for name, gradient in self.gradients.items():
            match = other.gradients[name]
            if (gradient is None) != (match is None):
                return float("inf")
            if gradient is not None and match is not None:
                pairs.append((gradient / largest, match / largest))
        return max(float((a - b).abs().max()) for a, b in pairs)


def _same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and bool(torch.equal(a.nan_to_num(), b.nan_to_num()))


class Trainer:
    """A network with its inputs, which begins from the same weights and random draws each time.

    double: in float64, so that what differs by more than rounding shows.
    """

    def __init__(self, network: Network, double: bool = False) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.module = network.build().train()
        self.inputs = network.draw()
        if double:
            self.module = self.module.double()
            self.inputs = tuple(x.double() if x.is_floating_point() else x for x in self.inputs)
        self._kept = {n: t.detach().clone() for n, t in self._tensors()}

    def _tensors(self) -> list[tuple[str, torch.Tensor]]:
        return [*self.module.named_parameters(), *self.module.named_buffers()]

    def begin(self) -> None:
        """Set weights, buffers, gradients and the generator as they were at the beginning."""
        with torch.no_grad():
            for name, tensor in self._tensors():
                tensor.copy_(self._kept[name])
        self.module.zero_grad(set_to_none=True)
        torch.manual_seed(1)

    def train(self, step: Graph) -> Trained:
        """Take three steps."""
        self.begin()
        optimizer = torch.optim.SGD(self.module.parameters(), 0.05)
        losses = []
        for i in range(STEPS):
            optimizer.zero_grad()
            loss = step(*self.inputs)
            loss.backward()
            losses.append(loss.detach().clone())
            if i < STEPS - 1:
                optimizer.step()
        gradients = {n: None if p.grad is None else p.grad.clone() for n, p in self.module.named_parameters()}
        return Trained(losses, gradients, {n: t.detach().clone() for n, t in self._tensors()})

    def measure(self, step: Graph) -> Measured:
        """Return the peaks of a step whose gradients are new."""
        self.begin()
        return peaks(lambda: step(*self.inputs).backward())


class Compiled:
    """A network that is traced once and partitioned in several ways; `step(name)` is the step in one of them."""

    def __init__(self, trainer: Trainer, ways: Mapping[str, Any], compiler: Compiler) -> None:
        self._chosen = next(iter(ways))
        self._ways, self._compiled = ways, dict[str, Graph]()
        self.warnings: dict[str, list[str]] = {}
        #: What each way took after tracing, seconds of the processor.
        self.seconds: dict[str, float] = {}
        # Tracing takes nine tenths of a compilation on small networks. What comes after it runs for each way.
        self._rest = aot_autograd.aot_stage2_compile
        with unittest.mock.patch.object(aot_autograd, "aot_stage2_compile", self._each):
            self._step: Graph = torch.compile(trainer.module, backend=compiler, fullgraph=True)
            trainer.begin()
            self._step(*trainer.inputs)

    def _each(self, state: Any, traced: Any, partition: Any, *compilers: Any) -> tuple[Graph, Any]:
        """Compile what AOTAutograd has traced, each way from copies of its own."""
        for name, way in self._ways.items():
            began = time.process_time()

            def compiled(way: Any = way) -> Any:
                graph = fx.GraphModule(traced.graph_module, _copied(traced.graph_module.graph))
                own = replace(state, fw_metadata=copy.copy(state.fw_metadata)), replace(traced, graph_module=graph)
                # Inductor's partition function takes the configured one, behind passes of its own.
                chosen = partition if partition is partition_fn else way
                return self._rest(*own, chosen, *compilers)[0]

            with warnings.catch_warnings(record=True) as caught, config.patch(_options(way)):
                warnings.simplefilter("always")
                planned = isinstance(way, onnxmem_torch.Partitioner)
                self._compiled[name] = again(way, compiled) if planned else compiled()
            self.seconds[name] = time.process_time() - began
            self.warnings[name] = [str(w.message) for w in caught if issubclass(w.category, onnxmem_torch.PlanWarning)]

        def run(arguments: list[Any]) -> Any:
            return self._compiled[self._chosen](arguments)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run, None

    def step(self, name: str) -> Graph:
        self._chosen = name
        return self._again

    def _again(self, *inputs: torch.Tensor) -> torch.Tensor:
        with torch._dynamo.config.patch(error_on_recompile=True):  # which none of the ways would plan
            loss: torch.Tensor = self._step(*inputs)
            return loss


def _options(way: Any) -> dict[str, Any]:
    """Return Inductor's options for a partitioner, as compile() gives them."""
    if not isinstance(way, onnxmem_torch.Partitioner):
        return {"custom_partitioner_fn": None}
    return {"custom_partitioner_fn": way, **onnxmem_torch.inductor_pass("fast", way).options()}


def _copied(graph: fx.Graph) -> fx.Graph:
    new = fx.Graph(tracer_cls=graph._tracer_cls)
    copies: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        copies[node] = new.node_copy(node, copies.__getitem__)
        copies[node].meta = dict(node.meta)
    return new


def kernels(decompose: bool = False) -> Compiler:
    """Run graphs by PyTorch's own kernels, as aot_eager does. decompose: as Inductor would see them."""
    table = select_decomp_table() if decompose else None
    compiler: Compiler = common.aot_autograd(
        fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=min_cut, decompositions=table, keep_inference_input_mutations=True
    )
    return compiler


min_cut = min_cut_rematerialization_partition


def inductor(gm: fx.GraphModule, inputs: list[Any]) -> Graph:
    """Compile both passes by Inductor, with the random numbers of eager PyTorch."""
    with config.patch(fallback_random=True), functorch.patch(force_non_lazy_backward_lowering=True):
        result: Graph = compile_fx(gm, inputs)
        return result
