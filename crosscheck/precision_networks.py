"""The networks of crosscheck/run precision: thirteen of docs/results/training-speed.md, and five transformers.

The thirteen have their real layers and widths, with smaller pictures, videos and texts than
the page of times has. The transformers are those of the package transformers, in small
configurations. None draws at random: Dropout and stochastic depth are off.
"""

import pathlib
import sys

import torch
from torch import nn

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import torchsteps  # noqa: E402  bench is no package

_PICTURE, _FRAMES = 64, (8, 32, 32)
_BATCH = 8  # of pictures
_TOKENS = 32
_VOCABULARY = 512


class Scores(nn.Module):
    """A model's scores alone: logits or last hidden states, classes last."""

    def __init__(self, model, masked=False):
        super().__init__()
        self.model, self.masked = model, masked

    def forward(self, given):
        # without a mask, decoders look for packed sequences by an operator that the exporter lacks
        out = self.model(given, attention_mask=torch.ones_like(given)) if self.masked else self.model(given)
        for field in ("logits", "last_hidden_state"):
            if hasattr(out, field):
                return getattr(out, field)
        return out


class Pair(Scores):
    """A model of two inputs: what it reads and the text that it writes."""

    def __init__(self, model, first):
        super().__init__(model)
        self.first = first

    def forward(self, given, written):
        return self.model(**{self.first: given, "decoder_input_ids": written}).logits


class Network:
    """A network, and how its data are drawn: shapes, and below what number integers are.

    plain: PyTorch computes without oneDNN, whose LSTM has no 16 bits on a processor without AMX.
    """

    def __init__(self, make, *inputs, said="", plain=False):
        self.make, self.inputs, self.said, self.plain = make, inputs, said, plain

    def module(self):
        torch.manual_seed(0)
        return moved(still(self.make()))

    def draw(self, module, seed):
        """Return inputs and labels, as classes of the scores."""
        source = torch.Generator().manual_seed(seed)
        given = [torch.randint(0, below, shape, generator=source) if below else torch.randn(shape, generator=source) for shape, below in self.inputs]
        with torch.no_grad():
            scores = module.eval()(*given)
        labels = torch.randint(0, scores.shape[-1], scores.shape[:-1], generator=source)
        return given, labels


def still(module):
    """Turn off what draws at random."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        if type(part).__name__ == "StochasticDepth":
            part.p = 0.0
    return module


def moved(module):
    """Give all parameters other values: exporters merge equal ones, such as weights of ones."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.02 * torch.randn_like(p))
    return module


def _speed(name, *inputs, said):
    return Network(lambda: Scores(torchsteps.build(name, 1)[0], name == "gpt2"), *inputs, said=said, plain=name == "lstm")


def _transformer(kind, config, *inputs, said, first=None):
    def make():
        import transformers

        made = getattr(transformers, kind)
        settings = made.config_class(**config)
        settings._attn_implementation = "eager"
        settings.use_cache = False
        return Pair(made(settings), first) if first else Scores(made(settings), "CausalLM" in kind or "LMHead" in kind)

    return Network(make, *inputs, said=said)


_PICTURES = ((_BATCH, 3, _PICTURE, _PICTURE), 0)
_TEXT = ((2, _TOKENS), _VOCABULARY)
_WRITTEN = ((2, 24), _VOCABULARY)
_SMALL = {"vocab_size": _VOCABULARY, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}

NETWORKS = {
    name: _speed(name, _PICTURES, said=f"{_BATCH} of {_PICTURE} x {_PICTURE}")
    for name in ("mnasnet", "mobilenet_v2", "resnet18", "efficientnet_b0", "googlenet", "resnet50", "convnext_tiny")
} | {
    "alexnet": _speed("alexnet", ((2, *torchsteps.IMAGE), 0), said="2 of 224 x 224"),  # its pooling is exported at that size alone
    "r3d_18": _speed("r3d_18", ((4, 3, *_FRAMES), 0), said="4 of 8 x 32 x 32"),
    "vit_b_16": _speed("vit_b_16", ((1, *torchsteps.IMAGE), 0), said="1 of 224 x 224"),
    "bert": _speed("bert", ((1, 32), 30522), said="32 tokens"),
    "gpt2": _speed("gpt2", ((1, 32), 50257), said="32 tokens"),
    "lstm": _speed("lstm", ((2, 16), torchsteps.VOCABULARY), said="2 x 16 tokens"),
    "bert, 4 layers of 128": _transformer("BertForMaskedLM", _SMALL, _TEXT, said=f"2 x {_TOKENS} tokens"),
    "gpt2, 4 layers of 128": _transformer("GPT2LMHeadModel", {"vocab_size": _VOCABULARY, "n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 64}, _TEXT, said=f"2 x {_TOKENS} tokens"),
    "vit, 4 layers of 128": _transformer("ViTForImageClassification", {**{k: v for k, v in _SMALL.items() if k != "vocab_size"}, "image_size": 64, "patch_size": 8, "num_labels": 100}, ((4, 3, 64, 64), 0), said="4 of 64 x 64"),
    "llama, 4 layers of 128": _transformer("LlamaForCausalLM", {**_SMALL, "num_key_value_heads": 2}, _TEXT, said=f"2 x {_TOKENS} tokens"),
    "t5, 2 + 2 layers of 128": _transformer("T5ForConditionalGeneration", {"vocab_size": _VOCABULARY, "d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0, "dropout_rate": 0.0}, _TEXT, _WRITTEN, said=f"2 x {_TOKENS} and 24 tokens", first="input_ids"),
}
