"""Whisper's encoder (Radford et al. 2022) in its smallest size, written node by node, as transformers exports it."""

import numpy as np
import onnx
from onnx import TensorProto, helper

_LAYERS, _WIDE, _HEADS, _INNER, _MELS, _FRAMES = 4, 384, 6, 1536, 80, 3000


class _Writer:
    """Collects the nodes and the weights of a graph."""

    def __init__(self):
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(1)

    def weight(self, name, *shape):
        self.weights.append(onnx.numpy_helper.from_array((self.random.standard_normal(shape) * 0.02).astype("f"), name))
        return name

    def constant(self, name, value):
        self.weights.append(onnx.numpy_helper.from_array(np.array(value), name))
        return name

    def node(self, op, name, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def gelu(self, name, x):
        inner = self.node("Erf", f"{name}.erf", self.node("Div", f"{name}.div", x, "sqrt2"))
        return self.node("Mul", name, self.node("Mul", f"{name}.mul", x, self.node("Add", f"{name}.add", inner, "one")), "half")

    def linear(self, name, x, rows, columns, bias=True):
        y = self.node("MatMul", f"{name}.matmul", x, self.weight(f"{name}.weight", rows, columns))
        return self.node("Add", name, y, self.weight(f"{name}.bias", columns)) if bias else y

    def norm(self, name, x):
        return self.node("LayerNormalization", name, x, self.weight(f"{name}.scale", _WIDE), self.weight(f"{name}.shift", _WIDE), axis=-1)

    def heads(self, name, x, perm):
        return self.node("Transpose", name, self.node("Reshape", f"{name}.heads", x, "split"), perm=perm)


def encoder(path):
    """Write the encoder: 30 seconds of sound, 80 mels of 3000 frames, become 1500 tokens."""
    w = _Writer()
    for name, value in (("sqrt2", np.float32(2**0.5)), ("one", np.float32(1)), ("half", np.float32(0.5)), ("scale", np.float32((_WIDE // _HEADS) ** -0.5))):
        w.constant(name, value)
    w.constant("split", np.array([1, _FRAMES // 2, _HEADS, _WIDE // _HEADS], np.int64))
    w.constant("join", np.array([1, _FRAMES // 2, _WIDE], np.int64))
    x = "mels"
    for k, (channels, stride) in enumerate(((_MELS, 1), (_WIDE, 2)), 1):
        x = w.node("Conv", f"conv{k}", x, w.weight(f"conv{k}.weight", _WIDE, channels, 3), w.weight(f"conv{k}.bias", _WIDE), kernel_shape=[3], pads=[1, 1], strides=[stride])
        x = w.gelu(f"gelu{k}", x)
    x = w.node("Add", "embedded", w.node("Transpose", "tokens", x, perm=[0, 2, 1]), w.weight("positions", _FRAMES // 2, _WIDE))
    for k in range(_LAYERS):
        n = f"layer{k}"
        y = w.norm(f"{n}.norm1", x)
        q = w.heads(f"{n}.q", w.node("Mul", f"{n}.query.scaled", w.linear(f"{n}.query", y, _WIDE, _WIDE), "scale"), [0, 2, 1, 3])
        key = w.heads(f"{n}.k", w.linear(f"{n}.key", y, _WIDE, _WIDE, bias=False), [0, 2, 3, 1])
        v = w.heads(f"{n}.v", w.linear(f"{n}.value", y, _WIDE, _WIDE), [0, 2, 1, 3])
        y = w.node("MatMul", f"{n}.mixed", w.node("Softmax", f"{n}.softmax", w.node("MatMul", f"{n}.scores", q, key), axis=-1), v)
        y = w.node("Reshape", f"{n}.joined", w.node("Transpose", f"{n}.back", y, perm=[0, 2, 1, 3]), "join")
        x = w.node("Add", f"{n}.sum1", x, w.linear(f"{n}.out", y, _WIDE, _WIDE))
        y = w.gelu(f"{n}.gelu", w.linear(f"{n}.fc1", w.norm(f"{n}.norm2", x), _WIDE, _INNER))
        x = w.node("Add", f"{n}.sum2", x, w.linear(f"{n}.fc2", y, _INNER, _WIDE))
    w.norm("encoded", x)
    inputs = [helper.make_tensor_value_info("mels", TensorProto.FLOAT, [1, _MELS, _FRAMES])]
    outputs = [helper.make_tensor_value_info("encoded", TensorProto.FLOAT, [1, _FRAMES // 2, _WIDE])]
    model = helper.make_model(helper.make_graph(w.nodes, "whisper_tiny encoder", inputs, outputs, w.weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)
