"""Models that several processes train: two of them on this machine, by gloo."""

import socket
import unittest
import unittest.mock
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

import onnxmem_torch
from onnxmem_torch import _arena


def _network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))))


def _join(rank: int, world: int, port: int) -> None:
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)


def _train(rank: int, port: int, results: Any) -> None:
    """Take steps in eager PyTorch and below a limit, and hand back the largest difference of a gradient."""
    torch.set_num_threads(1)
    _join(rank, 2, port)
    found: list[list[torch.Tensor]] = []
    for limit in (None, "60%"):
        model = DistributedDataParallel(_network(), gradient_as_bucket_view=True)
        step = model if limit is None else onnxmem_torch.compile(model, limit=limit, backend="aot_eager")
        for i in range(2):
            model.zero_grad()
            torch.manual_seed(10 * i + rank)
            step(torch.randn(32, 64)).square().mean().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    results[rank] = all(torch.equal(a, b) for a, b in zip(*found, strict=True)), float(found[1][0].sum())
    distributed.destroy_process_group()


def _port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def _alone() -> Iterator[None]:
    _join(0, 1, _port())
    try:
        yield
    finally:
        distributed.destroy_process_group()


class TestDistributed(unittest.TestCase):
    def test_two_processes_have_the_gradients_of_eager(self) -> None:
        with multiprocessing.Manager() as manager:
            results = manager.dict()
            multiprocessing.spawn(_train, (_port(), results), nprocs=2)
            (same, first), (also, second) = results[0], results[1]
        self.assertTrue(same and also)
        self.assertEqual(first, second)

    def test_gradients_twice_are_warned_of(self) -> None:
        with _alone(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            onnxmem_torch.compile(DistributedDataParallel(_network()), limit="60%", backend="aot_eager")
            onnxmem_torch.compile(DistributedDataParallel(_network(), gradient_as_bucket_view=True), limit="60%", backend="aot_eager")
        texts = [str(w.message) for w in caught if issubclass(w.category, onnxmem_torch.PlanWarning)]
        self.assertEqual(len(texts), 1)
        self.assertIn("gradient_as_bucket_view=True", texts[0])

    def test_shards_are_refused(self) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        with _alone():
            model = _network()
            fully_shard(model[0], mesh=init_device_mesh("cpu", (1,)))
            with self.assertRaisesRegex(NotImplementedError, "0 is sharded .FSDP.*expected a model without shards"):
                onnxmem_torch.compile(model, limit="60%")


class TestArena(unittest.TestCase):
    """Calls of a compiled model begin iterations; the arena itself needs CUDA, and has tests of its own."""

    def test_calls_begin_iterations(self) -> None:
        torch._dynamo.reset()
        kinds = []

        @contextmanager
        def iteration(kind: Any) -> Iterator[None]:
            kinds.append(kind)
            yield

        with unittest.mock.patch.multiple(_arena, install=lambda: None, iteration=iteration):
            model = _network()
            step = onnxmem_torch.compile(model, limit="60%", backend="aot_eager", arena=True)
            x = torch.randn(32, 64)
            for _ in range(2):
                step(x).sum().backward()
            self.assertTrue(torch.equal(step(x), model(x)))
            step.eval()
            with torch.no_grad():
                step(x)
        self.assertEqual(len(kinds), 4)
        self.assertEqual(len(set(kinds)), 2)
        self.assertEqual(kinds[0], kinds[1])

    def test_without_cuda_it_is_refused(self) -> None:
        if torch.cuda.is_available():
            self.skipTest("there is CUDA")
        with self.assertRaises(RuntimeError):
            onnxmem_torch.compile(_network(), limit="60%", arena=True)
