"""ONNX Runtime: run a model, with or without a profile."""

import dataclasses
import json
import pathlib
import time

import numpy as np
import onnx
import onnxruntime

_KERNEL = "_kernel_time"


@dataclasses.dataclass
class Event:
    """A node that ran: its name, its operator, type and shape of each tensor that it produced."""

    name: str
    op: str
    outputs: list


def run(path, feeds, threads, follow_order=False, profile=None):
    """Run a model; return the outputs by name, and the nodes in the order in which they ran (profile: a path prefix for the trace).

    Optimizations are off: the runtime runs the file's graph. follow_order requests the
    file's order.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Without AVX-512 VNNI, products of bytes saturate, unless this asks for exact ones.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if follow_order:
        options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, feeds)))
    return outputs, _events(session.end_profiling()) if profile else []


def run_exactly(path, feeds):
    """Return the outputs by name of a model with 8-bit products. Without this setting, the runtime's sums of two such
    products saturate at 16 bits on processors that have AVX2 only; the setting requires the runtime's optimizations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def best_time(path, feeds, repeats):
    """Return the minimum of the milliseconds of some runs on one thread, with the runtime's default optimizations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        session.run(None, feeds)
        best = min(best, time.perf_counter() - began)
    return best * 1e3


def session(path):
    """Return a session on one thread that runs the file's graph in the file's order."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def own_graph(path):
    """Return the nodes that the runtime runs for the file, including those that it inserts."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.log_severity_level = 3
    own = pathlib.Path(path).with_suffix(".own.onnx")
    options.optimized_model_filepath = str(own)
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return list(onnx.load(own, load_external_data=False).graph.node)
    finally:
        own.unlink(missing_ok=True)


def save(path, target, level):
    """Let the runtime optimize the file at a level, such as ALL, and save it at target, with its data beside it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.log_severity_level = 3
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", pathlib.Path(target).with_suffix(".data").name)
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _events(trace):
    """Return the kernels of a trace in the order in which they began."""
    with open(trace, encoding="utf-8") as f:
        records = json.load(f)
    pathlib.Path(trace).unlink()
    kernels = [r for r in records if r.get("cat") == "Node" and r["name"].endswith(_KERNEL)]
    kernels.sort(key=lambda r: r["ts"])  # stable: within one microsecond, the order of the records
    return [Event(r["name"][: -len(_KERNEL)], r["args"]["op_name"], [_shape(o) for o in r["args"]["output_type_shape"]]) for r in kernels]


def _shape(entry):
    ((elem, shape),) = entry.items()
    return {"float": "float32", "double": "float64"}.get(elem, elem), tuple(shape)


def identical(a, b):
    """Report whether two results have the same bytes."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(identical, a, b))
    if not isinstance(a, np.ndarray):
        return type(a) is type(b) and a == b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes()


def telling(value):
    """Report whether an array can tell a right result from a wrong one: it is not
    empty, finite, and not constant."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return True
    if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value.astype(np.float32)).all():
        return False
    return value.size == 1 or value.size > 1 and bool((value != value.flat[0]).any())
