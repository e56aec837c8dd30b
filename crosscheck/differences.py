"""Compare gradients with central differences of the loss."""

import numpy as np

DIRECTIONS = 5
CHANGES = (3e-3, 1e-3, 3e-4)  # of the loss, relative, that a step should make
LONGEST = 1e-2  # step, in units of each parameter's size


def errors(loss, at, values, gradients):
    """The relative errors of the gradients along random directions.

    loss gives the loss for changed parameters, at is what it is now; values and gradients are arrays
    by parameter. A direction moves every element of a parameter by a random
    part of the parameter's root mean square, and half of those that would go
    downhill by the gradient the other way: else the slope would be a small
    difference of large parts, lost in the rounding of a float32 loss. Of
    three lengths of a step the two neighbours count that agree best with each
    other, whatever the gradients say: longer ones suffer from curvature and
    kinks, shorter ones from rounding.
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
