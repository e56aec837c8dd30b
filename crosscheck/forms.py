"""Check forms of operators that few models have, one node at a time, against ONNX Runtime.

    crosscheck/run forms [OPERATOR ...]

Attention and EmbedLayerNormalization of ONNX Runtime with each kind of mask, with past keys and
values, and with values of another size; Resize by scales that make no whole lengths, and GridSample;
operators that move elements, of every type that numbers can be cast to. All cases are nodes of one
model, which onnxmem plans and runs. What ONNX Runtime has no kernel for is compared with the
reference implementation of the onnx package; what neither runs is counted.
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from . import command, judging, runtime

_SECONDS = 300
_TOLERANCE = 3e-5
_MS = "com.microsoft"


@dataclasses.dataclass
class Case:
    """A node: what it reads (arrays, or None), which of that is constant, and a type to which its first inputs are cast."""

    op: str
    inputs: list
    attrs: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    constant: tuple = ()
    cast: str = ""
    casts: tuple = (0,)
    kinds: tuple = ()  # of the outputs' elements, if not float32


def main():
    parser = argparse.ArgumentParser(prog="crosscheck/run forms", description=__doc__.partition("\n")[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="default: all")
    parser.add_argument("--binary", type=pathlib.Path, default=judging.ROOT / "bin/onnxmem")
    args = parser.parse_args()
    cases = [c for c in attentions() + embeddings() + resizes() + movements() if not args.operators or c.op in args.operators]
    faults, by_reference, unchecked, held, want, given = [], 0, [], [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "forms.onnx"), pathlib.Path(folder, "out.onnx")
        for i, case in enumerate(cases):
            alone, feeds = model([(i, case)])
            onnx.save(alone, source)
            try:
                found = runtime.run(source, feeds, 1)[0]
            except Exception:  # noqa: BLE001: no kernel, or no such form
                try:
                    found = dict(zip([o.name for o in alone.graph.output], ReferenceEvaluator(alone).run(None, feeds), strict=True))
                    by_reference += 1
                except Exception:  # noqa: BLE001
                    unchecked.append(describe(case))
                    continue
            held.append((i, case))
            want.update(found)
            given.update(feeds)
        whole, _ = model(held)
        onnx.save(whole, source)
        tool = command.Command(args.binary)
        tool.plan(source, target, ())
        report, got = tool.run(target, given, ("--check", "--poison"), _SECONDS)
        faults += command.differing(report)
        faults += judging.outputs(held, got, want, describe, _TOLERANCE)
    print(f"{len({c.op for _, c in held})} operators, {len(held)} cases, {by_reference} by onnx.reference, {len(unchecked)} that neither runs: {len(faults)} faults")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def attentions():
    """Return cases of Attention of ONNX Runtime."""
    rng = np.random.default_rng(1)

    def case(outputs=2, batch=2, length=3, size=8, values=8, past=None, mask=None, bias=None, **attrs):
        shape = lambda *s: rng.normal(size=s).astype(np.float32)
        held = None if past is None else shape(2, batch, 2, past, size // 2)
        reads = [shape(batch, length, 6), shape(6, 2 * size + values), shape(2 * size + values), mask, held, None if bias is None else shape(*bias)]
        return Case("Attention", reads, {"num_heads": 2, **attrs}, outputs, _MS, (1, 2))

    ints = lambda *v: np.array(v, np.int32)
    marks = lambda *s: rng.integers(-1, 3, s).astype(np.int32)
    cases = []
    for filtered in (-1.0, -10000.0):
        for causal in (0, 1):
            both = {"unidirectional": causal, "mask_filter_value": filtered}
            cases += [case(**both), case(past=2, **both), case(past=0, **both), case(length=1, past=4, **both), case(outputs=1, scale=0.3, **both)]
            cases += [case(mask=m, **both) for m in (ints(1, 2), ints(0, 9), ints(2, 3, 1, 0), ints(1, 2, 2, 9), marks(2, 3), marks(2, 1), marks(1, 1), marks(2, 3, 3))]
            cases += [case(past=2, mask=m, **both) for m in (ints(3, 4), ints(2, 4, 1, 3), marks(2, 5), marks(2, 3, 5))]
            cases += [case(bias=b, **both) for b in ((2, 2, 3, 3), (1, 2, 3, 3), (1, 1, 3, 3))]
            cases.append(case(bias=(2, 2, 3, 3), mask=ints(2, 3), **both))
            cases.append(case(outputs=1, values=12, qkv_hidden_sizes=[8, 8, 12], mask=marks(2, 3), **both))
    return cases


def embeddings():
    """Return cases of EmbedLayerNormalization."""
    rng = np.random.default_rng(2)
    ids = lambda n, *s: rng.integers(0, n, s).astype(np.int32)
    table = lambda *s: rng.normal(size=s).astype(np.float32)
    cases = []
    for parts in (True, False):
        for places in (None, ids(9, 2, 4), ids(9, 1, 4)):
            for mask in (None, rng.integers(-1, 3, (2, 4)).astype(np.int32)):
                reads = [ids(7, 2, 4), ids(2, 2, 4) if parts else None, table(7, 6), table(9, 6), table(2, 6) if parts else None, table(6), table(6), mask, places]
                cases.append(Case("EmbedLayerNormalization", reads, {"epsilon": 0.1, "mask_index_type": int(mask is None)}, 3, _MS, kinds=(1, 6, 1)))
    return cases


def resizes():
    """Return cases of Resize and GridSample."""
    rng = np.random.default_rng(3)
    cases = []
    for how in ("asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        for mode, nearest in (("nearest", "floor"), ("nearest", "ceil"), ("nearest", "round_prefer_floor"), ("nearest", "round_prefer_ceil"), ("linear", ""), ("cubic", "")):
            for _ in range(6):
                length, scale = int(rng.integers(2, 60)), np.float32(round(float(rng.uniform(0.2, 4)), 1))
                if np.float32(length) * scale < 1 or mode == "cubic" and scale < 1:
                    continue
                attrs = {"coordinate_transformation_mode": how, "mode": mode} | ({"nearest_mode": nearest} if nearest else {})
                cases.append(Case("Resize", [rng.normal(size=(1, 2, 4, length)).astype(np.float32), None, np.array([1, 1, 1.5, scale], np.float32)], attrs, constant=(2,)))
            cases.append(Case("Resize", [rng.normal(size=(1, 1, 3, 4)).astype(np.float32), None, np.array([1, 1, 1.1, 1.2], np.float32)], {"coordinate_transformation_mode": how, "mode": mode}, constant=(2,)))
    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                cases.append(Case("GridSample", [rng.normal(size=(1, 2, 5, 6)).astype(np.float32), rng.uniform(-1.8, 1.8, (1, 5, 6, 2)).astype(np.float32)], {"mode": mode, "padding_mode": padding, "align_corners": corners}))
    return cases


_TYPES = ("BOOL", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "INT4", "UINT4", "STRING")
_NARROW = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "INT4", "UINT4")


def movements():
    """Return cases of operators that move elements."""
    whole = lambda *v: np.array(v, np.int64)
    grid = lambda *s: (np.arange(np.prod(s)) % 8).astype(np.float32).reshape(s)
    cases = []
    for kind in _TYPES:
        few = [
            Case("Transpose", [grid(3, 5)], {"perm": [1, 0]}),
            Case("Reshape", [grid(3, 5), whole(5, -1)], constant=(1,)),
            Case("Flatten", [grid(3, 5, 2)]),
            Case("Squeeze", [grid(3, 1, 5)]),
            Case("Unsqueeze", [grid(3, 5), whole(1)], constant=(1,)),
            Case("Identity", [grid(3, 5)]),
            Case("Pad", [grid(3, 5), whole(1, 2, 0, 1)], {"mode": "reflect"}, constant=(1,)),
            Case("Shape", [grid(3, 5)], kinds=(7,)),
            Case("Size", [grid(3, 5)], kinds=(7,)),
        ]
        many = [
            Case("Concat", [grid(3, 5), grid(3, 2)], {"axis": 1}, casts=(0, 1)),
            Case("Split", [grid(3, 5), whole(3, 2)], {"axis": 1}, 2, constant=(1,)),
            Case("Slice", [grid(7, 5), whole(5, 0), whole(1, 9), whole(0, 1), whole(-2, 3)], constant=(1, 2, 3, 4)),
            Case("Expand", [grid(3, 1, 5), whole(2, 3, 4, 5)], constant=(1,)),
            Case("Tile", [grid(3, 5), whole(2, 3)], constant=(1,)),
            Case("Gather", [grid(3, 5), whole(4, -1, 0)], {"axis": 1}),
            Case("GatherElements", [grid(3, 5), np.array([[4, -1], [0, 2], [1, 1]])], {"axis": 1}),
            Case("GatherND", [grid(3, 5), np.array([[2, 4], [0, -1]])]),
            Case("ScatterElements", [grid(3, 5), np.array([[4, -2], [0, 2], [1, 3]]), grid(3, 2)], {"axis": 1}, casts=(0, 2)),
            Case("ScatterND", [grid(3, 5), np.array([[2], [0]]), grid(2, 5)], casts=(0, 2)),
            Case("DepthToSpace", [grid(1, 8, 3, 2)], {"blocksize": 2}),
            Case("SpaceToDepth", [grid(1, 2, 4, 6)], {"blocksize": 2}),
            Case("ReverseSequence", [grid(5, 3), whole(5, 2, 3)]),
            Case("Compress", [grid(3, 5), np.array([True, False, True])], {"axis": 0}),
            Case("Trilu", [grid(3, 5)]),
            Case("CenterCropPad", [grid(3, 6), whole(5, 3)], constant=(1,)),
            Case("Where", [np.arange(15).reshape(3, 5) % 2 == 0, grid(3, 5), grid(5)], casts=(1, 2)),
            Case("Resize", [grid(1, 1, 3, 5), None, np.array([1, 1, 2, 1.7], np.float32)], {"nearest_mode": "floor"}, constant=(2,)),
        ]
        cases += [dataclasses.replace(c, cast=kind) for c in few + ([] if kind in _NARROW else many)]
    return cases


def model(cases):
    """Return a model of numbered cases, and its inputs."""
    nodes, inputs, outputs, constants, given = [], [], [], [], {}
    for i, case in cases:
        names = []
        for k, x in enumerate(case.inputs):
            name = f"x{i}_{k}"
            if x is None:
                names.append("")
                continue
            if k in case.constant:
                constants.append(onnx.numpy_helper.from_array(x, name))
            else:
                inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape))
                given[name] = x
            if case.cast and k in case.casts:
                nodes.append(helper.make_node("Cast", [name], [name + "c"], to=getattr(TensorProto, case.cast)))
                name += "c"
            names.append(name)
        while names[-1] == "":
            names.pop()
        made = [f"y{i}_{k}" for k in range(case.outputs)]
        back = case.cast and not case.kinds
        nodes.append(helper.make_node(case.op, names, [n + "c" for n in made] if back else made, domain=case.domain, **case.attrs))
        if back:
            nodes += [helper.make_node("Cast", [n + "c"], [n], to=TensorProto.FLOAT) for n in made]
        outputs += [helper.make_tensor_value_info(n, case.kinds[k] if case.kinds else 1, None) for k, n in enumerate(made)]
    graph = helper.make_graph(nodes, "forms", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(_MS, 1)], ir_version=10), given


def describe(case):
    """Return a short text for a case."""
    shapes = ["-" if x is None else str(x.tolist()) if k in case.constant and x.size < 6 else str(list(x.shape)) for k, x in enumerate(case.inputs)]
    return f"{case.op}({', '.join(shapes)}) {case.cast} {case.attrs}"


if __name__ == "__main__":
    sys.exit(main())
