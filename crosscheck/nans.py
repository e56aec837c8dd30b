"""Check what operators that compare, order or convert numbers make of NaN and infinities, against ONNX Runtime.

    crosscheck/run nans [OPERATOR ...]

Each case is one node on drawn inputs, a third of whose elements are NaN or infinite. All cases are nodes of one model, which onnxmem plans and runs. An output must have
the NaN and the infinities of ONNX Runtime's in the same places; other elements may differ by
rounding, integers not at all.

For some operators ONNX Runtime has no rule: what it makes of NaN depends on the algorithm that
it chooses by length, and differs between its vectors and what remains beside them. There ours
is numpy's and PyTorch's: a NaN is the largest and the smallest of its window, it stands behind
all numbers, and all NaN are equal (_RULES).
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

from . import command, judging, runtime

_SECONDS = 300
_TOLERANCE = 2e-5
_SEEDS = 3
_INTEGERS = ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64")
_EDGES = (127.9, 128, 255.9, 256, 300, -129, -200, 32768, 65536.5, -40000, 2**31 - 128, 2.0**31, 3e9, 2.0**32, 5e9, -(2.0**31), -3e9, 9.2e18, 9.3e18, 1.8e19, 1.9e19, -9.3e18, -1e19, 1e30, -1e30)


@dataclasses.dataclass
class Case:
    """A node, and what it reads: names of draws, with their shapes, or arrays."""

    op: str
    inputs: list
    attrs: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    domain: str = ""


def main():
    parser = argparse.ArgumentParser(prog="crosscheck/run nans", description=__doc__.partition("\n")[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="default: all")
    parser.add_argument("--binary", type=pathlib.Path, default=judging.ROOT / "bin/onnxmem")
    args = parser.parse_args()
    cases = [c for c in found() if not args.operators or c.op in args.operators]
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "nans.onnx"), pathlib.Path(folder, "out.onnx")
        tool = command.Command(args.binary)
        onnx.save(model(cases), source)
        tool.plan(source, target, ())
        for seed in range(_SEEDS):
            given = draws(cases, seed)
            want = runtime.run(source, given, 1)[0]
            report, got = tool.run(target, given, ("--check", "--poison"), _SECONDS)
            ruled(cases, source, given, want)
            faults += command.differing(report)
            faults += [f"seed {seed}: {said}" for said in judging.outputs(enumerate(cases), got, want, describe, _TOLERANCE, _ANY)]
    print(f"{len({c.op for c in cases})} operators, {len(cases)} cases, {_SEEDS} draws each: {len(faults)} faults")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def found():
    """Return all cases."""
    rows, image, volume, finite = ("f", (7, 37)), ("f", (2, 3, 11, 9)), ("window-f", (1, 2, 5, 6, 4)), ("finite-f", (2, 3, 11, 9))
    cases = []
    for kind in ("f", "d", "h"):
        for to in _INTEGERS + ("BOOL",):
            # ONNX Runtime's vectors convert to uint32 what fits, alone.
            cases.append(Case("Cast", [(("fits-" if to == "UINT32" else "edges-") + kind, (4, 19))], {"to": getattr(TensorProto, to)}))
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            for axis in (0, 1):
                cases += [Case(op, [(letter, (7, 37))], {"axis": axis, "select_last_index": last}) for letter in "fd"]
    for largest in (0, 1):
        for k in (1, 3, 30):
            cases += [Case("TopK", [(letter, (7, 37)), np.array([k])], {"largest": largest}, 2) for letter in "fd"]
        cases.append(Case("TopK", [rows, np.array([4])], {"largest": largest, "axis": 0}, 2))
    for kept in (0, 1):
        cases += [Case("Unique", [(letter, (40,))], {"sorted": kept}, 4) for letter in "fd"]
    for attrs in ({"kernel_shape": [2, 2]}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, {"kernel_shape": [2, 3], "dilations": [2, 2]}, {"kernel_shape": [7, 7], "pads": [3, 3, 3, 3]}):
        cases += [Case("MaxPool", [("window-" + letter, (2, 3, 11, 9))], attrs, n) for letter in "fd" for n in (1, 2)]
        cases += [Case("AveragePool", [image], {k: v for k, v in attrs.items() if k != "dilations"}), Case("LpPool", [image], attrs)]
    cases += [Case("MaxPool", [("window-f", (2, 3, 21))], {"kernel_shape": [3]}, n) for n in (1, 2)]
    cases += [Case("MaxPool", [volume], {"kernel_shape": [2, 2, 2]}, n) for n in (1, 2)]
    cases += [Case("GlobalMaxPool", [("window-f", (2, 3, 11, 9))]), Case("GlobalAveragePool", [image])]
    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            cases += [Case("GridSample", [image if mode == "nearest" else finite, ("grid", (2, 4, 5, 2))], {"mode": mode, "padding_mode": padding, "align_corners": corners}) for corners in (0, 1)]
    for op in ("Max", "Min"):
        for letter in "fd":
            cases += [Case(op, [(letter, (7, 37)), (letter, shape)]) for shape in ((7, 37), (1,), (37,), (7, 1))]
            cases.append(Case(op, [(letter, (7, 37))] * 3))
        cases.append(Case(op, [("h", (7, 37)), ("h", (7, 37))]))
    for low, high in ((-1, 1), (-np.inf, 1), (np.nan, 1), (-1, np.nan)):
        cases += [Case("Clip", [(letter, (7, 37)), np.array(low, dtype), np.array(high, dtype)]) for letter, dtype in (("f", np.float32), ("d", np.float64))]
    for op in ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"):
        cases += [Case(op, [(letter, (7, 37)), (letter, shape)]) for letter in "fd" for shape in ((7, 37), (1,))]
    for op in ("Relu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "Softplus", "Softsign", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Sign", "Floor", "Ceil", "Round", "Abs", "Neg", "Reciprocal", "Sin", "Cos", "Tan", "Atan", "Asin", "Sinh", "Asinh", "Mish", "Gelu", "Shrink", "IsNaN", "IsInf", "NonZero", "Softmax", "LogSoftmax"):
        cases.append(Case(op, [rows]))
    for op in ("Pow", "PRelu", "Add", "Sub", "Mul", "Div"):
        cases.append(Case(op, [rows, rows]))
    cases += [Case("Mod", [rows, rows], {"fmod": 1}), Case("CumSum", [rows, np.array(1)]), Case("Where", [("b", (7, 37)), rows, rows])]
    for op in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd"):
        cases += [Case(op, [(letter, (7, 37)), np.array([axis])]) for letter in "fd" for axis in (0, 1)]
        cases += [Case(op, [("f", (6, 5, 7)), np.array(axes)]) for axes in ([0, 2], [0, 1], [0, 1, 2])]
    for op in ("ScatterElements", "ScatterND"):
        index = np.array([[1, 0, 1], [2, 2, 1]]) if op == "ScatterElements" else np.array([[1], [1], [3]])
        updates = (2, 3) if op == "ScatterElements" else (3, 5)
        cases += [Case(op, [("f", (5, 5)), index, ("f", updates)], {"reduction": how}) for how in ("none", "max", "min", "add", "mul")]
    for to in (np.int8, np.uint8, np.int16, np.uint16):
        cases.append(Case("QuantizeLinear", [rows, np.array(0.1, np.float32), np.array(3, to)]))
    cases.append(Case("Resize", [image, None, np.array([1, 1, 1.7, 0.6], np.float32)], {"mode": "nearest"}))
    cases += [Case("NonMaxSuppression", [("boxes", (1, 9, 4)), ("f", (1, 2, 9)), np.array(5), np.array(0.5, np.float32), np.array(low, np.float32)]) for low in (-1, 0.1)]
    cases.append(Case("RoiAlign", [image, np.array([[0, 0, 5, 5], [1, 2, 8, 9]], np.float32), np.array([0, 1])], {"output_height": 3, "output_width": 3}))
    cases.append(Case("MaxRoiPool", [("window-f", (2, 3, 11, 9)), np.array([[0, 0, 0, 5, 5], [1, 1, 2, 8, 9]], np.float32)], {"pooled_shape": [2, 2]}))
    tree = {"nodes_treeids": [0] * 5, "nodes_nodeids": list(range(5)), "nodes_featureids": [0, 0, 1, 0, 0], "nodes_values": [0.1, 0, -0.5, 0, 0], "nodes_truenodeids": [1, 0, 3, 0, 0], "nodes_falsenodeids": [2, 0, 4, 0, 0], "target_treeids": [0] * 3, "target_nodeids": [1, 3, 4], "target_ids": [0] * 3, "target_weights": [1.0, 2.0, 4.0], "n_targets": 1}
    for mode in ("LT", "LEQ", "GT", "GTE", "EQ", "NEQ"):
        for missing in (0, 1):
            modes = ["BRANCH_" + mode, "LEAF", "BRANCH_" + mode, "LEAF", "LEAF"]
            cases.append(Case("TreeEnsembleRegressor", [("f", (30, 3))], {**tree, "nodes_modes": modes, "nodes_missing_value_tracks_true": [missing] * 5}, 1, "ai.onnx.ml"))
    cases.append(Case("Imputer", [("f", (7, 3))], {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")}, 1, "ai.onnx.ml"))
    cases.append(Case("LabelEncoder", [("f", (9, 4))], {"keys_floats": [float("nan"), 0.5, 1.0], "values_int64s": [1, 2, 3], "default_int64": -7}, 1, "ai.onnx.ml"))
    cases += [Case("Normalizer", [("f", (9, 4))], {"norm": norm}, 1, "ai.onnx.ml") for norm in ("MAX", "L1", "L2")]
    return cases


_TYPES = {"f": TensorProto.FLOAT, "d": TensorProto.DOUBLE, "h": TensorProto.FLOAT16, "b": TensorProto.BOOL}
_DTYPES = {"f": np.float32, "d": np.float64, "h": np.float16}


def letter(kind):
    """Return the type of a kind of draw."""
    return "f" if kind in ("grid", "boxes") else kind[-1]


def model(cases):
    """Return a model with a node for each case."""
    nodes, inputs, outputs, constants = [], [], [], []
    for i, case in enumerate(cases):
        names = []
        for k, what in enumerate(case.inputs):
            name = f"x{i}_{k}"
            if isinstance(what, np.ndarray):
                constants.append(onnx.numpy_helper.from_array(what, name))
            elif what is not None:
                inputs.append(helper.make_tensor_value_info(name, _TYPES[letter(what[0])], what[1]))
            names.append("" if what is None else name)
        made = [f"y{i}_{k}" for k in range(case.outputs)]
        nodes.append(helper.make_node(case.op, names, made, domain=case.domain, **case.attrs))
        outputs += [onnx.ValueInfoProto(name=name) for name in made]
    graph = helper.make_graph(nodes, "nans", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=10)


def draws(cases, seed):
    """Return what the nodes read."""
    given = {}
    for i, case in enumerate(cases):
        for k, what in enumerate(case.inputs):
            if isinstance(what, tuple):
                given[f"x{i}_{k}"] = drawn(*what, np.random.default_rng([seed, i, k]))
    return given


def drawn(kind, shape, rng):
    """Return numbers of few values, so that some are equal, with NaN and infinities among them."""
    if kind == "b":
        return rng.random(shape) < 0.5
    values = rng.integers(-8, 9, shape) / 8.0
    special = rng.integers(0, 12, shape)
    if kind.startswith("edges"):
        edge = special > 3
        values[edge] = rng.choice(_EDGES, shape)[edge]
    elif kind.startswith("fits"):
        return (np.abs(values) * 2.0 ** rng.integers(0, 31, shape)).astype(_DTYPES[kind[-1]])
    elif kind.startswith("finite"):
        return values.astype(_DTYPES[kind[-1]])
    elif kind == "grid":
        values = values * 2.5
    elif kind == "boxes":
        values = np.abs(values) * 10
    values[special <= 1] = np.nan
    values[special == 2] = np.inf
    if not kind.startswith("window"):  # ONNX Runtime has no infinite maximum below 0 for all types
        values[special == 3] = -np.inf
    with np.errstate(over="ignore"):
        return values.astype(_DTYPES[letter(kind)])


def ruled(cases, source, given, want):
    """Replace outputs of ONNX Runtime by those of our rules where it has none."""
    windows = [i for i, case in enumerate(cases) if case.op in _WINDOWS]
    low, marks = dict(given), dict(given)
    for i in windows:
        x = given[f"x{i}_0"]
        low[f"x{i}_0"] = np.where(np.isnan(x), np.asarray(-1e30, x.dtype), x)
        marks[f"x{i}_0"] = np.isnan(x).astype(x.dtype)
    numbers, marks = (runtime.run(source, feeds, 1)[0] if windows else {} for feeds in (low, marks))
    for i in windows:
        some = marks[f"y{i}_0"] > 0
        want[f"y{i}_0"] = np.where(some, want[f"y{i}_0"].dtype.type(np.nan), numbers[f"y{i}_0"])
        if cases[i].outputs > 1:  # the place of which NaN is open
            want[f"y{i}_1"] = np.where(some, _ANY, numbers[f"y{i}_1"])
    for i, case in enumerate(cases):
        if case.op in _RULES:
            for k, made in enumerate(_RULES[case.op](case, given[f"x{i}_0"])):
                want[f"y{i}_{k}"] = np.asarray(made, want[f"y{i}_{k}"].dtype)


def _top(case, x):
    axis, k = case.attrs.get("axis", -1), int(case.inputs[1][0])
    keys = np.where(np.isnan(x), 2, np.where(np.isposinf(x), 1, np.where(np.isneginf(x), -1, 0))), np.where(np.isfinite(x), x, 0)
    sign = -1 if case.attrs["largest"] else 1
    places = np.lexsort((sign * keys[1], sign * keys[0]), axis=axis).take(range(k), axis)
    return np.take_along_axis(x, places, axis), places


def _distinct(case, x):
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    order = np.arange(len(first)) if case.attrs["sorted"] else np.argsort(first)
    return values[order], first[order], np.argsort(order)[inverse], counts[order]


def _reduced(join):
    return lambda case, x: [join(x.astype(np.float64), axis=tuple(case.inputs[1].tolist()), keepdims=True)]


_ANY = np.iinfo(np.int64).min
_WINDOWS = ("MaxPool", "GlobalMaxPool", "MaxRoiPool")
_RULES = {
    "TopK": _top,
    "Unique": _distinct,
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "ReduceLogSumExp": _reduced(np.logaddexp.reduce),
}


def describe(case):
    """Return a short text for a case."""
    kinds = [what[0] + str(list(what[1])) if isinstance(what, tuple) else "-" if what is None else str(what.tolist())[:40] for what in case.inputs]
    attrs = {k: v for k, v in case.attrs.items() if not k.startswith(("nodes_t", "nodes_f", "nodes_n", "target"))}
    return f"{case.op}({', '.join(kinds)}) {attrs}"


if __name__ == "__main__":
    sys.exit(main())
