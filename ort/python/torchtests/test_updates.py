"""Optimizers whose updates run within the backward pass. How to run: test_equal.py."""

from __future__ import annotations

import copy
import os
import unittest
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
from torch import nn
from torch._inductor.utils import fresh_cache
from torch.nn import functional as F

import onnxmem_torch
from onnxmem_torch._compile import states


class Deep(nn.Module):
    """Parameters that take more than the activations; the first and the last layer share theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(8))
        self.layers[7].weight = self.layers[0].weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.gelu(layer(x))
        return x.square().mean()


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.5),
    "SGD with all": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-2, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
}


def left(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters and the optimizer's states of each."""
    tensors = [p.detach() for p in model.parameters()]
    for p in model.parameters():
        tensors += [v for v in optimizer.state[p].values() if isinstance(v, torch.Tensor)]
    return tensors


class TestUpdates(unittest.TestCase):
    """Steps in which gradients die at their update."""

    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.model, self.inputs = Deep(), torch.randn(64, 128)

    def steps(self, run: Callable[..., torch.Tensor], optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        """Return the losses of some steps whose learning rate falls."""
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = run(self.inputs)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
        return losses

    def test_equal(self) -> None:
        """Losses, parameters and states are those of the optimizer's own steps, bit for bit."""
        for name, build in OPTIMIZERS.items():
            with self.subTest(name):
                torch._dynamo.reset()
                ours, theirs = copy.deepcopy(self.model), copy.deepcopy(self.model)
                optimizer, other = build(ours.parameters()), build(theirs.parameters())
                compiled = onnxmem_torch.compile(ours, limit="80%", backend="aot_eager", optimizer=optimizer)
                got, want = self.steps(compiled, optimizer), self.steps(theirs, other)
                got, want = got + left(ours, optimizer), want + left(theirs, other)
                self.assertEqual(len(want), len(got))
                for a, b in zip(want, got):
                    self.assertTrue(torch.equal(a, b))
                self.assertTrue(all(p.grad is None for p in ours.parameters()))

    def test_smaller(self) -> None:
        """A limit below the gradients' sum is impossible without, and met with updates inside."""
        gradients = sum(p.numel() * 4 for p in self.model.parameters())
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        inside = onnxmem_torch.Partitioner(None)
        whole = onnxmem_torch._compile.aot_eager(inside)
        self.steps(torch.compile(self.model, backend=whole), optimizer)
        limit = gradients * 100 // inside.reports[0].best_peak_bytes - 5
        for updates in (True, False):
            with self.subTest(updates=updates), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                torch._dynamo.reset()
                self.steps(onnxmem_torch.compile(self.model, limit=f"{limit}%", backend="aot_eager", optimizer=optimizer, updates=updates), optimizer)
                texts = [str(w.message) for w in caught if issubclass(w.category, onnxmem_torch.PlanWarning)]
                if updates:
                    self.assertEqual(texts, [])
                else:
                    self.assertRegex(texts[0], "impossible .* for the way to its end, gradients of")

    def test_inductor(self) -> None:
        """What reads a parameter is computed before its update by Inductor, too, where it would fuse it with what runs later."""
        layers = (layer for k in range(2) for layer in (nn.Conv2d(8 if k else 3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Tanh()))
        model = nn.Sequential(*layers).double()
        x = torch.randn(4, 3, 8, 8, dtype=torch.double)
        other = copy.deepcopy(model)
        plain, inside = (torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (model, other))
        with fresh_cache(), torch._functorch.config.patch(enable_autograd_cache=False):
            compiled = onnxmem_torch.compile(other, limit="60%", fullgraph=True, optimizer=inside)
            for step, optimizer in ((model, plain), (compiled, inside)):
                step(x).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        self.assertGreater(onnxmem_torch.reports(compiled)[0].repeated, 0)
        for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12, msg=name)

    def test_accumulation(self) -> None:
        """What would update a parameter twice raises."""
        optimizer = torch.optim.AdamW(self.model.parameters())
        compiled = onnxmem_torch.compile(self.model, limit="80%", backend="aot_eager", optimizer=optimizer)
        compiled(self.inputs).backward()
        with self.assertRaisesRegex(RuntimeError, "twice between two steps"):
            compiled(self.inputs).backward()
        optimizer.step()
        self.model.layers[1].weight.grad = torch.ones(128, 128)
        with self.assertRaisesRegex(RuntimeError, "has a gradient already"):
            compiled(self.inputs).backward()

    def test_used_outside(self) -> None:
        """A parameter that has a gradient from elsewhere raises at the optimizer's step."""
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        compiled = onnxmem_torch.compile(self.model, limit="80%", backend="aot_eager", optimizer=optimizer)
        compiled(self.inputs).backward()
        self.model.layers[1].weight.sum().backward()
        with self.assertRaisesRegex(RuntimeError, "used outside of the graph"):
            optimizer.step()

    def test_cached(self) -> None:
        """PyTorch's cache of compiled graphs tells optimizers of different layers apart, and finds those of the same."""
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        with fresh_cache():
            for layer in (0, 1, 0):
                torch._dynamo.reset()
                before = copy.deepcopy(model.state_dict())
                optimizer = torch.optim.SGD(model[layer].parameters(), lr=0.1)
                compiled = onnxmem_torch.compile(model, limit="90%", optimizer=optimizer)
                compiled(torch.ones(4, 8)).square().mean().backward()
                optimizer.step()
                changed = {name.split(".")[0] for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
                self.assertEqual(changed, {str(layer)})
                model.zero_grad()
            self.assertEqual(onnxmem_torch.reports(compiled), [])

    def test_optimizers(self) -> None:
        with self.assertRaisesRegex(ValueError, "expected one of SGD, Adam, AdamW"):
            onnxmem_torch.compile(self.model, limit="80%", optimizer=torch.optim.LBFGS(self.model.parameters()))

    def test_states(self) -> None:
        """States are counted before they exist, as many bytes as they take afterwards."""
        for name, build in OPTIMIZERS.items():
            with self.subTest(name):
                optimizer = build(self.model.parameters())
                want = states(optimizer)
                self.model(self.inputs).backward()
                optimizer.step()
                tensors = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor) and v.dim()]
                self.assertEqual(want, sum(-(-v.numel() * 4 // 512) * 512 for v in tensors))


if __name__ == "__main__":
    unittest.main()
