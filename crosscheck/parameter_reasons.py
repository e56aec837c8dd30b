"""Differences that nothing in the file can tell, with the reason: these are no faults of crosscheck/run parameters."""

import fnmatch

_SCRIPT, _STRIPPED = "TorchScript*", "dynamo, without metadata"
_NUMBER = "one number that the exporter computed from a parameter is like any other number"
_FROZEN = "the author does not train this layer, which no file tells"

# module, exporter, initializer: the reason
_REASONS = (
    ("frozen_layer", "*", "0.*", _FROZEN),
    ("fourier_features", "*", "B", "a random matrix is like a weight"),
    ("rnn", "dynamo*", "linear_1", "a product of a weight and a first state of zeros, which the exporter computed: the file says that a parameter went in"),
    ("group_norm_plain", _STRIPPED, "val_*", "a GroupNorm without weights is like one before its training"),
    ("lstm_first_state", _STRIPPED, "val_*", "first states of zeros that the exporter computed are like those that it fills in"),
    ("image_statistics_multiplied", _STRIPPED, "view*", "three numbers that the exporter named are like a bias"),
    ("scale_of_attention", _STRIPPED, "exp", _NUMBER),
    ("logit_scale", _STRIPPED, "exp", _NUMBER),
    ("transformers/CLIPModel", _STRIPPED, "exp", _NUMBER),
    ("transformers/SiglipModel", _STRIPPED, "exp", _NUMBER),
    ("transformers/SiglipModel", _SCRIPT, "onnx::*", _NUMBER),
    ("transformers/GemmaForCausalLM", _STRIPPED, "*embed_scale", "a buffer of one number that its author named is like a parameter"),
    ("transformers/DebertaV2Model", _STRIPPED, "unsqueeze", "a mask of ones that multiplies what is normalized is like a scale before its training"),
    ("transformers/FNetModel", _STRIPPED, "val_36", "the imaginary part of real numbers, zeros that are joined, is like a first state"),
    ("timm/test_nfnet", _SCRIPT, "onnx::*", "a standardized weight is in the file twice, for its elements and their statistics: trained apart, it were no longer one weight"),
    ("keras/gru", "tf2onnx", "*/gru_cell_1/*", "tf2onnx writes this GRU as a Loop that a condition ends, which has no gradient; messages name its weights"),
    ("keras/image_statistics", "tf2onnx", "*/add:0", "three numbers that the exporter computed from constants are like a bias"),
)

# files that onnxmem refuses
_REFUSED = (
    ("embedding_bag", "*", "a Loop or a sequence whose length follows from data has no gradient"),
    ("keras/layer_norm", "tf2onnx", "tf2onnx leaves an operator of TensorFlow, Erfc, in the file"),
)


def explained(name, exporter, faults):
    """Split differences into those without a reason, and the reasons of the others."""
    left, reasons = [], []
    for fault in faults:
        reason = next((r for n, e, w, r in _REASONS if n == name and fnmatch.fnmatchcase(exporter, e) and fnmatch.fnmatchcase(fault[2], w)), None)
        if reason:
            reasons.append(reason)
        else:
            left.append(fault)
    return left, sorted(set(reasons))


def refused(name, exporter):
    """Return why a file is refused, if that is known."""
    return next((r for n, e, r in _REFUSED if n == name and fnmatch.fnmatchcase(exporter, e)), None)
