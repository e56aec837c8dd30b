"""Tests of the installed package on small models; each compares with ONNX Runtime alone, bit for bit.

They need the package, onnx and numpy: `python -m unittest discover ort/python/tests`.
ONNXMEM_ORT_SECONDS makes the random shapes last longer.
"""

import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxmem
import onnxruntime
from onnx import TensorProto, helper

import onnxmem_ort
import onnxmem_ort._core
import onnxmem_ort._enforce
import onnxmem_ort._pack

CPU = ["CPUExecutionProvider"]
Arrays = Mapping[str, Any]


def network(nodes: list[Any], inputs: Mapping[str, list[Any]], outputs: list[str], weights: Arrays | None = None) -> bytes:
    """Return a model on float32; a shape may have names."""
    made = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    for value in made.output:
        value.ClearField("type")
    return bytes(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def options() -> Any:
    made = onnxruntime.SessionOptions()
    made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.intra_op_num_threads = 1
    made.log_severity_level = 4
    return made


#: Matrix products and a residual, with both dimensions of x open.
CHAIN = network(
    [
        node("MatMul", "x w", "a"),
        node("Relu", "a", "b"),
        node("MatMul", "b w", "c"),
        node("Add", "c a", "d"),
        node("Transpose", "d", "e", perm=[1, 0]),
        node("MatMul", "d e", "y"),
    ],
    {"x": ["n", 64]},
    ["y"],
    {"w": np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)},
)


def rows(n: int, seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((n, 64)).astype(np.float32)}


class Case(unittest.TestCase):
    def pair(self, model: Any, **arguments: Any) -> tuple[Any, Any]:
        """Return ONNX Runtime's session and ours."""
        plain = onnxruntime.InferenceSession(model, options(), CPU)
        return plain, onnxmem_ort.InferenceSession(model, options(), CPU, **{"arena": "record", "least_saving": 0, **arguments})

    def same(self, plain: Any, ours: Any, feed: Arrays) -> Any:
        want, got = plain.run(None, feed), ours.run(None, feed)
        self.equal(want, got)
        return got

    def equal(self, want: Any, got: Any) -> None:
        self.assertEqual(len(want), len(got))
        for a, b in zip(want, got):
            self.assertEqual((a.dtype, a.shape, a.tobytes()), (b.dtype, b.shape, b.tobytes()))


class Record(Case):
    def test_a_network_replays_in_a_packed_arena(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder, "model.onnx")
            subprocess.run([onnxmem.command(), "model", "tiny_resnet8", str(model), "--dim", "batch=4"], check=True, capture_output=True)
            plain, ours = self.pair(str(model))
            (x,) = plain.get_inputs()
            feed = {x.name: np.random.default_rng(0).standard_normal([d if isinstance(d, int) else 4 for d in x.shape]).astype(np.float32)}
            self.same(plain, ours, feed)
            first = ours.memory
            self.assertEqual((first["hits"], first["misses"]), (0, 0))
            self.assertTrue(ours.wait(60))
            for _ in range(3):
                self.same(plain, ours, feed)
            memory = ours.memory
            self.assertEqual(memory["misses"], 0)
            self.assertEqual(memory["fallback_bytes"], 0)
            self.assertGreater(memory["hits"], 3 * 10)
            self.assertEqual(memory["packed_plans"], 1)
            self.assertEqual(memory["arena_bytes"], memory["lower_bound_bytes"])
            self.assertGreater(memory["weights_bytes"], 0)

    def test_the_first_placement_is_good_until_it_is_packed(self) -> None:
        plain, ours = self.pair(CHAIN)
        saves = unittest.mock.patch.object(ours, "_saves", lambda core: True)  # best fit leaves nothing here
        alone = unittest.mock.patch.object(onnxmem_ort._pack, "planner", lambda: None)
        with saves, alone, environment(ONNXMEM_COMMAND="/nonexistent"), self.assertWarnsRegex(RuntimeWarning, "not packed"):
            self.same(plain, ours, rows(100))
            self.assertTrue(ours.wait(60))
        self.same(plain, ours, rows(100))
        self.assertEqual((ours.memory["hits"], ours.memory["misses"]), (ours.memory["recorded"] - 1, 0))

    def test_plans_are_packed_in_this_process(self) -> None:
        if onnxmem_ort._pack.planner() is None:
            self.skipTest("no libonnxmem: packing in this process is not tested")
        plain, ours = self.pair(CHAIN)
        saves = unittest.mock.patch.object(ours, "_saves", lambda core: True)
        with saves, environment(ONNXMEM_COMMAND="/nonexistent"), warnings.catch_warnings():
            warnings.simplefilter("error")
            self.same(plain, ours, rows(100))
            self.assertTrue(ours.wait(60))
        self.same(plain, ours, rows(100))
        self.assertEqual((ours.memory["packed_plans"], ours.memory["misses"]), (1, 0))
        self.assertEqual(ours.memory["arena_bytes"], ours.memory["lower_bound_bytes"])

    def test_a_planner_that_cannot_be_loaded_is_named(self) -> None:
        script = f"import sys; sys.path[:0] = {sys.path!r}\n" + (
            "import numpy, onnxmem_ort; s = onnxmem_ort.InferenceSession(sys.stdin.buffer.read(), least_saving=0)\n"
            "s._saves = lambda core: True\n"
            "s.run(None, {'x': numpy.ones((100, 64), 'f')})\n"
            "print(s.wait(60), s.memory['packed_plans'])"
        )
        with environment(ONNXMEM_LIBRARY="/nonexistent.so"):  # a process of its own: this one may have loaded another
            done = subprocess.run([sys.executable, "-c", script], input=CHAIN, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, b"True 1"), done.stderr)
        self.assertRegex(done.stderr.decode(), "RuntimeWarning: .* what ONNXMEM_LIBRARY names cannot be loaded: libonnxmem: .*nonexistent")

    def test_off_is_the_runtime_alone(self) -> None:
        plain, ours = self.pair(CHAIN, arena="off")
        self.same(plain, ours, rows(9))
        self.assertEqual(set(ours.memory.values()), {0, "off"})
        self.assertIn("there is no arena", ours.notes[0])
        with self.assertRaisesRegex(ValueError, "expected 'auto', 'record', 'plan' or 'off'"):
            onnxmem_ort.InferenceSession(CHAIN, arena="on")  # type: ignore[arg-type]

    def test_options_are_as_before(self) -> None:
        mine = options()
        before = mine.enable_cpu_mem_arena, mine.enable_mem_pattern, mine.enable_mem_reuse
        for reuse in (False, True):
            ours = onnxmem_ort.InferenceSession(CHAIN, mine, CPU, reuse=reuse)
            self.assertEqual(before, (mine.enable_cpu_mem_arena, mine.enable_mem_pattern, mine.enable_mem_reuse))
            self.same(onnxruntime.InferenceSession(CHAIN, mine, CPU), ours, rows(7))

    def test_installed_class(self) -> None:
        onnxmem_ort.install()
        self.addCleanup(onnxmem_ort.uninstall)
        ours = onnxruntime.InferenceSession(CHAIN, providers=CPU, least_saving=0)
        for _ in range(2):
            ours.run(None, rows(5))
        self.assertGreater(ours.memory["hits"], 0)
        onnxmem_ort.uninstall()
        self.assertFalse(hasattr(onnxruntime.InferenceSession, "memory"))
        ours.run(None, rows(5))

    def test_names_that_were_imported_before(self) -> None:
        imported: Any = onnxruntime.InferenceSession  # as by "from onnxruntime import InferenceSession"

        class Derived(imported):
            def __init__(self, model: Any) -> None:
                super().__init__(model, options(), providers=CPU)

        before = imported(CHAIN, options(), CPU)
        self.addCleanup(onnxmem_ort.uninstall)
        with self.assertWarnsRegex(RuntimeWarning, r"\d+ session\(s\) of ONNX Runtime were made before install\(\)"):
            onnxmem_ort.install()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            onnxmem_ort.install()  # once is enough
        for made in (imported(CHAIN, options(), CPU), Derived(CHAIN), onnxmem_ort.InferenceSession(CHAIN, options(), CPU)):
            self.assertIsInstance(made, onnxruntime.InferenceSession)
            for _ in range(2):
                self.same(before, made, rows(5))
            self.assertGreater(made.memory["left_alone"], 0)
        self.assertEqual(before.memory["mode"], "off")
        self.assertIn("ONNX Runtime's own allocator", before.notes[0])

    def test_idle_memory_is_given_back(self) -> None:
        off = options()
        off.enable_cpu_mem_arena = False
        given_back, real = threading.Event(), onnxmem_ort._core.Core.give_back

        def give_back(core: Any) -> None:
            real(core)
            given_back.set()

        for made, given, seconds in (
            ({"idle_release": 0}, options(), 0),
            ({}, off, 0),
            ({"idle_release": 0.05}, options(), 0.05),
            ({"idle_release": None}, off, None),
            ({}, options(), 5),
        ):
            plain, ours = onnxruntime.InferenceSession(CHAIN, options(), CPU), onnxmem_ort.InferenceSession(CHAIN, given, CPU, arena="record", least_saving=0, **made)
            given_back.clear()
            with unittest.mock.patch.object(onnxmem_ort._core.Core, "give_back", give_back):
                for _ in range(3):
                    self.same(plain, ours, rows(200))
                while seconds == 0.05 and ours.memory["held_bytes"]:
                    self.assertTrue(given_back.wait(60))
                    given_back.clear()
            memory = ours.memory
            self.assertEqual((memory["given_back"] > 0, memory["held_bytes"] == 0), (seconds in (0, 0.05),) * 2)
            self.assertTrue(memory["given_back"] == 3 or seconds != 0)
            self.assertEqual(memory["misses"], 0)
            said = "is kept" if seconds is None else "after each run" if seconds == 0 else f"after {seconds:g} s"
            self.assertIn(said, ours.notes[-1])
            self.assertEqual("turn ONNX Runtime's own arena off" in ours.notes[-1], given is off and seconds is not None)
        with self.assertRaisesRegex(ValueError, "idle_release -1: expected seconds, None or 'auto'"):
            onnxmem_ort.InferenceSession(CHAIN, idle_release=-1)

    def test_small_models_are_left_alone(self) -> None:
        script = f"import sys; sys.path[:0] = {sys.path!r}\n" + (
            "import numpy, onnxmem_ort; s = onnxmem_ort.InferenceSession(sys.stdin.buffer.read())\n"
            "for _ in range(3): s.run(None, {'x': numpy.ones((8, 64), 'f')})\n"
            "print(s.memory['mode'], s.memory['left_alone'] == 2, 'onnxmem' in sys.modules, '_hashlib' in sys.modules, s.notes[0][:5])"
        )
        done = subprocess.run([sys.executable, "-c", script], input=CHAIN, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout.split()), (0, [b"small", b"True", b"False", b"False", b"small"]), done.stderr)
        plain, ours = self.pair(CHAIN, least_saving=1 << 30)
        self.same(plain, ours, rows(100))
        self.assertEqual(ours.memory["mode"], "small")

    def test_binding_chooses_a_plan_by_sizes(self) -> None:
        plain, ours = self.pair(CHAIN)
        for n in (30, 50, 30, 50, 30, 50):
            binding = ours.io_binding()
            binding.bind_cpu_input("x", rows(n)["x"])
            binding.bind_output("y")
            ours.run_with_iobinding(binding)
            self.equal(plain.run(None, rows(n)), binding.copy_outputs_to_cpu())
            values = {"x": onnxruntime.OrtValue.ortvalue_from_numpy(rows(n)["x"])}
            self.equal(plain.run(None, rows(n)), [v.numpy() for v in ours.run_with_ort_values(None, values)])
        self.assertEqual(ours.memory["misses"], 0)
        self.assertGreater(ours.memory["hits"], 8)


    def test_a_trace_is_written_and_a_table_replayed(self) -> None:
        plain, ours = self.pair(CHAIN, release_outputs=True)
        with self.assertRaisesRegex(ValueError, "nothing is recorded"):
            ours.trace("nothing")
        self.same(plain, ours, rows(10))
        with tempfile.TemporaryDirectory() as folder:
            trace, table = Path(folder, "trace.jsonl"), Path(folder, "table")
            ours.trace(trace)
            events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
            self.assertEqual(events[0], {"mark": "run"})
            sizes = [e["size"] for e in events if "alloc" in e]
            self.assertEqual(sizes.count(4 * 10 * 64), len(sizes) - 1)  # all but the result
            top, lines = 0, []
            for e in events[1:]:
                if "alloc" in e:
                    lines.append(f"alloc {e['alloc']} {e['size']} {top} 0")
                    top += -(-e["size"] // 64) * 64
                else:
                    lines.append(f"free {e['free']}")
            table.write_text(f"onnxmem/replay 1\nalignment 64\narena {top}\nlower_bound 0\nevents {len(lines)}\n" + "\n".join(lines) + "\n", encoding="utf-8")
            other = onnxmem_ort.InferenceSession(CHAIN, options(), CPU, release_outputs=True)
            other.replay(table, rows(10))
            self.same(plain, other, rows(10))
            self.assertEqual((other.memory["hits"], other.memory["recorded"], other.memory["arena_bytes"]), (len(sizes), 0, top))
            table.write_text("onnxmem/replay 3\n", encoding="utf-8")
            with self.assertRaisesRegex(ValueError, "line 1: expected onnxmem/replay 1 or 2"):
                other.replay(table, rows(10))


    def test_a_report_is_drawn(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            _, ours = self.pair(CHAIN)
            with self.assertRaisesRegex(ValueError, "nothing is recorded"):
                ours.report(page)
            ours.run(None, rows(10))
            self.assertEqual(onnxmem_ort.report(page), page)
            self.assertIn("fits into", page.read_text(encoding="utf-8"))
            with environment(ONNXMEM_COMMAND="/nonexistent"), self.assertRaisesRegex(onnxmem.NotInstalled, "/nonexistent: not found"):
                onnxmem_ort.report(page)
            _, off = self.pair(CHAIN, arena="off")
            off.run(None, rows(10))
            with self.assertRaisesRegex(ValueError, "nothing is recorded"):
                off.report(page)


class Deviations(Case):
    def test_other_shapes(self) -> None:
        plain, ours = self.pair(CHAIN, plans=3)
        random = np.random.default_rng(5)
        until = time.monotonic() + float(os.environ.get("ONNXMEM_ORT_SECONDS", "0"))
        count = 0
        while count < 60 or time.monotonic() < until:
            count += 1
            self.same(plain, ours, rows(int(random.integers(1, 6 if count % 2 else 300)), count))
            self.assertLessEqual(ours.memory["plans"], 3)
        self.assertEqual(ours.memory["misses"], 0)
        self.assertGreater(ours.memory["hits"], 0)

    def test_many_shapes_in_turn(self) -> None:
        plain, ours = self.pair(CHAIN, plans=4)
        for i in range(90):
            self.same(plain, ours, rows(1 + i * 37 % 45, i))
        memory = ours.memory
        self.assertEqual(memory["misses"], 0)
        self.assertLess(memory["recorded"], 60)  # of 540
        self.assertGreater(memory["covered"], 45)
        self.assertTrue(any("that of larger ones" in note for note in ours.notes))

    def test_shapes_that_depend_on_data(self) -> None:
        model = network(
            [node("Relu", "x", "a"), node("NonZero", "a", "i"), node("Transpose", "i", "t"), node("GatherND", "a t", "g"), node("Mul", "g g", "y")],
            {"x": ["n", 64]},
            ["y", "i"],
        )
        plain, ours = self.pair(model)
        for seed in range(20):
            self.same(plain, ours, rows(50, seed))
        memory = ours.memory
        self.assertGreater(memory["misses"], 0)
        self.assertGreater(memory["hits"], 0)

    def test_branches(self) -> None:
        def body(*nodes: Any) -> Any:
            return helper.make_graph(list(nodes), "body", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])

        model = network(
            [
                node("ReduceMax", "x", "m", keepdims=0),
                node("Greater", "m zero", "c"),
                node(
                    "If",
                    "c",
                    "b",
                    then_branch=body(node("Concat", "x x", "k", axis=0), node("Relu", "k", "z")),
                    else_branch=body(node("Neg", "x", "z")),
                ),
                node("MatMul", "b w", "y"),
            ],
            {"x": ["n", 64]},
            ["y"],
            {"zero": np.zeros((), np.float32), "w": np.eye(64, dtype=np.float32)},
        )
        plain, ours = self.pair(model)
        for i in range(12):
            x = np.abs(rows(40, i)["x"])
            self.same(plain, ours, {"x": x if i in (1, 4, 5) or i > 8 else -x})
        self.assertGreater(ours.memory["misses"], 0)
        for _ in range(4):  # a change that lasts: there is a new plan
            self.same(plain, ours, {"x": np.abs(rows(40)["x"])})
        misses = ours.memory["misses"]
        self.same(plain, ours, {"x": np.abs(rows(40)["x"])})
        self.assertEqual(ours.memory["misses"], misses)

    def test_a_run_that_fails(self) -> None:
        model = network(
            [node("Relu", "x", "a"), node("Cast", "a", "i", to=TensorProto.INT64), node("Gather", "w i", "y", axis=0)],
            {"x": ["n"]},
            ["y"],
            {"w": rows(10)["x"]},
        )
        plain, ours = self.pair(model)
        good, bad = {"x": np.arange(10, dtype=np.float32)}, {"x": np.arange(10, dtype=np.float32) + 5}
        for feed in (bad, good, bad, good, bad, bad, bad, bad, good):
            if feed is good:
                self.same(plain, ours, good)
            else:
                with self.assertRaisesRegex(Exception, "indices"):
                    ours.run(None, feed)
        with self.assertRaisesRegex(Exception, "x"):
            ours.run(None, {})
        self.assertEqual(ours.memory["misses"], 0)

    def test_results_that_are_kept(self) -> None:
        for release in (False, True):
            plain, ours = self.pair(CHAIN, release_outputs=release)
            kept = [(self.same(plain, ours, rows(80, i)), i) for i in range(8)]
            for got, i in kept:
                self.equal(plain.run(None, rows(80, i)), got)
            self.assertEqual(ours.memory["misses"] > 0, release)
            del kept, got
            before = ours.memory
            self.same(plain, ours, rows(80, 99))
            self.assertEqual(ours.memory["misses"], before["misses"])


#: A network whose sums, and whose Sqrt, ONNX Runtime does not write over operands by itself.
RESIDUAL = network(
    [
        node("MatMul", "x w", "a"),
        node("MatMul", "a w", "b"),
        node("Add", "a b", "c"),
        node("Abs", "c", "d"),
        node("Sqrt", "d", "e"),
        node("MatMul", "e w", "f"),
        node("Add", "f e", "g"),
        node("MatMul", "g w", "y"),
    ],
    {"x": ["n", 64]},
    ["y"],
    {"w": np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)},
)


class Plan(Case):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "planned.onnx")

    def planned(self, model: bytes, **arguments: Any) -> tuple[Any, Any]:
        """Plan a model for 100 rows; return ONNX Runtime's session of it, and ours."""
        self.plan = onnxmem.optimize(model, self.path, dims={"n": 100}, runtime="onnxruntime-arena").plan
        return self.pair(str(self.path), arena="plan", **arguments)

    def kept(self, ours: Any) -> None:
        memory = ours.memory
        self.assertEqual((memory["mode"], memory["misses"], memory["fallback_bytes"]), ("plan", 0, 0))
        self.assertLessEqual(memory["arena_bytes"], self.plan.summary.arena_bytes + memory["scratch_bytes"])

    def test_a_plan_is_kept(self) -> None:
        for release in (False, True):
            plain, ours = self.planned(RESIDUAL, release_outputs=release)
            for seed in range(4):
                self.same(plain, ours, rows(100, seed))
            self.kept(ours)
            # Two matrices are live at once, where the blocks of a recorded run are three.
            self.assertEqual(ours.memory["live_peak_bytes"], 2 * 100 * 64 * 4)
            _, recorded = self.pair(str(self.path), release_outputs=release)
            self.same(plain, recorded, rows(100))
            self.assertEqual((recorded.memory["mode"], recorded.memory["live_peak_bytes"]), ("record", 3 * 100 * 64 * 4))

    def test_the_second_run_finds_the_memory_of_the_first_given_back(self) -> None:
        rehearse, block = onnxmem_ort._enforce.rehearse, 100 * 64 * 4
        for idle in ("auto", None):
            plain, ours = self.planned(RESIDUAL, idle_release=idle)
            held: list[int] = []

            def watched(*arguments: Any, ours: Any = ours, held: list[int] = held) -> None:
                held.append(ours.memory["held_bytes"])
                rehearse(*arguments)

            with unittest.mock.patch.object(onnxmem_ort._enforce, "rehearse", watched):
                for seed in range(3):
                    self.same(plain, ours, rows(100, seed))
            self.kept(ours)
            self.assertEqual(held, [block])  # the result, which lies in the arena of a recorded run
            self.assertEqual((ours.memory["given_back"], ours.memory["held_bytes"]), (1, 2 * block))

    def test_a_network(self) -> None:
        model = self.path.with_name("model.onnx")
        subprocess.run([onnxmem.command(), "model", "tiny_resnet8", str(model), "--dim", "batch=4"], check=True, capture_output=True)
        self.plan = onnxmem.optimize(model, self.path, runtime="onnxruntime-arena").plan
        plain, ours = self.pair(str(self.path), arena="plan")
        (x,) = plain.get_inputs()
        for seed in range(3):
            self.same(plain, ours, {x.name: np.random.default_rng(seed).standard_normal(x.shape).astype(np.float32)})
        self.kept(ours)
        values = {x.name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(x.shape, np.float32))}
        self.equal([v.numpy() for v in plain.run_with_ort_values(None, values)], [v.numpy() for v in ours.run_with_ort_values(None, values)])
        self.kept(ours)

    def test_other_shapes_are_recorded(self) -> None:
        plain, ours = self.planned(RESIDUAL)
        for n in (99, 100, 7, 100, 99, 100):
            self.same(plain, ours, rows(n, n))
            self.assertEqual(ours.memory["mode"], "plan" if n == 100 else "record")
        self.assertEqual((ours.memory["misses"], ours.memory["plans"], ours.memory["covered"]), (0, 2, 1))

    def test_bindings_use_the_plan(self) -> None:
        plain, ours = self.planned(RESIDUAL)
        self.same(plain, ours, rows(100))
        for i in range(4):
            binding = ours.io_binding()
            binding.bind_cpu_input("x", rows(100, i)["x"])
            binding.bind_output("y")
            ours.run_with_iobinding(binding)
            self.equal(plain.run(None, rows(100, i)), binding.copy_outputs_to_cpu())
            del binding
        self.kept(ours)

    def test_threads_share_a_plan(self) -> None:
        plain, ours = self.planned(RESIDUAL)
        faults: list[BaseException] = []
        threads = [Together.runs(self, plain, ours, faults, 30, (100, 100, 40)) for _ in range(3)]
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])

    def test_a_run_that_fails(self) -> None:
        model = network(
            [node("MatMul", "x w", "a"), node("Abs", "a", "b"), node("Cast", "b", "i", to=TensorProto.INT64), node("Gather", "w i", "y", axis=0)],
            {"x": ["n", 64]},
            ["y"],
            {"w": np.eye(64, dtype=np.float32)},
        )
        plain, ours = self.planned(model)
        good, bad = {"x": np.ones((100, 64), np.float32)}, {"x": np.full((100, 64), 70, np.float32)}
        for feed in (bad, good, bad, good, bad, bad, good):
            if feed is good:
                self.same(plain, ours, good)
            else:
                with self.assertRaisesRegex(Exception, "indices"):
                    ours.run(None, feed)
        self.kept(ours)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_fork(self) -> None:
        plain, ours = self.planned(RESIDUAL)
        self.same(plain, ours, rows(100))
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                for n in (100, 20, 100):
                    self.same(plain, ours, rows(n))
                status = 0 if ours.memory["misses"] == 0 else 2
            os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.same(plain, ours, rows(100))
        self.kept(ours)

    def test_data_decide(self) -> None:
        nodes = [node("MatMul", "x w", "a"), node("Abs", "a", "b"), node("NonZero", "b", "i"), node("Transpose", "i", "t"), node("GatherND", "b t", "g"), node("Sqrt", "g", "y")]
        plain, ours = self.planned(network(nodes, {"x": ["n", 64]}, ["y"], {"w": np.eye(64, dtype=np.float32)}))
        for seed in range(8):
            x = rows(100, seed)["x"]
            self.same(plain, ours, {"x": x * (x > seed / 10)})

    def test_branches_write_over_nothing(self) -> None:
        def body(*nodes: Any) -> Any:
            return helper.make_graph(list(nodes), "body", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])

        # The blocks of the other branch begin as the sum behind the If does, which may lie over a.
        other = body(node("Abs", "a", "t"), node("MatMul", "t w", "u"), node("Neg", "u", "z"))
        branches = node("If", "c", "b", then_branch=body(node("Neg", "a", "z")), else_branch=other)
        nodes = [node("MatMul", "x w", "a"), node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m zero", "c"), branches, node("Add", "a b", "d"), node("MatMul", "d w", "y")]
        plain, ours = self.planned(network(nodes, {"x": ["n", 64]}, ["y"], {"zero": np.zeros((), np.float32), "w": rows(64)["x"]}))
        x = np.abs(rows(100)["x"])
        for sign in (1, 1, -1, -1, 1, -1):
            self.same(plain, ours, {"x": sign * x})
        self.assertEqual(ours.memory["mode"], "plan")

    def test_a_tiny_block_does_not_end_the_plan(self) -> None:
        # A number that runs have and the recorded one did not, and the other way round.
        for more in (False, True):
            plain, ours = self.planned(RESIDUAL)
            real = onnxmem_ort._enforce.Planned.table

            def table(self: Any, blocks: Any, outputs: bool, point: Any, more: bool = more) -> str:
                text = real(self, blocks, outputs, point)
                if not more:
                    return text
                # One more block at the begin: all others have the next number.
                lines = text.splitlines()
                at = next(i for i, line in enumerate(lines) if line.startswith("alloc"))
                for i, line in enumerate(lines[at:], at):
                    words = line.split()
                    words[1] = str(int(words[1]) + 1)
                    if len(words) == 6:
                        words[5] = str(int(words[5]) + 1)
                    lines[i] = " ".join(words)
                return "\n".join([*lines[:at], "alloc 0 8 - 0", "free 0", *lines[at:]]) + "\n"

            with unittest.mock.patch.object(onnxmem_ort._enforce.Planned, "table", table):
                for seed in range(3):
                    self.same(plain, ours, rows(100, seed))
            memory = ours.memory
            self.assertEqual((memory["mode"], memory["misses"], memory["live_peak_bytes"] // 1000), ("plan", 0, 2 * 100 * 64 * 4 // 1000))

    def test_a_wrong_place_is_not_kept(self) -> None:
        def over_an_operand(model: Any, blocks: Any, outputs: bool, point: Any) -> str:
            # Matrix products over their operands: a kernel that reads them meanwhile.
            lines, last = [], None
            for i, (at, what) in enumerate(sorted([(b.begin, i) for i, b in enumerate(blocks)] + [(b.end, ~i) for i, b in enumerate(blocks) if b.end is not None])):
                if what < 0:
                    lines.append(f"free {~what}")
                    continue
                same = last is not None and blocks[last].size == blocks[what].size and blocks[last].end > at
                lines.append(f"alloc {what} {blocks[what].size} {0 if same or last is None else 64 * 1024 * i} 0" + (f" {last}" if same else ""))
                last = what
            return "onnxmem/replay 2\narena 10000000\n" + "\n".join(lines) + "\n"

        plain, ours = self.planned(network([node("MatMul", "x w", "a"), node("MatMul", "a w", "b"), node("Neg", "b", "c"), node("MatMul", "c w", "y")], {"x": ["n", 64]}, ["y"], {"w": rows(64)["x"]}))
        with unittest.mock.patch.object(onnxmem_ort._enforce.Planned, "table", over_an_operand), self.assertWarnsRegex(RuntimeWarning, "the plan is not kept"):
            self.same(plain, ours, rows(100))
        self.same(plain, ours, rows(100, 1))
        self.assertEqual(ours.memory["mode"], "record")

    def test_a_plan_for_ranges_is_kept_at_each_length(self) -> None:
        for lengths in ("20..100:5", "20,45,100"):
            arena = onnxmem.optimize(RESIDUAL, self.path, dims={"n": lengths}, runtime="onnxruntime-arena").plan.summary.arena_bytes
            plain, ours = self.pair(str(self.path), arena="plan")
            for n in (45, 20, 100, 45, 100):
                self.same(plain, ours, rows(n, n))
                self.same(plain, ours, rows(n, n + 1))
                memory = ours.memory
                self.assertEqual((memory["mode"], memory["misses"]), ("plan", 0))
                self.assertEqual(memory["live_peak_bytes"], 2 * n * 64 * 4)
            self.assertLessEqual(memory["arena_bytes"], arena + memory["scratch_bytes"])
            for n in (101, 19, 46):  # none of the plan's lengths
                self.same(plain, ours, rows(n))
                self.same(plain, ours, rows(n))
                self.assertEqual(ours.memory["mode"], "record")

    def test_a_model_that_draws_is_recorded(self) -> None:
        model = network([node("MatMul", "x w", "a"), node("RandomUniformLike", "a", "r"), node("Mul", "r zero", "m"), node("Add", "m a", "y")], {"x": ["n", 64]}, ["y"], {"w": np.eye(64, dtype=np.float32), "zero": np.zeros(1, np.float32)})
        plain, ours = self.planned(model)
        with self.assertWarnsRegex(RuntimeWarning, "draws random numbers"):
            self.same(plain, ours, rows(100))
        self.same(plain, ours, rows(100))
        self.assertEqual(ours.memory["mode"], "record")

    def test_what_is_no_plan_is_refused(self) -> None:
        def refused(error: type[Exception], text: str, model: Any = self.path) -> None:
            with self.assertRaisesRegex(error, text):
                onnxmem_ort.InferenceSession(model, providers=CPU, arena="plan")

        refused(TypeError, "expected the path of a planned model, found bytes", CHAIN)
        refused(ValueError, "planned.plan.json: not found: expected the plan that onnxmem optimize writes")
        file = self.path.with_name("planned.plan.json")
        for text, message in (("{", "not a plan: "), ("[]", "not a plan: expected a file of onnxmem optimize")):
            file.write_text(text, encoding="utf-8")
            refused(ValueError, message)
        onnxmem.optimize(CHAIN, self.path, dims={"n": 100})
        refused(ValueError, "planned for the runtime of onnxmem: expected a plan of optimize --runtime onnxruntime-arena")
        onnxmem.optimize(CHAIN, self.path, dims={"n": 100}, runtime="onnxruntime-arena")
        other = self.path.with_name("other.onnx")
        other.write_bytes(RESIDUAL)
        file.rename(self.path.with_name("other.plan.json"))
        plain, ours = self.pair(str(other), arena="plan")
        with self.assertWarnsRegex(RuntimeWarning, "the plan is not kept.*not the plan of"):
            self.same(plain, ours, rows(100))


class Together(Case):
    def runs(self: Case, plain: Any, ours: Any, faults: list[BaseException], count: int, sizes: tuple[int, ...]) -> threading.Thread:
        def work() -> None:
            try:
                for i in range(count):
                    self.same(plain, ours, rows(sizes[i % len(sizes)], i))
            except BaseException as e:
                faults.append(e)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def test_threads_and_sessions(self) -> None:
        sessions = [self.pair(CHAIN), self.pair(CHAIN, release_outputs=True)]
        faults: list[BaseException] = []
        threads = [self.runs(*sessions[i % 2], faults, 40, ((40, 41, 150), (40,))[i // 2]) for i in range(4)]
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])

    def test_runs_that_are_not_awaited(self) -> None:
        plain, threaded = onnxruntime.InferenceSession(CHAIN, options(), CPU), options()
        threaded.intra_op_num_threads = 2
        ours = onnxmem_ort.InferenceSession(CHAIN, threaded, CPU)
        feed = rows(60)  # versions before 1.31 do not keep it for run_async
        want = plain.run(None, feed)
        got: list[Any] = []
        done = threading.Semaphore(0)

        def callback(results: Any, _: Any, error: str) -> None:
            got.append((results, error))
            done.release()

        for _ in range(10):
            ours.run_async(None, feed, callback, None)
            self.same(plain, ours, rows(60))
            self.assertTrue(done.acquire(timeout=60))
        for results, error in got:
            self.assertEqual(error, "")
            self.equal(want, results)

    def test_parallel_nodes(self) -> None:
        nodes = [node("MatMul", f"x w{i}", f"a{i}") for i in range(8)] + [node("Relu", f"a{i}", f"b{i}") for i in range(8)]
        model = network([*nodes, node("Sum", " ".join(f"b{i}" for i in range(8)), "y")], {"x": ["n", 64]}, ["y"], {f"w{i}": rows(64, i)["x"] for i in range(8)})
        parallel = options()
        parallel.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        parallel.inter_op_num_threads = 4
        plain = onnxruntime.InferenceSession(model, options(), CPU)
        ours = onnxmem_ort.InferenceSession(model, parallel, CPU)
        for i in range(30):
            self.same(plain, ours, rows(70, i))

    def test_sessions_end_in_any_order(self) -> None:
        want = onnxruntime.InferenceSession(CHAIN, options(), CPU).run(None, rows(33))
        for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
            sessions: list[Any] = [onnxmem_ort.InferenceSession(CHAIN, options(), CPU, release_outputs=bool(i % 2)) for i in range(3)]
            kept = []
            for i in order:
                for _ in range(2):
                    kept.append(sessions[i].run(None, rows(33)))
                sessions[i] = None
                gc.collect()
            for got in kept:
                self.equal(want, got)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_fork(self) -> None:
        plain, ours = self.pair(CHAIN)
        want = [self.same(plain, ours, rows(20)) for _ in range(2)]
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                for n in (20, 21, 21, 20):
                    self.same(plain, ours, rows(n))
                status = 0 if ours.memory["misses"] == 0 else 2
            os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.equal(want[0], self.same(plain, ours, rows(20)))

    def test_a_process_ends_while_it_packs(self) -> None:
        script = f"import sys; sys.path[:0] = {sys.path!r}\n" + (
            "import numpy, onnxmem_ort; s = onnxmem_ort.InferenceSession(sys.stdin.buffer.read())\n"
            "print(s.run(None, {'x': numpy.ones((8, 64), 'f')})[0].shape)"
        )
        done = subprocess.run([sys.executable, "-c", script], input=CHAIN, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, b"(8, 8)"), done.stderr)


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


if __name__ == "__main__":
    unittest.main()
