"""Quantize networks to 8 bits with ONNX Runtime's quantizer."""

import logging

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from . import feeds, runtime

_EXAMPLES = 4  # random inputs that calibrate the ranges


def write(source, around, integer):
    """Write a network whose shapes are fixed with int8 activations and weights (per channel), in two forms.

    around keeps each operator in float32, between DequantizeLinear and QuantizeLinear
    (QDQ), and so are the network's inputs and outputs. integer has operators on int8,
    QLinearConv and its kin, and its inputs and outputs are int8, as on a microcontroller.
    """
    folded = integer.with_suffix(".folded.onnx")
    runtime.save(source, folded, "BASIC")  # folds the BatchNormalization of convolutions
    model = onnx.load(folded)
    fold(model.graph)
    onnx.save(model, folded)  # with its data inside
    logging.disable(logging.WARNING)  # it recommends QDQ and preparations that fold has made
    for target, form in ((around, QuantFormat.QDQ), (integer, QuantFormat.QOperator)):
        quantize_static(folded, target, _Examples(folded), quant_format=form, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, per_channel=True)
    logging.disable(logging.NOTSET)
    for path in (folded, folded.with_suffix(".data")):
        path.unlink(missing_ok=True)
    model = onnx.load(integer)
    bare(model.graph)
    onnx.save(model, integer)


class _Examples(CalibrationDataReader):
    """Random inputs of a network."""

    def __init__(self, path):
        graph = onnx.load(path).graph
        shapes = feeds.declared(graph)
        self.left = iter([feeds.make(graph, shapes, seed=i) for i in range(_EXAMPLES)])

    def get_next(self):
        return next(self.left, None)


def fold(graph):
    """Fold each BatchNormalization of a Gemm with transB into its weights, as ONNX Runtime does for Conv only."""
    makers = {n.output[0]: n for n in graph.node if n.op_type == "Gemm" and any(a.name == "transB" and a.i for a in n.attribute)}
    stored = {t.name: t for t in graph.initializer}
    for norm in [n for n in graph.node if n.op_type == "BatchNormalization" and n.input[0] in makers]:
        gemm = makers[norm.input[0]]
        weights, biases = (stored[name] for name in gemm.input[1:3])
        scale, shift, mean, variance = (onnx.numpy_helper.to_array(stored[name]) for name in norm.input[1:5])
        factor = scale / np.sqrt(variance + next(a.f for a in norm.attribute if a.name == "epsilon"))
        for tensor, value in ((weights, lambda w: w * factor[:, None]), (biases, lambda b: (b - mean) * factor + shift)):
            tensor.CopyFrom(onnx.numpy_helper.from_array(value(onnx.numpy_helper.to_array(tensor)), tensor.name))
        gemm.output[0] = norm.output[0]
        graph.node.remove(norm)
        for name in norm.input[1:5]:
            graph.initializer.remove(stored[name])


def bare(graph):
    """Remove the nodes that quantize the inputs and dequantize the outputs."""
    ends = {v.name: (v, "QuantizeLinear") for v in graph.input} | {v.name: (v, "DequantizeLinear") for v in graph.output}
    for node in list(graph.node):
        for at, inner in ((node.input[0], node.output[0]), (node.output[0], node.input[0])):
            value, op = ends.get(at, (None, ""))
            if node.op_type == op:
                value.name, value.type.tensor_type.elem_type = inner, onnx.TensorProto.INT8
                graph.node.remove(node)
