#!/usr/bin/env python3
"""Run a model in a session of ONNX Runtime, for process.py.

    bench/ortsession.py plain|packed MODEL INPUTS RUNS

INPUTS are names and shapes, such as x=1x3x224x224;y=scalar, which get random values. A packed
session is that of onnxmem_ort. It prints one JSON object, the times of the session's start and
of its fastest run in milliseconds, and then waits until its standard input is closed.
"""

import json
import sys
import time

import harness

TYPES = {"tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(float)": "float32", "tensor(float16)": "float16", "tensor(bool)": "bool"}


def main(way, path, inputs, runs):
    import onnxruntime as ort

    make = ort.InferenceSession
    if way == "packed":
        sys.path[:0] = [str(harness.ROOT / "ort/python/src"), str(harness.ROOT / "python/src")]
        import onnxmem_ort

        make = onnxmem_ort.InferenceSession
    options = ort.SessionOptions()
    options.log_severity_level = 3  # warnings are not errors
    began = time.perf_counter()
    session = make(path, options, providers=["CPUExecutionProvider"])
    done = {"start_ms": 1e3 * (time.perf_counter() - began)}
    fed = drawn(session, inputs)
    times = []
    for i in range(int(runs)):
        began = time.perf_counter()
        session.run(None, fed)
        times.append(1e3 * (time.perf_counter() - began))
        if way == "packed" and i == 0:
            session.wait()  # for its plan
    done["step_ms"] = min(times)
    if way == "packed":
        done.update(mode=session.memory["mode"], arena=session.memory["arena_bytes"])
    print(json.dumps(done), flush=True)
    sys.stdin.read()


def drawn(session, inputs):
    """Draw a session's inputs, of the names and shapes in the text inputs."""
    import numpy as np

    rng = np.random.default_rng(0)
    shapes = dict(text.split("=") for text in inputs.split(";"))
    fed = {}
    for value in session.get_inputs():
        shape = [] if shapes[value.name] == "scalar" else [int(d) for d in shapes[value.name].split("x")]
        kind = np.dtype(TYPES[value.type])
        if kind.kind == "f":
            fed[value.name] = rng.standard_normal(shape, np.float32).astype(kind)
        elif "mask" in value.name or kind.kind == "b":
            fed[value.name] = np.ones(shape, kind)
        else:  # tokens; there are two types of them
            fed[value.name] = rng.integers(*((0, 2) if "type" in value.name else (2, 6)), shape).astype(kind)
    return fed


if __name__ == "__main__":
    main(*sys.argv[1:])
