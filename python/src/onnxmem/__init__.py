"""Make neural networks in ONNX files need less memory, and prove it.

    import onnxmem

    planned = onnxmem.optimize("model.onnx", dims={"batch": 8})
    planned.plan.summary.arena_bytes
    onnxmem.verify(planned).valid

The functions drive the native command ``onnxmem``, which comes with this package,
by pipes. They need neither numpy nor onnx, but run and train, which take and return
arrays of numpy. With libonnxmem beside it, ``pack``, ``order`` and ``limit`` of arrays
run in this process. Their keyword arguments are the flags of the command:
``keep_random_order=True`` is ``--keep-random-order``.

Sizes and offsets are bytes. What the keys of plans and results mean is described
in docs/formats.md and docs/formats/ of the project.
"""

from ._calls import Model, Problem, compare, explain, fit, limit, optimize, order, pack, verify
from ._command import Flag, command, version
from ._direct import Certificate, Limited, Ordered, Packed, Pool, Swap
from ._errors import Ended, Error, Failed, NotInstalled, Refused, UsageError
from ._plan import Plan, Planned
from ._record import Record, Result
from ._run import Feed, Inputs, run, train

__all__ = [
    "Certificate",
    "Ended",
    "Error",
    "Failed",
    "Feed",
    "Flag",
    "Inputs",
    "Limited",
    "Model",
    "NotInstalled",
    "Ordered",
    "Packed",
    "Plan",
    "Planned",
    "Pool",
    "Problem",
    "Record",
    "Refused",
    "Result",
    "Swap",
    "UsageError",
    "command",
    "compare",
    "explain",
    "fit",
    "limit",
    "optimize",
    "order",
    "pack",
    "run",
    "train",
    "verify",
    "version",
]
