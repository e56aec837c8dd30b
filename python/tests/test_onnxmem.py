"""Tests of the installed package: the command and the module on small models.

They need the package alone: `python -m unittest discover python/tests`.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import onnxmem

REPOSITORY = Path(__file__).parents[2]
BAD = REPOSITORY / "testdata" / "bad"

DIAMOND = {
    "nodes": [{"name": n} for n in "ABCD"],
    "tensors": [
        {"name": "a", "bytes": 8, "producer": 0, "consumers": [1, 2]},
        {"name": "b", "bytes": 4, "producer": 1, "consumers": [3]},
        {"name": "c", "bytes": 2, "producer": 2, "consumers": [3]},
    ],
}


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
        os.environ["ONNXMEM_COMMAND"] = str(self.folder / "nothing")
        self.addCleanup(os.environ.pop, "ONNXMEM_COMMAND")
        with self.assertRaisesRegex(onnxmem.NotInstalled, "nothing: not found"):
            onnxmem.version()


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
                exec(block, names)
        self.assertIn("standard input", out.getvalue())


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


if __name__ == "__main__":
    unittest.main()
