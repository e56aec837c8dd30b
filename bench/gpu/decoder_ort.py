"""Write the products of a decoder's step with weights of 4 bits, and run them in ONNX Runtime.

    decoder_ort.py FILE.onnx STEPS PROVIDER [HIDDEN LAYERS]

The graph has one token of HIDDEN (2,048) numbers in float16, and LAYERS (8) layers: four products of attention, without keys and values, and three of a gated feed-forward
part four times as wide, each a MatMulNBits of 4 bits in blocks of 32. Prints a line of JSON: the fastest of STEPS steps in seconds, with input and output on the device.
"""

import json
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

path, steps, provider = sys.argv[1], int(sys.argv[2]), sys.argv[3]
hidden, layers = (int(v) for v in sys.argv[4:6]) if len(sys.argv) > 5 else (2048, 8)
random = np.random.default_rng(1)
nodes, weights = [], []


def weight(name, array):
    weights.append(numpy_helper.from_array(array, name))
    return name


def node(op, output, *inputs, domain="", **attributes):
    nodes.append(helper.make_node(op, inputs, [output], name=output, domain=domain, **attributes))
    return output


def product(output, x, rows, columns):
    """x of `rows` numbers times a matrix of `columns` columns."""
    blocks = rows // 32
    numbers = weight(output + ".weight", random.integers(0, 256, (columns, blocks, 16), dtype=np.uint8))
    scales = weight(output + ".scales", (random.random(columns * blocks) / 8 / rows**0.5).astype(np.float16))
    return node("MatMulNBits", output, x, numbers, scales, domain="com.microsoft", K=rows, N=columns, bits=4, block_size=32)


def norm(output, x):
    return node("SimplifiedLayerNormalization", output, x, weight(output + ".scale", np.ones(hidden, np.float16)), axis=-1, epsilon=1e-5)


x = "x"
for i in range(layers):
    at = f"layer{i}."
    h = norm(at + "norm1", x)
    q, k, v = (product(at + name, h, hidden, hidden) for name in ("q", "k", "v"))
    x = node("Add", at + "sum1", x, product(at + "o", node("Add", at + "qkv", node("Add", at + "qk", q, k), v), hidden, hidden))
    h = norm(at + "norm2", x)
    gate = product(at + "gate", h, hidden, 4 * hidden)
    gate = node("Mul", at + "silu", gate, node("Sigmoid", at + "sigmoid", gate))
    x = node("Add", at + "sum2", x, product(at + "down", node("Mul", at + "gated", gate, product(at + "up", h, hidden, 4 * hidden)), 4 * hidden, hidden))
node("Identity", "y", x)
shape = [1, 1, hidden]
graph = helper.make_graph(
    nodes, "decoder", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT16, shape)], weights
)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)

session = onnxruntime.InferenceSession(path, providers=[provider])
if provider not in session.get_providers():
    sys.exit(f"ONNX Runtime has no {provider}")
device = "cuda" if provider.startswith("CUDA") else "cpu"
binding = session.io_binding()
binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(shape, np.float16), device, 0))
binding.bind_output("y", device, 0)
best = None
for i in range(steps + 3):  # three to warm up
    began = time.perf_counter()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    took = time.perf_counter() - began
    if i >= 3:
        best = took if best is None else min(best, took)
print(json.dumps({"mode": "inference", "seconds": best, "version": onnxruntime.__version__}))
