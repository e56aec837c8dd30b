"""Tests of the installed package: the command and the module on small models.

They need the package alone: `python -m unittest discover python/tests`. With numpy, runs are
tested, too.
"""

import _thread
import contextlib
import importlib
import importlib.util
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import onnxmem
from onnxmem import _library as library

REPOSITORY = Path(__file__).parents[2]
BAD = REPOSITORY / "testdata" / "bad"
HEADS = REPOSITORY / "testdata" / "light" / "heads.onnx"
NUMPY = importlib.util.find_spec("numpy") is not None

DIAMOND = {
    "nodes": [{"name": n} for n in "ABCD"],
    "tensors": [
        {"name": "a", "bytes": 8, "producer": 0, "consumers": [1, 2]},
        {"name": "b", "bytes": 4, "producer": 1, "consumers": [3]},
        {"name": "c", "bytes": 2, "producer": 2, "consumers": [3]},
    ],
}


GRAPH: Any = {"nodes": 4, "size": [8, 4, 2], "producer": [0, 1, 2], "consumers": [[1, 2], [3], [3]]}


class Folder(unittest.TestCase):
    """A test with a small model in a folder of its own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.folder / "model.onnx"
        self.run_command("model", "tiny_resnet8", str(self.model))

    def run_command(self, *arguments: str) -> str:
        done = subprocess.run([onnxmem.command(), *arguments], capture_output=True, text=True, check=True)
        return done.stdout


class Command(Folder):
    def test_is_native_and_of_this_package(self) -> None:
        with open(onnxmem.command(), "rb") as f:
            self.assertNotEqual(f.read(2), b"#!")
        self.assertEqual(self.run_command("--version").strip(), onnxmem.version())

    def test_runs_as_a_module(self) -> None:
        out = subprocess.run([sys.executable, "-m", "onnxmem", "--version"], capture_output=True, text=True, check=True)
        self.assertEqual(out.stdout.strip(), onnxmem.version())
        wrong = subprocess.run([sys.executable, "-m", "onnxmem", "verify", str(self.folder / "none.onnx")], capture_output=True, check=False)
        self.assertEqual(wrong.returncode, 3)

    def test_missing_command(self) -> None:
        named = {"ONNXMEM_COMMAND": str(self.folder / "nothing")}
        with mock.patch.dict(os.environ, named), self.assertRaisesRegex(onnxmem.NotInstalled, "nothing: not found"):
            onnxmem.version()

    def test_a_relative_name_is_one_of_the_first_folder(self) -> None:
        program = (
            "import os, onnxmem\n"
            "os.chdir('/')\n"
            "assert onnxmem.version()\n"
            "for _ in range(2):\n"
            "    try:\n"
            "        print(onnxmem.pack(lower=[0], upper=[1], size=[7]).arena_bytes)\n"
            "    except onnxmem.NotInstalled as e:\n"
            "        print(e)\n"
        )
        command = Path(onnxmem.command())
        (self.folder / "broken.so").write_text("no library")
        path = os.pathsep.join(filter(None, (str(Path(onnxmem.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
        named = library._NAMED.value()
        for value, want in (("" if named is None else os.path.relpath(named, command.parent), ["7", "7"]), (str(self.folder / "broken.so"), ["broken.so, which ONNXMEM_LIBRARY names"] * 2)):
            environment = {**os.environ, "ONNXMEM_COMMAND": os.path.join(os.curdir, command.name), "ONNXMEM_LIBRARY": value, "PYTHONPATH": path}
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=command.parent, env=environment, check=False)
            self.assertEqual(done.stderr, "")
            for line, text in zip(done.stdout.splitlines(), want, strict=True):
                self.assertIn(text, line)

    def test_a_library_of_the_package_that_does_not_load_is_named(self) -> None:
        package = self.folder / "onnxmem"
        shutil.copytree(Path(onnxmem.__file__).parent, package)
        name = {"win32": "onnxmem.dll", "darwin": "libonnxmem.dylib"}.get(sys.platform, "libonnxmem.so")
        (package / name).unlink(missing_ok=True)
        (package / name).write_text("no library")
        program = "import onnxmem; print([onnxmem.pack(lower=[0], upper=[1], size=[7]).arena_bytes for _ in range(2)])"
        environment = {**os.environ, "ONNXMEM_COMMAND": onnxmem.command(), "ONNXMEM_LIBRARY": "", "PYTHONPATH": str(self.folder)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
        self.assertEqual(done.stdout.strip(), "[7, 7]")
        self.assertEqual(done.stderr.count("RuntimeWarning: onnxmem: the command does the work of the library, which cannot be loaded: "), 1)


class ExecuTorch(unittest.TestCase):
    def test_is_imported_when_it_is_used(self) -> None:
        importlib.import_module("onnxmem.executorch")
        if importlib.util.find_spec("executorch") is not None:
            self.skipTest("executorch is installed: crosscheck/run executorch tests it")
        with self.assertRaisesRegex(ModuleNotFoundError, "executorch"):
            importlib.import_module("onnxmem.executorch").memory_planning()


class Optimize(Folder):
    def test_path_bytes_and_message_give_the_same(self) -> None:
        class Message:
            def __init__(self, text: bytes) -> None:
                self.text = text

            def SerializeToString(self) -> bytes:
                return self.text

        text = self.model.read_bytes()
        planned = [onnxmem.optimize(m, dims={"batch": 2}) for m in (self.model, str(self.model), text, Message(text))]
        for p in planned:
            self.assertEqual(p.model, planned[0].model)
            self.assertEqual(p.plan.buffers, planned[0].plan.buffers)
            self.assertEqual(p.warnings, [])
            self.assertTrue(onnxmem.verify(p).valid)

    def test_writes_what_the_command_writes(self) -> None:
        out = self.folder / "planned.onnx"
        p = onnxmem.optimize(self.model, out)
        self.assertEqual(p.path, out)
        self.assertEqual(p.model, out.read_bytes())
        self.assertIn('dimension "batch" is unbound', p.warnings[0])
        s = p.plan.summary
        self.assertEqual((p.summary.peak_bytes, p.summary.times_ms["total"] > 0), (s["peak_bytes"], True))
        self.assertEqual(s.arena_bytes, max(b.offset + b.bytes for b in p.plan.buffers if b.pool == "arena"))
        self.run_command("verify", str(out))
        self.assertTrue(onnxmem.verify(out).valid)
        self.assertTrue(onnxmem.verify(out, p.plan).valid)

    def test_saved_plans_verify(self) -> None:
        out = self.folder / "saved.onnx"
        onnxmem.optimize(self.model).save(out)
        self.assertTrue(onnxmem.verify(out).valid)

    def test_external_data_stay_where_they_are(self) -> None:
        p = onnxmem.optimize(REPOSITORY / "testdata" / "bad" / "external-sound.onnx")
        self.assertIn(b"external.bin", p.model)
        self.assertTrue(onnxmem.verify(p).valid)
        self.assertEqual(onnxmem.explain(p).peak_bytes, p.plan.summary.peak_bytes)

    def test_names_that_look_like_flags(self) -> None:
        here = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, here)
        os.rename("model.onnx", "--json")
        onnxmem.optimize("--json", "-.onnx")
        self.assertTrue(onnxmem.verify("-.onnx").valid)

    def test_training_step(self) -> None:
        out = self.folder / "step.onnx"
        p = onnxmem.optimize(self.model, out, train={"optimizer": "momentum", "freeze": "layer1.*"}, dims={"batch": 2})
        self.assertEqual(p.plan.mode, "training")
        self.assertTrue((self.folder / "step.params.onnx").exists())
        self.assertEqual(onnxmem.optimize(self.model, train=True).plan.mode, "training")
        with self.assertRaisesRegex(onnxmem.Refused, '--freeze: "layr1" matches no initializer: expected .* such as layer1'):
            onnxmem.optimize(self.model, train={"freeze": "layer1|layr1"})

    def test_16_bits_and_adapters(self) -> None:
        wide = onnxmem.optimize(self.model, train=True, dims={"batch": 2})
        p = onnxmem.optimize(self.model, train={"autocast": "bf16"}, dims={"batch": 2})
        self.assertEqual(p.plan["precision"]["type"], "bfloat16")
        self.assertLess(p.plan.summary.peak_bytes, wide.plan.summary.peak_bytes)
        step = self.folder / "step.onnx"
        p = onnxmem.optimize(self.model, step, train={"lora": 4, "optimizer": "adamw"}, dims={"batch": 2})
        self.assertLess(p.plan.summary.total_bytes, onnxmem.optimize(self.model, train={"optimizer": "adamw"}, dims={"batch": 2}).plan.summary.total_bytes)
        self.assertTrue(onnxmem.verify(step).valid)
        self.assertEqual(onnxmem.optimize(self.model, precision="fp16").plan["precision"]["type"], "float16")
        with self.assertRaisesRegex(onnxmem.Refused, "matches no module"):
            onnxmem.optimize(self.model, train={"lora": 4, "lora_targets": "nothing"})

    def test_limit(self) -> None:
        free = onnxmem.optimize(self.model, train=True, dims={"batch": 4})
        p = onnxmem.optimize(self.model, train=True, dims={"batch": 4}, limit="90%")
        self.assertLessEqual(p.plan.summary.peak_bytes, free.plan.summary.peak_bytes * 9 // 10)
        with self.assertRaisesRegex(onnxmem.Failed, "impossible: node") as caught:
            onnxmem.optimize(self.model, limit=1000)
        self.assertEqual(caught.exception.status, 1)
        assert caught.exception.result is not None
        self.assertIs(caught.exception.result.feasible, False)
        self.assertEqual(caught.exception.node, caught.exception.result.node)

    def test_a_notebook_shows_the_picture(self) -> None:
        p = onnxmem.optimize(self.model)
        self.assertIn("<svg", p.plan.svg())
        self.assertRegex(p._repr_html_(), '^<img .*alt="192 KiB in the arena, 29 nodes" src="data:image/svg.xml;base64,[A-Za-z0-9+/=]+">$')


class Pages(Folder):
    def test_examples_of_the_page(self) -> None:
        page = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        self.assertGreater(len(blocks), 3)
        here = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, here)
        names: dict[str, object] = {}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            for block in blocks:
                if NUMPY or "numpy" not in block:
                    exec(block, names)
        self.assertIn("standard input", out.getvalue())


@unittest.skipUnless(NUMPY, "needs numpy")
class Runs(Folder):
    def setUp(self) -> None:
        super().setUp()
        import numpy as np  # type: ignore[import-not-found, unused-ignore]

        self.step = onnxmem.optimize(HEADS, self.folder / "step.onnx", train={"loss": "mse:box"}, dims={"n": 3})
        rng = np.random.default_rng(1)
        self.batches = []
        for _ in range(3):
            x = rng.integers(-4, 5, (3, 4)).astype(np.float32) / 4
            self.batches.append({"x": x, "labels": x[:, :2] / 2})

    def test_outputs_are_those_of_the_command(self) -> None:
        import numpy as np

        planned = onnxmem.optimize(HEADS, dims={"n": 3})
        x = self.batches[0]["x"]
        planned.save(self.folder / "heads.onnx")
        np.savez(self.folder / "in.npz", x=x)
        self.run_command("run", str(self.folder / "heads.onnx"), "--inputs", str(self.folder / "in.npz"), "--outputs", str(self.folder / "out.npz"))
        want = np.load(self.folder / "out.npz")["box"]
        self.assertGreater(np.abs(want).max(), 0)
        for model in (planned, self.folder / "heads.onnx"):
            out = onnxmem.run(model, {"x": x})
            self.assertEqual(sorted(out), ["box", "cls", "decay_loss"])
            self.assertEqual(out["box"].dtype, np.float32)
            np.testing.assert_array_equal(out["box"], want)
        for same in (x.astype(">f4"), np.asfortranarray(x), x.tolist()):
            np.testing.assert_array_equal(onnxmem.run(planned, {"x": same})["box"], out["box"])
        # Of several steps, the last; a generator is as good as a list.
        last = onnxmem.run(planned, ({"x": b["x"]} for b in reversed(self.batches)))
        np.testing.assert_array_equal(last["box"], out["box"])

    def test_training_is_the_same_as_single_steps(self) -> None:
        saved = self.folder / "saved.onnx"
        losses = onnxmem.train(self.step, iter(self.batches), learning_rate=0.5, steps=5, save=saved)
        params, single = None, []
        for i in range(5):
            kept = self.folder / f"{i}.onnx"
            single += onnxmem.train(self.folder / "step.onnx", [self.batches[i % 3]], learning_rate=0.5, params=params, save=kept)
            params = kept
        self.assertEqual(losses, single)
        self.assertEqual(saved.read_bytes(), (self.folder / "4.onnx").read_bytes())

    def test_the_loss_falls_and_the_model_is_written(self) -> None:
        import numpy as np

        trained = self.folder / "trained.onnx"
        rates = [{**b, "learning_rate": np.float32(0.5)} for b in self.batches]
        losses = onnxmem.train(self.step, rates, steps=90, save_model=trained, source=HEADS)
        self.assertEqual(len(losses), 90)
        self.assertLess(losses[-1], losses[2] / 20)
        out = onnxmem.run(onnxmem.optimize(trained, dims={"n": 3}), {"x": self.batches[0]["x"]})
        self.assertLess(np.abs(out["box"] - self.batches[0]["labels"]).max(), 0.2)

    def test_what_is_wrong_is_named(self) -> None:
        import numpy as np

        x = self.batches[0]["x"]
        with self.assertRaisesRegex(onnxmem.Refused, r'batch-1.npz: "x" is float32\[2,4\], expected float32\[3,4\]') as caught:
            onnxmem.train(self.step, [self.batches[0], {**self.batches[1], "x": x[:2]}])
        self.assertEqual(caught.exception.status, 3)
        with self.assertRaisesRegex(onnxmem.Refused, '"y" is no input of the model'):
            onnxmem.run(self.step, {"y": x})
        with self.assertRaisesRegex(ValueError, "no inputs: expected those of at least one step"):
            onnxmem.train(self.step, [])
        with self.assertRaisesRegex(TypeError, "input 'x': an array of objects"):
            onnxmem.run(self.step, {"x": np.array([None])})
        with self.assertRaisesRegex(TypeError, "a float: expected the inputs of a step by name"):
            onnxmem.run(self.step, [1.0])  # type: ignore[list-item]
        with self.assertRaisesRegex(TypeError, "a bytes: expected a planned model"):
            onnxmem.run(b"")  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "no output loss"):
            onnxmem.train(onnxmem.optimize(HEADS, dims={"n": 3}), [{"x": x}])


class Errors(Folder):
    def test_node(self) -> None:
        for out in (None, self.folder / "out.onnx"):
            with self.assertRaisesRegex(onnxmem.Refused, r"node 0 \(Add\): input 1 \"w\" has shape \[3\]") as caught:
                onnxmem.optimize(BAD / "broadcast-mismatch.onnx", out)
            e = caught.exception
            self.assertEqual((e.status, e.file, e.node), (3, str(BAD / "broadcast-mismatch.onnx"), "node 0 (Add)"))
        self.assertEqual(os.listdir(self.folder), ["model.onnx"])

    def test_tensor_and_byte(self) -> None:
        text = (BAD / "dangling-output.onnx").read_bytes()
        with self.assertRaises(onnxmem.Refused) as caught:
            onnxmem.optimize(text)
        e = caught.exception
        self.assertEqual((e.file, e.tensor, e.byte), ("standard input", "z", 79))

    def test_every_damaged_model_is_an_error(self) -> None:
        refused = 0
        for path in sorted(BAD.glob("c*.onnx")):
            try:
                onnxmem.optimize(path.read_bytes())
            except onnxmem.Refused as e:
                refused += 1
                self.assertTrue(str(e).startswith("standard input: "), str(e))
        self.assertGreater(refused, 5)

    def test_arguments(self) -> None:
        with self.assertRaisesRegex(onnxmem.UsageError, "unknown flag --colour"):
            onnxmem.optimize(self.model, colour="red")
        with self.assertRaisesRegex(TypeError, "a list: expected a path"):
            onnxmem.optimize([1, 2])  # type: ignore[arg-type]
        with self.assertRaisesRegex(onnxmem.Refused, "none.plan.json: not found"):
            onnxmem.verify("none.onnx")


class Others(Folder):
    def test_a_false_plan_is_a_result(self) -> None:
        p = onnxmem.optimize(self.model)
        p.plan.buffers[1]["offset"] += 64
        r = onnxmem.verify(p)
        self.assertIs(r.valid, False)
        self.assertTrue(r.violations[0].message)

    def test_explain_and_compare(self) -> None:
        p = onnxmem.optimize(self.model, dims={"batch": 2})
        self.assertEqual(onnxmem.explain(p).peak_bytes, p.plan.summary.peak_bytes)
        x = onnxmem.explain(self.model, dims={"batch": 2}, top=1)
        self.assertEqual((x.peak_bytes, len(x.relief)), (p.plan.summary.peak_bytes, 1))
        t = onnxmem.compare(self.model, dims={"batch": 2}, effort="fast")
        self.assertEqual(t.lower_bound_bytes, p.plan.summary.lower_bound_bytes)
        self.assertEqual(onnxmem.compare(DIAMOND).nodes, 4)

    def test_fit(self) -> None:
        r = onnxmem.fit(self.model, dims={"batch": 2}, devices=["gpu"], effort="fast")
        self.assertEqual({d["kind"] for d in r.devices}, {"gpu"})
        self.assertTrue(all(d["fits"] for d in r.devices))
        self.assertEqual(r.arena_bytes, onnxmem.optimize(self.model, dims={"batch": 2}, effort="fast").plan.summary.arena_bytes)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "boards.json")
            file.write_text('{"devices": [{"name": "tiny", "kind": "microcontroller", "memory": "1B"}]}', encoding="utf-8")
            (tiny,) = onnxmem.fit(Path(self.model).read_bytes(), device_file=file, effort="fast").devices
            self.assertEqual((tiny["fits"], tiny["proven_impossible"]), (False, True))

    def test_order(self) -> None:
        r = onnxmem.order(DIAMOND)
        self.assertEqual((r.peak_bytes, r.optimal, sorted(r.order)), (14, True, [0, 1, 2, 3]))
        self.assertIs(onnxmem.order(DIAMOND, limit=5).feasible, False)
        with self.assertRaisesRegex(onnxmem.Refused, "standard input: "):
            onnxmem.order({"nodes": [{}], "tensors": [{"bytes": -1}]})

    def test_pack(self) -> None:
        buffers = [{"id": n, "lower": i, "upper": i + 2, "size": 8} for i, n in enumerate("abc")]
        r = onnxmem.pack(buffers)
        self.assertEqual((r.arena_bytes, r.optimal, len(r.placed)), (16, True, 3))
        self.assertEqual(r.placed[0].offset, r.placed[2].offset)
        tight = onnxmem.pack(buffers, capacity=15)
        self.assertIs(tight.fits, False)
        self.assertNotIn("placed", tight)
        self.assertRegex(tight.warnings[0], "does not fit into 15 B")

    def test_records(self) -> None:
        r = onnxmem.Record(values=1, peak=2)
        self.assertEqual((r.peak, r["values"]), (2, 1))
        self.assertIn("peak", dir(r))
        with self.assertRaisesRegex(AttributeError, "no 'arena': expected one of values, peak"):
            r.arena  # noqa: B018


def tangled(count: int) -> Any:
    """Return buffers that fill an arena of 1,000,000 bytes at each of 200 steps: a rectangle, cut up."""
    draw = random.Random(1)
    parts = [(0, 200, 1_000_000)]
    while len(parts) < count:
        parts.sort(key=lambda p: (p[1] - p[0]) * p[2])
        lower, upper, size = parts.pop()
        if draw.random() < 0.5 and upper - lower > 4:
            at = draw.randrange(lower + 1, upper)
            parts += [(lower, at, size), (at, upper, size)]
        else:
            at = draw.randrange(1, size)
            parts += [(lower, upper, at), (lower, upper, size - at)]
    draw.shuffle(parts)
    return dict(zip(("lower", "upper", "size"), map(list, zip(*parts))))


NO_LIBRARY = "no libonnxmem beside the package or at ONNXMEM_LIBRARY: arrays go to the command"


class Arrays(unittest.TestCase):
    """Problems as arrays, in this process where the library is there."""

    def setUp(self) -> None:
        self.library = library.library()

    def by_command(self) -> contextlib.AbstractContextManager[object]:
        return mock.patch.object(library, "library", lambda: None)

    def test_pack(self) -> None:
        four: Any = {"lower": [0, 0, 1, 2], "upper": [2, 2, 3, 4], "size": [4, 2, 1, 4]}
        p = onnxmem.pack(**four)
        self.assertEqual((p.offsets, p.arena_bytes, p.lower_bound_bytes, p.proven, p.fits), ([0, 4, 6, 0], 7, 7, True, None))
        self.assertTrue(onnxmem.pack(**four, capacity=7).fits)
        self.assertEqual(onnxmem.pack(**four, capacity=6).infeasible, [0, 1, 2])
        self.assertEqual(onnxmem.pack(**four, alignment=[8, 1, 4, 1]).offsets[2] % 4, 0)
        self.assertEqual(onnxmem.pack(**four, fixed=[-1, 0, -1, -1]).offsets[1], 0)
        self.assertEqual(onnxmem.pack(lower=[], upper=[], size=[]).offsets, [])

    def test_command_gives_the_same(self) -> None:
        calls = (
            lambda: onnxmem.pack(**tangled(200), effort="fast"),
            lambda: onnxmem.pack(**tangled(200), alignment=64, capacity=1_300_000, effort="fast"),
            lambda: onnxmem.order(**GRAPH),
            lambda: onnxmem.limit(13, **GRAPH, cost=[5, 1, 1, 1]),
            lambda: onnxmem.limit("10%", **GRAPH),
            lambda: onnxmem.limit(13, **GRAPH, least=True),
            lambda: onnxmem.limit(13, **GRAPH, host_link=10**9),
            lambda: onnxmem.limit(5, nodes=0, size=[], producer=[], consumers=[]),
            lambda: onnxmem.pack(**tangled(50), capacity=[2_000_000]),
            lambda: onnxmem.pack(lower=[False], upper=[True], size=[True]),
        )
        for call in calls:
            here = call()
            with self.by_command():
                self.assertEqual(call(), here)

    def test_order(self) -> None:
        r = onnxmem.order(**GRAPH)
        self.assertEqual((sorted(r.order), r.peak_bytes, r.proven), ([0, 1, 2, 3], 14, True))
        with self.assertRaisesRegex(onnxmem.Refused, "tensor 0"):
            onnxmem.order(nodes=1, size=[1], producer=[0], consumers=[[1]])
        with self.assertRaisesRegex(ValueError, "consumers: expected 2 lists, found 1"):
            onnxmem.order(nodes=1, size=[1, 1], producer=[0, 0], consumers=[[0]])

    def test_refused(self) -> None:
        with self.assertRaisesRegex(onnxmem.Refused, "buffers?.1"):
            onnxmem.pack(lower=[0, 3], upper=[1, 3], size=[1, 1])
        with self.assertRaisesRegex(ValueError, "upper: expected 2 values, found 1"):
            onnxmem.pack(lower=[0, 3], upper=[1], size=[1, 1])
        with self.assertRaisesRegex(TypeError, "size: expected integers of 64 bits"):
            onnxmem.pack(lower=[0], upper=[1], size=[1.5])  # type: ignore[list-item]

    def test_every_number_is_checked(self) -> None:
        four: Any = {"lower": [0, 0, 1, 2], "upper": [2, 2, 3, 4], "size": [4, 2, 1, 4]}
        cases = (
            (lambda: onnxmem.pack(**four, capacity=[]), "capacity: expected one at least"),
            (lambda: onnxmem.pack(**four, capacity=-1), "capacity: expected 0 to 9223372036854775807, found -1"),
            (lambda: onnxmem.pack(**four, capacity=2**64 + 7), "capacity: expected"),
            (lambda: onnxmem.pack(**four, alignment=2**64 + 1), "alignment: expected"),
            (lambda: onnxmem.pack(**four, time_limit=-1), "time_limit: expected"),
            (lambda: onnxmem.pack(**four, time_limit=float("nan")), "time_limit: expected"),
            (lambda: onnxmem.order(**{**GRAPH, "nodes": 2**64 + 4}), "nodes: expected 0 to"),
            (lambda: onnxmem.limit(2**64 + 14, **GRAPH), "limit: expected"),
            (lambda: onnxmem.limit(14, **GRAPH, host_link=2**64 + 1), "host_link: expected"),
            (lambda: onnxmem.limit("8GiB", **GRAPH), "limit '8GiB': expected bytes"),
            (lambda: onnxmem.limit(13, **GRAPH, host_link=10**9, least=True), "least: expected no host_link"),
            (lambda: onnxmem.limit(13, **GRAPH, recompute=False), "recompute: expected a host_link"),
        )
        for where in (contextlib.nullcontext, self.by_command):
            for case, text in cases:
                with self.subTest(text, where=where), where(), self.assertRaisesRegex(ValueError, text):
                    case()

    def test_numpy(self) -> None:
        if not NUMPY:
            self.skipTest("no numpy: arrays of it are not tested")
        import numpy  # type: ignore[import-not-found, unused-ignore]

        lists = tangled(50)
        want = onnxmem.pack(**lists).offsets
        for kind in (numpy.int64, numpy.int32, numpy.uint32):
            got = onnxmem.pack(**{k: numpy.array(v, kind) for k, v in lists.items()})
            self.assertIsInstance(got.offsets, numpy.ndarray)
            self.assertEqual(list(got.offsets), want)
        wide = {k: numpy.repeat(numpy.array(v), 2)[::2] for k, v in lists.items()}
        self.assertEqual(list(onnxmem.pack(**wide).offsets), want)
        begin, items = numpy.array([0, 2, 3, 4]), numpy.array([1, 2, 3, 3], numpy.int32)
        self.assertEqual(onnxmem.order(**{**GRAPH, "consumers": (begin, items)}), onnxmem.order(**GRAPH))
        for last in (3, 400, 1 << 30):  # nothing behind the elements is read
            with self.assertRaisesRegex(ValueError, f"consumers: expected lists that begin at 0 and end at 4.*and {last}"):
                onnxmem.order(**{**GRAPH, "consumers": (numpy.array([0, 2, 3, last]), items)})
        self.assertEqual(onnxmem.pack(**lists, capacity=numpy.int64(2_000_000), alignment=numpy.int32(8)).fits, True)
        self.assertEqual(onnxmem.order(**{**GRAPH, "nodes": numpy.int64(4)}), onnxmem.order(**GRAPH))

    def test_pools(self) -> None:
        if self.library is None:
            self.skipTest(NO_LIBRARY)
        four: Any = {"lower": [0, 0, 1, 2], "upper": [2, 2, 3, 4], "size": [4, 2, 1, 4]}
        p = onnxmem.pack(**four, pool=[0, 1, 1, 0], capacity=[4, 2])
        self.assertEqual(([x.fits for x in p.pools], p.fits, p.infeasible, p.arena_bytes), ([True, False], False, [1, 2], 7))
        self.assertEqual(onnxmem.pack(**four, pool=[-1] * 4, capacity=[4, 8]).pool, [0, 1, 1, 0])

    def test_interrupt_ends_a_long_search(self) -> None:
        if self.library is None:
            self.skipTest(NO_LIBRARY)

        def interrupt() -> None:
            while all(t.name != "onnxmem" for t in threading.enumerate()):
                pass
            _thread.interrupt_main()

        with self.assertRaises(KeyboardInterrupt):
            threading.Thread(target=interrupt).start()
            onnxmem.pack(**tangled(800), effort="max")

    def test_waits_until_the_search_has_ended(self) -> None:
        joined, ended = [0], []
        join = threading.Thread.join

        def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
            joined[0] += 1
            if joined[0] <= 2:
                raise KeyboardInterrupt
            join(thread, timeout)

        def search(options: library.Options, text: Any, length: int) -> int:
            while options.cancel.contents.value == 0 or joined[0] < 3:
                pass
            ended.append(True)
            return 0

        with mock.patch.object(threading.Thread, "join", interrupted), self.assertRaises(KeyboardInterrupt):
            library.call(search, "default", None, lambda: False, long=True)
        self.assertEqual(ended, [True])

    def test_time_limit(self) -> None:
        if self.library is None:
            self.skipTest(NO_LIBRARY)
        self.assertTrue(onnxmem.pack(**tangled(800), effort="max", time_limit=0.05).ended)
        with self.assertRaisesRegex(onnxmem.Ended, "before anything was found") as caught:
            onnxmem.pack(**tangled(800), pool=[-1] * 800, capacity=[1 << 20, -1], time_limit=1e-9)
        self.assertIsInstance(caught.exception, onnxmem.Failed)

    def test_forked_child_uses_the_command(self) -> None:
        if self.library is None or not hasattr(os, "fork"):
            self.skipTest(NO_LIBRARY if self.library is None else "no fork")
        want = onnxmem.pack(**tangled(50))
        child = os.fork()
        if child == 0:
            try:
                onnxmem.pack(**tangled(50), pool=[0] * 50)
            except onnxmem.NotInstalled as e:
                named = "forked child" in str(e)
            os._exit(0 if named and onnxmem.pack(**tangled(50)) == want and library.library() is None else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
