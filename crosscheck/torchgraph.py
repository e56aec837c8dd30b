"""Run an ONNX graph in torch, so that autograd can differentiate it.

This is the second opinion on training graphs: it reads the inference model, not the
training graph that onnxmem makes, implements only forward operators, and leaves the
gradients to torch. All floating-point values are float64. BatchNormalization is in
training mode, as in a training graph; the networks have no Dropout.
"""

import numpy as np
import onnx
import onnx.inliner
import torch
import torch.nn.functional as F

OPERATORS = {}


def operator(*names):
    """Register the implementation of operators: a function of the node and its inputs that returns the outputs."""

    def register(function):
        for name in names:
            OPERATORS[name] = function
        return function

    return register


class Node:
    """One invocation: its operator, its attributes by name."""

    def __init__(self, proto, version):
        self.op, self.version, self.outputs = proto.op_type, version, len(proto.output)
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        for name, value in self.attributes.items():
            if isinstance(value, bytes):
                self.attributes[name] = value.decode()

    def get(self, name, otherwise=None):
        return self.attributes.get(name, otherwise)


class Graph:
    """A model, ready to run. values: its initializers by name; they may be replaced."""

    def __init__(self, model):
        self.model = inlined(model)
        self.version = next(o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx"))
        self.values = {t.name: tensor(onnx.numpy_helper.to_array(t)) for t in self.model.graph.initializer}
        self.statistics = {}  # running statistics after the last run, by the names of the old ones

    def run(self, feeds):
        """Run the graph; return every tensor by name."""
        self.statistics = {}
        known = {"": None, **self.values, **{name: tensor(a) for name, a in feeds.items()}}
        for proto in self.model.graph.node:
            if proto.op_type not in OPERATORS:
                raise NotImplementedError(f'node "{proto.name}": torchgraph knows no operator {proto.op_type}')
            inputs = [known[name] for name in proto.input]
            made = OPERATORS[proto.op_type](Node(proto, self.version), *inputs)
            made = made if isinstance(made, (list, tuple)) else [made]
            known.update(zip(proto.output, made))
            if proto.op_type == "BatchNormalization":
                self.statistics.update(zip(proto.input[3:5], made[1:3]))
        return known


def inlined(model):
    """Return the model with its local functions inlined."""
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def tensor(array):
    """Return a torch tensor; floating-point elements become float64."""
    t = torch.from_numpy(np.array(array))
    return t.double() if t.is_floating_point() else t


def numbers(t):
    """Return a small integer tensor as a list, or None."""
    return None if t is None else [int(v) for v in t.reshape(-1)]


# Element by element.

for _name, _function in {
    "Abs": torch.abs, "And": torch.logical_and, "Ceil": torch.ceil, "Cos": torch.cos, "Erf": torch.erf, "Equal": torch.eq,
    "Exp": torch.exp, "Floor": torch.floor, "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Identity": lambda x: x,
    "IsNaN": torch.isnan, "Less": torch.lt, "LessOrEqual": torch.le, "Log": torch.log, "MatMul": torch.matmul,
    "Neg": torch.neg, "Not": torch.logical_not, "Or": torch.logical_or, "Reciprocal": torch.reciprocal, "Relu": torch.relu,
    "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin, "Softplus": F.softplus, "Sqrt": torch.sqrt,
    "Sub": torch.sub, "Mul": torch.mul, "Add": torch.add, "Pow": lambda a, b: torch.pow(a, b.to(a.dtype)),
    "Tanh": torch.tanh, "Where": torch.where, "HardSwish": F.hardswish, "Mish": F.mish,
}.items():
    OPERATORS[_name] = lambda node, *inputs, f=_function: f(*inputs)


@operator("Div")
def _div(node, a, b):
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


@operator("Max", "Min", "Sum")
def _variadic(node, *inputs):
    result = inputs[0]
    for other in inputs[1:]:
        result = {"Max": torch.maximum, "Min": torch.minimum, "Sum": torch.add}[node.op](result, other)
    return result


@operator("LeakyRelu")
def _leaky_relu(node, x):
    return F.leaky_relu(x, node.get("alpha", 0.01))


@operator("PRelu")
def _prelu(node, x, slope):
    return torch.where(x > 0, x, x * slope)


@operator("HardSigmoid")
def _hard_sigmoid(node, x):
    return torch.clamp(node.get("alpha", 0.2) * x + node.get("beta", 0.5), 0, 1)


@operator("Gelu")
def _gelu(node, x):
    return F.gelu(x, approximate=node.get("approximate", "none"))


@operator("Clip")
def _clip(node, x, low=None, high=None):
    low, high = node.get("min", low), node.get("max", high)
    return torch.clamp(x, None if low is None else float(low), None if high is None else float(high))


@operator("Cast")
def _cast(node, x):
    dtype = tensor(np.zeros(0, onnx.helper.tensor_dtype_to_np_dtype(node.get("to")))).dtype
    return x if x.dtype == dtype else x.to(dtype)


@operator("CumSum")
def _cumsum(node, x, axis):
    axis = int(axis)
    if node.get("reverse", 0):
        x = x.flip(axis)
    y = torch.cumsum(x, axis)
    if node.get("exclusive", 0):
        y = y - x
    return y.flip(axis) if node.get("reverse", 0) else y


# Products.


@operator("Gemm")
def _gemm(node, a, b, c=None):
    a = a.T if node.get("transA", 0) else a
    b = b.T if node.get("transB", 0) else b
    y = node.get("alpha", 1.0) * (a @ b)
    return y if c is None else y + node.get("beta", 1.0) * c


@operator("Einsum")
def _einsum(node, *inputs):
    return torch.einsum(node.get("equation"), *inputs)


# Convolution and pooling.


def window(node, x, kernel):
    """Return strides, dilations, begin and end paddings of a convolution or a pooling."""
    rank = x.dim() - 2
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    pads = node.get("pads", [0] * 2 * rank)
    if node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        begins, ends = [], []
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations):
            total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
            begins.append(total // 2 if node.get("auto_pad") == "SAME_UPPER" else total - total // 2)
            ends.append(total - begins[-1])
        pads = begins + ends
    return list(strides), list(dilations), list(pads[:rank]), list(pads[rank:])


def padded(x, begins, ends, value=0.0):
    """Return x with its spatial axes padded."""
    flat = [p for pair in zip(reversed(begins), reversed(ends)) for p in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


@operator("Conv")
def _conv(node, x, w, b=None):
    strides, dilations, begins, ends = window(node, x, w.shape[2:])
    convolution = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[x.dim() - 2]
    return convolution(padded(x, begins, ends), w, b, strides, 0, dilations, node.get("group", 1))


@operator("ConvTranspose")
def _conv_transpose(node, x, w, b=None):
    strides, dilations, begins, ends = window(node, x, w.shape[2:])
    convolution = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[x.dim() - 2]
    y = convolution(x, w, None, strides, 0, 0, node.get("group", 1), dilations)
    y = padded(y, [-p for p in begins], [o - p for o, p in zip(node.get("output_padding", [0] * len(ends)), ends)])
    return y if b is None else y + b.reshape(-1, *[1] * (y.dim() - 2))


def last_window(node, x, kernel, strides, dilations, begins, ends):
    """Return the additional end padding with ceil_mode that makes the last window that begins inside fit."""
    extra = []
    for n, k, s, d, b, e in zip(x.shape[2:], kernel, strides, dilations, begins, ends):
        free = n + b + e - (k - 1) * d - 1
        count = free // s + 1
        if node.get("ceil_mode", 0) and -(-free // s) * s < n + b:
            count = -(-free // s) + 1
        extra.append(max(0, (count - 1) * s - free))
    return extra


@operator("MaxPool")
def _max_pool(node, x):
    kernel = node.get("kernel_shape")
    strides, dilations, begins, ends = window(node, x, kernel)
    extra = last_window(node, x, kernel, strides, dilations, begins, ends)
    pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[x.dim() - 2]
    return pool(padded(x, begins, [e + f for e, f in zip(ends, extra)], -torch.inf), kernel, strides, 0, dilations)


@operator("AveragePool")
def _average_pool(node, x):
    kernel = node.get("kernel_shape")
    strides, dilations, begins, ends = window(node, x, kernel)
    extra = last_window(node, x, kernel, strides, dilations, begins, ends)
    pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[x.dim() - 2]
    counted = torch.ones_like(x)
    if node.get("count_include_pad", 0):
        x, counted = padded(x, begins, ends), padded(counted, begins, ends, 1.0)
        begins, ends = [0] * len(begins), [0] * len(ends)
    reach = [e + f for e, f in zip(ends, extra)]
    return pool(padded(x, begins, reach), kernel, strides) / pool(padded(counted, begins, reach), kernel, strides)


@operator("GlobalAveragePool")
def _global_average_pool(node, x):
    return x.mean(dim=tuple(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def _global_max_pool(node, x):
    return {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}[x.dim() - 2](x, 1)


# Normalization.


@operator("BatchNormalization")
def _batch_normalization(node, x, scale, bias, mean, variance):
    """Run BatchNormalization in training mode. Torch's running variance is unbiased; ONNX uses the population variance."""
    count, momentum = x.numel() // x.shape[1], 1 - node.get("momentum", 0.9)
    new_mean, unbiased = mean.detach().clone(), torch.zeros_like(variance.detach())
    y = F.batch_norm(x, new_mean, unbiased, scale, bias, True, momentum, node.get("epsilon", 1e-5))
    new_variance = (1 - momentum) * variance.detach() + unbiased * (count - 1) / count
    return y, new_mean, new_variance


@operator("LayerNormalization")
def _layer_normalization(node, x, scale, bias=None):
    return F.layer_norm(x, x.shape[node.get("axis", -1):], scale.expand(x.shape[node.get("axis", -1):]), bias, node.get("epsilon", 1e-5))


@operator("InstanceNormalization")
def _instance_normalization(node, x, scale, bias):
    return F.instance_norm(x, weight=scale, bias=bias, eps=node.get("epsilon", 1e-5))


@operator("GroupNormalization")
def _group_normalization(node, x, scale, bias):
    groups = node.get("num_groups")
    if node.version < 21:  # one scale for each group
        scale, bias = (t.repeat_interleave(x.shape[1] // groups) for t in (scale, bias))
    return F.group_norm(x, groups, scale, bias, node.get("epsilon", 1e-5))


@operator("RMSNormalization")
def _rms_normalization(node, x, scale):
    return F.rms_norm(x, x.shape[node.get("axis", -1):], scale, node.get("epsilon", 1e-5))


@operator("LRN")
def _lrn(node, x):
    return F.local_response_norm(x, node.get("size"), node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0))


@operator("Softmax", "LogSoftmax")
def _softmax(node, x):
    function = torch.softmax if node.op == "Softmax" else torch.log_softmax
    if node.version >= 13:
        return function(x, node.get("axis", -1))
    return function(x.flatten(node.get("axis", 1)), -1).reshape(x.shape)


# Reductions.


@operator("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare")
def _reduce(node, x, axes=None):
    axes, keep = node.get("axes", numbers(axes)), bool(node.get("keepdims", 1))
    if not axes and node.get("noop_with_empty_axes", 0):
        return x
    axes = tuple(axes or range(x.dim()))
    if node.op == "ReduceSumSquare":
        return (x * x).sum(axes, keep)
    if node.op == "ReduceL2":
        return torch.linalg.vector_norm(x, 2, axes, keep)
    return {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax, "ReduceMin": torch.amin}[node.op](x, axes, keep)


# Shape and movement.


@operator("Constant")
def _constant(node):
    ((name, value),) = node.attributes.items()
    if name == "value":
        return tensor(onnx.numpy_helper.to_array(value))
    return tensor(np.array(value, np.float32 if "float" in name else np.int64))


@operator("ConstantOfShape")
def _constant_of_shape(node, shape):
    value = node.get("value")
    value = tensor(onnx.numpy_helper.to_array(value)) if value is not None else tensor(np.zeros(1, np.float32))
    return value.reshape(()).expand(numbers(shape))


@operator("Shape")
def _shape(node, x):
    return torch.tensor(x.shape[node.get("start", 0):node.get("end", x.dim())])


@operator("Size")
def _size(node, x):
    return torch.tensor(x.numel())


@operator("Range")
def _range(node, start, limit, delta):
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


@operator("Reshape")
def _reshape(node, x, shape):
    return x.reshape([x.shape[i] if n == 0 and not node.get("allowzero", 0) else n for i, n in enumerate(numbers(shape))])


@operator("Flatten")
def _flatten(node, x):
    axis = node.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


@operator("Squeeze")
def _squeeze(node, x, axes=None):
    axes = node.get("axes", numbers(axes))
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


@operator("Unsqueeze")
def _unsqueeze(node, x, axes=None):
    axes = node.get("axes", numbers(axes))
    for axis in sorted(a % (x.dim() + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


@operator("Transpose")
def _transpose(node, x):
    return x.permute(node.get("perm", list(reversed(range(x.dim())))))


@operator("Concat")
def _concat(node, *inputs):
    return torch.cat(inputs, node.get("axis"))


@operator("Split")
def _split(node, x, sizes=None):
    axis, sizes = node.get("axis", 0), node.get("split", numbers(sizes))
    return torch.split(x, sizes or -(-x.shape[axis] // node.outputs), axis)


@operator("Slice")
def _slice(node, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = node.get("starts", numbers(starts)), node.get("ends", numbers(ends))
    axes = node.get("axes", numbers(axes)) or range(len(starts))
    for start, end, axis, step in zip(starts, ends, axes, numbers(steps) or [1] * len(starts)):
        places = range(x.shape[axis])[start:end if end >= -x.shape[axis] or step > 0 else None:step]
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64))
    return x


@operator("Pad")
def _pad(node, x, pads=None, value=None, axes=None):
    pads, mode = node.get("pads", numbers(pads)), node.get("mode", "constant")
    axes = numbers(axes) or list(range(x.dim()))
    by_axis = {a % x.dim(): (pads[i], pads[i + len(axes)]) for i, a in enumerate(axes)}
    flat = [p for a in reversed(range(x.dim())) for p in by_axis.get(a, (0, 0))]
    if mode == "constant":
        return F.pad(x, flat, value=float(value) if value is not None else node.get("value", 0.0))
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    return F.pad(x, flat, mode={"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode])


@operator("Resize")
def _resize(node, x, roi=None, scales=None, sizes=None):
    mode, coordinates = node.get("mode", "nearest"), node.get("coordinate_transformation_mode", "half_pixel")
    size = numbers(sizes)[2:] if sizes is not None else [int(n * float(s)) for n, s in zip(x.shape[2:], scales[2:])]
    if mode == "nearest" and all(new % old == 0 for new, old in zip(size, x.shape[2:])):
        return F.interpolate(x, size, mode="nearest")
    if mode == "linear" and x.dim() == 4 and coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return F.interpolate(x, size, mode="bilinear", align_corners=coordinates == "align_corners")
    raise NotImplementedError(f"Resize {mode}, {coordinates}, {list(x.shape[2:])} to {size}")


@operator("Expand")
def _expand(node, x, shape):
    return x.expand(torch.broadcast_shapes(x.shape, numbers(shape)))


@operator("Tile")
def _tile(node, x, repeats):
    return x.repeat(numbers(repeats))


@operator("Gather")
def _gather(node, x, indices):
    axis = node.get("axis", 0) % x.dim()
    flat = torch.where(indices < 0, indices + x.shape[axis], indices).reshape(-1)
    return x.index_select(axis, flat).reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]])


@operator("GatherElements")
def _gather_elements(node, x, indices):
    axis = node.get("axis", 0)
    return torch.gather(x, axis, torch.where(indices < 0, indices + x.shape[axis], indices))


@operator("GatherND")
def _gather_nd(node, x, indices):
    batch = node.get("batch_dims", 0)
    places = [torch.arange(n).reshape(*[n if i == k else 1 for k in range(indices.dim() - 1)]) for i, n in enumerate(x.shape[:batch])]
    return x[tuple(places) + tuple(indices[..., i] for i in range(indices.shape[-1]))]


@operator("Trilu")
def _trilu(node, x, k=None):
    return (torch.triu if node.get("upper", 1) else torch.tril)(x, 0 if k is None else int(k))


# Recurrence.


def steps(node, x, weights, hidden, cell):
    """Run a recurrent operator of one layer in each of its directions.

    cell takes (x_t W^T + bias, states, R, recurrence bias) and returns the new states.
    """
    w, r, b, first = weights
    outputs, lasts = [], []
    for d in range(w.shape[0]):
        backwards = node.get("direction", "forward") == "reverse" or d == 1
        bias = b[d] if b is not None else torch.zeros(2 * w.shape[1], dtype=x.dtype)
        states = [s[d] if s is not None else torch.zeros(x.shape[1], hidden, dtype=x.dtype) for s in first]
        wide = x @ w[d].T + bias[: w.shape[1]]
        made = [None] * x.shape[0]
        for t in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
            states = cell(wide[t], states, r[d], bias[w.shape[1]:])
            made[t] = states[0]
        outputs.append(torch.stack(made))
        lasts.append(states)
    return [torch.stack(outputs, 1), *[torch.stack(part) for part in zip(*lasts)]]


@operator("LSTM")
def _lstm(node, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
    if lengths is not None or peepholes is not None:
        raise NotImplementedError("LSTM with sequence_lens or peepholes")

    def cell(wide, states, r, bias):
        i, o, f, g = (wide + states[0] @ r.T + bias).chunk(4, 1)
        kept = torch.sigmoid(f) * states[1] + torch.sigmoid(i) * torch.tanh(g)
        return [torch.sigmoid(o) * torch.tanh(kept), kept]

    return steps(node, x, (w, r, b, (h, c)), node.get("hidden_size"), cell)


@operator("GRU")
def _gru(node, x, w, r, b=None, lengths=None, h=None):
    if lengths is not None:
        raise NotImplementedError("GRU with sequence_lens")

    def cell(wide, states, r, bias):
        (old,), n = states, wide.shape[1] // 3
        gates = torch.sigmoid(wide[:, : 2 * n] + old @ r[: 2 * n].T + bias[: 2 * n])
        z, reset = gates.chunk(2, 1)
        if node.get("linear_before_reset", 0):
            new = torch.tanh(wide[:, 2 * n:] + reset * (old @ r[2 * n:].T + bias[2 * n:]))
        else:
            new = torch.tanh(wide[:, 2 * n:] + (reset * old) @ r[2 * n:].T + bias[2 * n:])
        return [(1 - z) * new + z * old]

    return steps(node, x, (w, r, b, (h,)), node.get("hidden_size"), cell)


@operator("RNN")
def _rnn(node, x, w, r, b=None, lengths=None, h=None):
    if lengths is not None:
        raise NotImplementedError("RNN with sequence_lens")
    return steps(node, x, (w, r, b, (h,)), node.get("hidden_size"), lambda wide, states, r, bias: [torch.tanh(wide + states[0] @ r.T + bias)])
