"""Networks of timm, torchvision and transformers below limits: eager PyTorch's bits, and no more memory than planned.

Each is traced once and compiled for each limit (steps.py), with PyTorch's own kernels:

- the losses, gradients, parameters and buffers of three steps are those of eager PyTorch, bit for bit;
- the profiler sees no more bytes than the plan says, but for workspaces of kernels;
- with Inductor's decompositions, the bits are those of the same graph from PyTorch's min-cut.

Through Inductor the steps are in float64, where rounding cannot hide a fault.
"""

import os
import sys
import unittest
from collections.abc import Callable

os.environ.setdefault("ONNXMEM_PLANS", "")  # what an earlier version planned must not be found

import torch

import onnxmem_torch

from . import settings
from .networks import NETWORKS, Network
from .steps import Compiled, Trainer, inductor, kernels, min_cut
from .table import Row

# A network that computes in float32 whatever its parameters are (normalizations, rotations).
_ROUNDING = 1e-6


def check_kernels(case: unittest.TestCase, network: Network) -> None:
    trainer = Trainer(network)
    plans = {f"{way} {limit}": onnxmem_torch.Partitioner(limit) for limit in settings.limits() for way in ("eager", "decomposed")}
    ways = {name: kernels(p, name.startswith("decomposed")) for name, p in plans.items()}
    compiled = Compiled(trainer, {**ways, "min-cut": kernels(min_cut, True)})
    wanted = {"eager": trainer.train(trainer.module), "decomposed": trainer.train(compiled.step("min-cut"))}
    for name, partitioner in plans.items():
        way, limit = name.split()
        with case.subTest(way, limit=limit):
            (report,) = partitioner.reports
            case.assertEqual(wanted[way].differs(trainer.train(compiled.step(name))), [])
            if report.warning is None:
                case.assertLessEqual(report.peak_bytes, report.limit_bytes or 0)
            if way == "eager":
                measured = trainer.measure(compiled.step(name))
                case.assertLessEqual(measured.tensors, report.peak_bytes)
                met = report.warning is None
                settings.found(Row(network.name, limit, met, report.best_peak_bytes, report.peak_bytes, measured.tensors, measured.blocks, report.repeated, report.extra_percent, report.extra_bound_percent))


def check_inductor(case: unittest.TestCase, network: Network) -> None:
    trainer = Trainer(network, double=True)
    plans = {limit: onnxmem_torch.Partitioner(limit) for limit in settings.limits()}
    compiled = Compiled(trainer, {limit: inductor(p) for limit, p in plans.items()})
    eager = trainer.train(trainer.module)
    for limit, partitioner in plans.items():
        with case.subTest(limit=limit):
            case.assertEqual(len(partitioner.reports), 1, compiled.warnings[limit])
            case.assertLess(eager.distance(trainer.train(compiled.step(limit))), _ROUNDING)


class _Networks(unittest.TestCase):
    def setUp(self) -> None:
        torch.set_num_threads(1)
        if os.environ.get("ONNXMEM_COMMAND") is None:
            print("torchtests: the command is the one that is installed", file=sys.stderr)


class TestKernels(_Networks):
    """Run by PyTorch's own kernels."""


class TestInductor(_Networks):
    """Compiled by Inductor, with the draws of eager PyTorch."""


def _add(case: type, network: Network, check: Callable[[unittest.TestCase, Network], None]) -> None:
    def test(self: unittest.TestCase) -> None:
        check(self, network)

    test.__doc__ = network.name
    setattr(case, "test_" + network.name.replace("/", "_"), test)


for _network in NETWORKS:
    _add(TestKernels, _network, check_kernels)
    _add(TestInductor, _network, check_inductor)
