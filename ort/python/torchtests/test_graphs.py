"""Graphs that are more than products: effects, views, numbers from the data, regions, breaks.

Each function runs twice below a limit, and has the results, gradients, buffers, inputs and
draws of eager PyTorch, bit for bit. How to run: test_equal.py.
"""

from __future__ import annotations

import copy
import functools
import os
import unittest
import warnings
from collections.abc import Callable
from typing import Any, Optional

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import onnxmem_torch
from onnxmem_torch._compile import aot_eager
from onnxmem_torch._step import Step

WIDTH = 32


class Layers(nn.Module):
    """Some layers, a buffer and a parameter that nothing reads."""

    def __init__(self, function: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(WIDTH))
        self.function = function

    def body(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.gelu(layer(x)).sin()
        return x

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def buffer(m: Layers, x: torch.Tensor) -> Any:
    m.count.add_(1)
    y = m.body(x)
    m.count.mul_(y.detach().mean())
    return y.sum() * m.count.sum()


def written_input(m: Layers, x: torch.Tensor) -> Any:
    y = m.body(x * 1)
    x.add_(1)
    return (y * x).sum()


def outputs(m: Layers, x: torch.Tensor) -> Any:
    """Views of each other, an input, a parameter, equal values, and what is no tensor."""
    y = m.body(x)
    return y.view(-1).sum(), y, y.t(), x, y.split(16, 1), y + 1, y + 1, None, 3, m.layers[0].weight


def dropouts(m: Layers, x: torch.Tensor) -> Any:
    for layer in m.layers:
        x = F.dropout(F.gelu(layer(x)), 0.3) + torch.rand(WIDTH) * F.rrelu(x, training=True)
    return (x * torch.bernoulli(torch.full_like(x, 0.5))).sum()


def checkpointed(m: Layers, x: torch.Tensor) -> Any:
    for layer in m.layers:
        x = checkpoint(lambda t, layer=layer: F.dropout(F.gelu(layer(t)), 0.2).sin(), x, use_reentrant=False)
    return x.sum()


def _policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if "mm" in str(operator) else CheckpointPolicy.PREFER_RECOMPUTE


def selective(m: Layers, x: torch.Tensor) -> Any:
    contexts = functools.partial(create_selective_checkpoint_contexts, _policy)
    for layer in m.layers:
        x = checkpoint(lambda t, layer=layer: F.gelu(layer(t)).sin(), x, use_reentrant=False, context_fn=contexts)
    return x.sum()


def autocast(m: Layers, x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m.body(x)
    return y.float().sum()


class Kept(torch.autograd.Function):
    """Keeps a tensor on its context and saves another."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.x = x
        ctx.save_for_backward(x.sin())
        return x.exp()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (saved,) = ctx.saved_tensors
        return gradient * ctx.x.exp() + 0 * saved


def custom(m: Layers, x: torch.Tensor) -> Any:
    return Kept.apply(m.body(x)).sum() + Kept.apply(m.layers[0].weight).sum()


def sizes(m: Layers, x: torch.Tensor) -> Any:
    y = m.body(x)
    n = x.shape[0]
    return y[torch.arange(n).flip(0)].cumsum(0).sum() * n + (y.reshape(n * 2, -1).sum(0) / n).sin().sum(), n, y


def from_data(m: Layers, x: torch.Tensor) -> Any:
    y = m.body(x)
    few = (y[:, 0] > 0).nonzero().squeeze(1)
    return m.body(y[few]).sum() * int((y > 0).sum().item())


def cond(m: Layers, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (m.body(x),)).sum()


def statistics(m: Layers, x: torch.Tensor) -> Any:
    return m.norm(m.body(m.norm(m.body(m.norm(x))))).square().sum()


def broken(m: Layers, x: torch.Tensor) -> Any:
    y = m.body(x)
    torch._dynamo.graph_break()
    return m.body(y).sum()


@torch.compiler.nested_compile_region  # type: ignore[untyped-decorator]
def _region(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.gelu(layer(x)).sin()


def regions(m: Layers, x: torch.Tensor) -> Any:
    for layer in m.layers:
        x = _region(layer, x)
    return m.body(x).sum()


@torch.library.custom_op("onnxmem_test::bump", mutates_args=("x",))  # type: ignore[untyped-decorator]
def bump(x: torch.Tensor) -> None:
    x.add_(1)


def writing(m: Layers, x: torch.Tensor) -> Any:
    y = m.body(x)
    z = y.detach().clone()
    bump(z)
    bump(m.count)
    return (y * z).sum() * m.count.sum()


PLANNED = [buffer, written_input, outputs, checkpointed, selective, autocast, custom, sizes, from_data, cond, statistics, writing]


class TestGraphs(unittest.TestCase):
    """Functions of many kinds below a limit."""

    def setUp(self) -> None:
        torch._dynamo.reset()

    def compare(
        self, function: Callable[[Any, torch.Tensor], Any], limit: str, lengths: tuple[int, ...] = (64, 64), dynamic: Optional[bool] = None
    ) -> onnxmem_torch.Partitioner:
        torch.manual_seed(0)
        model = Layers(function)
        other = copy.deepcopy(model)
        inputs = [torch.randn(n, WIDTH) for n in lengths]
        partitioner = onnxmem_torch.Partitioner(limit)
        # AOTAutograd adds up the gradients of several results in an order of its own.
        reference = torch.compile(model, backend="aot_eager") if function is outputs else model
        want = self.train(model, reference, inputs)
        torch._dynamo.reset()
        with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
            got = self.train(other, torch.compile(other, backend=aot_eager(partitioner), dynamic=dynamic), inputs)
        self.assertEqual(len(want), len(got))
        for k, (a, b) in enumerate(zip(want, got)):
            same = torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b
            self.assertTrue(same, f"value {k}: expected {a}, found {b}")
        return partitioner

    def train(self, model: Layers, run: Callable[..., Any], inputs: list[torch.Tensor]) -> list[Any]:
        """Return all that a call of the function and its backward pass leave behind."""
        torch.manual_seed(1)
        seen: list[Any] = []
        for x in inputs:
            x = x.clone()
            model.zero_grad()
            made = torch.utils._pytree.tree_leaves(run(x))
            tensors = [t for t in made if isinstance(t, torch.Tensor) and t.requires_grad and t is not model.layers[0].weight]
            sum(t.float().square().sum() * (k + 1) for k, t in enumerate(tensors)).backward()
            seen += [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in made]
            seen += [None if p.grad is None else p.grad.clone() for p in model.parameters()]
            seen += [b.clone() for b in model.buffers()] + [x, torch.rand(1)]
        return seen

    def test_planned(self) -> None:
        for function in PLANNED:
            with self.subTest(function.__name__), warnings.catch_warnings():
                warnings.simplefilter("error", onnxmem_torch.PlanWarning)
                torch._dynamo.reset()
                reports = self.compare(function, "70%").reports
                self.assertGreater(reports[0].repeated, 0)
                self.assertLessEqual(reports[0].peak_bytes, reports[0].limit_bytes or 0)

    def test_must_save(self) -> None:
        """What a checkpoint's policy saves does not run again; its other wishes are no orders."""
        graph = torch.fx.Graph()
        x = graph.placeholder("primals_1")
        kept, free = (graph.call_function(torch.ops.aten.sin.default, (x,)) for _ in range(2))
        for node in (x, kept, free):
            node.meta["val"] = torch.empty(8, device="meta")
        kept.meta["recompute"], free.meta["recompute"] = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE
        graph.output((kept, free))
        step = Step(graph, 2)
        self.assertEqual([n.get("once", False) for n in step.nodes], [True, False, True])
        self.assertEqual(step.boundary, 2)

    def test_draws(self) -> None:
        """Random operators draw once, in order; the mask of a dropout is kept where its product is not."""
        (report,) = self.compare(dropouts, "75%").reports
        self.assertGreater(report.repeated, 0)

    def test_lengths(self) -> None:
        """One plan serves all sizes of a dimension that changes."""
        (report,) = self.compare(sizes, "70%", lengths=(64, 17, 9), dynamic=True).reports
        self.assertGreater(report.repeated, 0)

    def test_warnings(self) -> None:
        """A cut function and a region within another say so, once."""
        for function, text in ((broken, "several graphs"), (regions, "a region")):
            with self.subTest(function.__name__), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                torch._dynamo.reset()
                self.compare(function, "80%")
                (warning,) = [str(w.message) for w in caught if issubclass(w.category, onnxmem_torch.PlanWarning)]
                self.assertIn(text, warning)


if __name__ == "__main__":
    unittest.main()
