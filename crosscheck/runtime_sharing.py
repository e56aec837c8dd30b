"""Run each row of ops/runtime.go in ONNX Runtime: the result lies over its input, and has the same bits.

For a registered row, the runtime must share by itself: the first block of a run is the
operand, and it is alive when the run takes its last block, that of the output. For the
other rows, the allocator gives the result the operand's address. The rules that hold for
every row, and the operator tests of the onnx package, follow.
"""

import pathlib
import re
import time
import warnings

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnxruntime.capi import onnxruntime_pybind11_state as schemas

from . import capi

_TABLE = pathlib.Path(__file__).resolve().parent.parent / "ops" / "runtime.go"
_ROW = re.compile(r'^\t\{(?:Domain: (msDomain), )?Name: "(\w+)", (Views|Inplace): (first|over\(([\d, ]+)\)), Source: "[^"]+"\},$', re.MULTILINE)
_LATEST = 26
_SHAPE = (3, 8, 4099)  # large enough for several threads

# What the runtime writes in place in the operator tests, and the table leaves out.
_LEFT_OUT = {
    "BatchNormalization": "running statistics of training: too small to count",
    "Bernoulli": "a function: other nodes",
    "Celu": "a function: other nodes",
    "OptionalGetElement": "of an optional: never planned",
    "SampleOp": "an example of ONNX Runtime's own tests",
    "SoftmaxCrossEntropyLoss": "a function: other nodes",
    "TreeEnsemble": "package ops does not write it in place",
}


def find(_tool, _data, _work):
    """Return the file with the table."""
    return [_TABLE]


def rows():
    """Return the registered and the forced rows: domain, operator, views or in place, inputs."""
    text = _TABLE.read_text(encoding="utf-8")
    lists = []
    for name in ("registered", "forced"):
        body = text[text.index(f"var {name} = ") :]
        body = body[: body.index("\n}\n")]
        found = [("com.microsoft" if m[1] else "", m[2], m[3], [int(k) for k in m[5].split(",")] if m[5] else [0]) for m in _ROW.finditer(body)]
        if not found or len(found) != body.count("Source:"):
            raise ValueError(f"{_TABLE}: {len(found)} of {body.count('Source:')} rows of {name} can be read")
        lists.append(found)
    return lists


def examine(_path, _tool, _work):
    """Run every row, the rules and the operator tests."""
    began = time.process_time()
    runtime = capi.Runtime()
    registered, forced = rows()
    result = {"title": "runtime/sharing", "faults": [], "pairs": 0}
    for by_itself, table in ((True, registered), (False, forced)):
        for domain, op, kind, inputs in table:
            for place in inputs:
                result["pairs"] += 1
                if fault := _pair(runtime, domain, op, place, kind, by_itself):
                    result["faults"].append(f"{op}, input {place}: {fault}")
    result["faults"] += _unlisted(runtime, registered)
    result["faults"] += _rules(runtime)
    faults, result["tests"] = _operator_tests(runtime, registered)
    result["faults"] += faults
    result["seconds"] = round(time.process_time() - began, 1)
    return result


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} {result['pairs']} pairs over their input, {result['tests']} operator tests: {'NO' if result['faults'] else 'yes'}, {result['seconds']} s"


def _operands(op, rng):
    """Return the inputs of an operator that the cases run, and its attributes."""
    x = rng.standard_normal(_SHAPE).astype(np.float32) * 4
    special = {
        "Reshape": ([x, np.array([_SHAPE[0] * _SHAPE[1], -1])], {}),
        "Squeeze": ([x[None], np.array([0])], {}),
        "Unsqueeze": ([x, np.array([0])], {}),
        "ExpandDims": ([x, np.array(0, np.int32)], {}),
        "Cast": ([x], {"to": onnx.TensorProto.INT32}),
        "CastLike": ([x, np.array([0], np.int32)], {}),
        "BitCast": ([x], {"to": onnx.TensorProto.INT32}),
        "Clip": ([x, np.array(-1, np.float32), np.array(2, np.float32)], {}),
        "TensorScatter": ([x, x[:, :3], np.array([0, 2, 5])], {"axis": 1}),
        "Log": ([np.abs(x)], {}),
        "Sqrt": ([np.abs(x)], {}),
        "BatchNormalization": ([x] + [np.abs(rng.standard_normal(_SHAPE[1])).astype(np.float32) + 0.5 for _ in range(4)], {}),
        "FusedConv": ([_image(rng), rng.standard_normal((8, 8, 3, 3)).astype(np.float32), rng.standard_normal(8).astype(np.float32), _image(rng)], {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    }
    if op in ("Scatter", "ScatterElements"):
        at = np.stack([rng.permutation(_SHAPE[2])[:100] for _ in range(_SHAPE[0] * _SHAPE[1])]).reshape(*_SHAPE[:2], 100)
        return [x, at, x[:, :, :100]], {"axis": 2}
    if op in ("Add", "Sub", "Mul", "Div", "PRelu"):
        return [x, rng.standard_normal(_SHAPE).astype(np.float32)], {}
    return special.get(op, ([x], {}))


def _image(rng):
    return rng.standard_normal((1, 8, 40, 40)).astype(np.float32)


def _pair(runtime, domain, op, place, kind, by_itself):
    """Run an operator with its result over an input; describe what is wrong."""
    arrays, attributes = _operands(op, np.random.default_rng(len(op)))
    opset, reals = _schema(domain, op)
    attributes = reals | attributes
    over, apart = (_model(domain, op, opset, arrays, place, attributes, outputs) for outputs in (["y"], ["y", "a"]))
    feeds = {"x": np.ascontiguousarray(arrays[place])}
    want = runtime.run(apart, feeds, ["y", "a"], threads=2)[0]
    if by_itself:
        got = runtime.run(over, feeds, ["y"], threads=2)[0]
        if not _shared(runtime.events):
            return "ONNX Runtime does not share"
        if _shared_input(runtime, over, feeds) != (kind == "Views"):
            return f"expected {'a view' if kind == 'Views' else 'a result in place'} of what is not a graph input only, found otherwise"
    else:
        got = runtime.run(over, feeds, ["y"], force=feeds["x"].nbytes, threads=2)[0]
        if len({at for size, at in runtime.events[:2] if size}) != 1:
            return "the result was not made over the input"
    return "" if got == want else "other bits"


def _schema(domain, op):
    """Return the latest version that has an operator of ONNX, and a value for each attribute that is a real."""
    versions = [s for s in schemas.get_all_operator_schema() if (s.domain, s.name) == (domain, op)]
    opset = min([_LATEST + 1] + [s.since_version for s in versions if s.deprecated]) - 1
    schema = max((s for s in versions if s.since_version <= opset), key=lambda s: s.since_version)
    names = sorted(a.name for a in schema.attributes.values() if str(a.type) == "AttrType.FLOAT")
    return opset, {name: 0.5 + i for i, name in enumerate(names)}


def _unlisted(runtime, registered):
    """Run the runtime's operators of one input and one output of its type; return those that share and have no row."""
    known = {(domain, op) for domain, op, _, _ in registered}
    faults = []
    for domain, op in sorted({(s.domain, s.name) for s in schemas.get_all_operator_schema() if len(s.inputs) == len(s.outputs) == 1 and s.inputs[0].typeStr == s.outputs[0].typeStr}):
        if domain not in ("", "com.microsoft") or (domain, op) in known or op in _LEFT_OUT:
            continue
        try:
            fault = _pair(runtime, domain, op, 0, "Inplace", True)
        except (RuntimeError, ValueError):
            continue  # no kernel, or none for these reals
        if fault != "ONNX Runtime does not share":
            faults.append(f"{op}: the result lies over the input: no row says so")
    return faults


def _shared(events):
    """Report whether the first block is alive when the last is taken."""
    last = max(i for i, (size, _) in enumerate(events) if size)
    return last > 0 and (None, events[0][1]) not in events[:last]


def _shared_input(runtime, model, feeds):
    """Report whether the operator shares the bytes of a graph input: no block but the output's is taken."""
    direct = onnx.ModelProto()
    direct.CopyFrom(model)
    del direct.graph.node[0]
    for i, name in enumerate(direct.graph.node[0].input):
        if name == "a":
            direct.graph.node[0].input[i] = "x"
    runtime.run(direct, feeds, ["y"])
    large = [size for size, _ in runtime.events if size and size >= feeds["x"].nbytes]
    return len(large) == 1


def _model(domain, op, opset, arrays, place, attributes, outputs):
    """Return x -> Concat -> a -> the operator -> o -> Concat -> y: the two copies never share."""
    names = ["a" if i == place else f"i{i}" for i in range(len(arrays))]
    nodes = [
        helper.make_node("Concat", ["x"], ["a"], axis=0),
        helper.make_node(op, names, ["o"], domain=domain, **attributes),
        helper.make_node("Concat", ["o"], ["y"], axis=0),
    ]
    constants = [numpy_helper.from_array(np.ascontiguousarray(v).reshape(np.shape(v)), f"i{i}") for i, v in enumerate(arrays) if i != place]
    dtype = helper.np_dtype_to_tensor_dtype(arrays[place].dtype)
    made = {"Cast": onnx.TensorProto.INT32, "CastLike": onnx.TensorProto.INT32, "BitCast": onnx.TensorProto.INT32}.get(op, dtype)
    declared = [helper.make_tensor_value_info(name, made if name == "y" else dtype, None if name == "y" else arrays[place].shape) for name in outputs]
    graph = helper.make_graph(nodes, "row", [helper.make_tensor_value_info("x", dtype, arrays[place].shape)], declared, constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _rules(runtime):
    """Check the rules of the planner that do not depend on the operator: return what is wrong."""
    faults = []
    x = np.random.default_rng(0).standard_normal((5, 77)).astype(np.float32)
    n = x.nbytes
    shape = [numpy_helper.from_array(np.array([77, 5]), "s")]
    copy = helper.make_node("Concat", ["x"], ["a"], axis=0)
    for what, nodes, outputs, blocks in (
        ("a graph input is not written over", [helper.make_node("Relu", ["x"], ["y"])], ["y"], [n]),
        ("a result that is a graph output is not made in place", [copy, helper.make_node("Relu", ["a"], ["y"])], ["y"], [n, n]),
        ("a view that is a graph output is copied", [copy, helper.make_node("Reshape", ["a", "s"], ["y"])], ["y"], [n, n]),
        ("a graph output is not written over", [copy, helper.make_node("Relu", ["a"], ["r"]), helper.make_node("Concat", ["r"], ["y"], axis=0)], ["y", "a"], [n, n, n]),
        ("a view of a graph input is not written over", [helper.make_node("Reshape", ["x", "s"], ["v"]), helper.make_node("Relu", ["v"], ["r"]), helper.make_node("Concat", ["r"], ["y"], axis=0)], ["y"], [n, n]),
        ("a view is written over after its last reader", [copy, helper.make_node("Reshape", ["a", "s"], ["v"]), helper.make_node("Relu", ["v"], ["r"]), helper.make_node("Concat", ["r"], ["y"], axis=0)], ["y"], [n, n]),
        ("another shape of the same bytes is not written over", [copy, helper.make_node("Cast", ["a"], ["c"], to=onnx.TensorProto.DOUBLE), helper.make_node("Concat", ["c"], ["y"], axis=0)], ["y"], [n, 2 * n, 2 * n]),
    ):
        infos = [helper.make_tensor_value_info(o, onnx.TensorProto.DOUBLE if len(blocks) == 3 and blocks[1] != n else onnx.TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(nodes, "rule", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)], infos, shape)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        runtime.run(model, {"x": x}, outputs)
        if found := [size for size, _ in runtime.events if size]:
            if found != blocks:
                faults.append(f"{what}: expected blocks of {blocks} bytes, found {found}")
    return faults


def _operator_tests(runtime, registered):
    """Run the onnx package's operator tests; return the operators that share and have no row, and how many tests ran."""
    known = {(domain, op, place) for domain, op, _, inputs in registered for place in inputs}
    faults, count = [], 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the package's tests divide by zero, among others
        cases = collect_testcases(None)
    for case in cases:
        for place, model, feeds in _one_operand(case):
            node = model.graph.node[1]
            try:
                runtime.run(model, feeds, ["y"])
            except RuntimeError:
                continue  # an operator, type or opset that the runtime does not have
            count += 1
            if _shared(runtime.events) and (node.domain, node.op_type, place) not in known and node.op_type not in _LEFT_OUT:
                faults.append(f"{case.name}: the first result of {node.op_type} lies over input {place}: no row says so")
    return faults, count


def _one_operand(case):
    """Yield, for each operand of a test with one node, a model that computes that operand and asks for the result's size."""
    graph = case.model.graph
    if len(graph.node) != 1 or any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in graph.node[0].attribute) or not graph.node[0].output[0]:
        return
    infos = {v.name: v for v in graph.input}
    if any(not v.type.HasField("tensor_type") or v.type.tensor_type.elem_type == onnx.TensorProto.STRING for v in [*graph.input, *graph.output]):
        return
    data = {name: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for name, v in zip(infos, case.data_sets[0][0])}
    for place, name in enumerate(graph.node[0].input):
        if not name or data[name].ndim == 0 or data[name].size == 0 or data[name].dtype.itemsize == 0 or data[name].dtype.kind not in "fiub":
            continue
        node = onnx.NodeProto()
        node.CopyFrom(graph.node[0])
        node.input[place] = "a__"
        constants = [numpy_helper.from_array(np.ascontiguousarray(data[n]).reshape(data[n].shape), n) for n in dict.fromkeys(node.input) if n and n not in ("a__", name)]
        nodes = [helper.make_node("Concat", [name], ["a__"], axis=0), node, helper.make_node("Size", [node.output[0]], ["y"])]
        wrapped = helper.make_graph(nodes, "test", [infos[name]], [helper.make_tensor_value_info("y", onnx.TensorProto.INT64, None)], constants)
        yield place, helper.make_model(wrapped, opset_imports=list(case.model.opset_import), ir_version=10), {name: np.ascontiguousarray(data[name])}
