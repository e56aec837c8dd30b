"""Networks of torchvision, transformers and PyTorch for ExecuTorch, with random weights: a module and its inputs.

Pictures are smaller than usual, since the kernels of ExecuTorch's wheel are plain loops.
"""

import torch
from torch import nn
from torch.nn import functional


def _vision(name, side, **options):
    def build():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options), (torch.randn(1, 3, side, side),)

    return build


class _First(nn.Module):
    """A network, and of its results one."""

    def __init__(self, network, key):
        super().__init__()
        self.network, self.key = network, key

    def forward(self, x):
        return self.network(x)[self.key]


def _deeplab():
    import torchvision

    network = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
    return _First(network, "out"), (torch.randn(1, 3, 128, 128),)


def _vit():
    from torchvision.models import VisionTransformer

    return VisionTransformer(112, 16, 6, 3, 192, 768), (torch.randn(1, 3, 112, 112),)


def _bert():
    import transformers

    config = transformers.BertConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, attn_implementation="eager")
    return _First(transformers.BertModel(config), "last_hidden_state"), (torch.randint(0, 1000, (1, 128)),)


class _Unet(nn.Module):
    """Three levels down and up again, with the results of each level kept for the way up."""

    def __init__(self, channels=16):
        super().__init__()
        widths = [channels << i for i in range(4)]
        self.down = nn.ModuleList([self._block(a, b) for a, b in zip([3, *widths], widths, strict=False)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:], strict=False)])
        self.join = nn.ModuleList([self._block(2 * a, a) for a in widths[:-1]])
        self.head = nn.Conv2d(channels, 2, 1)

    @staticmethod
    def _block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

    def forward(self, x):
        kept = []
        for block in self.down[:-1]:
            x = block(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, join, skip in reversed(list(zip(self.up, self.join, kept, strict=True))):
            x = join(torch.cat([up(x), skip], 1))
        return self.head(x)


class _Attention(nn.Module):
    """Attention of one new token over a cache of fixed length, a buffer that it writes to."""

    def __init__(self, width, heads, groups, length):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, groups, length, self.size))

    def forward(self, x, at, turn, mask):
        q, k, v = (f(x).view(1, 1, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = _turned(q, turn), _turned(k, turn)
        self.keys[:, :, at] = k
        self.values[:, :, at] = v
        keys, values = (c.repeat_interleave(self.heads // self.groups, 1) for c in (self.keys, self.values))
        weights = (q @ keys.transpose(2, 3) * self.size**-0.5 + mask).softmax(-1)
        return self.o((weights @ values).transpose(1, 2).reshape(1, 1, -1))


def _turned(x, turn):
    """Return vectors turned by their position (RoPE)."""
    a, b = x.chunk(2, -1)
    return x * turn[0] + torch.cat([-b, a], -1) * turn[1]


class _Layer(nn.Module):
    def __init__(self, width, heads, groups, length):
        super().__init__()
        self.attention = _Attention(width, heads, groups, length)
        self.gate, self.wide = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.narrow = nn.Linear(3 * width, width, bias=False)
        self.norms = nn.ModuleList([nn.RMSNorm(width) for _ in range(2)])

    def forward(self, x, at, turn, mask):
        x = x + self.attention(self.norms[0](x), at, turn, mask)
        y = self.norms[1](x)
        return x + self.narrow(functional.silu(self.gate(y)) * self.wide(y))


class _Llama(nn.Module):
    """A decoder of Llama's kind, one token at a time, with caches that are buffers."""

    def __init__(self, width=256, heads=8, groups=4, layers=4, length=256, words=1000):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList([_Layer(width, heads, groups, length) for _ in range(layers)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        self.register_buffer("rates", 1e4 ** -(torch.arange(0, width // heads, 2) / (width // heads)))
        self.register_buffer("places", torch.arange(length))

    def forward(self, token, at):
        angles = (at[:, None] * self.rates).repeat(1, 2)
        turn = angles.cos(), angles.sin()
        mask = torch.where(self.places <= at, 0.0, -1e9)
        x = self.words(token)
        for layer in self.layers:
            x = layer(x, at, turn, mask)
        return self.head(self.norm(x))


def _llama():
    return _Llama(), (torch.tensor([[7]]), torch.tensor([3]))


class _Branches(nn.Module):
    """A condition whose two bodies are planned apart, between two products."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 256), nn.Linear(256, 8)

    def forward(self, x):
        y = self.first(x)
        y = torch.cond(x.sum() > 0, lambda y: (y.sin() * y.cos()).relu() + y, lambda y: y.cos() - 1, (y,))
        return self.last(y), y.mean()


def _gru():
    class _Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.head = nn.GRU(32, 64, 2, batch_first=True), nn.Linear(64, 10)

        def forward(self, x):
            return self.head(self.gru(x)[0][:, -1])

    return _Last(), (torch.randn(1, 16, 32),)


NETWORKS = {
    "mobilenet_v2": _vision("mobilenet_v2", 128),
    "vit": _vit,
    "llama": _llama,
    "unet": lambda: (_Unet(), (torch.randn(1, 3, 64, 64),)),
    "efficientnet_b0": _vision("efficientnet_b0", 128),
    "bert": _bert,
    "deeplabv3": _deeplab,
    "gru": _gru,
    "branches": lambda: (_Branches(), (torch.randn(4, 64),)),
}
