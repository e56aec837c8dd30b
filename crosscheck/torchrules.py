"""Operators that the networks of the training check do not have, in torch, for rules.py.

Each is written with torch's own function for it where there is one.
"""

import math

import torch
import torch.nn.functional as F

TABLE = {}  # by domain and operator: a function of the node and its inputs that returns the outputs
_MS = "com.microsoft"


def _operator(name, *domains):
    def register(function):
        for domain in domains or ("",):
            TABLE[domain, name] = function
        return function

    return register


@_operator("Det")
def _det(node, x):
    return torch.linalg.det(x)


@_operator("CumProd")
def _cumprod(node, x, axis):
    axis = int(axis)
    if node.get("reverse", 0):
        x = x.flip(axis)
    if node.get("exclusive", 0):
        x = torch.cat([torch.ones_like(x.narrow(axis, 0, 1)), x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    y = torch.cumprod(x, axis)
    return y.flip(axis) if node.get("reverse", 0) else y


@_operator("Compress")
def _compress(node, x, condition):
    axis = node.get("axis")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return x.index_select(axis, torch.nonzero(condition).reshape(-1))


@_operator("TensorScatter")
def _tensor_scatter(node, past, update, at=None):
    axis = node.get("axis", -2) % past.dim()
    y = past.clone()
    for b in range(past.shape[0]):
        first = 0 if at is None else int(at[b])
        for i in range(update.shape[axis]):
            y[b].select(axis - 1, (first + i) % past.shape[axis]).copy_(update[b].select(axis - 1, i))
    return y


@_operator("Col2Im")
def _col2im(node, x, image, block):
    n = len(image)
    image, block = ([1] * (2 - n) + [int(v) for v in t] for t in (image, block))
    pads = node.get("pads", [0] * 2 * n)
    pads = [0] * (2 - n) + pads[:n] + [0] * (2 - n) + pads[n:]
    whole = [image[a] + pads[a] + pads[2 + a] for a in range(2)]
    y = F.fold(x, whole, block, dilation=[1] * (2 - n) + node.get("dilations", [1] * n), stride=[1] * (2 - n) + node.get("strides", [1] * n))
    y = y[:, :, pads[0] : pads[0] + image[0], pads[1] : pads[1] + image[1]]
    return y if n == 2 else y[:, :, 0]


@_operator("DFT")
def _dft(node, x, length=None, axis=None):
    axis = (node.get("axis", 1) if node.version < 20 else -2 if axis is None else int(axis)) % x.dim()
    length = None if length is None else int(length)
    z = torch.complex(x[..., 0], x[..., 1] if x.shape[-1] == 2 else torch.zeros_like(x[..., 0]))
    if node.get("inverse", 0) and node.get("onesided", 0):
        return torch.fft.irfft(z, length, axis).unsqueeze(-1)
    y = (torch.fft.ifft if node.get("inverse", 0) else torch.fft.fft)(z, length, axis)
    if node.get("onesided", 0):
        y = y.narrow(axis, 0, y.shape[axis] // 2 + 1)
    return torch.view_as_real(y)


@_operator("STFT")
def _stft(node, x, step, window=None, length=None):
    n = int(length) if length is not None else len(window) if window is not None else x.shape[1]
    z = x if x.dim() == 3 else x.unsqueeze(-1)
    z = z[..., 0] if z.shape[-1] == 1 else torch.view_as_complex(z.contiguous())
    frames = z.unfold(1, n, int(step))
    y = torch.fft.fft(frames if window is None else frames * window)
    if node.get("onesided", 1):
        y = y[..., : n // 2 + 1]
    return torch.view_as_real(y)


@_operator("AffineGrid")
def _affine_grid(node, theta, size):
    return F.affine_grid(theta, [int(v) for v in size], align_corners=bool(node.get("align_corners", 0)))


@_operator("Scale")
def _scale(node, x):
    return node.get("scale", 1.0) * x


@_operator("ScaledTanh")
def _scaled_tanh(node, x):
    return node.get("alpha", 1.0) * torch.tanh(node.get("beta", 1.0) * x)


@_operator("ParametricSoftplus")
def _parametric_softplus(node, x):
    return node.get("alpha", 1.0) * F.softplus(node.get("beta", 1.0) * x)


@_operator("SwiGLU")
def _swiglu(node, a, b):
    return a * torch.sigmoid(node.get("alpha", 1.0) * a) * b


@_operator("CausalConvWithState", "", _MS)
def _causal_conv(node, x, weight, bias=None, past=None):
    last, dilation = node.get("channels_last", 0), node.get("dilation", 1)
    x, past = (t.transpose(1, 2) if last and t is not None else t for t in (x, past))
    before = (weight.shape[2] - 1) * dilation
    past = x.new_zeros(x.shape[0], x.shape[1], before) if past is None else past
    whole = torch.cat([past, x], 2)
    y = F.conv1d(whole, weight, bias, dilation=dilation, groups=x.shape[1])
    y = F.silu(y) if node.get("activation", "none") in ("silu", "swish") else y
    present = whole[..., whole.shape[2] - before :]
    return [t.transpose(1, 2) if last else t for t in (y, present)]


@_operator("LinearAttention", "", _MS)
def _linear_attention(node, q, k, v, past=None, decay=None, beta=None):
    heads, kv = node.get("q_num_heads"), node.get("kv_num_heads")
    batch, places = q.shape[:2]
    q, k, v = q.view(batch, places, heads, -1), k.view(batch, places, kv, -1), v.view(batch, places, kv, -1)
    scale = node.get("scale", 0.0) or 1 / math.sqrt(q.shape[-1])
    state = q.new_zeros(batch, kv, k.shape[-1], v.shape[-1]) if past is None else past
    rule, out = node.get("update_rule", "gated_delta"), []
    for t in range(places):
        if rule in ("gated", "gated_delta"):
            state = torch.exp(decay[:, t].view(batch, kv, -1, 1)) * state
        new = v[:, t]
        if rule in ("delta", "gated_delta"):
            new = beta[:, t].view(batch, -1, 1) * (new - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], new)
        shared = state.repeat_interleave(heads // kv, 1)
        out.append(scale * torch.einsum("bhkv,bhk->bhv", shared, q[:, t]).reshape(batch, -1))
    return [torch.stack(out, 1), state]


@_operator("DequantizeLinear", "", _MS)
def _dequantize(node, x, scale, zero=None):
    block, axis = node.get("block_size", 0), node.get("axis", 1)
    x = x.double() if zero is None else x.double() - _spread(zero.double(), x, axis, block)
    return x * _spread(scale, x, axis, block)


def _spread(t, x, axis, block):
    if block:
        return t.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    return t if t.dim() == 0 else t.view([-1 if a == axis % x.dim() else 1 for a in range(x.dim())])


@_operator("GroupNorm", _MS)
@_operator("SkipGroupNorm", _MS)
def _group_norm(node, x, gamma, beta, skip=None, bias=None):
    last = node.get("channels_last", 1)
    first = (lambda t: t.movedim(-1, 1)) if last else lambda t: t
    x = first(x)
    if skip is not None:
        x = x + (skip[:, :, None, None] if skip.dim() == 2 else first(skip))
    if bias is not None:
        x = x + bias.view(1, -1, *[1] * (x.dim() - 2))
    y = F.group_norm(x, node.get("groups"), gamma, beta, node.get("epsilon", 1e-5))
    y = F.silu(y) if node.get("activation") else y
    return [t.movedim(1, -1) if last else t for t in (y, x)]


@_operator("GatedRMSNorm", _MS)
def _gated_norm(node, x, scale, gate):
    n = F.rms_norm(x.view(*x.shape[:-1], -1, len(scale)), [len(scale)], scale, node.get("epsilon", 1e-5)).view(x.shape)
    return n * (torch.sigmoid(gate) if node.get("activation") == "sigmoid" else F.silu(gate))


@_operator("BiasSplitGelu", _MS)
def _bias_split_gelu(node, x, bias):
    left, right = (x + bias).chunk(2, -1)
    return left * F.gelu(right)


@_operator("Trilu", _MS)
def _trilu(node, x, k=None):
    k = 0 if k is None else int(k)
    return torch.triu(x, k) if node.get("upper", 1) else torch.tril(x, k)


@_operator("ExpandDims", _MS)
def _expand_dims(node, x, axis):
    return x.unsqueeze(int(axis))


@_operator("NhwcConv", _MS)
@_operator("NhwcFusedConv", _MS)
def _nhwc_conv(node, x, weight, bias=None, added=None):
    top, left, bottom, right = node.get("pads", [0, 0, 0, 0])
    y = F.conv2d(F.pad(x.movedim(-1, 1), [left, right, top, bottom]), weight, bias, node.get("strides", [1, 1]), 0, node.get("dilations", [1, 1]), node.get("group", 1)).movedim(1, -1)
    y = y if added is None else y + added
    return torch.tanh(y) if node.get("activation") == "Tanh" else y


@_operator("CDist", _MS)
def _cdist(node, a, b):
    distance = torch.cdist(a, b)
    return distance if node.get("metric", "sqeuclidean") == "euclidean" else ((a[:, None] - b[None]) ** 2).sum(-1)


@_operator("CropAndResize", _MS)
def _crop_and_resize(node, x, boxes, images, lengths):
    height, width = (int(v) for v in lengths)
    axis = lambda low, high, n: (low + high)[:, None] / 2 if n == 1 else low[:, None] + (high - low)[:, None] * torch.arange(n) / (n - 1)
    rows, columns = axis(boxes[:, 0], boxes[:, 2], height), axis(boxes[:, 1], boxes[:, 3], width)
    grid = torch.stack([columns[:, None].expand(-1, height, -1), rows[:, :, None].expand(-1, -1, width)], -1)
    inside = ((grid >= 0) & (grid <= 1)).all(-1)[:, None]
    mode = node.get("mode", "bilinear")
    y = F.grid_sample(x[images.long()], 2 * grid - 1, mode, "border", align_corners=True)
    return torch.where(inside, y, torch.full_like(y, node.get("extrapolation_value", 0.0)))


@_operator("GemmaRotaryEmbedding", _MS)
def _gemma_rotary(node, emb, q, q_turned, k, k_turned):
    sin, cos = torch.sin(emb)[:, None], torch.cos(emb)[:, None]
    return [q * cos + q_turned * sin, k * cos + k_turned * sin]


def _turn(x, cos, sin, interleaved):
    """Turn [batch, heads, places, size] by [batch, places, half]."""
    half = cos.shape[-1]
    x, rest, cos, sin = x[..., : 2 * half], x[..., 2 * half :], cos[:, None], sin[:, None]
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.cat([torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2), rest], -1)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)


@_operator("MRotaryEmbedding", _MS)
def _sectioned_rotary(node, x, positions, cos, sin):
    sections, half = node.get("mrope_section"), cos.shape[1]
    stream = torch.zeros(half, dtype=torch.long)
    if node.get("mrope_layout", 0):
        for s in (1, 2):
            stream[s : 3 * sections[s] : 3] = s
    else:
        stream = torch.repeat_interleave(torch.arange(3), torch.tensor(sections))
    cos, sin = (torch.stack([t[positions[stream[i]]][..., i] for i in range(half)], -1) for t in (cos, sin))
    if x.dim() == 4:
        return _turn(x, cos, sin, node.get("interleaved", 0))
    heads = x.view(*x.shape[:2], node.get("num_heads"), -1).transpose(1, 2)
    return _turn(heads, cos, sin, node.get("interleaved", 0)).transpose(1, 2).reshape(x.shape)


@_operator("GroupQueryAttention", _MS)
def _group_query(node, q, k, v, past_k, past_v, lengths, total, cos=None, sin=None, positions=None, bias=None):
    heads, kv = node.get("num_heads"), node.get("kv_num_heads")
    batch, places = q.shape[:2]
    if k is None:
        size = q.shape[2] // (heads + 2 * kv)
        q, k, v = q.split([heads * size, kv * size, kv * size], -1)
    q, k, v = (t.view(batch, places, n, -1).transpose(1, 2) for t, n in ((q, heads), (k, kv), (v, kv)))
    if node.get("do_rotary", 0):
        at = torch.arange(places).expand(batch, -1) if positions is None else positions
        q, k = (_turn(t, cos[at], sin[at], node.get("rotary_interleaved", 0)) for t in (q, k))
    scores = (node.get("scale", 0.0) or 1 / math.sqrt(q.shape[-1])) * q @ k.repeat_interleave(heads // kv, 1).transpose(-1, -2)
    if cap := node.get("softcap", 0.0):
        scores = cap * torch.tanh(scores / cap)
    scores = scores if bias is None else scores + bias
    i, j = torch.arange(places)[:, None], torch.arange(places)[None]
    if node.get("causal", 1):
        keep, window = j <= i, node.get("local_window_size", -1)
        keep = keep & (j > i - window) if window > 0 else keep
        scores = scores.masked_fill(~keep, -math.inf)
    else:
        scores = scores.masked_fill(~(j <= lengths.view(-1, 1, 1, 1)), -math.inf)
    y = torch.softmax(scores, -1) @ v.repeat_interleave(heads // kv, 1)
    return [y.transpose(1, 2).reshape(batch, places, -1), k, v]


@_operator("MoE", _MS)
def _experts(node, x, route, w1, b1, w2, b2=None, w3=None, b3=None):
    rows = x.reshape(-1, x.shape[-1])
    weights, chosen = torch.softmax(route, -1).topk(node.get("k", 1), -1)
    if node.get("normalize_routing_weights", 0):
        weights = weights / weights.sum(-1, keepdim=True)
    out = []
    for t, row in enumerate(rows):
        total = 0
        for weight, e in zip(weights[t], chosen[t]):
            layer = lambda h, w, b: F.linear(h, w[e], None if b is None else b[e])
            h, kind = layer(row, w1, b1), node.get("activation_type", "relu")
            if kind == "swiglu":
                fusion = node.get("swiglu_fusion", 0)
                gate, value = (h, layer(row, w3, b3)) if fusion == 0 else (h[0::2], h[1::2]) if fusion == 1 else h.chunk(2)
                if (limit := node.get("swiglu_limit")) is not None:
                    gate, value = gate.clamp(max=limit), value.clamp(-limit, limit)
                h = gate * torch.sigmoid(node.get("activation_alpha", 1.0) * gate) * (value + node.get("activation_beta", 0.0))
            else:
                h = {"relu": F.relu, "gelu": lambda h: F.gelu(h, approximate="tanh"), "silu": F.silu, "identity": lambda h: h}[kind](h)
                h = h if w3 is None else h * layer(row, w3, b3)
            total = total + weight * layer(h, w2, b2)
        out.append(total)
    return torch.stack(out).reshape(x.shape)


@_operator("MatMulNBits", _MS)
def _packed_product(node, a, b, scales, zero=None, order=None, bias=None):
    n, k, bits, block = (node.get(name) for name in ("N", "K", "bits", "block_size"))
    unpack = lambda t: torch.stack([t & 15, t >> 4], -1).flatten(-2) if bits == 4 else t
    blocks = b.shape[1]
    w = unpack(b).double()
    z = torch.full((n, blocks), float(1 << (bits - 1)), dtype=torch.float64) if zero is None else unpack(zero.view(n, -1))[:, :blocks].double()
    w = ((w - z[:, :, None]) * scales.view(n, blocks, 1)).view(n, -1)[:, :k]
    return F.linear(a, w, bias)
