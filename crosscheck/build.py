"""Build networks that neither the zoo nor the command provides, with onnx.helper.

Each function returns a model without symbolic dimensions; weights are drawn later.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

_OPSET = 18


class Builder:
    """Collects nodes and initializers; tensors are names."""

    def __init__(self):
        self.nodes, self.initializers, self.inputs = [], [], []

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, name, *shape):
        """Add a parameter, zero for now."""
        self.initializers.append(onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def constant(self, value, dtype=np.int64):
        name = f"constant{len(self.initializers)}"
        self.initializers.append(onnx.numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(self, op, *inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"{op}_{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def model(self, output):
        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", self.inputs, [made], self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)

    # Parts that several networks share.

    def reshape(self, x, *shape):
        return self.op("Reshape", x, self.constant(shape))

    def transpose(self, x, *perm):
        return self.op("Transpose", x, perm=perm)

    def scaled(self, x, factor):
        return self.op("Mul", x, self.constant(factor, np.float32))

    def dense(self, x, name, rows, columns, bias=True):
        y = self.op("MatMul", x, self.weight(f"{name}.weight", rows, columns))
        return self.op("Add", y, self.weight(f"{name}.bias", columns)) if bias else y

    def layer_norm(self, x, name, width):
        return self.op("LayerNormalization", x, self.weight(f"{name}.weight", width), self.weight(f"{name}.bias", width), axis=-1)

    def conv(self, x, name, channels, filters, kernel, bias=True, **attributes):
        w = self.weight(f"{name}.weight", filters, channels // attributes.get("group", 1), kernel, kernel)
        return self.op("Conv", x, w, *([self.weight(f"{name}.bias", filters)] if bias else []), kernel_shape=[kernel, kernel], **attributes)

    def batch_norm(self, x, name, channels):
        parts = [self.weight(f"{name}.{part}", channels) for part in ("weight", "bias", "running_mean", "running_var")]
        return self.op("BatchNormalization", x, *parts, epsilon=1e-5, momentum=0.9)

    def heads(self, x, batch, length, heads, width):
        return self.transpose(self.reshape(x, batch, length, heads, width), 0, 2, 1, 3)


def cnn(batch=4, size=8, classes=3):
    """Two convolutions with BatchNormalization, one with a bias, pooling, a dense layer."""
    b = Builder()
    x = b.input("image", [batch, 1, size, size])
    x = b.op("Relu", b.batch_norm(b.conv(x, "conv1", 1, 8, 3, bias=False, pads=[1] * 4), "bn1", 8))
    x = b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = b.op("Relu", b.batch_norm(b.conv(x, "conv2", 8, 12, 3, pads=[1] * 4), "bn2", 12))
    x = b.op("Flatten", b.op("GlobalAveragePool", x))
    return b.model(b.op("Gemm", x, b.weight("fc.weight", classes, 12), b.weight("fc.bias", classes), transB=1))


def mlp(batch=6, features=5, outputs=3, last=""):
    """Two dense layers; last: an operator at the end."""
    b = Builder()
    x = b.op("Tanh", b.dense(b.input("x", [batch, features]), "fc1", features, 8))
    x = b.dense(b.layer_norm(x, "norm", 8), "fc2", 8, outputs)
    return b.model(b.op(last, x) if last else x)


def tagger(batch=2, length=5, classes=4):
    """An embedding and a dense layer for each token: logits of rank 3."""
    b = Builder()
    ids = b.input("ids", [batch, length], TensorProto.INT64)
    x = b.op("Gather", b.weight("table", 11, 8), ids)
    return b.model(b.dense(b.op("Tanh", x), "fc", 8, classes))


def segmenter(batch=2, size=6, classes=3):
    """Convolutions that keep the size: logits of rank 4."""
    b = Builder()
    x = b.op("Sigmoid", b.conv(b.input("image", [batch, 2, size, size]), "conv1", 2, 6, 3, pads=[1] * 4))
    return b.model(b.conv(x, "conv2", 6, classes, 1))


def swin(batch=2, size=32, patch=4, width=24, heads=3, window=4, classes=10):
    """Two stages of two blocks of windowed attention, the second shifted, with relative positions (Liu et al. 2021)."""
    b = Builder()
    x = b.conv(b.input("image", [batch, 3, size, size]), "patch", 3, width, patch, strides=[patch, patch])
    side = size // patch
    x = b.layer_norm(b.transpose(x, 0, 2, 3, 1), "patch.norm", width)
    for stage in range(2):
        for block in range(2):
            name, shift = f"stage{stage}.block{block}", window // 2 if block and side > window else 0
            x = _window_block(b, x, name, batch, side, width, heads, window, shift)
        if stage == 0:  # merge 2x2 patches
            x = b.reshape(x, batch, side // 2, 2, side // 2, 2, width)
            x = b.reshape(b.transpose(x, 0, 1, 3, 4, 2, 5), batch, side // 2, side // 2, 4 * width)
            x = b.dense(b.layer_norm(x, "merge.norm", 4 * width), "merge", 4 * width, 2 * width, bias=False)
            side, width, heads = side // 2, 2 * width, 2 * heads
    x = b.op("ReduceMean", b.layer_norm(x, "norm", width), b.constant([1, 2]), keepdims=0)
    return b.model(b.dense(x, "head", width, classes))


def _roll(b, x, shift, axis):
    """Return x rotated: its first `shift` positions move to the end."""
    first = b.op("Slice", x, b.constant([0]), b.constant([shift]), b.constant([axis]))
    rest = b.op("Slice", x, b.constant([shift]), b.constant([np.iinfo(np.int64).max]), b.constant([axis]))
    return b.op("Concat", rest, first, axis=axis)


def _window_block(b, x, name, batch, side, width, heads, window, shift):
    count, length, head = side // window, window * window, width // heads
    y = b.layer_norm(x, f"{name}.norm1", width)
    if shift:
        y = _roll(b, _roll(b, y, shift, 1), shift, 2)
    y = b.transpose(b.reshape(y, batch, count, window, count, window, width), 0, 1, 3, 2, 4, 5)
    y = b.dense(b.reshape(y, batch * count * count, length, width), f"{name}.qkv", width, 3 * width)
    y = b.transpose(b.reshape(y, batch * count * count, length, 3, heads, head), 2, 0, 3, 1, 4)
    q, k, v = (b.op("Gather", y, b.constant(i), axis=0) for i in range(3))
    scores = b.op("MatMul", b.scaled(q, head**-0.5), b.transpose(k, 0, 1, 3, 2))
    place = np.stack(np.meshgrid(np.arange(window), np.arange(window), indexing="ij")).reshape(2, -1)
    apart = place[:, :, None] - place[:, None, :] + window - 1
    table = b.weight(f"{name}.relative_position_bias_table", (2 * window - 1) ** 2, heads)
    bias = b.op("Gather", table, b.constant((apart[0] * (2 * window - 1) + apart[1]).reshape(-1)))
    scores = b.op("Add", scores, b.op("Unsqueeze", b.transpose(b.reshape(bias, length, length, heads), 2, 0, 1), b.constant([0])))
    if shift:
        region = np.zeros((side, side), np.int64)
        for i, rows in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
            for j, columns in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
                region[rows, columns] = 3 * i + j
        region = region.reshape(count, window, count, window).transpose(0, 2, 1, 3).reshape(count * count, 1, 1, length)
        mask = np.where(region == region.transpose(0, 1, 3, 2), 0.0, -100.0)
        scores = b.reshape(scores, batch, count * count, heads, length, length)
        scores = b.op("Where", b.constant(mask == 0, np.bool_), scores, b.constant(-100.0, np.float32))
        scores = b.reshape(scores, batch * count * count, heads, length, length)
    y = b.transpose(b.op("MatMul", b.op("Softmax", scores, axis=-1), v), 0, 2, 1, 3)
    y = b.dense(b.reshape(y, batch * count * count, length, width), f"{name}.proj", width, width)
    y = b.transpose(b.reshape(y, batch, count, count, window, window, width), 0, 1, 3, 2, 4, 5)
    y = b.reshape(y, batch, side, side, width)
    if shift:
        y = _roll(b, _roll(b, y, side - shift, 1), side - shift, 2)
    x = b.op("Add", x, y)
    y = b.dense(b.layer_norm(x, f"{name}.norm2", width), f"{name}.fc1", width, 4 * width)
    half = b.scaled(y, 0.5)
    y = b.op("Mul", half, b.op("Add", b.op("Erf", b.op("Div", y, b.constant(2**0.5, np.float32))), b.constant(1, np.float32)))
    return b.op("Add", x, b.dense(y, f"{name}.fc2", 4 * width, width))


def t5(batch=2, source=9, target=7, width=32, heads=4, ff=64, vocab=50, layers=2):
    """Encoder and decoder with root-mean-square normalization, relative position buckets, gated GELU and one table for
    source, target and logits (Raffel et al. 2020)."""
    b = Builder()
    src = b.input("input_ids", [batch, source], TensorProto.INT64)
    tgt = b.input("decoder_input_ids", [batch, target], TensorProto.INT64)
    table = b.weight("shared.weight", vocab, width)
    head = width // heads

    def norm(x, name):
        variance = b.op("ReduceMean", b.op("Pow", x, b.constant(2.0, np.float32)), b.constant([-1]), keepdims=1)
        inverse = b.op("Sqrt", b.op("Add", variance, b.constant(1e-6, np.float32)))
        return b.op("Mul", b.weight(f"{name}.weight", width), b.op("Div", x, inverse))

    def positions(name, length, causal):
        apart = np.arange(length)[None, :] - np.arange(length)[:, None]
        buckets = np.clip(apart, -7, 0) + 7 if causal else np.clip(apart, -7, 7) + 7
        bias = b.op("Gather", b.weight(f"{name}.relative_attention_bias.weight", 15, heads), b.constant(buckets))
        bias = b.op("Unsqueeze", b.transpose(bias, 2, 0, 1), b.constant([0]))
        return b.op("Add", bias, b.constant(np.where(apart > 0, -1e9, 0.0), np.float32)) if causal else bias

    def attention(x, memory, name, length, kept, bias=None):
        q = b.heads(b.dense(x, f"{name}.q", width, width, bias=False), batch, length, heads, head)
        k = b.heads(b.dense(memory, f"{name}.k", width, width, bias=False), batch, kept, heads, head)
        v = b.heads(b.dense(memory, f"{name}.v", width, width, bias=False), batch, kept, heads, head)
        scores = b.op("MatMul", q, b.transpose(k, 0, 1, 3, 2))
        y = b.op("MatMul", b.op("Softmax", b.op("Add", scores, bias) if bias else scores, axis=-1), v)
        return b.dense(b.reshape(b.transpose(y, 0, 2, 1, 3), batch, length, width), f"{name}.o", width, width, bias=False)

    def feed_forward(x, name):
        y = b.dense(x, f"{name}.wi_0", width, ff, bias=False)
        inner = b.scaled(b.op("Add", y, b.scaled(b.op("Mul", b.op("Mul", y, y), y), 0.044715)), (2 / np.pi) ** 0.5)
        gelu = b.op("Mul", b.scaled(y, 0.5), b.op("Add", b.op("Tanh", inner), b.constant(1, np.float32)))
        return b.dense(b.op("Mul", gelu, b.dense(x, f"{name}.wi_1", width, ff, bias=False)), f"{name}.wo", ff, width, bias=False)

    def add(x, name, part):
        return b.op("Add", x, part(norm(x, f"{name}.norm")))

    x, bias = b.op("Gather", table, src), positions("encoder", source, False)
    for i in range(layers):
        name = f"encoder.{i}"
        x = add(x, f"{name}.0", lambda y: attention(y, y, f"{name}.self", source, source, bias))
        x = add(x, f"{name}.1", lambda y: feed_forward(y, f"{name}.ff"))
    memory = norm(x, "encoder.final")
    x, bias = b.op("Gather", table, tgt), positions("decoder", target, True)
    for i in range(layers):
        name = f"decoder.{i}"
        x = add(x, f"{name}.0", lambda y: attention(y, y, f"{name}.self", target, target, bias))
        x = add(x, f"{name}.1", lambda y: attention(y, memory, f"{name}.cross", target, source))
        x = add(x, f"{name}.2", lambda y: feed_forward(y, f"{name}.ff"))
    x = b.scaled(norm(x, "decoder.final"), width**-0.5)
    return b.model(b.op("MatMul", x, b.transpose(table, 1, 0)))


def recurrent(op, batch=3, length=6, width=10, hidden=8, classes=7, gates=4, direction="bidirectional", **attributes):
    """An embedding, a bidirectional recurrent operator, a unidirectional one, a dense layer."""
    b = Builder()
    x = b.op("Gather", b.weight("table", 20, width), b.input("ids", [length, batch], TensorProto.INT64))
    for i, (side, directions) in enumerate(((direction, 2), ("forward", 1))):
        weights = [b.weight(f"r{i}.{n}", directions, *s) for n, s in (("w", (gates * hidden, width)), ("r", (gates * hidden, hidden)), ("b", (2 * gates * hidden,)))]
        y = b.op(op, x, *weights, outputs=2, hidden_size=hidden, direction=side, **attributes)[0]
        x = b.reshape(b.transpose(y, 0, 2, 1, 3), length, batch, directions * hidden)
        width = directions * hidden
    return b.model(b.dense(x, "fc", width, classes))


def lstm():
    return recurrent("LSTM")


def lstm_long():
    """More steps than are unrolled for training: a Scan."""
    return recurrent("LSTM", length=12)


def gru_long():
    return recurrent("GRU", length=12, gates=3)


def gru():
    return recurrent("GRU", gates=3, linear_before_reset=1)


def rnn():
    return recurrent("RNN", gates=1)
