#!/usr/bin/env python3
"""Compare single operators with ONNX Runtime on one thread.

    bench/operators.py [--only NAME] [--runs 20]

Each case is a node of one model, which both run; a node counts with its fastest run. The
inputs have the sizes of layers: an image of 64 x 56 x 56, a matrix of 512 x 768, heads of
8 x 128 x 64. ONNX Runtime runs without optimizations, so that it runs the same nodes.
Needs onnx, onnxruntime and numpy: "crosscheck/run bench/operators.py" provides them.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import harness
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper, save

OPSET = 20  # ONNX Runtime has kernels for all of these cases there
FLOAT, BOOL, INT64, UINT8, HALF = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64, TensorProto.UINT8, TensorProto.FLOAT16
INPUTS = {
    "image": (FLOAT, 1, 64, 56, 56), "positive": (FLOAT, 1, 64, 56, 56), "unit": (FLOAT, 1, 64, 56, 56), "matrix": (FLOAT, 512, 768),
    "heads": (FLOAT, 1, 8, 128, 64), "volume": (FLOAT, 1, 16, 16, 32, 32), "signal": (FLOAT, 1, 64, 2000), "sequence": (FLOAT, 64, 1, 128),
    "truths": (BOOL, 1, 64, 56, 56), "others": (BOOL, 1, 64, 56, 56), "wholes": (INT64, 1, 64, 56, 56), "ids": (INT64, 20000),
    "bytes": (UINT8, 512, 768), "halves": (HALF, 512, 768), "row": (FLOAT, 1, 768), "grid": (FLOAT, 1, 56, 56, 2), "columns": (FLOAT, 8, 1024, 1),
    "boxes": (FLOAT, 1, 2000, 4), "scores": (FLOAT, 1, 1, 2000), "classes": (FLOAT, 80, 8400), "rois": (FLOAT, 50, 4),
}
IN = {"positive": (0.01, 1), "unit": (0.01, 0.99), "grid": (0, 1), "scores": (0, 1)}  # others are normal
NOISE = np.random.default_rng(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    parser.add_argument("--runs", type=int, default=20, help="of which the fastest counts (default 20)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(pathlib.Path(folder), args)


def compare(folder, args):
    """Run all cases on both sides and print a row for each, those first that take longest beside ONNX Runtime."""
    model, feeds, made = folder / "all.onnx", {}, network(args.only)
    if not made.graph.node:
        sys.exit(f"--only {args.only}: no case has this in its name")
    save(made, model)
    for name, (_, *shape) in INPUTS.items():
        feeds[name] = drawn(name, shape)
        np.save(folder / f"{name}.npy", feeds[name])
    theirs, ours = runtime(model, feeds, args.runs), onnxmem(model, folder, args.runs)
    print("<!-- table: kernels/operators -->\n")
    harness.head("operator", "us", "ONNX Runtime, us", "ratio")
    for ratio, name in sorted(((ours[n] / max(theirs[n], 1), n) for n in theirs if n in ours), reverse=True):
        harness.row(name, f"{ours[name]:.0f}", f"{theirs[name]:.0f}", f"{ratio:.2f}")


def runtime(model, feeds, runs):
    """Return the microseconds of the fastest run of each node in ONNX Runtime."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.enable_profiling = 1, True
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.profile_file_prefix = str(model.with_name("profile"))
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    read = {x.name for x in session.get_inputs()}
    for _ in range(runs):
        session.run(None, {n: x for n, x in feeds.items() if n in read})
    least = {}
    for event in json.loads(pathlib.Path(session.end_profiling()).read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            name = event["name"].removesuffix("_kernel_time")
            least[name] = min(event["dur"], least.get(name, event["dur"]))
    return least


def onnxmem(model, folder, runs):
    """Return the microseconds of the fastest run of each node in onnxmem."""
    planned, costs = folder / "planned.onnx", folder / "costs.json"
    subprocess.run([harness.BINARY, "optimize", model, planned, "--effort", "fast", "--no-aliases"], check=True, capture_output=True)
    inputs = json.loads(subprocess.run([harness.BINARY, "inspect", model, "--json"], check=True, capture_output=True).stdout)["inputs"]
    given = [f"--input={x['name']}={folder}/{x['name']}.npy" for x in inputs]
    subprocess.run([harness.BINARY, "run", planned, "--workers=1", f"--steps={runs}", f"--costs-out={costs}", *given], check=True, capture_output=True)
    return {name: ns / 1e3 for name, ns in json.loads(costs.read_text()).items()}


def drawn(name, shape):
    """Return the elements of an input."""
    if name in ("boxes", "rois"):
        low, size = NOISE.random([*shape[:-1], 2]), 0.2 * NOISE.random([*shape[:-1], 2]) + 0.1
        return (np.concatenate([low, low + size], -1) * (40 if name == "rois" else 1)).astype("f")
    match INPUTS[name][0]:
        case TensorProto.BOOL:
            return NOISE.random(shape) < 0.5
        case TensorProto.INT64:
            return NOISE.integers(-1000, 1000, shape)
        case TensorProto.UINT8:
            return NOISE.integers(0, 256, shape).astype("uint8")
    if name in IN:
        low, high = IN[name]
        return (low + (high - low) * NOISE.random(shape)).astype("f")
    return NOISE.standard_normal(shape).astype("float16" if INPUTS[name][0] == HALF else "f")


class Network:
    """The nodes and constants of the cases."""

    def __init__(self, only):
        self.only, self.nodes, self.constants = only, [], []

    def constant(self, value, dtype="f"):
        """Add a constant and return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *shape):
        """Add a constant of numbers around 0."""
        return self.constant(NOISE.standard_normal(shape))

    def axes(self, *which):
        """Add a constant that lists axes."""
        return self.constant(which, "int64")

    def case(self, op, *inputs, name="", outputs=1, **attributes):
        """Add a case: a node with its operator's name, or the operator's and another."""
        name = f"{op} {name}".strip()
        if self.only in name:
            self.nodes.append(helper.make_node(op, inputs, [f"{name}.{i}" for i in range(outputs)], name, **attributes))


def network(only):
    """Return a model of all cases."""
    net = Network(only)
    for family in (functions, arithmetic, truths, reductions, norms, moves, indices, images, convolutions, products, casts):
        family(net)
    read = {i for n in net.nodes for i in n.input}
    graph = helper.make_graph(
        net.nodes, "operators", [helper.make_tensor_value_info(name, form[0], form[1:]) for name, form in INPUTS.items() if name in read],
        [ValueInfoProto(name=n.output[0]) for n in net.nodes], [c for c in net.constants if c.name in read])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def functions(net):
    """Functions of one number."""
    for op in ("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Softsign", "Softplus", "Mish", "Gelu", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh", "Erf", "Exp",
               "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Reciprocal", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "IsNaN", "IsInf", "Shrink"):
        net.case(op, "image")
    for op in ("Sqrt", "Log"):
        net.case(op, "positive")
    for op in ("Asin", "Acos", "Atanh"):
        net.case(op, "unit")
    net.case("PRelu", "image", net.random(64, 1, 1))
    net.case("Clip", "image", net.constant(-1), net.constant(1))
    for power in (2, 3, 0.5, 1.7):
        net.case("Pow", "positive", net.constant(power), name=f"{power}")


def arithmetic(net):
    """Operations on several tensors."""
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Pow"):
        net.case(op, "positive", "image", name="of two")
    net.case("Sum", "image", "positive", "image", name="of three")
    net.case("Mod", "image", "positive", fmod=1)
    for op in ("Add", "Mul"):
        net.case(op, "image", net.random(64, 1, 1), name="by channel")
        net.case(op, "matrix", net.random(768), name="by column")
        net.case(op, "matrix", net.random(512, 1), name="by row")
        net.case(op, "wholes", "wholes", name="int64")
    net.case("Sub", net.constant(1), "image", name="from 1")
    net.case("Min", "image", net.constant(0.5), name="and 0.5")
    for op in ("Div", "Mod"):
        net.case(op, "wholes", net.constant(7, "int64"), name="int64 by 7")


def truths(net):
    """Relations and truth values."""
    for op in ("Less", "LessOrEqual", "Greater", "Equal"):
        net.case(op, "image", "positive")
        net.case(op, "wholes", net.constant(7, "int64"), name="int64")
    for op in ("And", "Or", "Xor"):
        net.case(op, "truths", "others")
    net.case("Not", "truths")
    net.case("Where", "truths", "image", "positive")
    net.case("Where", "truths", net.constant(0), "image", name="0")


def reductions(net):
    """Reductions, sums along axes, and the largest elements."""
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"):
        net.case(op, "matrix", net.axes(1), name="rows")
        net.case(op, "image", net.axes(1), name="channels")
    for op in ("ReduceSum", "ReduceMean", "ReduceMax"):
        net.case(op, "image", net.axes(2, 3), name="pixels")
        net.case(op, "image", name="all")
    net.case("ReduceSum", "wholes", net.axes(1), name="int64")
    for axis in (0, 1):
        net.case("ArgMax", "matrix", name=f"axis {axis}", axis=axis)
        net.case("CumSum", "matrix", net.constant(axis, "int64"), name=f"axis {axis}")
    for k in (10, 768):
        net.case("TopK", "matrix", net.axes(k), name=f"{k} of 768", outputs=2)
    net.case("TopK", "classes", net.axes(100), name="100 of 8400", outputs=2)
    net.case("Hardmax", "matrix", axis=1)
    net.case("Unique", "ids")
    net.case("NonZero", "truths")


def norms(net):
    """Norms and distributions."""
    one, zero = net.constant(np.ones(64)), net.constant(np.zeros(64))
    for op in ("Softmax", "LogSoftmax"):
        net.case(op, "matrix", axis=1)
        net.case(op, "heads", name="of 64", axis=3)
        net.case(op, "image", name="channels", axis=1)
    net.case("LayerNormalization", "matrix", net.constant(np.ones(768)), net.constant(np.zeros(768)))
    net.case("LayerNormalization", "heads", one, zero, name="of 64")
    net.case("BatchNormalization", "image", one, zero, zero, one)
    net.case("InstanceNormalization", "image", one, zero)
    net.case("MeanVarianceNormalization", "image")
    net.case("LpNormalization", "matrix", axis=1)
    net.case("LRN", "image", size=5)


def moves(net):
    """What moves elements."""
    for order in ([0, 2, 3, 1], [0, 1, 3, 2], [0, 2, 1, 3]):
        net.case("Transpose", "image", name="".join(map(str, order)), perm=order)
    net.case("Transpose", "matrix", perm=[1, 0])
    net.case("Transpose", "truths", name="bool", perm=[0, 2, 3, 1])
    net.case("Concat", "image", "positive", axis=1)
    net.case("Concat", "image", "positive", name="last axis", axis=3)
    net.case("Slice", "image", net.axes(0, 1), net.axes(55, 55), net.axes(2, 3))
    net.case("Slice", "image", net.axes(0, 0), net.axes(56, 56), net.axes(2, 3), net.axes(2, 2), name="every other")
    net.case("Split", "matrix", outputs=3, axis=1, num_outputs=3)
    for mode in ("constant", "reflect", "edge"):
        net.case("Pad", "image", net.axes(0, 0, 1, 1, 0, 0, 1, 1), name=mode, mode=mode)
    net.case("Expand", "row", net.axes(512, 768))
    net.case("Tile", "matrix", net.axes(2, 2))
    for op in ("DepthToSpace", "SpaceToDepth"):
        net.case(op, "image", blocksize=2)
    net.case("Trilu", "matrix")


def indices(net):
    """What reads or writes at indices."""
    net.case("Gather", "matrix", net.constant(NOISE.integers(0, 512, 256), "int64"))
    net.case("Gather", "matrix", net.constant(NOISE.integers(0, 768, 256), "int64"), name="columns", axis=1)
    net.case("GatherElements", "matrix", net.constant(NOISE.integers(0, 768, (512, 768)), "int64"), axis=1)
    net.case("GatherND", "image", net.constant(np.stack([np.zeros(2000), NOISE.integers(0, 64, 2000)], 1), "int64"))
    net.case("ScatterElements", "matrix", net.constant(np.argsort(NOISE.random((512, 256)), 1), "int64"), net.random(512, 256), axis=1)
    net.case("ScatterElements", "matrix", net.constant(NOISE.integers(0, 512, (512, 256)), "int64"), net.random(512, 256), name="add", axis=0, reduction="add")
    rows = net.constant(NOISE.permutation(512)[:200].reshape(-1, 1), "int64")
    net.case("ScatterND", "matrix", rows, net.random(200, 768))
    net.case("ScatterND", "matrix", rows, net.random(200, 768), name="add", reduction="add")
    net.case("OneHot", net.constant(NOISE.integers(0, 100, 500), "int64"), net.constant(100, "int64"), net.constant([0, 1]))
    net.case("NonMaxSuppression", "boxes", "scores", net.constant(100, "int64"), net.constant(0.5), net.constant(0.3))


def images(net):
    """Pools and samplers."""
    for kernel, stride, pad in ((2, 2, 0), (3, 2, 1), (5, 1, 2), (13, 1, 6)):
        net.case("MaxPool", "image", name=f"{kernel}, stride {stride}", kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
    net.case("AveragePool", "image", name="3, stride 1", kernel_shape=[3, 3], pads=[1] * 4)
    net.case("LpPool", "image", kernel_shape=[3, 3], strides=[2, 2])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        net.case(op, "image")
    for mode, scale, point in (("nearest", 2, "half_pixel"), ("nearest", 2, "asymmetric"), ("linear", 2, "half_pixel"), ("linear", 0.5, "half_pixel"), ("cubic", 2, "half_pixel")):
        more = {"nearest_mode": "floor"} if point == "asymmetric" else {}
        net.case("Resize", "image", "", net.constant([1, 1, scale, scale]), name=f"{mode} {scale} {point}", mode=mode, coordinate_transformation_mode=point, **more)
    net.case("GridSample", "image", "grid")
    net.case("RoiAlign", "image", "rois", net.constant(np.zeros(50), "int64"), output_height=7, output_width=7)
    net.case("DFT", "columns", "", net.constant(1, "int64"))


def convolutions(net):
    """Convolutions of forms that networks rarely have, and recurrent layers."""
    net.case("Conv", "image", net.random(256, 64, 1, 1), name="1 x 1")
    net.case("Conv", "image", net.random(64, 64, 3, 3), name="dilated", dilations=[2, 2], pads=[2] * 4)
    net.case("Conv", "image", net.random(64, 64, 1, 3), name="1 x 3", pads=[0, 1, 0, 1])
    net.case("Conv", "image", net.random(64, 8, 3, 3), name="8 groups", group=8, pads=[1] * 4)
    for kernel, stride in ((3, 1), (3, 2), (5, 2), (7, 1)):
        net.case("Conv", "image", net.random(64, 1, kernel, kernel), name=f"depthwise {kernel}, stride {stride}", group=64, strides=[stride] * 2, pads=[kernel // 2] * 4)
    net.case("Conv", "signal", net.random(128, 64, 5), name="of a signal", pads=[2, 2])
    net.case("Conv", "signal", net.random(64, 1, 31), name="depthwise, of a signal", group=64, pads=[15, 15])
    net.case("Conv", "volume", net.random(16, 16, 3, 3, 3), name="of a volume", pads=[1] * 6)
    net.case("ConvTranspose", "image", net.random(64, 32, 2, 2), name="2, stride 2", strides=[2, 2])
    net.case("ConvTranspose", "image", net.random(64, 32, 4, 4), name="4, stride 2", strides=[2, 2], pads=[1] * 4)
    net.case("ConvTranspose", "signal", net.random(64, 32, 16), name="of a signal", strides=[8], pads=[4, 4])
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        net.case(op, "sequence", net.random(1, gates * 128, 128), net.random(1, gates * 128, 128), outputs=2, hidden_size=128)


def products(net):
    """Products."""
    net.case("MatMul", "matrix", net.random(768, 768))
    net.case("MatMul", "row", net.random(768, 3072), name="of a row")
    net.case("MatMul", "heads", net.random(64, 64), name="of heads")
    net.case("Gemm", "matrix", net.random(1000, 768), net.random(1000), transB=1)
    net.case("MatMulInteger", "bytes", net.constant(NOISE.integers(-100, 100, (768, 768)), "int8"))
    net.case("Einsum", "heads", "heads", name="bhqd,bhkd->bhqk", equation="bhqd,bhkd->bhqk")
    net.case("Einsum", "heads", "heads", name="bhqd,bhqd->bhq", equation="bhqd,bhqd->bhq")


def casts(net):
    """Conversions."""
    for name, source, to in (
            ("float32 to float16", "image", HALF), ("float16 to float32", "halves", FLOAT), ("float32 to int64", "image", INT64), ("float32 to uint8", "image", UINT8),
            ("float32 to bool", "image", BOOL), ("bool to float32", "truths", FLOAT), ("int64 to float32", "wholes", FLOAT), ("uint8 to float32", "bytes", FLOAT),
            ("int64 to int32", "wholes", TensorProto.INT32)):
        net.case("Cast", source, name=name, to=to)
    net.case("QuantizeLinear", "image", net.constant(0.05), net.constant(128, "uint8"))
    net.case("DequantizeLinear", "bytes", net.constant(0.05), net.constant(3, "uint8"))
    net.case("DynamicQuantizeLinear", "matrix", outputs=3)


if __name__ == "__main__":
    main()
