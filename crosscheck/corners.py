"""Compare the gradients of operators at corners with PyTorch's in float64: at 0 and ±1, at ties, saturated, at infinities.

    crosscheck/run corners            # compare, and print the table of docs/results/corners.md
    crosscheck/run corners --write    # and write what PyTorch computes for the tests of package autodiff

A test of package autodiff writes the points, the weights of the loss, and the gradients
that a training step has there. PyTorch differentiates its own function below; where an
operator is one of its functions, that one, since the gradients of its parts may be no
numbers where its own are. Needs PyTorch (crosscheck/requirements-torch.txt).
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_GOLDEN = _ROOT / "autodiff/testdata/corners.json"


def main():
    parser = argparse.ArgumentParser(prog="crosscheck/run corners", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {_GOLDEN.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "corners.json")
        command = ["go", "test", "./autodiff", "-count", "1", "-run", "^TestExportCorners$"]
        subprocess.run(command, cwd=_ROOT, env={**os.environ, "ONNXMEM_CORNERS": str(path)}, check=True, stdout=sys.stderr)
        records = json.loads(path.read_text())
    golden, rows, faults = [], [], []
    for record in records:
        theirs = differentiate(record)
        golden.append({key: record[key] for key in ("title", "inputs", "shapes")} | {"gradients": {k: [text(v) for v in g] for k, g in theirs.items()}})
        ours = {k: [float(v) for v in g] for k, g in record["gradients"].items()}
        same = all(equal(a, b) for k in ours for a, b in zip(ours[k], theirs[k], strict=True))
        reason = record.get("differs", "")
        if same == bool(reason):
            faults.append(f"{record['title']}: {'PyTorch agrees, though a reason says that it differs' if same else f'{ours}; PyTorch has {theirs}'}")
        if math.isfinite(float(record["loss"])) and any(math.isnan(v) for g in ours.values() for v in g):
            faults.append(f"{record['title']}: a gradient is no number, though the loss is finite")
        rows.append(row(record, ours, theirs, same, reason))
    if args.write:
        _GOLDEN.parent.mkdir(exist_ok=True)
        _GOLDEN.write_text("[\n" + ",\n".join(json.dumps(g, ensure_ascii=False) for g in golden) + "\n]\n")
    print("| function | at | gradient | PyTorch's, if it differs | why |\n| --- | --- | --- | --- | --- |", *rows, sep="\n")
    print(f"{len(records)} cases: {len(faults)} faults", *faults, sep="\n", file=sys.stderr)
    return 1 if faults else 0


def row(record, ours, theirs, same, reason):
    at = [record["inputs"][int(name[1:])] for name in ours]
    show = lambda lists: "; ".join(", ".join(number(float(v)) for v in values) for values in lists)
    title = record["title"].replace("|", "\\|")
    return f"| {title} | {show(at)} | {show(ours.values())} | {'' if same else show(theirs.values())} | {reason}{' ' if reason else ''}|"


def number(v):
    return "NaN" if math.isnan(v) else f"{'-' if v < 0 else ''}∞" if math.isinf(v) else f"{v:.4g}"


def text(v):
    return v if math.isfinite(v) else "NaN" if math.isnan(v) else "+Inf" if v > 0 else "-Inf"


def equal(a, b):
    return a == b or math.isnan(a) and math.isnan(b) or abs(a - b) <= 1e-7 * max(1, abs(b))  # attributes are float32


def differentiate(record):
    """Return PyTorch's gradients by parameter."""
    inputs = []
    for values, shape in zip(record["inputs"], record["shapes"]):
        inputs.append(torch.tensor([float(v) for v in values], dtype=torch.float64).reshape(shape) if values else None)
    for name in record["gradients"]:
        inputs[int(name[1:])].requires_grad_()
    weights = torch.tensor([float(v) for v in record["weights"]], dtype=torch.float64).reshape(record.get("shape", []))
    result = _FUNCTIONS[record["title"]](*inputs)
    (result * weights.reshape(result.shape)).sum().backward()
    return {name: (torch.zeros_like(t) if t.grad is None else t.grad).reshape(-1).tolist() for name, t in ((n, inputs[int(n[1:])]) for n in record["gradients"])}


def _number(t):
    return None if t is None else float(t)


def _clip(x, low=None, high=None):
    return x.clamp(_number(low), _number(high))


def _loss(**options):
    return lambda x, labels, weight=None: F.cross_entropy(x, labels.long(), weight, **options)


def _grid(padding, corners):
    return lambda x, grid: F.grid_sample(x, grid, "bilinear", padding, corners)


def _chosen(f):
    return lambda x, *others: torch.where((others[-1] if others else x) > 0, f(x, *others), 0.0)


_FUNCTIONS = {
    "Abs": torch.abs,
    "Relu": F.relu,
    "LeakyRelu": F.leaky_relu,
    "ThresholdedRelu": lambda x: F.threshold(x, 1, 0),
    "PRelu": lambda x, slope: F.prelu(x[None], slope)[0],
    "Elu": F.elu,
    "Selu": F.selu,
    "Celu": F.celu,
    "Gelu": F.gelu,
    "Gelu: tanh": lambda x: F.gelu(x, approximate="tanh"),
    "Gelu: tanh far out": lambda x: F.gelu(x, approximate="tanh"),
    "Mish": F.mish,
    "Swish": F.silu,
    "HardSigmoid": F.hardsigmoid,
    "HardSwish": F.hardswish,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Shrink: hard": F.hardshrink,
    "Shrink: soft": F.softshrink,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "Erf": torch.erf,
    "Clip": _clip,
    "Clip: Relu6": lambda x, low, high: F.relu6(x),
    "Clip: low": _clip,
    "Clip: high": _clip,
    "Clip: low above high": _clip,
    "Exp": torch.exp,
    "Log": torch.log,
    "Sqrt": torch.sqrt,
    "Reciprocal": torch.reciprocal,
    "Asin": torch.asin,
    "Acos": torch.acos,
    "Atan": torch.atan,
    "Asinh": torch.asinh,
    "Acosh": torch.acosh,
    "Atanh": torch.atanh,
    "Tan": torch.tan,
    "Sinh": torch.sinh,
    "Cosh": torch.cosh,
    "Mod": lambda x, y: torch.fmod(x, float(y)),
    "Mul": torch.mul,
    "Div": torch.div,
    "Div: by 0": torch.div,
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Pow: base": torch.pow,
    "Pow: base that comes with its exponents": torch.pow,
    "Pow: base and exponent": torch.pow,
    "Pow: exponent below 0 at base 0": torch.pow,
    "Pow: exponent 0.5 at base 0": torch.pow,
    "Pow: exponents of bases below 0": torch.pow,
    "ReduceMax": lambda x, axes: x.amax(1, True),
    "ReduceMin": lambda x, axes: x.amin(1, True),
    "ReduceProd": lambda x, axes: x.prod(1, True),
    "ReduceProd: all axes": torch.prod,
    "ReduceL1": lambda x, axes: torch.linalg.vector_norm(x, 1, 1, True),
    "ReduceL2": lambda x, axes: torch.linalg.vector_norm(x, 2, 1, True),
    "ReduceLogSum": lambda x, axes: x.sum(1, True).log(),
    "ReduceLogSumExp": lambda x, axes: x.logsumexp(1, True),
    "ReduceSumSquare": lambda x, axes: x.square().sum(1, True),
    "LpNormalization": lambda x: F.normalize(x, 2, 1),
    "LpNormalization: p=1": lambda x: F.normalize(x, 1, 1),
    "CumProd": lambda x, axis: x.cumprod(0),
    "CumSum": lambda x, axis: x.cumsum(0),
    "Softmax": lambda x: F.softmax(x, 1),
    "LogSoftmax": lambda x: F.log_softmax(x, 1),
    "LogSoftmax: of -∞": lambda x: F.log_softmax(x, 0),
    "SoftmaxCrossEntropyLoss": _loss(),
    "SoftmaxCrossEntropyLoss: at -∞": _loss(),
    "SoftmaxCrossEntropyLoss: ignored labels": _loss(),
    "SoftmaxCrossEntropyLoss: ignored labels and weights": _loss(),
    "SoftmaxCrossEntropyLoss: all labels ignored": _loss(),
    "SoftmaxCrossEntropyLoss: all labels ignored, sum": _loss(reduction="sum"),
    "NegativeLogLikelihoodLoss: all labels ignored": lambda x, labels: F.nll_loss(x, labels.long()),
    "BatchNormalization": lambda x, scale, bias, mean, variance: F.batch_norm(x, None, None, scale, bias, True),
    "LayerNormalization": lambda x, scale, bias: F.layer_norm(x, (3,), scale, bias),
    "InstanceNormalization": lambda x, scale, bias: F.instance_norm(x, weight=scale, bias=bias),
    "GroupNormalization": lambda x, scale, bias: F.group_norm(x, 1, scale, bias),
    "RMSNormalization": lambda x, scale: F.rms_norm(x, (3,), scale, 1e-5),
    "LRN": lambda x: F.local_response_norm(x, 3, 1e-4, 0.75, 1.0),
    "MaxPool": lambda x: F.max_pool1d(x, 2),
    "GlobalMaxPool": lambda x: F.adaptive_max_pool1d(x, 1),
    "LpPool": lambda x: torch.linalg.vector_norm(x.reshape(1, 1, 2, 2), 2, 3),
    "GlobalLpPool": lambda x: torch.linalg.vector_norm(x, 2, 2, True),
    "Where": lambda flags, x, y: torch.where(flags > 0, x, y),
    "Sum": torch.add,
    "Mean": lambda x, y: torch.stack([x, y]).mean(0),
    "Neg": torch.neg,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "ReduceSum": lambda x, axes: x.sum(1, True),
    "ReduceMean": lambda x, axes: x.mean(1, True),
    "ScatterElements: max, ties": lambda x, at, y: x.scatter_reduce(0, at.long(), y, "amax"),
    "ScatterElements: mul by 0": lambda x, at, y: x.scatter_reduce(0, at.long(), y, "prod"),
    "MeanVarianceNormalization": lambda x: (x - x.mean(1, True)) / (x.std(1, correction=0, keepdim=True) + 1e-9),
    "CDist of equal rows": torch.cdist,
    "FastGelu": lambda x: F.gelu(x, approximate="tanh"),
    "QuickGelu": F.silu,
    "Det": torch.linalg.det,
    **{f"GridSample: {p}, align_corners={c}": _grid(p, bool(c)) for p in ("zeros", "border") for c in (0, 1)},
    "log of sigmoid": F.logsigmoid,
    "log of softmax": lambda x: F.log_softmax(x, 0),
    "normalize": lambda x: F.normalize(x, 2, 1),
    "normalize as PyTorch exports it": lambda x: F.normalize(x, 2, 1),
    "normalize by a maximum": lambda x: F.normalize(x, 2, 1),
    "distance of equal pairs": lambda x, y: torch.linalg.vector_norm(x - y, 2, 1, True),
    "root of a sum of squares": lambda x: torch.linalg.vector_norm(x, 2, 1, True),
    "root of a sum of powers": lambda x: torch.linalg.vector_norm(x, 2, 1, True),
    "3-norm": lambda x: torch.linalg.vector_norm(x, 3, 1, True),
    "magnitude of two parts": lambda x, y: torch.complex(x, y).abs(),
    "deviation": lambda x: x.std(1, correction=0, keepdim=True),
    "root of a clamped number": lambda x: x.relu().sqrt(),
    "cosine similarity": lambda x, y: F.cosine_similarity(x, y, 1)[:, None],
    "atan2": torch.atan2,
    "softmax of single operators": lambda x: F.softmax(x, 1),
    "power of a constant exponent 0": lambda x: x**0,
    "power of a constant exponent 1": lambda x: x**1,
    "power of a constant exponent 1.5": lambda x: x**1.5,
    "power of a constant exponent -1": lambda x: x**-1,
    "TopK of equal elements": lambda x: x.topk(2)[0],
    "log where it is chosen": _chosen(torch.log),
    "x·log(x) where it is chosen": _chosen(lambda x: x * x.log()),
    "root where it is chosen": _chosen(torch.sqrt),
    "quotient where it is chosen": _chosen(torch.div),
    "reciprocal where it is chosen": _chosen(torch.reciprocal),
    "power where it is chosen": _chosen(lambda x: x**-0.5),
    "exponential where it is chosen": _chosen(lambda x: (-x).exp()),
    "sine of a logarithm where it is chosen": _chosen(lambda x: x.log().sin()),
    "arc cosine of what is clamped": lambda x: x.clamp(-1, 1).acos(),
    "log that is clamped": lambda x: x.log().clamp(min=-100),
    "slice of a logarithm": lambda x: x.log()[1:],
    "logarithm of a sum of exponentials of -∞ where it is chosen": lambda x: torch.where(x.logsumexp(1, True).isinf(), 0.0, x.logsumexp(1, True)),
}


if __name__ == "__main__":
    sys.exit(main())
