"""Holds the column Precision of the operators to PyTorch's own lists of autocast for CUDA.

    crosscheck/run autocast

The lists are those with which PyTorch tests its autocast. Each function in them that an ONNX
operator stands for must have the operator's precision: half for functions that run in 16
bits, full for those that run in float32, widest for those that take the widest type.
"""

import pathlib
import re
import sys
import types
import unittest

import torch

# PyTorch's tests import a module for expected texts, of which the lists need nothing.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))  # type: ignore[arg-type]
from torch.testing._internal.autocast_test_lists import AutocastTestLists  # noqa: E402

# The functions that are one ONNX operator each. Those of convolutions, cells and products have
# several spellings; what no operator stands for is listed as None, so that none is forgotten.
OPERATORS = {
    "_convolution": "Conv", "conv1d": "Conv", "conv2d": "Conv", "conv3d": "Conv", "convolution": "Conv",
    "conv_tbc": None, "cudnn_convolution": "Conv", "cudnn_convolution_transpose": "ConvTranspose",
    "conv_transpose1d": "ConvTranspose", "conv_transpose2d": "ConvTranspose", "conv_transpose3d": "ConvTranspose",
    "prelu": "PRelu", "addmm": "Gemm", "addmv": "Gemm", "addr": None, "matmul": "MatMul", "einsum": "Einsum",
    "mm": "MatMul", "mv": "MatMul", "chain_matmul": "MatMul", "addbmm": None, "baddbmm": None, "bmm": "MatMul",
    "lstm_cell": "LSTM", "gru_cell": "GRU", "rnn_tanh_cell": "RNN", "rnn_relu_cell": "RNN", "linear": "Gemm",
    "linalg_vecdot": "MatMul", "linalg_multi_dot": "MatMul", "__matmul__": "MatMul",
    "acos": "Acos", "asin": "Asin", "cosh": "Cosh", "sinh": "Sinh", "tan": "Tan", "exp": "Exp", "log": "Log",
    "erfinv": None, "expm1": None, "log10": None, "log2": None, "log1p": None, "rsqrt": None,
    "reciprocal": "Reciprocal", "pow": "Pow", "__pow__": "Pow", "softmax": "Softmax", "log_softmax": "LogSoftmax",
    "layer_norm": "LayerNormalization", "rms_norm": "RMSNormalization", "group_norm": "GroupNormalization",
    "norm": "ReduceL2", "cumprod": "CumProd", "cumsum": "CumSum", "prod": "ReduceProd", "sum": "ReduceSum",
    "logsumexp": "ReduceLogSumExp", "softplus": "Softplus", "nll_loss": "NegativeLogLikelihoodLoss",
    "nll_loss2d": "NegativeLogLikelihoodLoss", "cdist": "CDist", "dist": None, "pdist": None, "renorm": None,
    "cosine_similarity": None, "poisson_nll_loss": None, "cosine_embedding_loss": None, "hinge_embedding_loss": None,
    "kl_div": None, "margin_ranking_loss": None, "triplet_margin_loss": None, "binary_cross_entropy_with_logits": None,
    "l1_loss": None, "smooth_l1_loss": None, "mse_loss": None, "multilabel_margin_loss": None,
    "soft_margin_loss": None, "multi_margin_loss": None, "huber_loss": None,
    "eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "lt": "Less", "ne": None,
    "add": "Add", "div": "Div", "mul": "Mul", "cat": "Concat", "equal": None, "stack": None,
    "addcdiv": None, "addcmul": None, "atan2": None, "bilinear": None, "cross": None, "dot": None, "vdot": None,
    "grid_sampler": "GridSample", "index_put": "ScatterND", "tensordot": None, "scatter_add": "ScatterElements",
}


def column() -> dict[str, str]:
    """Precision of each operator, from its row in package ops."""
    found: dict[str, str] = {}
    for path in sorted(pathlib.Path("ops").glob("*.go")):
        if path.name == "nchwc.go":  # of a domain of ONNX Runtime's own, with the names of others
            continue
        for name, row in re.findall(r'\{Name: "(\w+)", (Class: .*)\}', path.read_text()):
            m = re.search(r"Precision: (\w+)", row)
            found.setdefault(name, m[1].lower() if m else "widest")
    return found


def main() -> int:
    lists = AutocastTestLists(torch.device("cpu"))
    rows, wrong, compared, unlisted = column(), 0, set(), 0
    for names, want in (
        ("torch_fp16 nn_fp16 linalg_fp16 methods_fp16", "half"),
        ("torch_fp32 nn_fp32 methods_fp32", "full"),
        ("torch_expect_builtin_promote torch_need_autocast_promote", "widest"),
    ):
        for name in names.split():
            for function, *_ in getattr(lists, name):
                if function not in OPERATORS:
                    print(f"{function}, in {name}: expected the operator that it is, or None")
                    unlisted += 1
                elif (op := OPERATORS[function]) is not None:
                    compared.add(op)
                    if rows[op] != want:
                        print(f"{op}: {rows[op]}, but {function} is in {name}: expected {want}")
                        wrong += 1
    more = {op for op, p in rows.items() if p != "widest"} - compared
    print(f"{len(compared)} operators have the precision of PyTorch {torch.__version__}; of no function: {', '.join(sorted(more))}")
    return 1 if wrong or unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
