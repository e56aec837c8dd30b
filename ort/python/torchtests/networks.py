"""Networks of timm, torchvision and transformers at sizes that train here in milliseconds, built without downloads.

They are narrow and see many pictures or words at once, so that activations take most of the
memory, not gradients, which no plan can spare.

Each is a module that returns its loss, so that one graph holds the whole step, and a function
that draws its inputs.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Inputs = tuple[torch.Tensor, ...]
_CLASSES, _VOCABULARY, _TOKENS = 10, 96, 16


@dataclass(frozen=True)
class Network:
    """name: source/model. build: the module, in training mode. draw: its inputs."""

    name: str
    build: Callable[[], nn.Module]
    draw: Callable[[], Inputs]


class Classifier(nn.Module):
    """A network and the loss of what it says about labels."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        results = self.network(x)
        if isinstance(results, dict):
            results = results["out"]
        if not isinstance(results, tuple):
            results = (results,)
        losses = [functional.cross_entropy(y.float(), labels) for y in results if y is not None]
        return sum(losses[1:], start=losses[0])


class Generator(nn.Module):
    """A network of transformers that computes its loss itself."""

    def __init__(self, network: nn.Module, first: str = "input_ids", second: str = "labels") -> None:
        super().__init__()
        self.network, self.first, self.second = network, first, second

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        results = self.network(**{self.first: x, self.second: labels})
        loss: torch.Tensor = results.loss
        return loss


class Square(nn.Module):
    """A network without a loss of its own: the mean square of its last hidden state."""

    def __init__(self, network: nn.Module, first: str) -> None:
        super().__init__()
        self.network, self.first = network, first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state: torch.Tensor = self.network(**{self.first: x})[0]
        return state.float().square().mean()


def _images(size: int, batch: int = 16, channels: int = 3) -> Inputs:
    return torch.randn(batch, channels, size, size), torch.randint(0, _CLASSES, (batch,))


def _clips() -> Inputs:
    return torch.randn(4, 3, 4, 64, 64), torch.randint(0, _CLASSES, (4,))


def _scenes() -> Inputs:
    return torch.randn(4, 3, 65, 65), torch.randint(0, _CLASSES, (4, 65, 65))


def _words() -> Inputs:
    ids = torch.randint(1, _VOCABULARY, (16, _TOKENS))
    return ids, ids.clone()


def _titles() -> Inputs:
    return torch.randint(1, _VOCABULARY, (16, _TOKENS)), torch.randint(0, 2, (16,))


def _vision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import torchvision

        return Classifier(torchvision.models.get_model(name, weights=None, num_classes=_CLASSES, **options))

    return build


def _segmentation(name: str, **options: Any) -> Callable[[], nn.Module]:
    return _vision(name, weights_backbone=None, **options)


def _swin() -> nn.Module:
    from torchvision.models import SwinTransformer

    return Classifier(SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.3, dropout=0.1, num_classes=_CLASSES))


def _vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return Classifier(VisionTransformer(32, 8, 2, 2, 32, 64, dropout=0.1, attention_dropout=0.1, num_classes=_CLASSES))


def _dense() -> nn.Module:
    from torchvision.models import DenseNet

    return Classifier(DenseNet(8, (2, 3, 2), 16, drop_rate=0.1, num_classes=_CLASSES))


def _convnext() -> nn.Module:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return Classifier(ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], stochastic_depth_prob=0.4, num_classes=_CLASSES))


def _resnet(**options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

        bottleneck = options.get("groups", 1) > 1
        return Classifier(_half(ResNet(Bottleneck if bottleneck else BasicBlock, [1, 1, 1, 1], **options), 512 if bottleneck else 128))

    return build


def _half(network: nn.Module, channels: int) -> nn.Module:
    """Leave out the last two of four stages: nearly all of a residual network's parameters, whose gradients no plan can spare."""
    network.layer3 = network.layer4 = nn.Identity()
    network.fc = nn.Linear(channels, _CLASSES)
    return network


def _clipped() -> nn.Module:
    from torchvision.models.video.resnet import BasicBlock, BasicStem, Conv3DSimple, VideoResNet

    return Classifier(_half(VideoResNet(BasicBlock, [Conv3DSimple] * 4, [1, 1, 1, 1], BasicStem), 128))


def _alexnet() -> nn.Module:
    from torchvision.models import AlexNet

    network = AlexNet()
    network.classifier = _classifier(256 * 6 * 6)
    return Classifier(network)


def _vgg() -> nn.Module:
    from torchvision.models import vgg

    network = vgg.VGG(vgg.make_layers([16, "M", 32, "M", 64, 64, "M"], batch_norm=True), init_weights=False)
    network.classifier = _classifier(64 * 7 * 7)
    return Classifier(network)


def _classifier(channels: int) -> nn.Module:
    return nn.Sequential(nn.Dropout(), nn.Linear(channels, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, _CLASSES))


def _regnet() -> nn.Module:
    from torchvision.models.regnet import BlockParams, RegNet

    return Classifier(RegNet(BlockParams.from_init_params(depth=6, w_0=24, w_a=24.0, w_m=2.5, group_width=8, se_ratio=0.25), num_classes=_CLASSES))


def _timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import timm

        return Classifier(timm.create_model(name, num_classes=_CLASSES, **options))

    return build


def _mixer() -> nn.Module:
    from timm.models.mlp_mixer import MlpMixer

    return Classifier(MlpMixer(num_classes=_CLASSES, img_size=64, num_blocks=2, embed_dim=32, drop_rate=0.1, drop_path_rate=0.1))


def _config(kind: str, options: dict[str, Any]) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()  # of tokens that the small vocabularies lack
    config = getattr(transformers, kind + "Config")(**options)
    config.problem_type = "single_label_classification"  # else the first call sets it, and the second is compiled anew
    return config


def _words_of(kind: str, head: str = "ForCausalLM", **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import transformers

        network = getattr(transformers, kind + head)(_config(kind, {"vocab_size": _VOCABULARY, **options}))
        network.loss_type = network.loss_type or "ForCausalLM"  # what GPT-2 takes with a warning, which Dynamo does not trace
        return Generator(network)

    return build


def _pictures_of(kind: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import transformers

        config = _config(kind, {"num_labels": _CLASSES, **options})
        return Generator(getattr(transformers, kind + "ForImageClassification")(config), "pixel_values")

    return build


def _clip() -> nn.Module:
    import transformers

    config = transformers.CLIPVisionConfig(image_size=32, patch_size=8, attention_dropout=0.1, **_SMALL)
    return Square(transformers.CLIPVisionModel(config), "pixel_values")


def _whisper() -> nn.Module:
    import transformers

    size = {f"{part}_{what}": value for part in ("encoder", "decoder") for what, value in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 64))}
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0)
    config = transformers.WhisperConfig(vocab_size=_VOCABULARY, d_model=32, num_mel_bins=16, max_source_positions=16, max_target_positions=_TOKENS, dropout=0.1, **size, **special)
    return Generator(transformers.WhisperForConditionalGeneration(config), "input_features")


def _sounds() -> Inputs:
    return torch.randn(16, 16, 32), torch.randint(1, _VOCABULARY, (16, _TOKENS))


_SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_LLAMA: dict[str, Any] = {**_SMALL, "num_key_value_heads": 1, "max_position_embeddings": 32}
_BERT: dict[str, Any] = {**_SMALL, "max_position_embeddings": 32}
_SEQUENCES: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 32,
}  # fmt: skip

_at = functools.partial(functools.partial, _images)

NETWORKS = [
    Network("torchvision/alexnet", _alexnet, _at(96)),
    Network("torchvision/vgg", _vgg, _at(64)),
    Network("torchvision/resnet", _resnet(), _at(64)),
    Network("torchvision/resnext", _resnet(groups=4, width_per_group=4), _at(64)),
    Network("torchvision/densenet", _dense, _at(32)),
    Network("torchvision/squeezenet1_1", _vision("squeezenet1_1"), _at(64)),
    Network("torchvision/googlenet", _vision("googlenet", init_weights=False, aux_logits=False), _at(64)),
    Network("torchvision/shufflenet_v2_x0_5", _vision("shufflenet_v2_x0_5"), _at(64)),
    Network("torchvision/mobilenet_v2", _vision("mobilenet_v2", width_mult=0.25), _at(64)),
    Network("torchvision/mobilenet_v3_small", _vision("mobilenet_v3_small", width_mult=0.5), _at(64)),
    Network("torchvision/mnasnet0_5", _vision("mnasnet0_5"), _at(64)),
    Network("torchvision/regnet_y", _regnet, _at(64)),
    Network("torchvision/convnext", _convnext, _at(32)),
    Network("torchvision/vit", _vit, _at(32)),
    Network("torchvision/swin", _swin, _at(32)),
    Network("torchvision/lraspp", _segmentation("lraspp_mobilenet_v3_large"), _scenes),
    Network("torchvision/r3d", _clipped, _clips),
    Network("timm/test_vit", _timm("test_vit", drop_rate=0.1, attn_drop_rate=0.1, drop_path_rate=0.1, img_size=64), _at(64)),
    Network("timm/test_vit3", _timm("test_vit3", proj_drop_rate=0.1, img_size=64), _at(64)),
    Network("timm/test_vit_relpos", _timm("test_vit_relpos", img_size=64), _at(64)),
    Network("timm/test_resnet", _timm("test_resnet", drop_block_rate=0.1), _at(64)),
    Network("timm/test_efficientnet", _timm("test_efficientnet", drop_path_rate=0.2), _at(64)),
    Network("timm/test_efficientnet_gn", _timm("test_efficientnet_gn"), _at(64)),
    Network("timm/test_efficientnet_evos", _timm("test_efficientnet_evos"), _at(64)),
    Network("timm/test_byobnet", _timm("test_byobnet", drop_path_rate=0.2), _at(64)),
    Network("timm/test_convnext", _timm("test_convnext", drop_path_rate=0.2), _at(64)),
    Network("timm/test_nfnet", _timm("test_nfnet"), _at(64)),
    Network("timm/test_maxvit", _timm("test_maxvit", img_size=64), _at(64)),
    Network("timm/test_coatnet", _timm("test_coatnet", img_size=64), _at(64)),
    Network("timm/test_mambaout", _timm("test_mambaout"), _at(64)),
    Network("timm/mixer", _mixer, _at(64)),
    Network("timm/cait", _timm("cait_xxs24_224", img_size=64, embed_dim=32, depth=2, num_heads=2), _at(64)),
    Network("timm/ghostnet", _timm("ghostnet_050"), _at(64)),
    Network("timm/levit", _timm("levit_128s", img_size=64, embed_dim=(32, 48, 64), num_heads=(2, 3, 4), depth=(1, 1, 1)), _at(64)),
    Network("transformers/gpt2", _words_of("GPT2", "LMHeadModel", bos_token_id=0, eos_token_id=0, n_embd=32, n_layer=2, n_head=2, n_positions=32), _words),
    Network("transformers/bert", _words_of("Bert", "ForMaskedLM", **_BERT), _words),
    Network("transformers/albert", _words_of("Albert", "ForMaskedLM", embedding_size=16, hidden_dropout_prob=0.1, **_BERT), _words),
    Network("transformers/roberta", _words_of("Roberta", "ForSequenceClassification", **{**_BERT, "max_position_embeddings": 40}), _titles),
    Network("transformers/distilbert", _words_of("DistilBert", "ForSequenceClassification", dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=32), _titles),
    Network("transformers/electra", _words_of("Electra", "ForMaskedLM", embedding_size=16, **_BERT), _words),
    Network("transformers/mpnet", _words_of("MPNet", "ForMaskedLM", **{**_BERT, "max_position_embeddings": 40}), _words),
    Network("transformers/deberta", _words_of("DebertaV2", "ForMaskedLM", relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"], **_BERT), _words),
    Network("transformers/llama", _words_of("Llama", **_LLAMA), _words),
    Network("transformers/mistral", _words_of("Mistral", **_LLAMA), _words),
    Network("transformers/qwen2", _words_of("Qwen2", attention_dropout=0.1, tie_word_embeddings=True, **_LLAMA), _words),
    Network("transformers/qwen3", _words_of("Qwen3", head_dim=16, **_LLAMA), _words),
    Network("transformers/gemma2", _words_of("Gemma2", head_dim=16, **_LLAMA), _words),
    Network("transformers/phi", _words_of("Phi", resid_pdrop=0.1, **_LLAMA), _words),
    Network("transformers/gpt_neox", _words_of("GPTNeoX", hidden_dropout=0.1, **_BERT), _words),
    Network("transformers/opt", _words_of("OPT", hidden_size=32, word_embed_proj_dim=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=64, max_position_embeddings=32), _words),
    Network("transformers/bloom", _words_of("Bloom", hidden_size=32, n_layer=2, n_head=2, hidden_dropout=0.1, attention_dropout=0.1), _words),
    Network("transformers/mamba", _words_of("Mamba", hidden_size=32, num_hidden_layers=1, state_size=4), _words),
    Network("transformers/t5", _words_of("T5", "ForConditionalGeneration", d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, decoder_start_token_id=0), _words),
    Network("transformers/bart", _words_of("Bart", "ForConditionalGeneration", **_SEQUENCES), _words),
    Network("transformers/vit", _pictures_of("ViT", image_size=32, patch_size=8, hidden_dropout_prob=0.1, **_SMALL), _at(32)),
    Network("transformers/convnext", _pictures_of("ConvNext", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, drop_path_rate=0.1), _at(32)),
    Network("transformers/segformer", _pictures_of("Segformer", num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32], num_attention_heads=[1, 2], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2]), _at(32)),
    Network("transformers/clip", _clip, lambda: _images(32)[:1]),
    Network("transformers/whisper", _whisper, _sounds),
]
