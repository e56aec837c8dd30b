"""Networks of timm, torchvision and transformers below limits: eager PyTorch's bits, and no more memory than planned.

Each is traced once and planned for each limit (steps.py), with PyTorch's own kernels:

- the losses, gradients, parameters and buffers of three steps are those of PyTorch's min-cut, bit for bit,
  and so those of eager PyTorch, but where AOTAutograd adds gradients up in another order;
- the profiler sees no more bytes than the plan says, but for workspaces of kernels;
- with Inductor's decompositions, the bits are those of the same graph from PyTorch's min-cut.

Through Inductor the steps are in float64, where rounding cannot hide a fault. The profiler sees no
more bytes than its account of kernels has, and kernels above the limit give a warning. A network that
computes in float32 all the same may differ by a few times what min-cut's kernels differ.
"""

import os
import sys
import time
import unittest
from collections.abc import Callable

os.environ.setdefault("ONNXMEM_PLANS", "")  # what an earlier version planned must not be found

import torch

import onnxmem_torch

from . import settings
from .networks import NETWORKS, Network
from .steps import Compiled, Trainer, inductor, kernels, min_cut
from .table import Rounded, Row
from .together import together

# A network that computes in float32 whatever its parameters are (normalizations, scores).
_ROUNDING = 1e-6
# Above that, as often the difference of min-cut's kernels.
_BESIDE = 4


def check_kernels(case: unittest.TestCase, network: Network) -> None:
    trainer = Trainer(network)
    plans = {limit: onnxmem_torch.Partitioner(limit) for limit in settings.limits()}
    compiled = Compiled(trainer, {"min-cut": min_cut, **plans}, kernels())
    eager, wanted = trainer.train(trainer.module), trainer.train(compiled.step("min-cut"))
    # AOTAutograd adds some gradients up in another order than eager PyTorch.
    bits = "those of min-cut" if eager.differs(wanted) else "eager's"
    for limit, partitioner in plans.items():
        with case.subTest(limit=limit):
            case.assertEqual(len(partitioner.reports), 1, compiled.warnings[limit])
            (report,) = partitioner.reports
            different = wanted.differs(trainer.train(compiled.step(limit)))
            measured = trainer.measure(compiled.step(limit))
            settings.found(Row(network.name, limit, report, measured, "differ" if different else bits))
            case.assertEqual(different, [])
            if report.warning is None:
                case.assertLessEqual(report.peak_bytes, report.limit_bytes or 0)
            case.assertLessEqual(measured.tensors, report.peak_bytes)


def check_decomposed(case: unittest.TestCase, network: Network) -> None:
    trainer = Trainer(network)
    plans = {limit: onnxmem_torch.Partitioner(limit) for limit in settings.limits()}
    compiled = Compiled(trainer, {**plans, "min-cut": min_cut}, kernels(decompose=True))
    wanted = trainer.train(compiled.step("min-cut"))
    for limit in plans:
        with case.subTest(limit=limit):
            case.assertEqual(wanted.differs(trainer.train(compiled.step(limit))), [])


def check_inductor(case: unittest.TestCase, network: Network) -> None:
    trainer = Trainer(network, double=True)
    eager = trainer.train(trainer.module)
    plans = {limit: onnxmem_torch.Partitioner(limit) for limit in settings.limits()}
    with together():
        compiled = Compiled(trainer, plans, inductor)
        distances = {limit: eager.distance(trainer.train(compiled.step(limit))) for limit in plans}
        beside = None
        if max(distances.values()) > _ROUNDING:
            beside = eager.distance(trainer.train(Compiled(trainer, {"min-cut": min_cut}, inductor).step("min-cut")))
        measured = {limit: trainer.measure(compiled.step(limit)) for limit in plans}
    for limit, partitioner in plans.items():
        with case.subTest(limit=limit):
            case.assertEqual(len(partitioner.reports), 1, compiled.warnings[limit])
            (report,) = partitioner.reports
            settings.rounded(Rounded(network.name, limit, report, distances[limit], beside, measured[limit], compiled.seconds[limit]))
            case.assertLess(distances[limit], _ROUNDING if beside is None else _BESIDE * beside)
            assert report.kernels_bytes is not None and report.limit_bytes is not None
            # The account is what the code allocates, and kernels above the limit are never silent.
            case.assertLessEqual(measured[limit].tensors, report.kernels_bytes)
            case.assertTrue(report.kernels_bytes <= report.limit_bytes or compiled.warnings[limit], report)


class _Networks(unittest.TestCase):
    def setUp(self) -> None:
        torch.set_num_threads(1)
        if os.environ.get("ONNXMEM_COMMAND") is None:
            print("torchtests: the command is the one that is installed", file=sys.stderr)


class TestKernels(_Networks):
    """Run by PyTorch's own kernels."""


class TestDecomposed(_Networks):
    """Run by PyTorch's own kernels, with Inductor's decompositions."""


class TestInductor(_Networks):
    """Compiled by Inductor, with the draws of eager PyTorch."""


def _add(case: type, network: Network, check: Callable[[unittest.TestCase, Network], None]) -> None:
    def test(self: unittest.TestCase) -> None:
        began = time.perf_counter()
        check(self, network)
        print(f"{network.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)

    test.__doc__ = network.name
    setattr(case, "test_" + network.name.replace("/", "_"), test)


for _network in NETWORKS:
    _add(TestKernels, _network, check_kernels)
    _add(TestDecomposed, _network, check_decomposed)
    _add(TestInductor, _network, check_inductor)
