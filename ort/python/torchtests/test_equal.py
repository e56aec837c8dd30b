"""Training steps that PyTorch runs below a limit: the same bits as without one.

They need PyTorch and torchvision, and a command that is built:

    PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python -m unittest discover -s ort/python/torchtests
"""

from __future__ import annotations

import copy
import os
import unittest
import unittest.mock
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
from torch import nn
from torch.nn import functional as F

import onnxmem_torch
from onnxmem_torch._compile import aot_eager


class Block(nn.Module):
    """A transformer's block with dropout."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, s, 3, 4, d // 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(b, s, d)))
        return x + self.drop(self.down(F.gelu(self.up(self.second(x)))))


class Language(nn.Module):
    """A small language model whose output weights are those of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(256, 64)
        self.blocks = nn.ModuleList(Block(64) for _ in range(3))

    def forward(self, ids: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.token(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(x, self.token.weight).flatten(0, 1), target.flatten())


class Convolutional(nn.Module):
    """A small network of convolutions and BatchNorm, whose running statistics it updates."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(layer for k in range(6) for layer in (nn.Conv2d(8 if k else 3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()))
        )
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.layers(x).mean((2, 3))), target)


def language() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Language(), (torch.randint(256, (4, 64)), torch.randint(256, (4, 64)))


def convolutional() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Convolutional(), (torch.randn(4, 3, 32, 32), torch.randint(10, (4,)))


def train(model: nn.Module, run: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Return the losses of three steps, the last gradients and the buffers."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = run(*inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return losses + [p.grad for p in model.parameters() if p.grad is not None] + list(model.buffers())


class TestEqual(unittest.TestCase):
    """Steps below a limit, of the same bits as eager PyTorch's."""

    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)

    def run_below(self, built: tuple[nn.Module, tuple[torch.Tensor, ...]], limit: str) -> onnxmem_torch.Partitioner:
        model, inputs = built
        other = copy.deepcopy(model)
        partitioner = onnxmem_torch.Partitioner(limit)
        want = train(model, model, inputs)
        got = train(other, torch.compile(other, backend=aot_eager(partitioner)), inputs)
        self.assertEqual(len(want), len(got))
        for k, (a, b) in enumerate(zip(want, got)):
            self.assertTrue(torch.equal(a, b), f"value {k}: expected {a}, found {b}")
        return partitioner

    def test_equal(self) -> None:
        for build in (language, convolutional):
            for limit in ("80%", "60%"):
                with self.subTest(build.__name__, limit=limit):
                    torch._dynamo.reset()
                    (report,) = self.run_below(build(), limit).reports
                    assert report.limit_bytes is not None
                    self.assertIsNone(report.warning)
                    self.assertLessEqual(report.peak_bytes, report.limit_bytes)
                    self.assertGreater(report.repeated, 0)

    def test_extra(self) -> None:
        """Extra time buys a smaller peak: more of it, a smaller one."""
        peaks = []
        for extra in ("8%", "20%", 0.5):
            torch._dynamo.reset()
            model, inputs = convolutional()
            partitioner = onnxmem_torch.Partitioner(extra=extra)
            torch.compile(model, backend=aot_eager(partitioner))(*inputs)
            (report,) = partitioner.reports
            self.assertLessEqual(report.extra_percent, {"8%": 8, "20%": 20}.get(str(extra), 50))
            peaks.append(report.peak_bytes)
        self.assertLess(peaks[0], report.best_peak_bytes, peaks)
        self.assertEqual(sorted(peaks, reverse=True), peaks)
        self.assertLess(peaks[2], peaks[0])

    def test_accumulation(self) -> None:
        """A limit of everything, in bytes, is less for the step if gradients are kept."""
        model, inputs = convolutional()
        size = sum(-(-p.numel() * 4 // 512) * 512 for p in model.parameters())
        limits = []
        for accumulate in (False, True):
            torch._dynamo.reset()
            with unittest.mock.patch("onnxmem_torch._compile.Partitioner", side_effect=onnxmem_torch.Partitioner) as made:
                onnxmem_torch.compile(model, limit=10**6, fullgraph=True, backend="aot_eager", accumulate=accumulate)
            limits.append(made.call_args.kwargs["states"])
        self.assertEqual(limits, [0, size])

    def test_impossible(self) -> None:
        """A limit that no plan meets gives the smallest plan, and says so."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            (report,) = self.run_below(convolutional(), "5%").reports
        (warning,) = [w for w in caught if issubclass(w.category, onnxmem_torch.PlanWarning)]
        self.assertIn("impossible", str(warning.message))
        self.assertLess(report.peak_bytes, report.best_peak_bytes)

    def test_strict(self) -> None:
        model, inputs = convolutional()
        compiled = onnxmem_torch.compile(model, limit="5%", backend="aot_eager", strict=True)
        with self.assertRaisesRegex(Exception, "impossible"):
            compiled(*inputs)

    def test_limits(self) -> None:
        """Limits that are none are refused before anything is compiled."""
        for limit in ("sixty", "0%", -1, "3 pounds", True):
            with self.subTest(limit=limit), self.assertRaisesRegex(ValueError, "expected bytes"):
                onnxmem_torch.Partitioner(limit)
        for extra in ("much", -0.1):
            with self.subTest(extra=extra), self.assertRaisesRegex(ValueError, "expected a share of the time"):
                onnxmem_torch.Partitioner(extra=extra)
        with self.assertRaisesRegex(ValueError, "one of the two"):
            onnxmem_torch.Partitioner("60%", extra="10%")
        with self.assertRaisesRegex(ValueError, "fullgraph=True"):
            onnxmem_torch.compile(nn.Linear(2, 2), limit="1GiB")


if __name__ == "__main__":
    unittest.main()
