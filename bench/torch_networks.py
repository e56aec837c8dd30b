"""Networks of torchvision and transformers with their losses, for the measures of training steps of PyTorch.

Each is a function of whether it is small, so that it runs here, or of its real size. A network
has its inputs as an attribute. checkpointed() puts its blocks below torch.utils.checkpoint.
Dropouts are those that each library has by default, except that attention's probabilities
are not dropped: PyTorch's fused attention on the CPU cannot do that.
"""

import torch
import torchvision
import transformers
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Classes(nn.Module):
    """Images with a label each, or with one for each pixel."""

    def __init__(self, network, size, *labels):
        super().__init__()
        self.network = network
        self.inputs = torch.randn(size), torch.randint(0, 2, (size[0], *labels))

    def forward(self, x, labels):
        return functional.cross_entropy(self.network(x), labels)


class Words(nn.Module):
    """Words as their own labels."""

    def __init__(self, network, *size):
        super().__init__()
        self.network = network
        self.inputs = (torch.randint(0, network.config.vocab_size, size),)

    def forward(self, words):
        return self.network(input_ids=words, labels=words).loss


class Translation(nn.Module):
    """An encoder's input and the decoder's words."""

    def __init__(self, network, given, words, length):
        super().__init__()
        self.network = network
        self.inputs = given, torch.randint(0, words, (given.shape[0], length))

    def forward(self, given, words):
        return self.network(given, labels=words).loss


class Again(nn.Module):
    """A block that runs again in the backward pass."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *args, **kwargs):
        return checkpoint(self.block, *args, use_reentrant=False, **kwargs)


#: The blocks that people put below checkpoints, by the name of their class.
BLOCKS = {
    "BasicBlock", "Bottleneck", "EncoderBlock", "CNBlock", "SwinTransformerBlock", "MBConv", "_DenseLayer", "Level",
    "GPT2Block", "BertLayer", "LlamaDecoderLayer", "T5Block", "WhisperEncoderLayer", "WhisperDecoderLayer",
}  # fmt: skip


def checkpointed(model):
    """Return the model with each of its blocks below torch.utils.checkpoint."""
    for module in list(model.modules()):
        if isinstance(module, transformers.PreTrainedModel):
            module.gradient_checkpointing_enable({"use_reentrant": False})
            return model
        for name, child in list(module.named_children()):
            if type(child).__name__ in BLOCKS:
                setattr(module, name, Again(child))
    return model


class Level(nn.Sequential):
    """Two convolutions with GroupNorm and ReLU."""

    def __init__(self, a, b):
        super().__init__(*(m for k in (a, b) for m in (nn.Conv2d(k, b, 3, padding=1), nn.GroupNorm(8, b), nn.ReLU())))


class UNet(nn.Module):
    """Four levels down and up, of width to 16 times as many channels."""

    def __init__(self, width=64):
        super().__init__()
        widths = [width << k for k in range(5)]
        self.down = nn.ModuleList(Level(a, b) for a, b in zip((3, *widths), widths))
        self.larger = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.up = nn.ModuleList(Level(2 * w, w) for w in widths[-2::-1])
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        kept = []
        for k, level in enumerate(self.down):
            x = level(functional.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for larger, level, beside in zip(self.larger, self.up, kept[-2::-1]):
            x = level(torch.cat((beside, larger(x)), 1))
        return self.last(x)


def images(make, batch):
    """Return the function of a classifier: 224² or, small, 96² in smaller batches."""
    return lambda small: Classes(make(), (batch // 8, 3, 96, 96) if small else (batch, 3, 224, 224))


def vit(small):
    if not small:
        return Classes(torchvision.models.vit_b_16(), (32, 3, 224, 224))
    return Classes(torchvision.models.VisionTransformer(64, 8, 6, 6, 192, 768, num_classes=10), (16, 3, 64, 64))


def gpt2(small):
    sizes = {"n_embd": 192, "n_layer": 6, "n_head": 6, "vocab_size": 2048} if small else {}
    network = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, attn_pdrop=0.0, **sizes))
    network.loss_type = "ForCausalLM"  # what it takes without being told, with a call of a logger that Dynamo refuses
    return Words(network, *((4, 256) if small else (4, 1024)))


def bert(small):
    sizes = {"hidden_size": 192, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 768, "vocab_size": 2048} if small else {}
    return Words(transformers.BertForMaskedLM(transformers.BertConfig(use_cache=False, attention_probs_dropout_prob=0.0, **sizes)), *((8, 128) if small else (32, 128)))


def llama(small):
    width, layers = (256, 6) if small else (2048, 16)
    options = {"hidden_size": width, "intermediate_size": width * 11 // 4, "num_hidden_layers": layers, "num_attention_heads": width // 64 if small else 16}
    config = transformers.LlamaConfig(use_cache=False, vocab_size=2048 if small else 32000, **options)
    return Words(transformers.LlamaForCausalLM(config), *((4, 256) if small else (1, 2048)))


def t5(small):
    sizes = {"d_model": 192, "d_kv": 32, "d_ff": 768, "num_layers": 4, "num_heads": 6, "vocab_size": 2048} if small else {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
    config = transformers.T5Config(use_cache=False, decoder_start_token_id=0, **sizes)
    batch, given, length = (4, 128, 64) if small else (8, 512, 128)
    return Translation(transformers.T5ForConditionalGeneration(config), torch.randint(0, config.vocab_size, (batch, given)), config.vocab_size, length)


def whisper(small):
    width, layers, heads, words = (192, 4, 6, 2048) if small else (768, 12, 12, 51865)
    sizes = {f"{part}_{what}": n for part in ("encoder", "decoder") for what, n in (("layers", layers), ("attention_heads", heads), ("ffn_dim", 4 * width))}
    frames = 256 if small else 3000
    config = transformers.WhisperConfig(use_cache=False, d_model=width, vocab_size=words, max_source_positions=frames // 2, pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=0, **sizes)
    batch, length = (2, 64) if small else (8, 448)
    return Translation(transformers.WhisperForConditionalGeneration(config), torch.randn(batch, 80, frames), words, length)


NETWORKS = {
    "resnet50": images(torchvision.models.resnet50, 32),
    "resnet18": images(torchvision.models.resnet18, 64),
    "gpt2": gpt2,
    "vit": vit,
    "bert": bert,
    "unet": lambda small: Classes(UNet(16), (2, 3, 64, 64), 64, 64) if small else Classes(UNet(), (8, 3, 256, 256), 256, 256),
    "llama": llama,
    "efficientnet": images(torchvision.models.efficientnet_b0, 64),
    "convnext": images(torchvision.models.convnext_tiny, 32),
    "swin": images(torchvision.models.swin_t, 32),
    "densenet": images(torchvision.models.densenet121, 32),
    "t5": t5,
    "whisper": whisper,
}

#: What they are.
TITLES = {
    "resnet50": "ResNet-50, 32 x 224²",
    "resnet18": "ResNet-18, 64 x 224²",
    "gpt2": "GPT-2 124M, 4 x 1024",
    "vit": "ViT-B/16, 32 x 224²",
    "bert": "BERT-base, 32 x 128",
    "unet": "U-Net, 8 x 256²",
    "llama": "Llama-like, 16 layers of 2048, 1 x 2048",
    "efficientnet": "EfficientNet-B0, 64 x 224²",
    "convnext": "ConvNeXt-T, 32 x 224²",
    "swin": "Swin-T, 32 x 224²",
    "densenet": "DenseNet-121, 32 x 224²",
    "t5": "T5-base, 8 x 512 to 128",
    "whisper": "Whisper-small, 8 x 3000 frames to 448",
}


def build(name, small=False, again=False, device="cpu"):
    """Return a network in training mode. On the device "meta", its inputs are there, too."""
    with torch.device(device):
        model = NETWORKS[name](small)
    return (checkpointed(model) if again else model).train()
