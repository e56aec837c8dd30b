"""Steps that Inductor compiles below a limit. How to run: test_equal.py. They need a compiler of C++."""

from __future__ import annotations

import copy
import os
import tempfile
import unittest
import unittest.mock

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
from torch import nn
from torch._dynamo.utils import counters

import onnxmem_torch

from .memory import peaks
from .networks import NETWORKS, Network


class TestInductor(unittest.TestCase):
    """One network, compiled once; then found in the cache."""

    def test_cached(self) -> None:
        """Losses and gradients are eager PyTorch's but for rounding; the second compilation finds both graphs."""
        torch.manual_seed(0)
        model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))))
        x = torch.randn(32, 64)
        model(x).square().sum().backward()
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}):
            for found in (0, 2):
                torch._dynamo.reset()
                counters.clear()
                other = copy.deepcopy(model)
                other.zero_grad()
                loss = onnxmem_torch.compile(other, limit="70%")(x).square().sum()
                loss.backward()
                self.assertEqual(counters["inductor"]["fxgraph_cache_hit"], found)
                torch.testing.assert_close(loss, model(x).square().sum())
                for a, b in zip(other.parameters(), model.parameters()):
                    torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)

    def test_measured(self) -> None:
        """The profiler of PyTorch sees no more than the limit, though Inductor holds freed buffers for later ones, and writes kernels as one function."""
        for name, limit in (("transformers/llama", "40%"), ("torchvision/vgg", "80%")):
            with self.subTest(name):
                network = next(n for n in NETWORKS if n.name == name)
                self._measured(network, limit)

    def _measured(self, network: Network, limit: str) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, inputs = network.build().train(), network.draw()
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}):
            step = onnxmem_torch.compile(model, limit=limit, strict=True)
            step(*inputs).backward()
            model.zero_grad()
            measured = peaks(lambda: step(*inputs).backward())
        (report,) = onnxmem_torch.reports(step)
        assert report.limit_bytes is not None
        self.assertGreater(report.repeated, 0)
        self.assertLessEqual(measured.tensors, report.limit_bytes)


if __name__ == "__main__":
    unittest.main()
