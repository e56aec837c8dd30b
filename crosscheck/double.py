"""A float32 model in float64: what tells which of two results is the exact one."""

import numpy as np
import onnx
import onnx.reference
import onnxruntime


def run(path, given):
    """Return the outputs by name of a model whose float32 tensors are float64, by ONNX Runtime or else by ONNX's evaluator."""
    model = onnx.load(str(path))
    widen(model.graph)
    given = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in given.items()}
    names = [o.name for o in model.graph.output]
    try:
        values = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(names, given)
    except Exception:  # onnxruntime raises many types of its own; it lacks convolutions of float64, for example
        values = onnx.reference.ReferenceEvaluator(model).run(names, given)
    return dict(zip(names, values))


def widen(graph):
    """Make every float32 tensor of a graph and its bodies float64."""
    for tensor in graph.initializer:
        _widen(tensor)
    del graph.value_info[:]
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                widen(body)
            if attribute.HasField("t"):
                _widen(attribute.t)


def _widen(tensor):
    if tensor.data_type == onnx.TensorProto.FLOAT:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
