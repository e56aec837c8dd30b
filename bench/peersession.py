#!/usr/bin/env python3
"""Run a model in ONNX Runtime or OpenVINO, for peers.py.

    bench/peersession.py given MODEL INPUTS GIVEN.npz WANT.npz
    bench/peersession.py onnxruntime|openvino MODEL GIVEN.npz WANT.npz THREADS SECONDS
    bench/peersession.py cores THREADS

given: draw inputs of the shapes INPUTS, such as x=1x3x224x224;y=scalar, and write the outputs
    that ONNX Runtime computes without optimizations.
A session prints one JSON object: milliseconds from the file to the first result, of the
fastest step of the burst, and the largest difference of its outputs from WANT. cores: how much
longer as many processes take by the clock than by their processors, which is 1 on free cores.
"""

import json
import os
import sys
import time

import ortsession


def main(what, *words):
    does = {"given": given, "cores": cores}.get(what, lambda *rest: session(what, *rest))
    print(json.dumps(does(*words)), flush=True)


def cores(threads, seconds=0.05):
    began = time.perf_counter()
    children = [pid for _ in range(int(threads)) if (pid := os.fork() or spin(seconds))]
    for pid in children:
        os.waitpid(pid, 0)
    return {"ratio": (time.perf_counter() - began) / seconds}


def spin(seconds):
    """End the process after some seconds of its processor."""
    while time.process_time() < seconds:
        pass
    os._exit(0)


def given(path, inputs, drawn, want):
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    fed = ortsession.drawn(s, inputs)
    np.savez(drawn, **fed)
    np.savez(want, **{o.name: v for o, v in zip(s.get_outputs(), s.run(None, fed), strict=True)})
    return {}


def session(library, path, drawn, want, threads, seconds):
    import numpy as np

    start = {"onnxruntime": onnxruntime, "openvino": openvino}[library](path, int(threads))
    with np.load(drawn) as arrays:
        fed = dict(arrays)
    began = time.perf_counter()
    run, outputs = start(fed)
    first = run()
    done = {"start": 1e3 * (time.perf_counter() - began)}
    done["error"] = largest(outputs(first), want)
    least = min(timed(run) for _ in range(3))
    steps = max(3, min(2000, int(float(seconds) / least)))
    return done | {"step": 1e3 * min(timed(run) for _ in range(steps))}


def timed(run):
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def onnxruntime(path, threads):
    """Return a function that makes a session with inputs; it returns one that runs, and one that names outputs."""
    import onnxruntime as ort

    def start(fed):
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [o.name for o in s.get_outputs()]
        return lambda: s.run(None, fed), lambda values: dict(zip(names, values, strict=True))

    return start


def openvino(path, threads):
    """The same of OpenVINO, for the shapes of the inputs."""
    import openvino as ov

    core = ov.Core()

    def start(fed):
        model = core.read_model(path)
        model.reshape({name: list(array.shape) for name, array in fed.items()})
        compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1})
        request = compiled.create_infer_request()
        for name, array in fed.items():
            request.set_tensor(name, ov.Tensor(array, shared_memory=True))
        every = [o.get_names() for o in compiled.outputs]

        def outputs(_):
            return {n: request.get_output_tensor(i).data.copy() for i, ns in enumerate(every) for n in ns}

        return request.infer, outputs

    return start


def difference(got, want):
    """Return the largest difference of the arrays of two files, by the largest element of each that is wanted."""
    import numpy as np

    with np.load(got) as arrays:
        return largest(dict(arrays), want)


def largest(got, want):
    import numpy as np

    worst = 0.0
    with np.load(want) as arrays:
        for name, w in arrays.items():
            g = np.asarray(got[name])
            if g.shape != w.shape:
                return float("inf")
            if w.size:
                w, g = w.astype(np.float64), g.astype(np.float64)
                worst = max(worst, float(np.abs(g - w).max() / max(np.abs(w).max(), 1e-30)))
    return worst


if __name__ == "__main__":
    main(*sys.argv[1:])
