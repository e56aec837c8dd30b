"""On which side of their kinks the operators of a network are.

Where float32 and float64 disagree on that for a single element (a Relu whose
input is 1e-8), both gradients are right, and they differ. Such data prove
nothing about a rule, so they are not used.
"""

import numpy as np

# From input and output of a node: which piece of the function each element is on.
_SIDES = {
    "Abs": lambda x, y: x > 0,
    "Clip": lambda x, y: x == y,
    "HardSigmoid": lambda x, y: (y > 0).astype(np.int8) + (y < 1),
    "HardSwish": lambda x, y: (x > -3).astype(np.int8) + (x > 3),
    "LeakyRelu": lambda x, y: x > 0,
    "PRelu": lambda x, y: x > 0,
    "Relu": lambda x, y: y > 0,
}


def nodes(model):
    """The nodes of a model that have kinks."""
    return [n for n in model.graph.node if n.op_type in _SIDES]


def tensors(kinked):
    """The names of what such nodes read and make."""
    return sorted({t for n in kinked for t in (n.input[0], n.output[0])})


def disagreements(kinked, a, b):
    """How many elements are on different sides in two runs, each given as arrays by tensor."""
    count = 0
    for n in kinked:
        side, x, y = _SIDES[n.op_type], n.input[0], n.output[0]
        count += int((side(a[x], a[y]) != side(b[x], b[y])).sum())
    return count
