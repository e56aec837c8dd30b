#!/usr/bin/env python3
"""Compare products, convolutions and whole models with ONNX Runtime on one thread.

    bench/kernels.py [--models] [--level avx2] [--seconds 0.2]

For products and convolutions (those of ResNet-50 and BERT-base, and square ones) it
prints the GFLOP/s of the best of many runs, which other load on the machine affects
least; both sides pack constant weights beforehand. For models of the zoo it prints
the processor time of a step, the mean of 20, which other load hardly affects. Needs
onnx, onnxruntime and numpy: "crosscheck/run bench/kernels.py" provides them.
"""

import argparse
import os
import re
import resource
import subprocess
import time

import harness
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MODELS = ("resnet50-b1", "bert_base-b1", "mobilenet_v2-dyn", "vit_b_16-b1", "unet-b1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", action="store_true", help="whole models, too")
    parser.add_argument("--level", default="avx2", help="micro-kernels: plain, avx2, avx512 (default avx2)")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each kernel (default 0.2)")
    args = parser.parse_args()
    kernels(args)
    if args.models:
        models(args)


def kernels(args):
    """Print one row for each benchmark of package gemm."""
    print(f"<!-- table: kernels/{args.level} -->\n")
    harness.head("product (rows x columns x depth), convolution", "ours", "ONNX Runtime", "ratio")
    out = subprocess.run(
        ["go", "test", "./vm/internal/gemm", "-run", "^$", "-bench", f"(Product|Convolution)/level={args.level}/", "-benchtime", f"{args.seconds}s"],
        cwd=harness.ROOT, check=True, capture_output=True, text=True).stdout
    for name, rate in re.findall(r"^Benchmark(\S+?)(?:-\d+)?\s.*?([\d.]+) GFLOP/s", out, re.M):
        if m := re.search(r"size=(\d+)x(\d+)x(\d+)/packed=B", name):
            rows, columns, depth = map(int, m.groups())
            theirs = product(rows, columns, depth, args.seconds)
            label = f"{rows} x {columns} x {depth}"
        elif m := re.search(r"in=(\d+)x(\d+)/out=(\d+)/kernel=(\d+)/stride=(\d+)", name):
            shape = tuple(map(int, m.groups()))
            theirs = convolution(*shape, args.seconds)
            label = "{}x{} to {}, {k}x{k}, stride {}".format(shape[0], shape[1], shape[2], shape[4], k=shape[3])
        else:
            continue
        harness.row(label, f"{float(rate):.1f}", f"{theirs:.1f}", f"{theirs / float(rate):.2f}")


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def rate(op, attributes, data, weights, out, products, seconds):
    """Return the GFLOP/s of the best run of one node."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "w"], ["y"], **attributes)], "g", [info("x", TensorProto.FLOAT, data)],
        [info("y", TensorProto.FLOAT, out)], [numpy_helper.from_array(np.random.rand(*weights).astype("f"), "w")])
    s = session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString())
    x = {"x": np.random.rand(*data).astype("f")}
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        s.run(None, x)
        best = min(best, time.perf_counter() - start)
    return 2 * products / best / 1e9


def product(m, n, k, seconds):
    return rate("MatMul", {}, (m, k), (k, n), (m, n), m * n * k, seconds)


def convolution(channels, size, out, kernel, stride, seconds):
    pad = kernel // 2
    to = (size + 2 * pad - kernel) // stride + 1
    return rate(
        "Conv", {"pads": [pad] * 4, "strides": [stride] * 2}, (1, channels, size, size), (out, channels, kernel, kernel),
        (1, out, to, to), out * channels * kernel * kernel * to * to, seconds)


def models(args):
    print("\n<!-- table: kernels/models -->\n")
    harness.head("model", "ms", "`--pack=no`", "ONNX Runtime", "ratio")
    test = harness.ROOT / "build/bench/vm.test"
    test.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "test", "-c", "-o", test, "./vm"], cwd=harness.ROOT, check=True)
    folder = harness.zoo(harness.ROOT / "build/bench", *MODELS)
    for name in MODELS:
        packed, plain = (ours(test, folder, name, pack) for pack in ("yes", "no"))
        theirs = runtime(folder / f"{name}.onnx")
        harness.row(name, f"{packed:.1f}", f"{plain:.1f}", f"{theirs:.1f}", f"{packed / theirs:.2f}")


def ours(test, folder, name, pack, few=2, many=22):
    """Subtract two runs of different length, which leaves out the work before the first step."""
    def spent(steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [test, "-test.run", "^$", "-test.bench", f"Step/model={name}/pack={pack}$", "-test.benchtime", f"{steps}x"],
            cwd=harness.ROOT / "vm", check=True, capture_output=True, env=os.environ | {"ONNXMEM_ZOO": str(folder.resolve())})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (spent(many) - spent(few)) / (many - few) * 1e3


def runtime(file, steps=20):
    s = session(str(file))
    inputs = {}
    for i in s.get_inputs():
        shape = [n if isinstance(n, int) else 1 for n in i.shape]
        inputs[i.name] = np.random.rand(*shape).astype("f") if i.type == "tensor(float)" else np.ones(shape, np.int64)
    for _ in range(2):
        s.run(None, inputs)
    start = time.process_time()
    for _ in range(steps):
        s.run(None, inputs)
    return (time.process_time() - start) / steps * 1e3


if __name__ == "__main__":
    main()
