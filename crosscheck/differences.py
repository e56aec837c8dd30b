"""Compare gradients with central differences of the loss."""

import numpy as np

DIRECTIONS = 5
CHANGES = (3e-3, 1e-3, 3e-4)  # relative change of the loss that a step should cause
LONGEST = 1e-2  # step, in units of each parameter's size


def errors(loss, at, values, gradients):
    """Return the relative errors of the gradients along random directions.

    loss computes the loss for changed parameters; at is the current loss; values and
    gradients are arrays by parameter. A direction moves every element of a parameter
    by a random fraction of the parameter's root mean square. Half of the elements
    that would move downhill by the gradient move the other way: otherwise the slope
    would be a small difference of large terms, lost in the rounding of a float32
    loss. We try three lengths of the step and use the two neighbours that agree best
    with each other, regardless of the gradients: long steps suffer from curvature and
    kinks, short ones from rounding.
    """
    rng = np.random.default_rng(1)
    found = []
    for _ in range(DIRECTIONS):
        direction = {name: _direction(rng, values[name], gradients[name]) for name in gradients}
        expected = sum(float(np.vdot(gradients[n].astype(np.float64), direction[n])) for n in gradients)
        lengths = [min(LONGEST, change * abs(at) / max(abs(expected), 1e-30)) for change in CHANGES]
        slopes = [_slope(loss, values, direction, h) for h in lengths]
        best = min(range(len(slopes) - 1), key=lambda i: abs(slopes[i] - slopes[i + 1]))
        measured = (slopes[best] + slopes[best + 1]) / 2
        found.append(abs(measured - expected) / max(abs(measured), abs(expected), 1e-30))
    return found


def _direction(rng, value, gradient):
    size = float(np.sqrt(np.mean(np.square(value, dtype=np.float64)))) or 1e-2
    drawn = size * rng.standard_normal(value.shape, dtype=np.float32)
    turned = (drawn * gradient < 0) & (rng.random(value.shape, dtype=np.float32) < 0.5)
    return np.where(turned, -drawn, drawn)


def _slope(loss, values, direction, h):
    ends = []
    for sign in (1, -1):
        ends.append(loss({n: values[n] + np.float32(sign * h) * d for n, d in direction.items()}))
    return (ends[0] - ends[1]) / (2 * h)
