"""Determine on which side of its kinks each operator of a network is.

If float32 and float64 disagree on the side for a single element (a Relu whose input is
1e-8), both gradients are right, yet they differ. Such data prove nothing about a rule,
so we do not use them.
"""

import numpy as np

# From a node's input and output: the piece of the function on which each element lies.
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
    """Return the nodes of a model that have kinks."""
    return [n for n in model.graph.node if n.op_type in _SIDES]


def tensors(kinked):
    """Return the names of the tensors that such nodes read and make."""
    return sorted({t for n in kinked for t in (n.input[0], n.output[0])})


def disagreements(kinked, a, b):
    """Count the elements on different sides in two runs, each given as arrays by tensor."""
    count = 0
    for n in kinked:
        side, x, y = _SIDES[n.op_type], n.input[0], n.output[0]
        count += int((side(a[x], a[y]) != side(b[x], b[y])).sum())
    return count
