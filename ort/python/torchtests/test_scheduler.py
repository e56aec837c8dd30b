"""Tests of the order of Inductor's kernels, with PyTorch: the same bits, and never a larger peak."""

import os
import pickle
import unittest
import unittest.mock
import uuid
import warnings
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import memory
from torch._inductor.virtualized import V
from torch.nn import functional
from torch.utils._ordered_set import OrderedSet

import onnxmem_torch
from onnxmem_torch._scheduler import OrderReport

OPTION = "_post_fusion_custom_pass"


class Language(nn.Module):
    """A transformer with what Inductor counts apart: gradients of embeddings, written in place,
    and operators with several results (attention)."""

    def __init__(self, layers: int = 1, width: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(96, width), nn.Embedding(16, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 64, 0.1, batch_first=True) for _ in range(layers))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        y = self.words(x) + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            y = layer(y)
        return functional.cross_entropy((y @ self.words.weight.T).flatten(0, 1), labels.flatten())


class Image(nn.Module):
    """A residual network with BatchNorm, whose running statistics are written."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(2))
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        y = functional.max_pool2d(self.first(x), 2)
        for block in self.blocks:
            y = y + block(y)
        return functional.cross_entropy(self.last(y.mean((2, 3))), labels)


def language() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    return Language(), (torch.randint(0, 96, (4, 16)), torch.randint(0, 96, (4, 16)))


def image() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    return Image(), (torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,)))


def step(options: dict[str, Any], network: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Return the loss and all gradients of a compiled step."""
    torch._dynamo.reset()
    torch.manual_seed(2)
    loss = torch.compile(network, fullgraph=True, options=options)(*inputs)
    loss.backward()
    return [loss.detach(), *(p.grad for p in network.parameters() if p.grad is not None)]


class TestOrder(unittest.TestCase):
    def setUp(self) -> None:
        # Graphs that an earlier test compiled must not be found; their kernels may.
        patch = torch.compiler.config.patch(cache_key_tag=f"onnxmem {uuid.uuid4()}")
        patch.__enter__()
        self.addCleanup(patch.__exit__, None, None, None)

    def check(self, reports: list[OrderReport], graphs: int) -> None:
        self.assertEqual(len(reports), graphs)
        for r in reports:
            self.assertLessEqual(r.peak_bytes, r.inductor_bytes, r)
            self.assertLessEqual(r.inductor_bytes, r.given_bytes, r)
            self.assertIsNotNone(r.lower_bound_bytes, r)
            self.assertLessEqual(r.lower_bound_bytes or 0, r.peak_bytes, r)

    def test_training_has_the_same_bits(self) -> None:
        for make in (language, image):
            with self.subTest(make.__name__):
                plain = step({}, *make())
                p = onnxmem_torch.inductor_pass()
                ordered = step({OPTION: p}, *make())
                self.assertEqual(len(plain), len(ordered))
                for a, b in zip(plain, ordered, strict=True):
                    self.assertTrue(torch.equal(a, b))
                self.check(p.reports, 2)
                self.assertEqual([r.graph.split()[0] for r in p.reports], ["forward", "backward"])

    def test_inference_in_a_context(self) -> None:
        network, (x, labels) = image()
        network.eval()
        with torch.no_grad():
            plain = torch.compile(network)(x, labels)
            torch._dynamo.reset()
            with onnxmem_torch.inductor_pass() as p:
                ordered = torch.compile(network)(x, labels)
        self.assertTrue(torch.equal(plain, ordered))
        self.check(p.reports, 1)
        self.assertTrue(p.reports[0].graph.startswith("inference"))
        self.assertIsNone(getattr(torch._inductor.config, OPTION))

    def test_inductor_keeps_the_order(self) -> None:
        """Its own reordering stands behind the pass, and finds nothing better."""
        peaks: list[int] = []

        def reorder(nodes: list[Any], buffers: dict[str, Any], fused: dict[str, Any], *rest: Any) -> list[Any]:
            inputs, outputs = OrderedSet(V.graph.graph_inputs), OrderedSet(V.graph.get_output_names())
            order: list[Any] = original(nodes, buffers, fused, *rest)
            peaks.append(memory.prepare_planning_info(order, buffers, fused, inputs, outputs)[0])
            return order

        original = memory.reorder_for_peak_memory
        p = onnxmem_torch.inductor_pass()
        with unittest.mock.patch.object(memory, "reorder_for_peak_memory", reorder):
            step({OPTION: p}, *language())
        self.assertEqual(peaks, [r.peak_bytes for r in p.reports])

    def test_inductors_cache_is_hit(self) -> None:
        first, second = onnxmem_torch.inductor_pass(), onnxmem_torch.inductor_pass()
        self.assertEqual(first.uuid(), second.uuid())
        self.assertNotEqual(first.uuid(), onnxmem_torch.inductor_pass("max").uuid())
        counters.clear()
        step({OPTION: first}, *language())
        self.assertEqual(counters["inductor"]["fxgraph_cache_bypass"], 0)
        self.assertEqual(counters["inductor"]["fxgraph_cache_hit"], 0)
        step({OPTION: second}, *language())
        hits = counters["inductor"]["fxgraph_cache_hit"] + 2 * counters["aot_autograd"]["autograd_cache_hit"]
        self.assertGreaterEqual(hits, 2)
        self.assertEqual(second.reports, [])

    def test_a_copy_by_pickle(self) -> None:
        p = onnxmem_torch.inductor_pass("default")
        with p:
            copy = pickle.loads(pickle.dumps(p))
        self.assertEqual((copy.effort, copy.uuid(), copy.reports), ("default", p.uuid(), []))

    def test_without_the_command_the_order_stays(self) -> None:
        plain = step({}, *language())
        p = onnxmem_torch.inductor_pass()
        with unittest.mock.patch.dict(os.environ, ONNXMEM_COMMAND="/nowhere/onnxmem"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            same = step({OPTION: p}, *language())
        for a, b in zip(plain, same, strict=True):
            self.assertTrue(torch.equal(a, b))
        ours = [str(w.message) for w in caught if "onnxmem_torch" in str(w.message)]
        self.assertEqual(len(ours), 1, ours)
        self.assertIn("kernels stay in Inductor's order: NotInstalled: /nowhere/onnxmem", ours[0])
        self.assertEqual(p.reports, [])

    def test_an_unknown_effort_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "expected fast, default or max, found 'some'"):
            onnxmem_torch.inductor_pass("some")


if __name__ == "__main__":
    unittest.main()
