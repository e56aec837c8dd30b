"""Tests of what Inductor's kernels need beside a limit: counted, reported, and said where it is more."""

from __future__ import annotations

import os
import unittest
import warnings

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
from torch import nn
from torch.nn import functional

import onnxmem_torch


class UNet(nn.Module):
    """One level, whose transposed convolution and concatenation run again below limits."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.second, self.third = (self._block(a, b) for a, b in ((3, width), (width, 2 * width), (2 * width, width)))
        self.larger, self.last = nn.ConvTranspose2d(2 * width, width, 2, 2), nn.Conv2d(width, 2, 1)

    def _block(self, a: int, b: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.ReLU())

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x)
        x = self.third(torch.cat((x, self.larger(self.second(functional.max_pool2d(x, 2)))), 1))
        y = self.last(x)
        return functional.cross_entropy(y, labels), y


class TestPromise(unittest.TestCase):
    def test_kernels_are_counted(self) -> None:
        """A limit holds for Inductor's kernels by its own account, or a warning has both figures."""
        torch._dynamo.reset()
        torch.manual_seed(1)
        network, inputs = UNet().double(), (torch.randn(2, 3, 32, 32, dtype=torch.double), torch.randint(0, 2, (2, 32, 32)))
        network(*inputs)[0].backward()
        plain = [p.grad for p in network.parameters()]
        network.zero_grad()
        with warnings.catch_warnings(record=True) as found, torch._functorch.config.patch(enable_autograd_cache=False):
            warnings.simplefilter("always", onnxmem_torch.PlanWarning)
            model = onnxmem_torch.compile(network, limit="70%", fullgraph=True, options={"fx_graph_cache": False})
            loss, _ = model(*inputs)
            loss.backward()
        said = [str(w.message) for w in found if issubclass(w.category, onnxmem_torch.PlanWarning)]
        (report,) = onnxmem_torch.reports(model)
        assert report.kernels_bytes is not None and report.limit_bytes is not None
        self.assertGreater(report.repeated, 0)
        self.assertEqual(report.kernels_bytes > report.limit_bytes, bool(said), (report, said))
        for text in said:
            self.assertIn(f"{report.kernels_bytes / 2**20:,.1f} MiB, above the limit of {report.limit_bytes / 2**20:,.1f} MiB", text)
        for a, p in zip(plain, network.parameters(), strict=True):
            torch.testing.assert_close(a, p.grad)

    def test_reports_are_of_compiled_models(self) -> None:
        with self.assertRaisesRegex(ValueError, "UNet: expected what onnxmem_torch.compile has returned"):
            onnxmem_torch.reports(UNet())


if __name__ == "__main__":
    unittest.main()
