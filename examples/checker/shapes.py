"""The types of all tensors of a planned file, and the elements of its small constants."""

import math
import pathlib

import numpy as np
import onnx
from onnx import numpy_helper

SMALL = 64  # elements of constants that may decide what a node does


def types(file, model, dims):
    """Return the number of the element type and the shape of each tensor, with the lengths in dims.

    ONNX's inference gives most of them. The others are those of a run in ONNX Runtime on zeros.
    """
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    graph, found = bound.graph, {}
    for value in graph.input:
        for axis, d in enumerate(value.type.tensor_type.shape.dim):
            if not d.HasField("dim_value"):
                place = f"{value.name}[{axis}]"
                d.dim_value = dims[place if place in dims else d.dim_param]["value"]
    for value in graph.output:  # its declared lengths are names
        value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    for t in graph.sparse_initializer:  # inference knows dense tensors alone
        graph.input.append(onnx.helper.make_tensor_value_info(t.values.name, t.values.data_type, t.dims))
    del graph.sparse_initializer[:]
    inferred = onnx.shape_inference.infer_shapes(bound, data_prop=True).graph
    for value in list(inferred.input) + list(inferred.value_info) + list(inferred.output):
        shape = value.type.tensor_type.shape
        if value.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in shape.dim):
            found[value.name] = (value.type.tensor_type.elem_type, tuple(d.dim_value for d in shape.dim))
    found |= {t.name: (t.data_type, tuple(t.dims)) for t in graph.initializer}
    unknown = [t for n in graph.node for t in n.output if t and t not in found]
    return found | (_run(file, bound, unknown, found) if unknown else {})


def _run(file, model, unknown, found):
    """Run the model on zeros, and return the types of the given tensors."""
    import onnxruntime

    del model.graph.output[:]
    del model.graph.value_info[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=t) for t in unknown)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(pathlib.Path(file).resolve().parent))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    held = {t.name for t in model.graph.initializer}
    zeros = {v.name: np.zeros(found[v.name][1], onnx.helper.tensor_dtype_to_np_dtype(found[v.name][0])) for v in model.graph.input if v.name not in held}
    arrays = session.run(unknown, zeros)
    return {t: (onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for t, a in zip(unknown, arrays) if isinstance(a, np.ndarray)}


def constants(model):
    """Return the elements of small initializers and of the outputs of Constant nodes."""
    tensors = [(t.name, t) for t in model.graph.initializer if not t.external_data]
    tensors += [(n.output[0], n.attribute[0].t) for n in model.graph.node if n.op_type == "Constant" and n.attribute[0].name == "value"]
    return {name: numpy_helper.to_array(t) for name, t in tensors if math.prod(t.dims) <= SMALL}
