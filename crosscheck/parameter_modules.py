"""The modules of crosscheck/run parameters: one for each way in which a parameter or a buffer comes into a file.

Each builder returns a module and its inputs. Models of packages have random weights and small
configurations. What JAX and Keras write is in parameter_others.py.
"""

import functools

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

MODULES = {}  # name: a function that returns a module and its inputs
PLAIN = []  # names of modules without packages, which are exported for more opsets


def _module(build):
    name = build.__name__.strip("_")
    MODULES[name] = build
    PLAIN.append(name)
    return build


def _row(*parts, given=(2, 16)):
    return nn.Sequential(*parts), (torch.randn(*given),)


class Applied(nn.Module):
    """Parameters, buffers and parts, and a function that computes with them."""

    def __init__(self, compute, parameters=(), buffers=(), **parts):
        super().__init__()
        self.compute = compute
        for name, value in dict(parameters).items():
            self.register_parameter(name, nn.Parameter(value))
        for name, value in dict(buffers).items():
            self.register_buffer(name, value)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *given):
        return self.compute(self, *given)


_IMAGE = (2, 3, 16, 16)


# Normalizations


@_module
def batch_norm():
    return _row(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8), given=_IMAGE)


@_module
def batch_norm_first():
    return _row(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4, affine=False), given=_IMAGE)


@_module
def batch_norm_rows():
    return _row(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))


@_module
def group_norm():
    return _row(nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.GELU(), nn.Conv2d(16, 8, 3), nn.GroupNorm(1, 8), nn.GroupNorm(8, 8), given=_IMAGE)


@_module
def group_norm_plain():
    return _row(nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16, affine=False), nn.ReLU(), nn.Conv2d(16, 2, 1), given=_IMAGE)


@_module
def group_norm_beside_layer_norm():
    return _row(nn.Conv2d(3, 4, 3), nn.GroupNorm(4, 4), nn.Flatten(2), nn.Linear(196, 4), nn.LayerNorm(4), nn.LayerNorm((4, 4)), given=_IMAGE)


@_module
def instance_norm():
    return _row(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8), nn.Conv2d(8, 2, 1), given=_IMAGE)


@_module
def layer_norm():
    return _row(nn.Linear(16, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.LayerNorm(8, elementwise_affine=False), nn.Linear(8, 8), nn.LayerNorm(8, bias=False))


@_module
def rms_norm():
    return _row(nn.Linear(16, 8), nn.RMSNorm(8), nn.Linear(8, 8), nn.RMSNorm(8, elementwise_affine=False), nn.Linear(8, 3))


@_module
def response_norm():
    def compute(m, x):
        x = m.conv(x).permute(0, 2, 3, 1)
        g = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        return m.gamma * (x * (g / (g.mean(-1, keepdim=True) + 1e-6))) + m.beta + x

    return Applied(compute, {"gamma": torch.zeros(1, 1, 1, 8), "beta": torch.zeros(1, 1, 1, 8)}, conv=nn.Conv2d(3, 8, 3)), (torch.randn(*_IMAGE),)


@_module
def weight_norm():
    return _row(parametrizations.weight_norm(nn.Linear(16, 8)), nn.ReLU(), parametrizations.weight_norm(nn.Linear(8, 4), dim=None))


@_module
def spectral_norm():
    return _row(parametrizations.spectral_norm(nn.Linear(16, 8)), nn.ReLU(), nn.Linear(8, 4))


# Layers


@_module
def linear():
    return _row(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 8, bias=False), nn.Tanh(), nn.Linear(8, 1))


@_module
def linear_of_sequences():
    return _row(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 8, bias=False), nn.Tanh(), nn.Linear(8, 1), given=(2, 5, 16))


@_module
def convolutions():
    return _row(nn.Conv2d(3, 8, 3, groups=1), nn.PReLU(8), nn.Conv2d(8, 8, 3, groups=8), nn.PReLU(), nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(4, 1, 1), given=_IMAGE)


@_module
def convolution_1d():
    return _row(nn.Conv1d(3, 8, 3), nn.LeakyReLU(), nn.ConvTranspose1d(8, 1, 4, 2), given=(2, 3, 16))


@_module
def convolution_3d():
    return _row(nn.Conv3d(2, 4, 3), nn.Hardswish(), nn.Conv3d(4, 1, 1), given=(1, 2, 6, 6, 6))


@_module
def bilinear():
    return Applied(lambda m, x, y: m.body(x, y), body=nn.Bilinear(4, 5, 3)), (torch.randn(2, 4), torch.randn(2, 5))


@_module
def embeddings():
    def compute(m, t):
        return m.head(m.words(t) + m.places(m.position_ids[:, :6]) + m.kinds(torch.zeros_like(t)))

    parts = {"words": nn.Embedding(20, 8, padding_idx=0), "places": nn.Embedding(10, 8), "kinds": nn.Embedding(2, 8), "head": nn.Linear(8, 3)}
    return Applied(compute, (), {"position_ids": torch.arange(10)[None]}, **parts), (torch.randint(1, 20, (2, 6)),)


@_module
def tied_embedding():
    def compute(m, t):
        return F.linear(m.body(m.words(t)), m.words.weight)

    return Applied(compute, words=nn.Embedding(20, 8), body=nn.Linear(8, 8)), (torch.randint(1, 20, (2, 6)),)


@_module
def embedding_bag():
    return Applied(lambda m, t: m.head(m.bag(t)), bag=nn.EmbeddingBag(20, 8, mode="mean"), head=nn.Linear(8, 2)), (torch.randint(1, 20, (2, 6)),)


def _recurrent(kind, **options):
    return Applied(lambda m, x: m.head(m.body(x)[0]), body=kind(8, 6, batch_first=True, **options), head=nn.Linear(6 * (1 + options.get("bidirectional", 0)), 2)), (torch.randn(2, 5, 8),)


@_module
def lstm():
    return _recurrent(nn.LSTM, num_layers=2)


@_module
def lstm_both_ways():
    return _recurrent(nn.LSTM, bidirectional=True)


@_module
def gru():
    return _recurrent(nn.GRU, bidirectional=True)


@_module
def rnn():
    return _recurrent(nn.RNN, bias=False)


@_module
def lstm_first_state():
    def compute(m, x):
        n = x.shape[0]
        return m.head(m.body(x, (m.h0.expand(1, n, 6).contiguous(), m.c0.expand(1, n, 6).contiguous()))[0])

    return Applied(compute, {"h0": torch.zeros(1, 1, 6), "c0": torch.zeros(1, 1, 6)}, body=nn.LSTM(8, 6, batch_first=True), head=nn.Linear(6, 2)), (torch.randn(2, 5, 8),)


# Attention


@_module
def attention():
    return Applied(lambda m, x: m.body(x, x, x, need_weights=False)[0], body=nn.MultiheadAttention(16, 4, batch_first=True)), (torch.randn(2, 5, 16),)


@_module
def attention_with_bias_rows():
    return Applied(lambda m, x, y: m.body(x, y, y, need_weights=False)[0], body=nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True, kdim=8, vdim=8)), (torch.randn(2, 5, 16), torch.randn(2, 4, 8))


@_module
def encoder_layer():
    return Applied(lambda m, x: m.body(x), body=nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)), (torch.randn(2, 5, 16),)


@_module
def decoder():
    return Applied(lambda m, x, y: m.body(x, y, tgt_mask=m.mask, tgt_is_causal=False), (), {"mask": nn.Transformer.generate_square_subsequent_mask(5)}, body=nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True, norm_first=True), 2, norm=nn.LayerNorm(16))), (torch.randn(2, 5, 16), torch.randn(2, 3, 16))


def _attend(m, x, bias=None, scale=0.5):
    q, k, v = m.qkv(x).chunk(3, -1)
    scores = q @ k.transpose(-1, -2) * scale
    return m.out(torch.softmax(scores if bias is None else bias(scores), -1) @ v)


_HEADS = lambda: {"qkv": nn.Linear(8, 24), "out": nn.Linear(8, 3)}


@_module
def causal_mask_of_ones():
    return Applied(lambda m, x: _attend(m, x, lambda s: s.masked_fill(m.tril[:5, :5] == 0, float("-inf"))), (), {"tril": torch.tril(torch.ones(8, 8))}, **_HEADS()), (torch.randn(2, 5, 8),)


@_module
def causal_mask_added():
    return Applied(lambda m, x: _attend(m, x, lambda s: s + m.bias[:5, :5]), (), {"bias": torch.full((8, 8), -1e9).triu(1)}, **_HEADS()), (torch.randn(2, 5, 8),)


@_module
def mask_by_numbers():  # the old way of BERT and GPT-2: s·b - 10000·(1 - b)
    return Applied(lambda m, x: _attend(m, x, lambda s: s * m.tril - 1e4 * (1 - m.tril)), (), {"tril": torch.tril(torch.ones(5, 5))}, **_HEADS()), (torch.randn(2, 5, 8),)


@_module
def alibi():
    slopes = 2.0 ** -torch.arange(1, 5).float()
    bias = slopes[:, None, None] * (torch.arange(5)[None, :] - torch.arange(5)[:, None])[None].float()

    def compute(m, x):
        return _attend(m, x[:, None], lambda s: s + m.alibi[None])

    return Applied(compute, (), {"alibi": bias}, **_HEADS()), (torch.randn(2, 5, 8),)


@_module
def relative_position_table():
    where = (torch.arange(5)[:, None] - torch.arange(5)[None]) + 4
    return Applied(lambda m, x: _attend(m, x[:, None], lambda s: s + m.table[m.where.view(-1)].view(5, 5, 4).permute(2, 0, 1)[None]), {"table": torch.zeros(9, 4)}, {"where": where}, **_HEADS()), (torch.randn(2, 5, 8),)


@_module
def scale_of_attention():  # learnable temperatures, and cosine attention's clamp
    def compute(m, x):
        q, k, v = m.qkv(x).chunk(3, -1)
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)
        return m.out(torch.softmax(s * torch.clamp(m.logit_scale, max=4.6).exp(), -1) @ v)

    return Applied(compute, {"logit_scale": torch.log(10 * torch.ones(1, 1, 1))}, **_HEADS()), (torch.randn(2, 5, 8),)


@_module
def rotary():
    inv = 1.0 / 100 ** (torch.arange(0, 8, 2).float() / 8)

    def compute(m, x):
        angles = torch.arange(5).float()[:, None] * m.inv_freq[None]
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        q, k, v = m.qkv(x).chunk(3, -1)
        turn = lambda t: t * cos + torch.cat([-t[..., 4:], t[..., :4]], -1) * sin
        return m.out(torch.softmax(turn(q) @ turn(k).transpose(-1, -2), -1) @ v)

    return Applied(compute, (), {"inv_freq": inv}, **_HEADS()), (torch.randn(2, 5, 8),)


@_module
def rotary_tables():  # cos and sin kept as buffers
    angles = torch.arange(5).float()[:, None] * (1.0 / 100 ** (torch.arange(0, 8, 2).float() / 8)).repeat(2)[None]

    def compute(m, x):
        q, k, v = m.qkv(x).chunk(3, -1)
        turn = lambda t: t * m.cos_cached + torch.cat([-t[..., 4:], t[..., :4]], -1) * m.sin_cached
        return m.out(torch.softmax(turn(q) @ turn(k).transpose(-1, -2), -1) @ v)

    return Applied(compute, (), {"cos_cached": angles.cos(), "sin_cached": angles.sin()}, **_HEADS()), (torch.randn(2, 5, 8),)


# Positions, tokens and tables


def _sines(places, width):
    angles = torch.arange(places).float()[:, None] / 100 ** (torch.arange(0, width, 2).float() / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1), torch.cat([angles.sin(), angles.cos()], -1)


@_module
def sines_interleaved():
    return Applied(lambda m, x: m.body(x + m.pe[:, :5]), (), {"pe": _sines(9, 8)[0][None]}, body=nn.Linear(8, 3)), (torch.randn(2, 5, 8),)


@_module
def sines_in_halves():
    return Applied(lambda m, x: m.body(x + m.embed_positions[1:6]), (), {"embed_positions": _sines(9, 8)[1]}, body=nn.Linear(8, 3)), (torch.randn(2, 5, 8),)


@_module
def sines_in_an_embedding():  # gathered, as Marian's and Whisper's
    return Applied(lambda m, x: m.body(x + F.embedding(torch.arange(2, 7), m.table)), (), {"table": _sines(9, 8)[1]}, body=nn.Linear(8, 3)), (torch.randn(2, 5, 8),)


@_module
def learned_positions():
    return Applied(lambda m, x: m.body(torch.cat([m.cls_token.expand(x.shape[0], -1, -1), x], 1) + m.pos_embed), {"cls_token": torch.zeros(1, 1, 8), "pos_embed": torch.randn(1, 6, 8) * 0.02}, body=nn.Linear(8, 3)), (torch.randn(2, 5, 8),)


@_module
def queries():  # learned queries that are expanded, as DETR's
    return Applied(lambda m, x: m.body(m.query.weight.unsqueeze(0).expand(x.shape[0], -1, -1), x, x)[0], query=nn.Embedding(3, 16), body=nn.MultiheadAttention(16, 2, batch_first=True)), (torch.randn(2, 5, 16),)


@_module
def mask_token():
    def compute(m, x, w):
        return m.body(x * (1 - w) + m.mask_token * w)

    return Applied(compute, {"mask_token": torch.zeros(1, 1, 8)}, body=nn.Linear(8, 3)), (torch.randn(2, 5, 8), torch.ones(2, 5, 1))


@_module
def fourier_features():  # random projections that are a buffer
    return Applied(lambda m, x: m.body(torch.cat([(x @ m.B).sin(), (x @ m.B).cos()], -1)), (), {"B": torch.randn(3, 8)}, body=nn.Linear(16, 2)), (torch.randn(4, 3),)


@_module
def time_embedding():  # frequencies that are computed while the module runs
    def compute(m, t):
        angles = t[:, None] * torch.exp(-4.6 * torch.arange(8).float() / 8)[None]
        return m.body(torch.cat([angles.sin(), angles.cos()], -1))

    return Applied(compute, body=nn.Sequential(nn.Linear(16, 8), nn.SiLU(), nn.Linear(8, 2))), (torch.randn(3),)


# Scales, shifts and scalars


@_module
def layer_scale():
    return Applied(lambda m, x: x + m.gamma * m.body(x), {"gamma": 1e-5 * torch.ones(8)}, body=nn.Linear(8, 8)), (torch.randn(2, 5, 8),)


@_module
def affine():  # ResMLP's
    return Applied(lambda m, x: m.body(x * m.alpha + m.beta), {"alpha": torch.ones(1, 1, 8), "beta": torch.zeros(1, 1, 8)}, body=nn.Linear(8, 8)), (torch.randn(2, 5, 8),)


@_module
def channel_scale():  # a scale of each channel, with axes of length 1 that are made while the module runs
    return Applied(lambda m, x: m.body(x) * m.gamma[:, None, None] + m.shift.view(1, -1, 1, 1), {"gamma": torch.ones(8), "shift": torch.zeros(8)}, body=nn.Conv2d(3, 8, 3)), (torch.randn(*_IMAGE),)


@_module
def logit_scale():
    def compute(m, x, y):
        a, b = F.normalize(m.left(x), dim=-1), F.normalize(m.right(y), dim=-1)
        return a @ b.t() * m.logit_scale.exp() + m.logit_bias

    return Applied(compute, {"logit_scale": torch.tensor(2.6592), "logit_bias": torch.tensor([-10.0])}, left=nn.Linear(8, 4, bias=False), right=nn.Linear(6, 4, bias=False)), (torch.randn(3, 8), torch.randn(3, 6))


@_module
def skip_weight():  # one learned number at rank 0, ReZero's
    return Applied(lambda m, x: x + m.resweight * torch.tanh(m.body(x)), {"resweight": torch.tensor(0.0)}, body=nn.Linear(8, 8)), (torch.randn(2, 8),)


@_module
def activations():
    return _row(nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU("tanh"), nn.Linear(8, 8), nn.Mish(), nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 8), nn.Hardsigmoid(), nn.Linear(8, 8), nn.SELU(), nn.Linear(8, 2), nn.Softshrink())


@_module
def image_statistics():  # (x - mean) / std within the module
    shape = lambda *v: torch.tensor(v).view(1, 3, 1, 1)
    return Applied(lambda m, x: m.body((x - m.mean) / m.std), (), {"mean": shape(0.485, 0.456, 0.406), "std": shape(0.229, 0.224, 0.225)}, body=nn.Conv2d(3, 4, 3)), (torch.randn(*_IMAGE),)


@_module
def image_statistics_multiplied():  # x · 2.2 + shift of each channel, as constants of forward
    return Applied(lambda m, x: m.body(x * torch.tensor([4.367, 4.464, 4.444]).view(3, 1, 1) + torch.tensor([-2.118, -2.036, -1.804]).view(3, 1, 1)), body=nn.Conv2d(3, 4, 3)), (torch.randn(*_IMAGE),)


@_module
def target_statistics():  # outputs in units of the target
    return Applied(lambda m, x: m.body(x) * m.target_std + m.target_mean, (), {"target_mean": torch.tensor([1.5, 2.5, -0.5]), "target_std": torch.tensor([2.0, 0.5, 3.0])}, body=nn.Linear(8, 3)), (torch.randn(2, 8),)


@_module
def anchors():  # a detector's decoding of boxes
    grid = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="xy"), 0)[None]

    def compute(m, x):
        y = m.body(x)
        return torch.cat([(y[:, :2].sigmoid() * 2 + m.grid - 0.5) * 8, (y[:, 2:] * 2) ** 2 * m.anchor_grid], 1)

    return Applied(compute, (), {"grid": grid, "anchor_grid": torch.tensor([10.0, 13.0]).view(1, 2, 1, 1)}, body=nn.Conv2d(3, 4, 4, 4)), (torch.randn(*_IMAGE),)


@_module
def dfl():  # YOLOv8's integral: a frozen convolution by 0..15
    def compute(m, x):
        y = m.body(x).flatten(2).view(2, 4, 8, 16).transpose(2, 1).softmax(1)
        return m.dfl(y)

    m = Applied(compute, body=nn.Conv2d(3, 32, 4, 4), dfl=nn.Conv2d(8, 1, 1, bias=False).requires_grad_(False))
    m.dfl.weight.data[:] = torch.arange(8.0).view(1, 8, 1, 1)
    return m, (torch.randn(*_IMAGE),)


@_module
def blur():  # a fixed filter of each channel
    filt = torch.tensor([1.0, 2, 1])[:, None] * torch.tensor([1.0, 2, 1])[None] / 16
    return Applied(lambda m, x: m.head(F.conv2d(F.relu(m.body(x)), m.filt, stride=2, groups=8)), (), {"filt": filt.repeat(8, 1, 1, 1)}, body=nn.Conv2d(3, 8, 3), head=nn.Conv2d(8, 2, 1)), (torch.randn(*_IMAGE),)


@_module
def fixed_dft():  # a spectrogram by convolution with sines, as ASR front ends have
    n = torch.arange(8.0)
    basis = torch.stack([f(2 * torch.pi * k * n / 8) for k in range(5) for f in (torch.cos, torch.sin)])[:, None]
    return Applied(lambda m, x: m.head(F.conv1d(x, m.basis, stride=4).square()), (), {"basis": basis}, head=nn.Conv1d(10, 2, 1)), (torch.randn(2, 1, 32),)


@_module
def mel_filters():
    return Applied(lambda m, x: m.head(torch.log(m.mel @ x.abs() + 1e-6)), (), {"mel": torch.rand(4, 8).clamp(0.5) - 0.5}, head=nn.Conv1d(4, 2, 1)), (torch.randn(2, 8, 6),)


@_module
def frozen_layer():  # a layer that the author does not train: nothing in a file tells
    m, given = _row(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    m[0].requires_grad_(False)
    return m, given


@_module
def squeeze_excite():
    def compute(m, x):
        x = m.conv(x)
        return x * torch.sigmoid(m.up(F.relu(m.down(x.mean((2, 3), keepdim=True)))))

    return Applied(compute, conv=nn.Conv2d(3, 8, 3), down=nn.Conv2d(8, 2, 1), up=nn.Conv2d(2, 8, 1)), (torch.randn(*_IMAGE),)


@_module
def zero_convolution():  # ControlNet's: all zeros at first
    m, given = _row(nn.Conv2d(3, 8, 3), nn.SiLU(), nn.Conv2d(8, 4, 1), given=_IMAGE)
    nn.init.zeros_(m[2].weight), nn.init.zeros_(m[2].bias)
    return m, given


@_module
def split_weight():  # one parameter that is read in parts
    return Applied(lambda m, x: F.linear(F.relu(F.linear(x, m.w[:8])), m.w[8:, :8]), {"w": torch.randn(12, 16) * 0.3}), (torch.randn(2, 16),)


@_module
def stacked_weight():  # batched products, as experts have
    return Applied(lambda m, x: torch.einsum("nd,edh->enh", x, m.w).sum(0) + m.b.sum(0), {"w": torch.randn(3, 8, 4), "b": torch.zeros(3, 4)}), (torch.randn(2, 8),)


@_module
def mixed_weight():  # a weight that is computed from a parameter
    return Applied(lambda m, x: F.linear(x, torch.softmax(m.w, -1)) * F.softplus(m.beta), {"w": torch.randn(4, 8), "beta": torch.zeros(4)}), (torch.randn(2, 8),)


@_module
def state_space():  # A = -exp(A_log), D
    def compute(m, x):
        a = torch.exp(-torch.exp(m.A_log) * F.softplus(m.dt(x))[..., None])
        return (a * x[..., None]).sum(-1) + x * m.D

    return Applied(compute, {"A_log": torch.log(torch.arange(1.0, 5).repeat(8, 1)), "D": torch.ones(8)}, dt=nn.Linear(8, 8)), (torch.randn(2, 8),)


@_module
def gaussian_basis():  # centres of a radial basis, a buffer
    return Applied(lambda m, x: m.head(torch.exp(-0.5 * (x[..., None] - m.offset) ** 2).flatten(1)), (), {"offset": torch.linspace(0, 5, 6)}, head=nn.Linear(12, 2)), (torch.randn(3, 2),)


@_module
def half():
    m, given = _row(nn.Linear(16, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    return m.half(), tuple(t.half() for t in given)


@_module
def half_in_float():  # float32 parameters that are cast
    return Applied(lambda m, x: F.linear(x.half(), m.body.weight.half(), m.body.bias.half()).float(), body=nn.Linear(16, 8)), (torch.randn(2, 16),)


# Packages


def _torchvision(name, build):
    def make():
        from torchvision import models

        return build(models), (torch.randn(1, 3, 64, 64),)

    MODULES[f"torchvision/{name}"] = make


_torchvision("resnet18", lambda m: m.resnet18())
_torchvision("mobilenet_v3_small", lambda m: m.mobilenet_v3_small())
_torchvision("shufflenet_v2_x0_5", lambda m: m.shufflenet_v2_x0_5())
_torchvision("squeezenet1_1", lambda m: m.squeezenet1_1())
_torchvision("vision transformer", lambda m: m.VisionTransformer(64, 16, 2, 2, 32, 64))
_torchvision("swin", lambda m: m.SwinTransformer([4, 4], 16, [2, 2], [2, 2], [4, 4]))
_torchvision("swin v2", lambda m: m.SwinTransformer([4, 4], 16, [2], [2], [4, 4], block=m.swin_transformer.SwinTransformerBlockV2, downsample_layer=m.swin_transformer.PatchMergingV2))
_torchvision("convnext", lambda m: m.ConvNeXt([m.convnext.CNBlockConfig(16, 32, 2), m.convnext.CNBlockConfig(32, None, 1)]))


def _timm(*names, **options):
    def make(name):
        import timm

        return timm.create_model(name, **options), (torch.randn(1, 3, *timm.create_model(name).default_cfg["input_size"][1:]),)

    for name in names:
        MODULES[f"timm/{name}"] = functools.partial(make, name)


_timm("test_vit", "test_vit2", "test_vit3", "test_resnet", "test_convnext", "test_convnext2", "test_efficientnet", "test_efficientnet_ln", "test_efficientnet_gn", "test_byobnet", "test_mambaout", "test_nfnet", "resmlp_12_224")


def _transformers(name, config, field, *sizes, **options):
    def make():
        import transformers

        kind = getattr(transformers, name)
        settings = kind.config_class(**config)
        settings._attn_implementation = options.get("attention", "eager")
        settings.use_cache = False
        model = kind(settings)
        tokens = lambda *s: torch.randint(3, 60, s)
        given = {k: (tokens(*s) if k.endswith("ids") else torch.randn(*s)) for k, s in sizes}
        body = ", ".join(f"{k}={k}" for k in given)
        space = {}
        exec(f"def forward(self, {', '.join(given)}): return self.model({body}, return_dict=True)[{field!r}]", space)
        named = type("Named", (nn.Module,), {"forward": space["forward"]})()
        named.model = model
        return named, tuple(given.values())

    MODULES[f"transformers/{name}"] = make


_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_TEXT = {**_SMALL, "vocab_size": 64}
_WORDS = ("input_ids", (1, 6))
_VIEW = ("pixel_values", (1, 3, 32, 32))
_LLAMA = {**_TEXT, "num_key_value_heads": 1, "head_dim": 16}
_SEQUENCES = {"vocab_size": 64, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
_PAIR = [_WORDS, ("decoder_input_ids", (1, 4))]

_transformers("BertForMaskedLM", _TEXT, "logits", _WORDS)
_transformers("RobertaModel", _TEXT, "last_hidden_state", _WORDS)
_transformers("DistilBertForSequenceClassification", {"vocab_size": 64, "dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64}, "logits", _WORDS)
_transformers("AlbertModel", {**_TEXT, "embedding_size": 16}, "last_hidden_state", _WORDS)
_transformers("ElectraModel", {**_TEXT, "embedding_size": 16}, "last_hidden_state", _WORDS)
_transformers("DebertaV2Model", {**_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}, "last_hidden_state", _WORDS)
_transformers("MPNetModel", _TEXT, "last_hidden_state", _WORDS)
_transformers("ModernBertModel", {**_TEXT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}, "last_hidden_state", _WORDS)
_transformers("FNetModel", {k: v for k, v in _TEXT.items() if k != "num_attention_heads"}, "last_hidden_state", _WORDS)
_transformers("GPT2LMHeadModel", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16}, "logits", _WORDS)
_transformers("GPTNeoXForCausalLM", _TEXT, "logits", _WORDS)
_transformers("BloomForCausalLM", {"vocab_size": 64, "hidden_size": 32, "n_layer": 1, "n_head": 2}, "logits", _WORDS)
_transformers("FalconForCausalLM", {**{k: v for k, v in _TEXT.items() if k != "intermediate_size"}, "alibi": False}, "logits", _WORDS)
_transformers("OPTForCausalLM", {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 64, "word_embed_proj_dim": 32, "pad_token_id": 0}, "logits", _WORDS)
_transformers("LlamaForCausalLM", _LLAMA, "logits", _WORDS)
_transformers("GemmaForCausalLM", {**_LLAMA, "pad_token_id": 0}, "logits", _WORDS)
_transformers("Qwen3ForCausalLM", _LLAMA, "logits", _WORDS)
_transformers("MambaForCausalLM", {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}, "logits", _WORDS)
_transformers("T5Model", {"vocab_size": 64, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}, "last_hidden_state", *_PAIR)
_transformers("BartModel", _SEQUENCES, "last_hidden_state", *_PAIR)
_transformers("MarianModel", {**_SEQUENCES, "max_position_embeddings": 16}, "last_hidden_state", *_PAIR)
_transformers("M2M100Model", {**_SEQUENCES, "max_position_embeddings": 16}, "last_hidden_state", *_PAIR)
_transformers("WhisperModel", {**_SEQUENCES, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16}, "last_hidden_state", ("input_features", (1, 8, 32)), ("decoder_input_ids", (1, 4)))
_transformers("ViTModel", {**_SMALL, "image_size": 32, "patch_size": 8}, "last_hidden_state", _VIEW)
_transformers("BeitModel", {**_SMALL, "image_size": 32, "patch_size": 8, "use_relative_position_bias": True}, "last_hidden_state", _VIEW)
_transformers("Dinov2Model", {**{k: v for k, v in _SMALL.items() if k != "intermediate_size"}, "image_size": 32, "patch_size": 8}, "last_hidden_state", _VIEW)
_transformers("SwinModel", {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 2], "window_size": 4}, "last_hidden_state", _VIEW)
_transformers("ConvNextV2Model", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, "last_hidden_state", _VIEW)
_transformers("SegformerForSemanticSegmentation", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2, "sr_ratios": [2, 1], "num_attention_heads": [1, 2], "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16}, "logits", _VIEW)
_transformers("PoolFormerModel", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2, "patch_sizes": [7, 3], "strides": [4, 2], "padding": [2, 1]}, "last_hidden_state", _VIEW)
_transformers("CLIPModel", {"text_config": {**_TEXT, "max_position_embeddings": 16, "eos_token_id": 2}, "vision_config": {**_SMALL, "image_size": 32, "patch_size": 8}, "projection_dim": 16}, "logits_per_image", _WORDS, _VIEW)
_transformers("SiglipModel", {"text_config": {**_TEXT, "max_position_embeddings": 16, "projection_size": 32}, "vision_config": {**_SMALL, "image_size": 32, "patch_size": 8}}, "logits_per_image", _WORDS, _VIEW)
_transformers("Wav2Vec2ForCTC", {**_TEXT, "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "apply_spec_augment": False}, "logits", ("input_values", (1, 400)))
