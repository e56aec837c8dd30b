"""Tests of plans by fused kernels: min-cut's graphs where they fit, the same bits below limits."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable
from typing import Any

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch.nn import functional
from torch.utils import _pytree as pytree

import onnxmem_torch
from onnxmem_torch._costs import DEFAULT
from onnxmem_torch._fusion import Fused, rejoin
from onnxmem_torch._prepare import copied
from onnxmem_torch._rebuild import _mask
from onnxmem_torch._step import Step

Parts = tuple[fx.GraphModule, fx.GraphModule]


class Language(nn.Module):
    """Two blocks of a transformer, with attention as matrices, so that softmax is there."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(96, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.ins = nn.ModuleList(nn.Linear(width, 3 * width if k % 2 == 0 else 4 * width) for k in range(4))
        self.outs = nn.ModuleList(nn.Linear(width if k % 2 == 0 else 4 * width, width) for k in range(4))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        y = self.words(x)
        for k in range(4):
            z = self.ins[k](self.norms[k](y))
            if k % 2 == 0:
                q, key, v = z.chunk(3, -1)
                z = (q @ key.transpose(-1, -2) / 8).softmax(-1) @ v
            else:
                z = functional.gelu(z)
            y = y + self.outs[k](z)
        return functional.cross_entropy((y @ self.words.weight.T).flatten(0, 1), labels.flatten())


class Image(nn.Module):
    """Convolutions and BatchNorm, whose running statistics are results of the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(4))
        self.last = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        for block in self.blocks:
            y = y + block(y)
        return functional.cross_entropy(self.last(y.mean((2, 3))), labels)


def language() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    return Language(), (torch.randint(0, 96, (8, 64)), torch.randint(0, 96, (8, 64)))


def image() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    return Image(), (torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)))


def step(partition: Callable[..., Parts], network: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[list[torch.Tensor], list[Parts], int]:
    """Train one step of Inductor's operators by PyTorch's own kernels; also return the parts, and how many results are the model's."""
    torch._dynamo.reset()
    parts: list[Parts] = []
    counts = []

    def keep(gm: fx.GraphModule, joint_inputs: Any, **more: Any) -> Parts:
        parts.append(partition(gm, joint_inputs, compiler="inductor", **more))
        counts.append(more["num_fwd_outputs"])
        return parts[-1][0], parts[-1][1]

    backend = aot_autograd(fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=keep, decompositions=select_decomp_table())
    loss = torch.compile(network, backend=backend, fullgraph=True)(*inputs)
    loss.backward()
    return [loss.detach(), *(p.grad for p in network.parameters() if p.grad is not None), *network.buffers()], parts, counts[0]


def lines(parts: Parts) -> list[list[str]]:
    return [[n.format_node() or "" for n in p.graph.nodes] for p in parts]


class TestFused(unittest.TestCase):
    def test_without_a_limit_it_is_min_cut(self) -> None:
        for make in (language, image):
            with self.subTest(make.__name__):
                p = onnxmem_torch.Partitioner()
                _, ours, _ = step(p, *make())
                _, cut, _ = step(min_cut_rematerialization_partition, *make())
                self.assertEqual(p.reports[0].repeated, 0)
                self.assertEqual([sorted(x) for x in lines(ours[0])], [sorted(x) for x in lines(cut[0])])

    def test_below_limits_the_bits_are_the_same(self) -> None:
        for make, limits in ((language, ("85%", "70%")), (image, ("75%", "65%"))):
            plain, _, _ = step(min_cut_rematerialization_partition, *make())
            for limit in limits:
                with self.subTest(make.__name__, limit=limit), config.patch(layout_optimization=False):
                    p = onnxmem_torch.Partitioner(limit, strict=True)
                    ours, _, _ = step(p, *make())
                    (r,) = p.reports
                    assert r.limit_bytes is not None and r.extra_bound_percent is not None
                    self.assertLessEqual(r.peak_bytes, r.limit_bytes)
                    self.assertGreater(r.repeated, 0)
                    self.assertGreater(r.extra_percent, 0)
                    self.assertLessEqual(r.extra_bound_percent, r.extra_percent + 1e-9)
                    for a, b in zip(plain, ours, strict=True):
                        self.assertTrue(torch.equal(a, b))

    def test_inputs_of_convolutions_are_handed_over_as_they_are(self) -> None:
        """What Inductor would copy into another layout goes to the backward pass as it is, and is copied there."""
        network, (x, labels) = image()
        plain, _, _ = step(min_cut_rematerialization_partition, network.double(), (x.double(), labels))
        network, (x, labels) = image()
        p = onnxmem_torch.Partitioner("63%", strict=True)  # with more room, some copies stay
        ours, ((forward, backward),), _ = step(p, network.double(), (x.double(), labels))
        self.assertGreater(p.reports[0].repeated, 0)
        handed = [n.meta["val"] for n in backward.graph.find_nodes(op="placeholder") if n.name.endswith("_same")]
        self.assertEqual(len(handed), 6)  # five convolutions' weights, and the images
        self.assertTrue(all(v.is_contiguous() for v in handed))
        self.assertEqual(len([n for n in backward.graph.find_nodes(op="placeholder") if n.name.startswith("primals_") and n.meta["val"].dim() == 4]), 6)
        for a, b in zip(plain, ours, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)

    def test_only_results_that_are_read_are_made(self) -> None:
        """Of a convolution's gradients, a further run makes those alone that are read there."""
        _, ((_, backward),), _ = step(min_cut_rematerialization_partition, *image())
        graph = copied(backward.graph)
        gradients = graph.find_nodes(op="call_function", target=torch.ops.aten.convolution_backward.default)
        weights = {u for n in gradients for u in n.users if u.args[1] == 1}
        graph.output_node().args = (tuple(None if x in weights else x for x in pytree.arg_tree_leaves(*graph.output_node().args)),)
        graph.eliminate_dead_code()
        _mask(graph)
        self.assertEqual([n.args[-1] for n in gradients], [[False, False, True], *[[True, False, True]] * 4][::-1])
        values = [n.meta["val"] for n in graph.find_nodes(op="placeholder")]
        inputs = [torch.randn(v.shape, dtype=v.dtype) if v.is_floating_point() else torch.zeros(v.shape, dtype=v.dtype) for v in values]
        whole, fewer = (fx.GraphModule(backward, g)(*inputs) for g in (backward.graph, graph))
        self.assertEqual(len([x for x in fewer if x is None]), len(weights) + len([x for x in whole if x is None]))
        for x, y in zip(pytree.tree_leaves(whole), fewer, strict=True):
            self.assertTrue(y is None or torch.equal(x, y))

    def test_the_graphs_of_a_partition_are_one_step(self) -> None:
        """Joined and cut again in its own order, a partition has the same operators."""
        _, ((forward, backward),), count = step(min_cut_rematerialization_partition, *language())
        graph, behind = rejoin(forward.graph, backward.graph, count)
        graph.lint()
        kernels = Fused(Step(graph, count), behind, DEFAULT)
        operators = [n.name for i in kernels.steps(range(len(kernels.members))) if i != kernels.step.boundary for n in [kernels.step.kernels[i]]]
        self.assertEqual(sorted(set(operators)), sorted(operators))
        self.assertEqual(sorted(operators), sorted(n.name for n in kernels.step.kernels))

    def test_chains_are_kernels(self) -> None:
        """Layer norm, GELU and softmax write only what a product or the other pass reads."""
        _, ((forward, backward),), count = step(min_cut_rematerialization_partition, *language())
        graph, behind = rejoin(forward.graph, backward.graph, count)
        kernels = Fused(Step(graph, count), behind, DEFAULT)
        self.assertLess(3 * len(kernels.members), 2 * len(kernels.step.kernels))
        between = {t["name"].split(".")[0] for t in kernels.tensors if t["bytes"]}
        erfs = [n.name for n in kernels.step.kernels if n.target is torch.ops.aten.erf.default]
        self.assertTrue(erfs)
        self.assertFalse(between.intersection(erfs))

    def test_the_gradient_of_an_embedding_is_there_once(self) -> None:
        """Inductor adds up rows in the tensor of zeros that the operators have as their input."""
        network = nn.Sequential(nn.Embedding(4096, 64), nn.Linear(64, 8))
        inputs = (torch.randint(0, 4096, (8, 16)),)

        class Mean(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = network

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y: torch.Tensor = self.network(x).square().mean()
                return y

        _, ((forward, backward),), count = step(min_cut_rematerialization_partition, Mean(), inputs)
        graph, behind = rejoin(forward.graph, backward.graph, count)
        kernels = Fused(Step(graph, count), behind, DEFAULT)
        rows = [t for t in kernels.tensors if t["bytes"] == 4096 * 64 * 4 and not t.get("resident")]
        self.assertEqual(len(rows), 1, rows)
        self.assertTrue(rows[0]["output"])


if __name__ == "__main__":
    unittest.main()
