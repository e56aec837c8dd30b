"""Check the gradient of every operator in ONNX Runtime and, where it has the operator, against PyTorch.

    crosscheck/run rules          # all cases of the rules' tests
    crosscheck/run rules RoiAlign MoE

A test of package autodiff writes, for each case, the model of one node, the training step,
and what the plain evaluator computes for it (gradients that agree with central
differences). ONNX Runtime runs both where it has the operator: the losses of the model and
of the step must be equal, which checks operators that are rewritten, and the gradients must
be those of the evaluator. PyTorch differentiates the model by an implementation of the operator below.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_TYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "int64": np.int64, "int32": np.int32, "uint8": np.uint8, "int8": np.int8, "bool": np.bool_}
_TOLERANCE = 2e-5  # of the gradient's largest element: float32, and sums of some hundred terms


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="default: all")
    parser.add_argument("--files", type=pathlib.Path, help="what the test wrote before")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = args.files or _export(pathlib.Path(folder))
        rows, faults = collections.defaultdict(collections.Counter), []
        for path in sorted(files.glob("*.json")):
            record = json.loads(path.read_text())
            if args.operators and record["op"] not in args.operators:
                continue
            _check(path, record, rows[(record["domain"], record["op"])], faults)
    print("| operator | cases | step runs | model runs | PyTorch |\n| --- | ---: | ---: | ---: | ---: |")
    for (domain, op), n in sorted(rows.items()):
        print(f"| {domain + '.' if domain else ''}{op} | {n['cases']} | {n['step']} | {n['model']} | {n['torch']} |")
    total = sum(rows.values(), collections.Counter())
    print(f"{len(rows)} operators, {total['cases']} cases: {total['step']} steps and {total['model']} models run in ONNX Runtime, {total['torch']} agree with PyTorch; {len(faults)} faults")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def _export(folder):
    command = ["go", "test", "./autodiff", "-count", "1", "-run", "TestExportRules"]
    subprocess.run(command, cwd=_ROOT, env={**os.environ, "ONNXMEM_RULES": str(folder)}, check=True, stdout=sys.stderr)
    return folder


def _check(path, record, counts, faults):
    title = f"{record['op']} {record['case']}".strip()
    counts["cases"] += 1
    model, step = onnx.load(path.with_suffix(".onnx")), onnx.load(path.with_suffix(".step.onnx"))
    feeds, expected = _arrays(record["feeds"]), _arrays(record["expect"])
    given = {i.name: feeds[i.name] for i in model.graph.input}
    plain, made = _run(model, given), _run(step, feeds)
    counts["model"] += plain is not None
    counts["step"] += made is not None
    random = record["op"] in _RANDOM
    if made is None and plain is not None and (record["op"], record["case"]) not in _RUNTIME_FAILS:
        faults.append(f"{title}: ONNX Runtime runs the model, and not the step")
    if made is not None and plain is not None and not random:
        if (off := _off(made["loss"], plain["objective"])) > _TOLERANCE:
            faults.append(f"{title}: the step's loss is off by {off:.1e} from the model's in ONNX Runtime")
    if made is not None and not random:
        _compare(f"{title} in ONNX Runtime", made, expected, faults)
    if not record["zero"] and (record["op"], record["case"]) not in _TORCH_DIFFERS:
        other = _torch(model, (record["domain"], record["op"]), given, record["parameters"])
        if other is not None:
            before = len(faults)
            _compare(f"{title} in PyTorch", other, expected, faults)
            counts["torch"] += before == len(faults)


# Operators whose results no two runs share.
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike")

# Losses of cases that ONNX Runtime 1.31 computes otherwise than the specification, the
# plain evaluator and PyTorch: their gradients do not depend on that.
_RUNTIME_DIFFERS = {
    ("Col2Im", "one axis"): "its dilation",
    ("DFT", "from one side to a short length"): "what is cut off",
}

# Steps that ONNX Runtime 1.31 cannot run, though it folds the model's node.
_RUNTIME_FAILS = {("Einsum", "length 1 broadcasts"): "it takes an axis of length 1 for the length of the result"}

# Cases in which PyTorch's gradient is not that of central differences.
_TORCH_DIFFERS = {("Det", "a singular matrix"): "it divides by the determinant"}


def _compare(title, made, expected, faults):
    for name, want in expected.items():
        if name == "loss" and title.endswith(" in ONNX Runtime") and any(title == f"{op} {case} in ONNX Runtime" for op, case in _RUNTIME_DIFFERS):
            continue
        if (off := _off(made[name], want)) > _TOLERANCE:
            faults.append(f"{title}: {name} is off by {off:.1e}")


def _arrays(record):
    return {name: np.array(t["data"], _TYPES[t["type"]]).reshape(t["shape"]) for name, t in record.items()}


def _off(got, want):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape:
        return math.inf
    return float(np.max(np.abs(got - want), initial=0) / max(1, np.max(np.abs(want), initial=0)))


def _run(model, feeds):
    """Return the outputs by name; None if ONNX Runtime cannot run the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, 1, 1
    model.ir_version = min(max(model.ir_version, 10), 13)
    for newest in (99, 24):  # a step has operators of older opsets alone, if all that are newer were rewritten
        for o in model.opset_import:
            o.version = min(o.version, newest)
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            made = session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})
            return dict(zip([o.name for o in session.get_outputs()], made))
        except Exception:  # the classes of ONNX Runtime's exceptions have no common base
            continue
    return None


def _torch(model, operator, given, parameters):
    """Return the gradients and the loss by PyTorch; None for an operator that torchrules lacks."""
    import torch

    from . import torchgraph, torchrules

    if operator not in torchrules.TABLE:
        return None
    before = dict(torchgraph.OPERATORS)
    torchgraph.OPERATORS[operator[1]] = torchrules.TABLE[operator]
    try:
        graph = torchgraph.Graph(model)
        for name in parameters:
            graph.values[name].requires_grad_()
        loss = graph.run(given)["objective"]
    finally:
        torchgraph.OPERATORS.clear()
        torchgraph.OPERATORS.update(before)
    loss.backward()
    made = {"loss": loss.detach().numpy()}
    for name in parameters:
        g = graph.values[name].grad
        made[name + ".grad"] = (torch.zeros_like(graph.values[name]) if g is None else g).detach().numpy()
    return made


if __name__ == "__main__":
    sys.exit(main())
