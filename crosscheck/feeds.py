"""Random inputs that a model accepts, the same ones for the same names."""

import zlib

import numpy as np
import onnx

# What keeps every element in its place, or at least its value: token ids reach
# their table through these.
_CARRIERS = {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Clip", "Where", "Add"}

_SMALL = 5  # below this lie integers that index no table, such as a number of steps


def declared(graph):
    """Input name to its declared dimensions: int, symbol, or None. Initializers are no inputs."""
    return {v.name: [_dim(d) for d in v.type.tensor_type.shape.dim] for v in inputs(graph)}


def inputs(graph):
    """The graph's inputs that are no initializers."""
    known = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return [v for v in graph.input if v.name not in known]


def make(graph, shapes, scale=1.0, seed=0):
    """One array for each input, in the shapes given; scale is a factor on what is no integer."""
    feeds = {}
    for value in inputs(graph):
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = shapes.get(value.name)
        if shape is None:
            raise ValueError(f'input "{value.name}" has no shape')
        feeds[value.name] = _array(graph, value.name, dtype, shape, scale, seed)
    return feeds


def ramp(graph, shapes):
    """arange(n) / n in every input's shape: what ONNX's light networks expect."""
    feeds = {}
    for value in inputs(graph):
        count = int(np.prod(shapes[value.name]))
        feeds[value.name] = (np.arange(count, dtype=np.float32) / count).reshape(shapes[value.name])
    return feeds


def _array(graph, name, dtype, shape, scale, seed):
    rng = np.random.default_rng(zlib.crc32(name.encode()) + seed)
    if "mask" in name:
        return np.ones(shape, dtype)
    if np.issubdtype(dtype, np.integer):
        length = _table_length(graph, name)
        low = 2 if length > 2 else 0  # 0 and 1 are padding in some vocabularies
        return rng.integers(low, length, shape).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    return (scale * rng.standard_normal(shape)).astype(dtype)


def _table_length(graph, name):
    """The length of the shortest table that the values of an input index."""
    sizes = {t.name: list(t.dims) for t in graph.initializer}
    shortest, reached = None, {name}
    for node in graph.node:
        if node.op_type == "Gather" and len(node.input) > 1 and node.input[1] in reached and node.input[0] in sizes:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            length = sizes[node.input[0]][axis]
            shortest = length if shortest is None else min(shortest, length)
        elif node.op_type in _CARRIERS and reached.intersection(node.input):
            reached.update(node.output)
    return shortest or _SMALL


def _dim(dim):
    if dim.HasField("dim_value"):
        return dim.dim_value
    return dim.dim_param or None
