"""Twenty limits of a step: the lower the limit, the smaller the peak and the larger the extra time."""

import os
import unittest
from typing import Any

os.environ.setdefault("ONNXMEM_PLANS", "")

import onnxmem_torch

from .networks import NETWORKS
from .steps import Compiled, Trainer, kernels, min_cut

_NETWORKS = ("torchvision/densenet", "timm/test_efficientnet", "transformers/bert", "transformers/t5")


class TestLimits(unittest.TestCase):
    def test_twenty_limits(self) -> None:
        for network in (n for n in NETWORKS if n.name in _NETWORKS):
            with self.subTest(network.name):
                reports = self._reports(network)
                for lower, higher in zip(reports[1:], reports, strict=False):
                    self.assertLessEqual(lower.peak_bytes, higher.peak_bytes)
                    self.assertGreaterEqual(lower.extra_percent, higher.extra_percent)
                for r in reports:
                    self.assertLessEqual(r.extra_bound_percent or 0.0, r.extra_percent + 1e-9)
                self.assertGreater(len({r.peak_bytes for r in reports}), 5)

    def _reports(self, network: Any) -> list[Any]:
        """Plan a step for 100 % to 24 % of the peak of its best order, until no plan is found."""
        found: list[Any] = []

        def partition(gm: Any, inputs: Any, **keywords: Any) -> Any:
            for percent in range(100, 20, -4):
                report = onnxmem_torch.Partitioner(f"{percent}%").plan(gm, keywords["num_fwd_outputs"]).report
                if report.warning:
                    break
                found.append(report)
            return min_cut(gm, inputs, **keywords)

        trainer = Trainer(network)
        Compiled(trainer, {"plans": partition}, kernels())
        return found
