"""What training steps do beside computing: state, aliases, random numbers, several graphs. Always eager PyTorch's bits."""

import copy
import dataclasses
import json
import os
import unittest
import unittest.mock
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import onnxmem_torch

_WIDTH = 64


class Layers(nn.Module):
    """Some layers whose activations are most of the memory; a part of it is what a test is about."""

    def __init__(self, layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(_WIDTH)) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> Any:
        for layer in self.layers:
            x = x + layer(x)
        return self.end(x)

    def end(self, x: torch.Tensor) -> Any:
        return x.square().mean()


class Counts(Layers):
    """Buffers that are written in place, one of them read before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(_WIDTH))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def end(self, x: torch.Tensor) -> Any:
        before = self.mean * 2
        self.mean.mul_(0.9).add_(x.detach().mean((0, 1)), alpha=0.1)
        self.steps += 1
        return (x - before).square().mean() + (x * self.mean).mean()


class Writes(Layers):
    """Activations that are written in place."""

    def end(self, x: torch.Tensor) -> Any:
        y = x.clone()
        y.add_(1)
        y[:, 0].mul_(2)
        y[:, 1:].add_(x[:, :-1])
        return y.square().mean()


class Tied(Layers):
    """The first layer's weight again as the last one's."""

    def end(self, x: torch.Tensor) -> Any:
        return functional.linear(x, self.layers[0][0].weight).square().mean()


class Unused(Layers):
    """Parameters without gradients: one that nothing reads, one that is frozen, one that is detached."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = nn.Parameter(torch.randn(_WIDTH))
        self.frozen = nn.Parameter(torch.randn(_WIDTH), requires_grad=False)
        self.detached = nn.Parameter(torch.randn(_WIDTH))

    def end(self, x: torch.Tensor) -> Any:
        return (x * self.frozen + self.detached.detach()).square().mean()


class Views(Layers):
    """Results that are views of one another, of an input and of a parameter, and one without a gradient."""

    def forward(self, x: torch.Tensor) -> Any:
        y = super().forward(x)
        return y, y.view(-1)[3:], y.transpose(0, 1), x[0], self.layers[0][0].weight.T, (y > 0).sum()

    def end(self, x: torch.Tensor) -> Any:
        return x * 2


class Cast(Layers):
    """Half of it under autocast."""

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for layer in self.layers:
                x = x + layer(x)
        return x.float().square().mean()


class Checkpointed(Layers):
    """Each layer below torch.utils.checkpoint."""

    def forward(self, x: torch.Tensor) -> Any:
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return self.end(x)


class Broken(Layers):
    """Two graphs, since Dynamo does not trace what stands in the middle."""

    def end(self, x: torch.Tensor) -> Any:
        torch._dynamo.graph_break()
        for layer in self.layers:
            x = x + layer(x)
        return x.square().mean()


class Draws(Layers):
    """Random numbers of several kinds, drawn among dropouts."""

    def end(self, x: torch.Tensor) -> Any:
        x = x + torch.randn_like(x) * 0.1
        x = functional.dropout(x, 0.3) * torch.rand(_WIDTH)
        kept = torch.bernoulli(torch.full((x.shape[0], 1, 1), 0.5))
        return (x * kept).square().mean() + (x * torch.randint(0, 2, x.shape)).mean()


class Turned(Layers):
    """Dropouts of transposed tensors, which draw in the order of memory."""

    def end(self, x: torch.Tensor) -> Any:
        y = x.transpose(1, 2)
        for _ in range(4):
            y = functional.dropout(functional.gelu(y), 0.1)
        return y.square().mean()


class Attends(Layers):
    """Attention with dropout, which draws inside one kernel."""

    def end(self, x: torch.Tensor) -> Any:
        q = x.unsqueeze(1)
        y = functional.scaled_dot_product_attention(q, q, q, dropout_p=0.2) + functional.scaled_dot_product_attention(q, q, q)
        return y.square().mean()


Result = list[Any]


def _x(batch: int = 16) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randn(batch, 32, _WIDTH)


def _loss(results: Any) -> torch.Tensor:
    """Return a loss of all results that have a gradient."""
    results = results if isinstance(results, tuple) else (results,)
    return sum((r.square().mean() * (i + 1) for i, r in enumerate(results) if r.requires_grad), start=torch.zeros(()))


def steps(module: nn.Module, step: Callable[..., Any], x: torch.Tensor | None = None) -> Result:
    """Take three steps; return results, gradients and buffers."""
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    torch.manual_seed(4)
    found: Result = []
    for _ in range(3):
        optimizer.zero_grad()
        results = step(_x() if x is None else x)
        _loss(results).backward()
        optimizer.step()
        found += [r.detach().clone() for r in (results if isinstance(results, tuple) else (results,))]
    return found + state(module)


def state(module: nn.Module) -> Result:
    return [p.grad for p in module.parameters()] + [b.clone() for b in module.buffers()]


def traced(module: nn.Module) -> Any:
    """Return a module as aot_eager runs it: under autocast, its gradients are rounded otherwise than eager PyTorch's."""
    return torch.compile(module, backend="aot_eager")


class _Both(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.set_num_threads(1)

    def both(self, build: Callable[[], nn.Module], take: Callable[[nn.Module, Callable[..., Any]], Result] = steps, limit: str | None = "70%", beside: Callable[[nn.Module], Any] | None = None, **options: Any) -> list[str]:
        """Take steps in eager PyTorch, or what beside makes of the module, and below a limit; return the warnings of the latter."""
        torch.manual_seed(0)
        plain = build().train()
        planned = copy.deepcopy(plain)
        wanted = take(plain, beside(plain) if beside else plain)
        torch._dynamo.reset()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled = onnxmem_torch.compile(planned, limit=limit, backend="aot_eager", **options)
            got = take(planned, compiled)
        self.assertEqual(len(wanted), len(got))
        for i, (a, b) in enumerate(zip(wanted, got, strict=True)):
            if a is None or b is None:
                self.assertIs(a, b, f"value {i}")
            else:
                self.assertEqual(a.dtype, b.dtype)
                self.assertTrue(torch.equal(a, b), f"value {i} of {len(wanted)}: {a.flatten()[:4]} {b.flatten()[:4]}")
        return [str(w.message) for w in caught if issubclass(w.category, onnxmem_torch.PlanWarning)]

    def planned(self, *args: Any, **options: Any) -> None:
        """As both, and the limit is kept."""
        self.assertEqual(self.both(*args, **options), [])


class TestSteps(_Both):
    def test_buffers_that_are_written(self) -> None:
        self.planned(Counts, fullgraph=True)

    def test_writes_in_place(self) -> None:
        self.planned(Writes, fullgraph=True)

    def test_tied_weights(self) -> None:
        self.planned(Tied, fullgraph=True)

    def test_parameters_without_gradients(self) -> None:
        self.planned(Unused, fullgraph=True)

    def test_views_as_results(self) -> None:
        self.planned(Views, fullgraph=True)

    def test_autocast_inside(self) -> None:
        self.planned(Cast, beside=traced, fullgraph=True)

    def test_autocast_outside(self) -> None:
        def take(module: nn.Module, step: Callable[..., Any]) -> Result:
            def cast(x: torch.Tensor) -> Any:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    return step(x)

            return steps(module, cast)

        self.planned(Layers, take, beside=traced, fullgraph=True)

    def test_checkpoints(self) -> None:
        self.both(Checkpointed, fullgraph=True)

    def test_random_numbers(self) -> None:
        self.planned(Draws, fullgraph=True)

    def test_dropouts_of_transposed_tensors(self) -> None:
        self.planned(Turned, limit="50%", fullgraph=True)

    def test_attention_with_dropout(self) -> None:
        self.planned(Attends, fullgraph=True)

    def test_two_graphs(self) -> None:
        (warning,) = self.both(Broken)
        self.assertIn("several graphs", warning)

    def test_gradients_that_are_there(self) -> None:
        """No plan counts them without accumulate=True: a step that begins with gradients has one warning."""

        def take(module: nn.Module, step: Callable[..., Any]) -> Result:
            for p in module.parameters():
                p.grad = torch.ones_like(p)
            torch.manual_seed(5)
            for _ in range(2):
                step(_x()).backward()
            return state(module)

        (warning,) = self.both(Layers, take, fullgraph=True)
        self.assertIn("gradients already, of 0.1 MiB", warning)
        self.planned(Layers, take, fullgraph=True, accumulate=True)

    def test_an_input_that_is_written(self) -> None:
        class Input(Layers):
            def forward(self, x: torch.Tensor) -> Any:
                loss = super().forward(x * 1)
                x.add_(1)
                return loss

        def take(module: nn.Module, step: Callable[..., Any]) -> Result:
            x = _x()
            return [*steps(module, step, x), x]

        self.both(Input, take, fullgraph=True)

    def test_a_gradient_of_the_input(self) -> None:
        def take(module: nn.Module, step: Callable[..., Any]) -> Result:
            x = _x().requires_grad_()
            return [*steps(module, step, x), x.grad]

        self.planned(Layers, take, fullgraph=True)

    def test_gradients_that_add_up(self) -> None:
        def take(module: nn.Module, step: Callable[..., Any]) -> Result:
            torch.manual_seed(5)
            for batch in (16, 16, 16):
                step(_x(batch)).backward()
            return state(module)

        self.planned(Layers, take, fullgraph=True)

    def test_two_backward_passes_of_one_forward_pass(self) -> None:
        def take(module: nn.Module, step: Callable[..., Any]) -> Result:
            torch.manual_seed(6)
            loss = step(_x())
            loss.backward(retain_graph=True)
            loss.backward()
            return state(module)

        self.planned(Layers, take, fullgraph=True)

    def test_steps_among_evaluations(self) -> None:
        def take(module: nn.Module, step: Callable[..., Any]) -> Result:
            torch.manual_seed(7)
            found = []
            for _ in range(2):
                step(_x()).backward()
                module.eval()
                with torch.no_grad():
                    found.append(step(_x()))
                module.train()
            return found + state(module)

        self.planned(Layers, take, fullgraph=True)

    def test_sizes_that_change(self) -> None:
        def take(module: nn.Module, step: Callable[..., Any]) -> Result:
            torch.manual_seed(8)
            found = []
            for batch in (16, 8, 24, 5):
                loss = step(_x(batch))
                loss.backward()
                found.append(loss.detach())
            return found + state(module)

        self.both(Layers, take, fullgraph=True, dynamic=True)

    def test_without_a_limit(self) -> None:
        self.planned(Layers, limit=None, fullgraph=True)


class TestFallbacks(_Both):
    """What is not planned goes to min-cut, with one warning that says why, and the same bits."""

    def test_no_command(self) -> None:
        from onnxmem_torch import _planner

        _planner.planner.cache_clear()
        self.addCleanup(_planner.planner.cache_clear)
        with unittest.mock.patch.dict(os.environ, ONNXMEM_COMMAND="/nowhere/onnxmem"):
            (text,) = self.both(Layers, fullgraph=True)
        self.assertIn("/nowhere/onnxmem", text)
        self.assertIn("min-cut", text)

    def test_a_fault_of_ours(self) -> None:
        with unittest.mock.patch("onnxmem_torch._partition.split", side_effect=KeyError("gelu")):
            (text,) = self.both(Layers, fullgraph=True)
        self.assertIn("KeyError: 'gelu': PyTorch's min-cut", text)

    def test_strict_raises(self) -> None:
        with unittest.mock.patch("onnxmem_torch._partition.split", side_effect=KeyError("gelu")), self.assertRaisesRegex(Exception, "gelu"):
            self.both(Layers, fullgraph=True, strict=True)

    def test_an_impossible_limit(self) -> None:
        (text,) = self.both(Layers, limit="3%", fullgraph=True)
        self.assertRegex(text, "a limit of .* is impossible for this step")


class TestHere(unittest.TestCase):
    """A plan by libonnxmem is the command's."""

    def test_the_same_plan(self) -> None:
        from onnxmem import _library
        from onnxmem_torch import _planner

        if _library.library() is None:
            self.skipTest("no libonnxmem beside onnxmem or at ONNXMEM_LIBRARY")
        problem = onnxmem_torch.problem(Layers(6), (torch.randn(8, _WIDTH, requires_grad=True),))
        for limit in (None, "90%", "70%", 3 * 10**5):
            text = json.dumps(problem).encode()
            here = _planner._here(problem, limit, "fast")
            there = _planner._solve(text, limit, "fast", False)
            self.assertEqual(here is None, not there.feasible, limit)
            if here is not None:
                self.assertEqual(dataclasses.replace(here, seconds=0), dataclasses.replace(there, seconds=0), limit)
        self.assertIsNone(_planner._here(problem, 1, "fast"))
        self.assertIsNone(_planner._here(problem, None, "max"))
        self.assertIsNone(_planner._here({**problem, "nodes": [{**n, "later": 1} for n in problem["nodes"]]}, None, "fast"))
