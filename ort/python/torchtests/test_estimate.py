"""Estimates beside what PyTorch's profiler counts, frontiers and problems of real models.

They need PyTorch, transformers, and a command that is built, as test_equal.py does.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("ONNXMEM_PLANS", "")

import torch
from torch import nn
from torch.nn import functional as F

import onnxmem_torch
from onnxmem_torch import _workspaces
from onnxmem_torch._compile import aot_eager
from onnxmem_torch._costs import CPU, DEVICES
from onnxmem_torch._load import PARAMETER_GRADIENT, RESULT
from onnxmem_torch._partition import Partitioner
from onnxmem_torch._trace import TraceError, joint

from .memory import peaks

warnings.simplefilter("ignore")


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, 4, d // 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.drop(self.out(y.transpose(1, 2).reshape(b, s, d)))


class Language(nn.Module):
    """A language model whose output weights are those of its embedding."""

    def __init__(self, width: int = 64, layers: int = 3) -> None:
        super().__init__()
        self.token = nn.Embedding(256, width)
        self.blocks = nn.Sequential(*(nn.Sequential(Attention(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)))

    def forward(self, ids: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.token(ids))
        return F.cross_entropy(F.linear(x, self.token.weight).flatten(0, 1), target.flatten())


class Mixer(nn.Module):
    """Products, normalization and skips, with a buffer that each step updates."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(96, 96) for _ in range(5))
        self.norms = nn.ModuleList(nn.BatchNorm1d(96) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms):
            x = x + F.silu(norm(layer(x)))
        return x


class Picture(nn.Module):
    """Convolutions whose workspaces are as large as their results."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.up = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(8, 2, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(x))


def picture() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Picture().train(), (torch.randn(4, 3, 48, 48),)


def language() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Language().train(), (torch.randint(256, (4, 64)), torch.randint(256, (4, 64)))


def mixer() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Mixer().train(), (torch.randn(512, 96),)


def square(y: torch.Tensor) -> torch.Tensor:
    return y.square().mean()


def counted(step: Callable[[], Any]) -> int:
    """Return the most bytes that are live at once by the profiler's events of allocation."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as p:
        result = step()
    del result
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        p.export_chrome_trace(file.name)
        with open(file.name) as text:
            events = [e for e in json.load(text)["traceEvents"] if e.get("name") == "[memory]"]
    now = most = 0
    for e in sorted(events, key=lambda e: e["ts"]):
        now += e["args"]["Bytes"]
        most = max(most, now)
    return most


class Beside(unittest.TestCase):
    """The truth is what the profiler counts; oneDNN's tensors are allocated out of its sight."""

    def setUp(self) -> None:
        torch.manual_seed(0)
        mkldnn = torch.backends.mkldnn.flags(enabled=False)
        mkldnn.__enter__()
        self.addCleanup(mkldnn.__exit__, None, None, None)
        torch._dynamo.reset()

    def near(self, estimated: int, truth: int, percent: float) -> None:
        self.assertLess(abs(estimated - truth), truth * percent / 100, f"estimated {estimated}, counted {truth}")

    def measured(self, model: nn.Module, x: Any, loss: Any, optimizer: Any = None, cast: bool = False) -> int:
        def step() -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
                value = model(*x) if loss is None else loss(model(*x))
            value.backward()
            if optimizer is not None:
                optimizer.step()
            return value

        for _ in range(2):
            step()
            model.zero_grad(set_to_none=True)
        return counted(step)

    def test_eager(self) -> None:
        for make, loss in ((language, None), (mixer, square)):
            model, x = make()
            e = onnxmem_torch.estimate(model, x, loss=loss)
            self.near(e.ways["eager"].peak_bytes, self.measured(model, x, loss), 1)

    def test_update(self) -> None:
        model, x = language()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        e = onnxmem_torch.estimate(model, x, optimizer)
        self.assertEqual(optimizer.state, {})
        self.near(e.ways["eager"].peak_bytes, self.measured(model, x, None, optimizer), 1)
        states = sum(t.numel() * t.element_size() for s in optimizer.state.values() for t in s.values() if t.dim())
        self.near(e.states, states, 1)

    def compiled(self, model: nn.Module, x: Any, loss: Any, partition: Any = None, cast: bool = False) -> int:
        """Return what PyTorch's own kernels take of a partition, by default min-cut's."""
        from functorch.compile import min_cut_rematerialization_partition

        torch._dynamo.reset()
        backend = aot_eager(partition or min_cut_rematerialization_partition)
        return self._steps(torch.compile(model if loss is None else lambda *x: loss(model(*x)), backend=backend, fullgraph=True), model, x, cast)

    def test_compiled(self) -> None:
        for make, loss in ((language, None), (mixer, square)):
            model, x = make()
            e = onnxmem_torch.estimate(model, x, loss=loss)
            self.near(e.ways["compiled"].peak_bytes, self.compiled(model, x, loss), 0.5)

    def test_workspaces(self) -> None:
        """Convolutions copy their images; each kernel was run once, and what it took is counted."""
        model, x = picture()
        without = onnxmem_torch.estimate(model, x, loss=square)
        state = torch.random.get_rng_state()
        e = onnxmem_torch.estimate(model, x, loss=square, workspaces=True)
        self.assertTrue(torch.equal(state, torch.random.get_rng_state()))
        eager, compiled = self.measured(model, x, square), self.compiled(model, x, square)
        self.assertLess(without.ways["compiled"].peak_bytes, 0.8 * compiled)
        self.near(e.ways["eager"].peak_bytes, eager, 2)
        self.near(e.ways["compiled"].peak_bytes, compiled, 2)
        self.assertIn("workspaces", str(e))
        assert e.least is not None and without.least is not None
        self.assertGreater(e.least.bytes, without.least.bytes)

    def test_inductor(self) -> None:
        """Inductor's kernels, before they are compiled, beside what they take."""
        model, x = language()
        e = onnxmem_torch.estimate(model, x, backend="inductor")
        self.assertLess(e.ways["inductor"].peak_bytes, e.ways["compiled"].peak_bytes)
        self.assertEqual(sum(b.bytes for b in e.live("inductor")), e.ways["inductor"].peak_bytes)
        load = e.ways["inductor"].load
        self.assertEqual([(b.bytes, b.first < load.boundary) for b in load.blocks if b.kind == RESULT], [(4, True)])
        self.assertGreater(sum(b.bytes for b in load.blocks if b.kind == PARAMETER_GRADIENT), 0.9 * e.gradients)
        torch._dynamo.reset()
        self.near(e.ways["inductor"].peak_bytes, self._steps(torch.compile(model, fullgraph=True), model, x, False), 0.01)
        with self.assertRaisesRegex(ValueError, "backend 'eager': expected \"inductor\""):
            onnxmem_torch.estimate(model, x, backend="eager")

    def test_inductor_copies(self) -> None:
        """Convolutions want weights in another layout, whose copies the forward pass hands over; autograd copies their gradients back at the end."""
        for channels in ((3, 64, 256, 256), (256, 256, 64)):
            model = nn.Sequential(*(nn.Sequential(nn.Conv2d(a, b, 3, 2), nn.ReLU()) for a, b in zip(channels, channels[1:])))
            x = (torch.randn(2, channels[0], 16, 16),)
            e = onnxmem_torch.estimate(model, x, loss=square, backend="inductor")
            torch._dynamo.reset()
            step = torch.compile(lambda x, model=model: square(model(x)), fullgraph=True)
            step(*x).backward()
            model.zero_grad()
            self.near(e.ways["inductor"].peak_bytes, peaks(lambda: step(*x).backward()).tensors, 0.01)

    def test_inductor_workspaces(self) -> None:
        """Inductor's calls of libraries take what eager PyTorch's kernels take, and what is kept on disk says so."""
        model, x = picture()
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ONNXMEM_PLANS=folder):
            fused = onnxmem_torch.estimate(model, x, loss=square, workspaces=True, backend="inductor")
            with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):  # of the caller
                again = onnxmem_torch.estimate(model, x, loss=square, workspaces=True)
            with torch.profiler.profile():
                kept = onnxmem_torch.estimate(model, x, loss=square, workspaces=True)
        self.assertGreater(fused.ways["inductor"].load.kinds()["workspace"], 0.5 * fused.ways["eager"].load.kinds()["workspace"])
        self.assertEqual(again.ways["eager"], fused.ways["eager"])
        self.assertEqual(str(kept), str(again))

    def test_workspaces_of_processes(self) -> None:
        """What another process has measured meanwhile is kept; a profiler of the caller's goes first."""
        model, x = picture()
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ONNXMEM_PLANS=folder):
            _workspaces._store("here", {"a": 1})
            _workspaces._store("here", {"b": 2})
            self.assertEqual(_workspaces._load("here"), {"a": 1, "b": 2})
            with torch.profiler.profile():
                e = onnxmem_torch.estimate(model, x, loss=square, workspaces=True)
        self.assertIn("while another profiler is on", str(e))

    def test_workspaces_are_kept(self) -> None:
        model, x = picture()
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ONNXMEM_PLANS=folder):
            first = onnxmem_torch.estimate(model, x, loss=square, workspaces=True)
            with patch("onnxmem_torch._workspaces._on_cpu", side_effect=AssertionError("measured again")):
                again = onnxmem_torch.estimate(model, x, loss=square, workspaces=True)
        self.assertEqual(str(first), str(again))

    def test_autocast(self) -> None:
        for make, loss in ((language, None), (mixer, square), (picture, square)):
            model, x = make()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                e = onnxmem_torch.estimate(model, x, loss=loss, workspaces=True)
            self.near(e.ways["eager"].peak_bytes, self.measured(model, x, loss, cast=True), 8)
            self.near(e.ways["compiled"].peak_bytes, self.compiled(model, x, loss, cast=True), 2)

    def test_smallest(self) -> None:
        for cast in (False, True):
            model, x = language()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
                e = onnxmem_torch.estimate(model, x)
                assert e.least is not None
                self.assertLessEqual(e.least.bytes, e.ways["smallest"].peak_bytes)
                self.assertLess(e.ways["smallest"].peak_bytes, 0.7 * e.ways["compiled"].peak_bytes)
            planner = Partitioner(e.ways["smallest"].peak_bytes + e.parameters + e.inputs)
            self.assertLessEqual(self.compiled(model, x, None, planner, cast), 1.005 * e.ways["smallest"].peak_bytes)

    def test_updates(self) -> None:
        """Updates within the backward pass: the gradients are never there together."""
        model = nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(256, 256), nn.Tanh())))
        x = (torch.randn(32, 256),)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        e = onnxmem_torch.estimate(model, x, optimizer, loss=square)
        self.assertLess(e.ways["updates"].peak_bytes, 0.6 * e.ways["smallest"].peak_bytes)
        assert e.least is not None
        self.assertIs(e.least, e.ways["updates"].least)
        self.assertEqual(e.gradients, e.parameters)
        self.assertFalse(optimizer._optimizer_step_pre_hooks)
        limit = e.peak("updates") - e.buffers
        step = onnxmem_torch.compile(lambda x: square(model(x)), backend="aot_eager", limit=limit, optimizer=optimizer, strict=True, fullgraph=True)

        def run() -> Any:
            step(*x).backward()
            optimizer.step()

        for _ in range(2):
            run()
        self.assertLessEqual(counted(run), 1.005 * e.ways["updates"].peak_bytes)

    def _steps(self, compiled: Any, model: nn.Module, x: Any, cast: bool) -> int:
        def step() -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
                value = compiled(*x)
            value.backward()
            return value

        for _ in range(2):
            step()
            model.zero_grad(set_to_none=True)
        return counted(step)


class Estimates(unittest.TestCase):
    def test_meta_and_fake(self) -> None:
        """Nothing is allocated: a model of the device meta gives the same, and stays as it is."""
        model, x = language()
        with torch.device("meta"):
            meta = Language().train()
        a, b = onnxmem_torch.estimate(model, x), onnxmem_torch.estimate(meta, tuple(t.to("meta") for t in x))
        self.assertEqual(str(a), str(b))
        self.assertTrue(all(p.device.type == "meta" and type(p) is nn.Parameter and p.grad is None for p in meta.parameters()))
        self.assertTrue(all(type(p) is nn.Parameter and p.grad is None for p in model.parameters()))

    def test_state_is_left_alone(self) -> None:
        model, x = mixer()
        before = copy.deepcopy(model.state_dict())
        onnxmem_torch.estimate(model, x, torch.optim.SGD(model.parameters(), momentum=0.9), loss=square)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_text(self) -> None:
        model, x = language()
        e = onnxmem_torch.estimate(model, x, torch.optim.AdamW(model.parameters()))
        text = str(e)
        for part in ("Language: a training step on cpu, float32", "eager", "compiled", "smallest", "activations", "no plan takes less than", "blocks.0.1"):
            self.assertIn(part, text)
        self.assertEqual(e.states, 2 * e.parameters)
        self.assertIn("<svg", e._repr_html_())
        self.assertTrue(e.fits("24GiB"))
        self.assertFalse(e.fits(e.reserved() - 1))
        self.assertTrue(e.fits(e.reserved()))
        self.assertEqual(sum(b.bytes for b in e.live("smallest")), e.ways["smallest"].peak_bytes)
        with self.assertRaisesRegex(ValueError, "expected one of eager, compiled, smallest"):
            e.peak("fast")
        with self.assertRaisesRegex(ValueError, "expected a device"):
            e.fits("60%")

    def test_autocast(self) -> None:
        model, x = language()
        wide = onnxmem_torch.estimate(model, x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            narrow = onnxmem_torch.estimate(model, x)
        self.assertIn("autocast bfloat16", narrow.title)
        self.assertLess(narrow.activations(), wide.activations())
        self.assertLess(narrow.activations("compiled"), wide.activations("compiled"))

    def test_inference(self) -> None:
        model, x = mixer()
        model.eval()
        with torch.no_grad():
            e = onnxmem_torch.estimate(model, x)
            made = onnxmem_torch.problem(model, x)
        self.assertEqual(list(e.ways), ["eager", "compiled"])
        self.assertLess(e.peak(), onnxmem_torch.estimate(model.train(), x, loss=square).peak())
        self.assertEqual(made["mode"], "inference")

    def test_graph_break(self) -> None:
        """What torch.compile breaks is traced by running its Python; what data decide has an eager estimate alone."""

        class Broken(nn.Module):
            def __init__(self, decides: bool) -> None:
                super().__init__()
                self.linear, self.decides = nn.Linear(8, 8), decides

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.linear(x)
                torch._dynamo.graph_break()
                return self.linear(y).sum() if not self.decides or y.sum() > 0 else y.sum()

        e = onnxmem_torch.estimate(Broken(False), torch.zeros(2, 8))
        self.assertIn("torch.compile breaks it", str(e))
        self.assertIn("smallest", e.ways)
        with self.assertRaisesRegex(TraceError, "not one graph"):
            joint(Broken(True), torch.zeros(2, 8))

    def test_not_lowered(self) -> None:
        """What one way cannot do leaves the others, and its note says why."""
        model, x = mixer()
        optimizer = torch.optim.SGD(nn.Linear(8, 8).parameters(), lr=0.1)
        with patch("torch._inductor.compile_fx.compile_fx_inner", side_effect=AssertionError):
            e = onnxmem_torch.estimate(model, x, optimizer, loss=square, backend="inductor")
        self.assertEqual(list(e.ways), ["eager", "compiled", "smallest"])
        self.assertIn("inductor: Inductor does not lower this step: AssertionError", e.notes)
        self.assertIn("updates: none of the optimizer's parameters is an input of this graph", e.notes)
        self.assertIsNotNone(e.least)

    def test_transformers(self) -> None:
        import transformers

        config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=32, bos_token_id=0, eos_token_id=0)
        model = transformers.GPT2LMHeadModel(config).train()
        ids = torch.zeros(2, 16, dtype=torch.long)
        traced = joint(model, {"input_ids": ids, "labels": ids.clone()})
        self.assertIn("transformer.h.1.mlp.c_fc.weight", traced.titles.values())
        self.assertIn("labels", traced.titles.values())
        self.assertIn("smallest", onnxmem_torch.estimate(model, {"input_ids": ids, "labels": ids.clone()}).ways)

    def test_function(self) -> None:
        """A function's parameters are not known, so that they would be given fake gradients."""
        layer = nn.Linear(8, 8)
        with self.assertRaisesRegex(TypeError, "the model is function: expected a torch.nn.Module"):
            onnxmem_torch.estimate(lambda x: layer(x).sum(), torch.zeros(2, 8))
        self.assertIsNone(layer.weight.grad)

    def test_no_loss(self) -> None:
        model, x = mixer()
        with self.assertRaisesRegex(ValueError, r"a tensor of shape \(512, 96\): expected a scalar loss"):
            onnxmem_torch.estimate(model, x)


class Frontiers(unittest.TestCase):
    def test_choice(self) -> None:
        model, x = language()
        f = onnxmem_torch.frontier(model, x)
        self.assertTrue(all(p.bound_percent is None or p.extra_percent is None or p.bound_percent <= p.extra_percent + 1e-9 for p in [*f.points, f.smallest]))
        limits = [float(f.choice(extra).rstrip("%")) for extra in (0, "5%", "20%", "1000%")]
        self.assertEqual(limits, sorted(limits, reverse=True))
        self.assertEqual(limits[-1], f.smallest.percent)
        self.assertEqual(f.choice(0.05), f.choice("5%"))
        self.assertTrue(all(p.limit_bytes > f.smallest.limit_bytes for p in f.points))
        self.assertLess(limits[-1], 60)
        planner = Partitioner(f.choice("1000%"), strict=True)
        torch._dynamo.reset()
        torch.compile(model, backend=aot_eager(planner), fullgraph=True)(*x).backward()
        self.assertLessEqual(planner.reports[0].peak_bytes, f.smallest.limit_bytes)
        self.assertIn("no plan takes less than", str(f))
        self.assertIn("<svg", f._repr_html_())

    def test_device(self) -> None:
        """Costs are those of the device that is named: a GPU with little bandwidth makes the loops dearer."""
        model, x = language()
        costs = {on: onnxmem_torch.frontier(model, x, on=on) for on in ("A100", "T4", "cpu")}
        self.assertIn("times by the roofline of A100 (90 TFLOP/s, 1300 GB/s)", str(costs["A100"]))
        self.assertEqual(str(costs["cpu"]), str(onnxmem_torch.frontier(model, x)))
        self.assertEqual(len({c.points[-1].extra_percent for c in costs.values()}), 3)
        with self.assertRaisesRegex(ValueError, "on 'B300': expected one of H200, H100, A100"):
            onnxmem_torch.frontier(model, x, on="B300")

    def test_devices_are_documented(self) -> None:
        page = (Path(__file__).parents[3] / "docs" / "torch-estimate.md").read_text()
        for d in (*DEVICES, CPU):
            self.assertIn(f"| `{d.name}` | {d.flops / 1e12:g} | {d.half / 1e12:g} | {d.bytes / 1e9:,.0f} |", page)

    def test_updates(self) -> None:
        """With the updates inside, smaller limits can be chosen, in per cent of the same peak, and compile keeps them."""
        model = nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(256, 256), nn.Tanh())))
        x = torch.randn(256, 256)
        optimizer = torch.optim.AdamW(model.parameters())
        plain = onnxmem_torch.frontier(model, x, loss=square)
        inside = onnxmem_torch.frontier(model, x, loss=square, optimizer=optimizer)
        self.assertEqual(plain.peak_bytes, inside.peak_bytes)
        self.assertLess(inside.smallest.percent, plain.smallest.percent)
        torch._dynamo.reset()
        step = onnxmem_torch.compile(lambda x: square(model(x)), limit=inside.choice("1000%"), backend="aot_eager", optimizer=optimizer, strict=True)
        step(x).backward()
        self.assertLessEqual(onnxmem_torch.reports(step)[0].peak_bytes, inside.smallest.limit_bytes)


class Problems(unittest.TestCase):
    def test_names(self) -> None:
        model, x = language()
        made = onnxmem_torch.problem(model, x)
        names = {t["name"]: t for t in made["tensors"]}
        self.assertEqual(names["token.weight"]["kind"], "parameter")
        self.assertTrue(names["input 0"]["resident"])
        self.assertTrue(any("blocks.2.0.qkv" in n["name"] for n in made["nodes"]))
        self.assertEqual(made, onnxmem_torch.problem(model, x))

    def test_program_order(self) -> None:
        """Nodes follow what they need: the boundary stands where the backward pass begins."""
        model, x = mixer()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        made = onnxmem_torch.problem(model, x, loss=square, optimizer=optimizer, inplace=True, align=64)
        for t in made["tensors"]:
            self.assertTrue(all(t["producer"] < v for v in t["consumers"]), t)
            self.assertEqual(t["bytes"] % 64, 0)
        boundary = next(k for k, n in enumerate(made["nodes"]) if n["op"] == "boundary")
        updates = [k for k, n in enumerate(made["nodes"]) if n["op"] == "onnxmem.update.default"]
        self.assertEqual(len(updates), len(list(model.parameters())))
        self.assertGreater(updates[0], boundary)
        self.assertEqual({t["kind"] for t in made["tensors"] if t.get("resident")}, {"parameter", "state", "input"})
        pairs = [(t, made["tensors"][i]) for t in made["tensors"] for i in t.get("reuses", ())]
        self.assertTrue(pairs)
        self.assertTrue(all(t["bytes"] == other["bytes"] and t["producer"] in other["consumers"] for t, other in pairs))

    def test_optimizers(self) -> None:
        model, x = mixer()
        for optimizer in (torch.optim.RMSprop(model.parameters()), torch.optim.LBFGS(model.parameters())):
            for of in (onnxmem_torch.problem, onnxmem_torch.frontier):
                with self.assertRaisesRegex(ValueError, f"optimizer {type(optimizer).__name__}: expected one of SGD, Adam, AdamW"):
                    of(model, x, loss=square, optimizer=optimizer)
        with self.assertRaisesRegex(ValueError, "optimizer SGD: expected a training step, found inference"):
            onnxmem_torch.problem(model, x, training=False, optimizer=torch.optim.SGD(model.parameters()))

    def test_inference_that_writes(self) -> None:
        """A buffer that is written in place without a backward pass: every index is one of a node."""

        class Counts(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("seen", torch.zeros(4))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.seen.add_(x)
                return self.seen * 2

        made = onnxmem_torch.problem(Counts().eval(), torch.zeros(4), training=False)
        self.assertTrue(all(v < len(made["nodes"]) for t in made["tensors"] for v in [t["producer"], *t["consumers"]]))
        self.assertEqual(sum("writes" in n for n in made["nodes"]), 1)


if __name__ == "__main__":
    unittest.main()
