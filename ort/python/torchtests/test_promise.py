"""Tests of what Inductor's kernels need beside a limit: counted, reported, and said where it is more."""

from __future__ import annotations

import inspect
import os
import re
import tempfile
import unittest
import unittest.mock
import warnings
from dataclasses import replace
from typing import Any, Optional

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
import torch._inductor
import torchvision
from torch import nn
from torch._inductor import memory
from torch.nn import functional

import onnxmem_torch
from onnxmem_torch import _again, _lowering, _partition
from onnxmem_torch._planner import Plan
from onnxmem_torch._plans import Plans

from .lowered import Step
from .networks import NETWORKS
from .steps import Compiled, Trainer, inductor
from .together import together


class UNet(nn.Module):
    """Levels down and up, whose transposed convolutions and concatenations run again below limits."""

    def __init__(self, *widths: int, each: int = 1) -> None:
        super().__init__()
        self.down = nn.ModuleList(self._level(a, b, each) for a, b in zip((3, *widths), widths))
        self.larger = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.up = nn.ModuleList(self._level(2 * w, w, each) for w in widths[-2::-1])
        self.last = nn.Conv2d(widths[0], 2, 1)

    def _level(self, a: int, b: int, each: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for k in range(each):
            layers += [nn.Conv2d(a if k == 0 else b, b, 3, padding=1), nn.GroupNorm(min(8, b // 4), b), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept: list[torch.Tensor] = []
        for k, level in enumerate(self.down):
            x = level(functional.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for larger, level, beside in zip(self.larger, self.up, kept[-2::-1]):
            x = level(torch.cat((beside, larger(x)), 1))
        y = self.last(x)
        return functional.cross_entropy(y, labels), y


class Twice(nn.Module):
    """A convolution that runs twice, between two others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.last = nn.Conv2d(16, 32, 3), nn.Conv2d(32, 32, 3, padding=1, groups=2), nn.ConvTranspose2d(32, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.again(self.first(x).relu()).relu()
        return self.last(self.again(x).relu()).float().square().mean()


class Loss(nn.Module):
    """A network's cross-entropy."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.network(x), labels)


def _unet() -> Step:
    """Four levels, 8 images of 256²."""
    with torch.device("meta"):
        return Step(UNet(64, 128, 256, 512, 1024, each=2), (torch.empty(8, 3, 256, 256), torch.empty(8, 256, 256, dtype=torch.long)))


def _resnet50() -> Step:
    """32 images of 224²."""
    with torch.device("meta"):
        return Step(Loss(torchvision.models.resnet50()), (torch.empty(32, 3, 224, 224), torch.empty(32, dtype=torch.long)))


def _patches() -> nn.Module:
    """A network whose images are most of what it holds, and more than its activations."""
    return nn.Sequential(nn.Conv2d(3, 16, 8, 8), nn.GELU(), nn.Flatten(2), nn.Linear(64, 32), nn.GELU(), nn.Flatten(), nn.Linear(512, 10))


def _blocks() -> nn.Module:
    """Two convolutions with BatchNorm: as kernels they miss a limit that operators meet."""
    layers = [layer for k in range(2) for layer in (nn.Conv2d(16 if k else 3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


class TestPromise(unittest.TestCase):
    def test_kernels_are_counted(self) -> None:
        """A limit holds for Inductor's kernels by its own account, or a warning has both figures."""
        torch._dynamo.reset()
        torch.manual_seed(1)
        network, inputs = UNet(8, 16).double(), (torch.randn(2, 3, 32, 32, dtype=torch.double), torch.randint(0, 2, (2, 32, 32)))
        network(*inputs)[0].backward()
        plain = [p.grad for p in network.parameters()]
        network.zero_grad()
        with warnings.catch_warnings(record=True) as found, torch._functorch.config.patch(enable_autograd_cache=False):
            warnings.simplefilter("always", onnxmem_torch.PlanWarning)
            model = onnxmem_torch.compile(network, limit="70%", fullgraph=True, options={"fx_graph_cache": False})
            # Inductor does not know what is held, and must not order what was counted once more.
            with unittest.mock.patch.object(memory, "reorder_for_peak_memory", side_effect=AssertionError):
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

    def test_limits_are_kept(self) -> None:
        """The kernels of real networks at real sizes need no more than the limit, by Inductor's account."""
        for make in (_unet, _resnet50):
            step = make()
            for limit in ("80%", "60%", "40%"):
                with self.subTest(make.__name__, limit=limit):
                    report = step.report(onnxmem_torch.Partitioner(limit, strict=True))
                    assert report.kernels_bytes is not None and report.limit_bytes is not None
                    self.assertGreater(report.repeated, 0)
                    self.assertLessEqual(report.kernels_bytes, report.limit_bytes)

    def test_small_networks(self) -> None:
        """Where copies of images and weights are much of a step, its kernels need no more than the limit or the plan, and a missed limit is said."""
        for make, size in ((_patches, 64), (_blocks, 32)):
            torch.manual_seed(1)
            step = Step(Loss(make()).double(), (torch.randn(8, 3, size, size, dtype=torch.double), torch.randint(0, 10, (8,))))
            for limit in ("80%", "60%", "40%"):
                with self.subTest(make.__name__, limit=limit), warnings.catch_warnings(record=True) as found:
                    warnings.simplefilter("always", onnxmem_torch.PlanWarning)
                    report = step.report(onnxmem_torch.Partitioner(limit))
                    assert report.kernels_bytes is not None and report.limit_bytes is not None
                    said = [str(w.message) for w in found if issubclass(w.category, onnxmem_torch.PlanWarning)]
                    self.assertLessEqual(report.kernels_bytes, max(report.limit_bytes, report.peak_bytes))
                    self.assertEqual(len(said), report.kernels_bytes > report.limit_bytes, said)
                    if make is _patches and said:
                        self.assertRegex(said[0], r"and copies of [\d.]+ MiB in another layout")

    def test_another_plan_leaves_room(self) -> None:
        """Where kernels need more than a limit that the plan meets, a plan of less is taken, unless no other helps."""
        torch.manual_seed(0)
        network = next(n for n in NETWORKS if n.name == "timm/test_coatnet")
        step, needed = Step(network.build(), network.draw()), _lowering.Lowering.needed
        once = onnxmem_torch.Partitioner("40%")
        with self.assertWarnsRegex(onnxmem_torch.PlanWarning, "kernels need"):
            first = step.report(once)
        again = onnxmem_torch.Partitioner("40%", strict=True)
        report = _again.compiled(again, lambda: step.report(again))
        assert report.kernels_bytes is not None and report.limit_bytes is not None and first.kernels_bytes is not None
        self.assertGreater(first.kernels_bytes, report.limit_bytes)
        self.assertLessEqual(report.kernels_bytes, report.limit_bytes)
        self.assertLess(report.peak_bytes, first.peak_bytes)
        self.assertEqual((len(again.reports), again.uuid()), (1, onnxmem_torch.Partitioner("40%", strict=True).uuid()))
        # Where kernels never need less than those of the first plan, that one is taken.
        with unittest.mock.patch.object(_lowering.Lowering, "needed", lambda self: max(needed(self), first.kernels_bytes or 0)):
            with self.assertWarnsRegex(onnxmem_torch.PlanWarning, "kernels need"):
                report = _again.compiled(once, lambda: step.report(once))
        self.assertEqual(report.peak_bytes, first.peak_bytes)

    def test_the_best_of_several_plans(self) -> None:
        """The plan whose kernels need least is compiled where none meets the limit, also where no plan leaves more room."""
        needed: tuple[tuple[list[Optional[int]], int], ...] = (
            ([1100, 1080, 1090, 1070], 3),
            ([1100, 1080, 1090, 1085], 1),
            ([1100, 1080, 1090, None], 1),
            ([1100, None], 0),
            ([1100, 990], 1),
            ([1100, 5000, 1100, 1100], 0),
        )
        for needs, best in needed:
            asked = onnxmem_torch.Partitioner("60%")
            spares: list[int] = []

            def attempt(asked: onnxmem_torch.Partitioner = asked, spares: list[int] = spares, needs: list[Optional[int]] = needs) -> int:
                if not asked._again:
                    return spares.index(asked.spare)
                spares.append(asked.spare)
                need = needs[len(spares) - 1]
                if need is None:
                    raise _again.NoRoom("none")
                if need > 1000:
                    raise _again.Exceeded(need, 1000 - asked.spare, 1000)
                return len(spares) - 1

            with self.subTest(needs=needs):
                self.assertEqual(_again.compiled(asked, attempt), best)
                self.assertEqual((len(spares), len(set(spares)), asked.spare), (len(needs), len(needs), 0))

    def test_keywords_of_torch_compile(self) -> None:
        """A limit takes what torch.compile takes for Inductor."""
        torch._dynamo.reset()
        options: dict[str, Any] = {"options": {"max_autotune": False, "guard_filter_fn": lambda guards: [True] * len(guards)}, "dynamic": False}
        if "name" in inspect.signature(torch.compile).parameters:
            options["name"] = "step"
        model = onnxmem_torch.compile(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)), limit="90%", **options)
        model(torch.randn(64, 8)).square().sum().backward()
        self.assertEqual(len(onnxmem_torch.reports(model)), 1)

    def test_a_partitioner_alone(self) -> None:
        """With the pass for its kernels, a partitioner of torch.compile has them counted, and raises where they miss the limit."""
        for needed in (None, 2**30):
            partitioner = onnxmem_torch.Partitioner("150%", strict=True)
            options = {"custom_partitioner_fn": partitioner, **onnxmem_torch.inductor_pass(partitioner=partitioner).options(), "fx_graph_cache": False}
            counted = unittest.mock.patch.object(_lowering.Lowering, "needed", (lambda self: needed) if needed else _lowering.Lowering.needed)
            with self.subTest(needed=needed), together(idle=True), counted, torch._functorch.config.patch(enable_autograd_cache=False):
                torch._dynamo.reset()
                model = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)), options=options)
                if needed is None:
                    model(torch.randn(64, 8)).square().sum().backward()
                    self.assertIsNotNone(partitioner.reports[0].kernels_bytes)
                else:
                    with self.assertRaisesRegex(RuntimeError, r"Inductor's kernels need 1,024.0 MiB, above the limit of"):
                        model(torch.randn(64, 8))

    def test_modes_of_torch_compile(self) -> None:
        """A mode gives its options to Inductor, with and without a limit; options beside it are refused, as torch.compile does."""
        network, x = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)), torch.randn(64, 8)
        for mode in ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"):
            for limit in ("90%", None):
                with self.subTest(mode=mode, limit=limit), unittest.mock.patch.object(torch, "compile", side_effect=torch.compile) as wrapped, together(idle=True):
                    torch._dynamo.reset()
                    model = onnxmem_torch.compile(network, limit=limit, mode=mode)
                    given = wrapped.call_args.kwargs
                    options = given["backend"].inner.config if limit else given["options"]
                    self.assertLessEqual(torch._inductor.list_mode_options(mode).items(), options.items())
                    model(x).square().sum().backward()
                    self.assertEqual(len(onnxmem_torch.reports(model)), 1)
        with self.assertRaisesRegex(RuntimeError, "mode='max-autotune' and options: expected one of the two"):
            onnxmem_torch.compile(network, limit="90%", mode="max-autotune", options={"max_autotune": True})

    def test_loops_are_taken_apart(self) -> None:
        """Limits hold where Inductor shares outer loops, joins a product with a later sum, fuses long chains, or has a buffer that no code makes."""
        for name, limit in (("transformers/llama", "60%"), ("transformers/gpt2", "40%"), ("torchvision/regnet_y", "40%")):
            torch.manual_seed(0)
            network = next(n for n in NETWORKS if n.name == name)
            inputs = tuple(t.double() if t.is_floating_point() else t for t in network.draw())
            report = Step(network.build().double(), inputs).report(onnxmem_torch.Partitioner(limit, strict=True))
            with self.subTest(name):
                assert report.kernels_bytes is not None and report.limit_bytes is not None
                self.assertGreater(report.repeated, 0)
                self.assertLessEqual(report.kernels_bytes, report.limit_bytes)

    def test_code_holds_what_the_account_has(self) -> None:
        """Inductor holds freed buffers for later ones only within the peak of the account: the code allocates no more, by the profiler."""
        for name, limit in (("transformers/gpt_neox", "40%"), ("torchvision/squeezenet1_1", "60%")):
            with self.subTest(name), warnings.catch_warnings(), together(idle=True):
                warnings.simplefilter("ignore")
                trainer = Trainer(next(n for n in NETWORKS if n.name == name), double=True)
                partitioner = onnxmem_torch.Partitioner(limit)
                measured = trainer.measure(Compiled(trainer, {limit: partitioner}, inductor).step(limit))
                (report,) = partitioner.reports
                assert report.kernels_bytes is not None
                self.assertLessEqual(measured.tensors, report.kernels_bytes)

    def test_gradients_have_the_layout_of_their_parameters(self) -> None:
        """Inductor's convolutions make weights' gradients in another one, which autograd would copy while all gradients are there."""
        images = torch.randn(8, 16, 16, 16)
        for images in (images, images.to(memory_format=torch.channels_last)):
            for cast in (False, True):
                with self.subTest(strides=images.stride(), cast=cast), warnings.catch_warnings(), torch.autocast("cpu", enabled=cast):
                    warnings.simplefilter("ignore")
                    model = Twice()
                    step, partitioner = Step(model, (images,)), onnxmem_torch.Partitioner("80%")
                    step.forward(partitioner)
                    strides = step.backward(partitioner)
                self.assertEqual([tuple(s) for s in strides if s is not None and len(s) == 4], [p.stride() for p in model.parameters() if p.dim() == 4])

    def test_only_shapes_of_pooled_images_are_kept(self) -> None:
        """The gradient of an average pooling reads the shape of its input. What is handed over and not read would count to the end."""
        pooled = 4 * 16 * 32 * 32 * 4  # bytes
        with torch.device("meta"):
            network = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.SiLU(), nn.AvgPool2d(2), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(16 * 14 * 14, 10))
            step = Step(Loss(network), (torch.empty(4, 3, 32, 32), torch.empty(4, dtype=torch.long)))
        found = step.report(onnxmem_torch.Partitioner())
        with unittest.mock.patch.object(_partition, "unread"):
            whole = step.report(onnxmem_torch.Partitioner())
        assert found.kernels_bytes is not None and whole.kernels_bytes is not None
        self.assertEqual(whole.kernels_bytes - found.kernels_bytes, pooled)

    def test_a_missed_limit_has_a_bound_of_the_same_kernels(self) -> None:
        """What every plan needs is never more than the smallest plan has."""
        with torch.device("meta"):
            step = Step(UNet(8, 16), (torch.empty(8, 3, 64, 64), torch.empty(8, 64, 64, dtype=torch.long)))
        with self.assertWarnsRegex(onnxmem_torch.PlanWarning, "is used"):
            report = step.report(onnxmem_torch.Partitioner("20%"))
        found = re.search(r"every plan needs ([\d.]+) MiB .*the smallest plan found has ([\d.]+) MiB", report.warning or "")
        assert found is not None, report
        self.assertLessEqual(float(found[1]), float(found[2]))
        self.assertEqual(found[2], f"{report.peak_bytes / 2**20:.1f}")

    def test_a_cheap_plan_near_the_smallest_is_named(self) -> None:
        """Where 5 % more memory makes the smallest plan far cheaper, the message has both."""
        with torch.device("meta"):
            step = Step(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), (torch.empty(64, 8),))
        original = Plans._plan

        def planned(self: Plans, problem: Any, limit: Any = None, least: bool = False) -> Plan:
            return replace(original(self, problem, limit, least), extra_percent=37.0 if least else 7.0)

        with unittest.mock.patch.object(Plans, "_plan", planned), self.assertWarnsRegex(
            onnxmem_torch.PlanWarning, r"the smallest plan found has [\d.]+ MiB and takes \d+ % more time \(one of [\d.]+ MiB takes \d+ %\), and is used"
        ):
            step.report(onnxmem_torch.Partitioner(600))

    def test_partitioners_are_told_apart(self) -> None:
        """Inductor keeps compiled graphs by what makes a plan, which the code of cost does."""
        costs = [lambda node: 1.0, lambda node: 2.0, *((lambda node: c) for c in (3.0,))]
        keys = {onnxmem_torch.Partitioner("50%", cost=c).uuid() for c in costs}
        self.assertEqual(len(keys), 3)
        self.assertEqual(*(onnxmem_torch.Partitioner("50%", cost=costs[0]).uuid() for _ in range(2)))

    def test_each_graph_has_its_own_limit(self) -> None:
        """The backward passes of several graphs may be lowered after all forward passes: each by its own plan."""
        with torch.device("meta"):
            steps = [Step(UNet(8, 16), (torch.empty(n, 3, 32, 32), torch.empty(n, 32, 32, dtype=torch.long))) for n in (4, 2, 3)]
        alone = [step.report(onnxmem_torch.Partitioner("70%")) for step in steps]
        several = onnxmem_torch.Partitioner("70%")
        for step in steps:
            step.forward(several)
        for step in steps:
            step.backward(several)
        self.assertEqual(len({r.kernels_bytes for r in alone}), 3)
        for one, other in zip(alone, several.reports, strict=True):
            self.assertEqual(replace(one, seconds=0.0), replace(other, seconds=0.0))

    def test_a_pass_is_compared_by_itself(self) -> None:
        """Of a graph in Inductor's cache, one pass may be lowered alone, and miss the limit."""
        with torch.device("meta"):
            step = Step(UNet(8, 16), (torch.empty(2, 3, 32, 32), torch.empty(2, 32, 32, dtype=torch.long)))
        for name in ("forward_bytes", "backward_bytes"):
            asked = onnxmem_torch.Partitioner("70%", strict=True)
            step.forward(asked)
            (lowering,) = asked._lowerings.values()
            lowering.forward_bytes = lowering.backward_bytes = None
            setattr(lowering, name, 2**30)
            with self.subTest(name), self.assertRaisesRegex(onnxmem_torch.LimitError, r"Inductor's kernels need 1,024\.\d MiB, above the limit of"):
                asked.lowered(lowering)
            with self.assertRaises(onnxmem_torch.LimitError):  # torch lowers a backward pass once more where that failed
                asked.lowered(lowering)

    def test_a_weight_that_changes_raises(self) -> None:
        """A backward pass after an update of the weights that it reads raises, as that of eager PyTorch does."""
        torch._dynamo.reset()
        layers = [layer for k in range(4) for layer in (nn.Conv2d(64 if k else 3, 64, 3, padding=1, bias=False), nn.Tanh())]
        network, inputs = nn.Sequential(*layers), (torch.randn(4, 3, 16, 16), torch.randn(4, 3, 16, 16))
        model = onnxmem_torch.compile(network, limit="50%", fullgraph=True)
        losses = [model(x).square().sum() for x in inputs]
        losses[0].backward()
        with torch.no_grad():
            network[2].weight.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "has been modified by an inplace operation"):
            losses[1].backward()

    def test_a_missed_limit_raises_if_strict(self) -> None:
        """Kernels above a limit that a plan meets: the error is LimitError, and none of torch.compile's."""
        torch._dynamo.reset()
        model = onnxmem_torch.compile(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)), limit="150%", strict=True)
        with (
            tempfile.TemporaryDirectory() as folder,  # without Inductor's cache, its own error holds this one
            unittest.mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}),
            unittest.mock.patch.object(_lowering.Lowering, "needed", lambda self: 2**30 if self.backward_bytes else 1),
            torch._functorch.config.patch(enable_autograd_cache=False),
            self.assertRaisesRegex(onnxmem_torch.LimitError, r"Inductor's kernels need 1,024.0 MiB, above the limit of"),
        ):
            model(torch.randn(64, 8)).square().sum().backward()

    def test_reports_are_of_compiled_models(self) -> None:
        with self.assertRaisesRegex(ValueError, "UNet: expected what onnxmem_torch.compile has returned"):
            onnxmem_torch.reports(UNet(8, 16))


if __name__ == "__main__":
    unittest.main()
