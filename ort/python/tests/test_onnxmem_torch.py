"""Tests of the installed package onnxmem_torch: recorded training steps, allocated as PyTorch would.

They need a driver without a GPU, whose memory is the host's: ONNXMEM_LIBCUDA names that of
vm/cuda/fake. PyTorch is a stand-in that takes the same functions; where PyTorch and a GPU
are there, one test trains a network on it.
"""

import contextlib
import ctypes
import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import onnxmem
from onnxmem._command import call

import onnxmem_torch
from onnxmem_torch import _allocator, _library

TRACES = Path(__file__).resolve().parents[3] / "testdata" / "traces"

Event = dict[str, Any]


class Allocator:
    """A stand-in for PyTorch's CUDAPluggableAllocator."""

    def __init__(self, file: str, malloc: str, free: str) -> None:
        library = ctypes.CDLL(file)
        self.entries = [getattr(library, malloc), getattr(library, free)]
        self.hooks: dict[str, int] = {}

    def allocator(self) -> "Allocator":
        return self

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda address: self.hooks.__setitem__(name, address)


def torch(cuda: str | None = "13.0", used: bool = False) -> types.ModuleType:
    """Return a stand-in for PyTorch. used: its own allocator was used before."""
    module: Any = types.ModuleType("torch")

    def change(allocator: Allocator) -> None:
        if used:
            raise RuntimeError("Can't swap an already initialized allocator")
        module.changed = allocator

    module.__version__ = "2.0.0"
    module.version = types.SimpleNamespace(cuda=cuda)
    module.cuda = types.SimpleNamespace(memory=types.SimpleNamespace(CUDAPluggableAllocator=Allocator, change_current_allocator=change))
    return module  # type: ignore[no-any-return]


@contextlib.contextmanager
def process(module: types.ModuleType | None = None, **variables: str) -> Iterator[None]:
    """Be as in a new process: with a library of its own, and nothing installed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "library.so")
        shutil.copy(_library.path(), copy)
        environment = {_library.VARIABLE: str(copy), **variables}
        with unittest.mock.patch.dict(os.environ, environment), unittest.mock.patch.object(_allocator, "_state", None):
            with unittest.mock.patch.dict(sys.modules, {"torch": module or torch()}):
                yield


class Program:
    """A program that allocates. Each block is filled, and must be as it was when it is freed."""

    def __init__(self, stream: int | None = None) -> None:
        self.stream = stream
        self.live: dict[int, tuple[int, int, int]] = {}
        self.library = _allocator._installed().library

    def play(self, events: list[Event], shift: int = 0, times: int = 1) -> None:
        """Play events, with ids moved by shift and sizes multiplied."""
        for event in events:
            if "alloc" in event:
                self.alloc(event["alloc"] + shift, event["size"] * times)
            elif "free" in event:
                self.free(event["free"] + shift)

    def alloc(self, number: int, size: int) -> None:
        address = self.library.onnxmem_torch_malloc(size, 0, self.stream)
        assert address, f"no memory for {size} bytes"
        ctypes.memset(address, number % 251, size)
        self.live[number] = address, size, number % 251

    def free(self, number: int) -> None:
        if number not in self.live:
            return  # allocated before the recording
        address, size, pattern = self.live.pop(number)
        for at in (address, address + size // 2, address + size - 1):
            assert ctypes.string_at(at, 1)[0] == pattern, f"block {number} was given out twice"
        self.library.onnxmem_torch_free(address, size, 0, self.stream)


def recording(name: str) -> tuple[list[Event], list[list[Event]]]:
    """Return the events before the first run of a recording, and those of each run."""
    with gzip.open(TRACES / name, "rt") as f:
        events = [json.loads(line) for line in f]
    marks = [i for i, e in enumerate(events) if "mark" in e]
    return events[: marks[0]], [events[a + 1 : b] for a, b in zip(marks, [*marks[1:], len(events)])]


class Training:
    """The training of cnn-train: its second step again and again."""

    def __init__(self, stream: int | None = None, marked: bool = True) -> None:
        self.program, self.marked = Program(stream), marked
        before, runs = recording("cnn-train.jsonl.gz")
        self.program.play(before)
        for run in runs[:2]:
            self.mark()
            self.program.play(run)
        self.run = runs[2]
        self.allocated = sum("alloc" in e for e in self.run)
        self.steps = 0

    def mark(self, kind: Hashable = None) -> None:
        if self.marked:
            with onnxmem_torch.iteration(kind):
                pass

    def step(self, count: int = 1, times: int = 1, kind: Hashable = None) -> None:
        for _ in range(count):
            self.mark(kind)
            self.program.play(self.run, self.steps * self.allocated, times)
            self.steps += 1

    def until_planned(self, steps: int, plans: int = 1) -> None:
        """Train until there is a plan, at most so many steps."""
        for _ in range(steps):
            self.step()
            assert onnxmem_torch.wait(60)
            if onnxmem_torch.memory()["plans"] == plans:
                return
        raise AssertionError(f"no plan after {steps} steps: {onnxmem_torch.memory()}")


@unittest.skipUnless(sys.platform == "linux" and os.environ.get(_library.DRIVER), "no driver without a GPU")
class Replay(unittest.TestCase):
    def setUp(self) -> None:
        entered = process()
        entered.__enter__()
        self.addCleanup(entered.__exit__, None, None, None)
        onnxmem_torch.install()

    def packed(self, training: Training) -> onnxmem_torch.Memory:
        """Check that a training replays without misses, and that its arena has no fragmentation."""
        before = onnxmem_torch.memory()
        training.step(6)
        memory = onnxmem_torch.memory()
        self.assertEqual(memory["hits"] - before["hits"], 6 * training.allocated)
        self.assertEqual((memory["misses"], memory["fallback_bytes"]), (before["misses"], before["fallback_bytes"]))
        self.assertEqual(memory["recorded"], before["recorded"])
        self.assertEqual(memory["arena_bytes"], memory["lower_bound_bytes"])
        self.assertEqual(memory["arena_bytes"], memory["live_peak_bytes"])
        self.assertEqual(memory["driver_bytes"], memory["arena_bytes"] + memory["outside_bytes"])
        stats = onnxmem_torch.memory_stats()
        self.assertEqual((stats["reserved_bytes.all.current"], stats["arena_bytes"]), (memory["driver_bytes"], memory["arena_bytes"]))
        return memory

    def test_marked_iterations_are_packed_without_fragmentation(self) -> None:
        training = Training()
        training.until_planned(8)
        memory = self.packed(training)
        # What PyTorch's own allocator reserves for the same iterations.
        found = call(["pack", f"--trace={TRACES / 'cnn-train.jsonl.gz'}", "--align=512", "--json"]).result
        assert found is not None
        self.assertEqual(memory["arena_bytes"], found["arena_bytes"])
        self.assertGreater(found["reserved_bytes"]["pytorch"], 2 * memory["arena_bytes"])
        # The arena is made where an iteration begins, so nothing is taken twice.
        self.assertLess(memory["driver_peak_bytes"], memory["arena_bytes"] + memory["outside_bytes"] + 5000)

    def test_the_iteration_is_found_without_marks(self) -> None:
        training = Training(marked=False)
        training.until_planned(40)
        self.packed(training)

    def test_each_stream_has_an_arena(self) -> None:
        first, second = Training(), Training(stream=1 << 20)
        for _ in range(6):
            first.mark()
            for training in (first, second):
                training.program.play(training.run, training.steps * training.allocated)
                training.steps += 1
            self.assertTrue(onnxmem_torch.wait(60))
        streams = onnxmem_torch.streams()
        self.assertEqual([s["stream"] for s in streams], [0, 1 << 20])
        for s in streams:
            self.assertEqual((s["device"], s["plans"], s["misses"], s["arena_bytes"]), (0, 1, 0, s["lower_bound_bytes"]))
            self.assertGreater(s["hits"], first.allocated)

    def test_a_lasting_change_has_a_plan_of_its_own(self) -> None:
        training = Training()
        training.until_planned(8)
        small = self.packed(training)
        training.step(7, times=3)
        self.assertTrue(onnxmem_torch.wait(60))
        training.step(2, times=3)  # what lives over from the recording has gone
        before = onnxmem_torch.memory()
        training.step(5, times=3)
        memory = onnxmem_torch.memory()
        self.assertEqual((memory["plans"], memory["misses"]), (2, before["misses"]))
        self.assertGreater(memory["arena_bytes"], 2 * small["arena_bytes"])
        self.assertEqual(memory["driver_bytes"], memory["arena_bytes"] + memory["outside_bytes"])

    def test_each_kind_of_iterations_has_a_plan(self) -> None:
        training = Training()
        for k in range(10):
            training.step(kind="small")
            training.step(kind=(2, 3), times=2)
            self.assertTrue(onnxmem_torch.wait(60))
        memory = onnxmem_torch.memory()
        self.assertEqual(memory["plans"], 2)
        training.step(kind="small")
        one = onnxmem_torch.memory()
        training.step(kind=(2, 3), times=2)
        two = onnxmem_torch.memory()
        self.assertEqual((one["misses"], two["misses"]), (memory["misses"],) * 2)
        self.assertGreater(two["plan_bytes"], one["plan_bytes"])
        self.assertEqual((one["arena_bytes"], two["arena_bytes"]), (two["plan_bytes"],) * 2)

    def test_iterations_that_differ_hit_where_they_are_the_same(self) -> None:
        training = Training()
        for k in range(30):
            training.step()
            training.program.alloc(-k - 1, 1000 * (k + 3))
            training.program.free(-k - 1)
            self.assertTrue(onnxmem_torch.wait(60))
        memory = onnxmem_torch.memory()
        self.assertGreater(memory["plans"], 0)
        self.assertGreater(memory["hits"], 15 * training.allocated)
        self.assertLess(memory["misses"], 15 * 6)

    def test_without_the_command_blocks_come_from_the_driver(self) -> None:
        with unittest.mock.patch.dict(os.environ, {"ONNXMEM_COMMAND": "/nonexistent"}), self.assertWarnsRegex(RuntimeWarning, "not packed"):
            training = Training()
            training.step(6)
            self.assertTrue(onnxmem_torch.wait(60))
        memory = onnxmem_torch.memory()
        self.assertEqual((memory["plans"], memory["hits"], memory["arena_bytes"]), (0, 0, 0))
        training.until_planned(20)

    def test_hooks_are_those_of_pytorch(self) -> None:
        onnxmem_torch.install()  # a second time: nothing happens
        hooks = _allocator._installed().allocator.hooks
        self.assertEqual(set(hooks), {"set_record_stream_fn", "set_base_alloc_fn", "set_reset_fn"})
        training = Training()
        training.until_planned(8)
        training.step(2)
        base = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))(hooks["set_base_alloc_fn"])
        size = ctypes.c_size_t()
        ends = [(base(address, ctypes.byref(size)) or 0) + size.value - address - bytes_ for address, bytes_, _ in training.program.live.values()]
        self.assertTrue(all(0 <= end <= onnxmem_torch.memory()["arena_bytes"] for end in ends), ends)
        for number in list(training.program.live):
            training.program.free(number)
        ctypes.CFUNCTYPE(None)(hooks["set_reset_fn"])()
        self.assertEqual(onnxmem_torch.memory()["driver_bytes"], 0)

    def test_the_report_draws_a_stream(self) -> None:
        with self.assertRaisesRegex(ValueError, "nothing is packed yet"):
            onnxmem_torch.trace("unused")
        Training().until_planned(8)
        with tempfile.TemporaryDirectory() as folder:
            page = onnxmem_torch.report(Path(folder, "page.html"))
            figure = f'<div data-figure="arena" data-bytes="{onnxmem_torch.memory()["plan_bytes"]}">'
            self.assertTrue(figure in page.read_text(encoding="utf-8"), figure)
            onnxmem_torch.trace(Path(folder, "stream.jsonl.gz"))
            found = call(["pack", f"--trace={Path(folder, 'stream.jsonl.gz')}", "--json"]).result
        assert found is not None
        self.assertEqual(found["arena_bytes"], onnxmem_torch.memory()["plan_bytes"])


@unittest.skipUnless(sys.platform == "linux", "Linux only")
class Errors(unittest.TestCase):
    def refused(self, text: str, module: types.ModuleType | None = None, **variables: str) -> None:
        with process(module, **variables), self.assertRaisesRegex(RuntimeError, text):
            onnxmem_torch.install()

    def test_what_is_missing_is_said(self) -> None:
        self.refused("expected PyTorch with CUDA, found 2.0.0", torch(cuda=None))
        self.refused("no driver of NVIDIA: /nonexistent.so", None, **{_library.DRIVER: "/nonexistent.so"})
        self.refused("/nonexistent.so: not found: install onnxmem-ort again", None, **{_library.VARIABLE: "/nonexistent.so"})
        with unittest.mock.patch.dict(sys.modules, {"torch": None}), self.assertRaisesRegex(RuntimeError, "expected PyTorch: "):
            onnxmem_torch.install()
        if os.environ.get(_library.DRIVER):
            self.refused("before the first use of CUDA: Can't swap", torch(used=True))

    def test_install_comes_first(self) -> None:
        for function in (onnxmem_torch.memory, onnxmem_torch.wait, onnxmem_torch.report, onnxmem_torch.streams):
            with self.assertRaisesRegex(RuntimeError, "expected a call of install"):
                function()


#: Trains a network, with the arena if there is an argument, and prints its losses and the figures.
NETWORK = """
import json, sys
import torch
import onnxmem_torch
if sys.argv[1:]:
    onnxmem_torch.install()
torch.manual_seed(0)
torch.backends.cudnn.deterministic = True
net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 900, 10)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
losses = []
for _ in range(12):
    if sys.argv[1:]:
        with onnxmem_torch.iteration():
            pass
        onnxmem_torch.wait(60)
    optimizer.zero_grad()
    x, y = torch.randn(8, 3, 32, 32).cuda(), torch.randint(0, 10, (8,)).cuda()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps([losses, onnxmem_torch.memory() if sys.argv[1:] else None]))
"""


@unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
class Gpu(unittest.TestCase):
    def test_a_training_has_the_same_losses(self) -> None:
        import torch

        if not torch.cuda.is_available():
            self.skipTest("no GPU")
        environment = {k: v for k, v in os.environ.items() if k != _library.DRIVER}
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        environment["ONNXMEM_COMMAND"] = onnxmem.command()
        results = []
        for arguments in ([], ["arena"]):
            done = subprocess.run([sys.executable, "-c", NETWORK, *arguments], env=environment, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append(json.loads(done.stdout))
        (want, _), (got, memory) = results
        self.assertEqual(want, got)
        self.assertGreater(memory["hits"], 0)
        self.assertEqual(memory["arena_bytes"], memory["lower_bound_bytes"])


if __name__ == "__main__":
    unittest.main()
