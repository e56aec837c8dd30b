"""Draw random inputs that a model accepts; the same names give the same inputs."""

import zlib

import numpy as np
import onnx

# Operators that keep every element in place, or at least its value: token ids reach
# their table through these.
_CARRIERS = {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Clip", "Where", "Add"}

_SMALL = 5  # range of integers that index no table, such as a number of steps


def declared(graph):
    """Map the names of inputs to their declared dimensions: int, symbol, or None. Initializers do not count as inputs."""
    return {v.name: [_dim(d) for d in v.type.tensor_type.shape.dim] for v in inputs(graph)}


def inputs(graph):
    """Return the graph's inputs that are not initializers."""
    known = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return [v for v in graph.input if v.name not in known]


def make(graph, shapes, scale=1.0, seed=0):
    """Return an array of the given shape for each input; non-integers are multiplied by scale."""
    feeds = {}
    for value in inputs(graph):
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = shapes.get(value.name)
        if shape is None:
            raise ValueError(f'input "{value.name}" has no shape')
        feeds[value.name] = _array(graph, value.name, dtype, shape, scale, seed)
    return feeds


def ramp(graph, shapes):
    """Return arange(n) / n in every input's shape, as ONNX's light networks expect."""
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
    """Return the length of the shortest table that an input's values index."""
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
