"""The modules of the corpus, and how to build them with the shapes of their published forms.

Language models have few layers; all layers of such a model are equal. No weights are read.
"""

import dataclasses
import functools

import torch


@dataclasses.dataclass(frozen=True)
class Module:
    """One module of a package."""

    package: str
    name: str
    options: tuple = ()  # pairs for the package's constructor

    @property
    def title(self):
        return f"{self.package}/{self.name}"

    def build(self, batch=1):
        """Return the module and its positional and named inputs."""
        module, args, kwargs = BUILDERS[self.package](self.name, **dict(self.options))
        repeated = lambda t: t.repeat(batch, *[1] * (t.dim() - 1)) if isinstance(t, torch.Tensor) else t
        return module, tuple(map(repeated, args)), {name: repeated(t) for name, t in kwargs.items()}


def _pictures(*size):
    return torch.zeros(1, 3, *size)


def _timm(name, **options):
    import timm

    module = timm.create_model(name, **options)
    return module, (_pictures(*module.pretrained_cfg["input_size"][1:]),), {}


class Detector(torch.nn.Module):
    """Backbone and heads of a torchvision detector, without the steps whose shapes depend on data."""

    def __init__(self, whole):
        super().__init__()
        self.backbone = whole.backbone
        self.head = whole.rpn.head if hasattr(whole, "rpn") else whole.head

    def forward(self, x):
        features = self.backbone(x)
        return self.head([features] if isinstance(features, torch.Tensor) else list(features.values()))


def _torchvision(name, size=None):
    from torchvision import models

    kind = models.get_model_builder(name).__module__.split(".")[2]
    options = {"weights_backbone": None} if kind in ("detection", "segmentation") else {}
    if kind == "segmentation" and not name.startswith("lraspp"):
        options["aux_loss"] = True
    module = models.get_model(name, weights=None, **options)
    if kind == "optical_flow":
        return module, (_pictures(368, 496), _pictures(368, 496)), {"num_flow_updates": 3}
    if kind == "detection":
        side = size or {"ssd300_vgg16": 300, "ssdlite320_mobilenet_v3_large": 320}.get(name, 640)
        return Detector(module), (_pictures(side, side),), {}
    if kind == "video":
        frames, side = (16, 224) if name.startswith(("mvit", "swin3d", "s3d")) else (16, 112)
        return module, (torch.zeros(1, 3, frames, side, side),), {}
    side = size or (520 if kind == "segmentation" else 299 if name == "inception_v3" else 224)
    return module, (_pictures(side, side),), {}


def _smp(name, size=256, **options):
    import segmentation_models_pytorch as smp

    head, _, encoder = name.partition("-")
    return getattr(smp, head)(encoder, encoder_weights=None, **options), (_pictures(size, size),), {}


def _transformers(name, sounds=(), **changes):
    """changes: settings of the configuration, by path; pixels, tokens and targets: the sizes of inputs."""
    import transformers

    kind = getattr(transformers, name)
    sizes = {key: changes.pop(key) for key in ("pixels", "tokens", "targets") if key in changes}
    config = kind.config_class()
    for path, value in {"use_cache": False, **changes}.items():
        *parts, last = path.split(".")
        setattr(functools.reduce(getattr, parts, config), last, value)
    given = {}
    if "pixels" in sizes:
        given["pixel_values"] = _pictures(*sizes["pixels"])
    for key, name in (("tokens", "input_ids"), ("targets", "decoder_input_ids")):
        if key in sizes:
            given[name] = torch.ones(1, sizes[key], dtype=torch.int64)
    if sounds:
        given[sounds[0]] = torch.zeros(*sounds[1:])
    return kind(config), (), given


def _ultralytics(name, size=640):
    from ultralytics.nn import tasks

    kinds = {"seg": tasks.SegmentationModel, "pose": tasks.PoseModel, "obb": tasks.OBBModel, "cls": tasks.ClassificationModel}
    module = kinds.get(name.rpartition("-")[2], tasks.DetectionModel)(f"{name}.yaml", verbose=False)
    head = module.model[-1]
    head.dynamic = True  # anchors are computed in each run, not kept from the first one
    if isinstance(getattr(head, "stride", None), torch.Tensor):
        head.stride = head.stride.tolist()  # numbers, because they become shapes
    return module, (_pictures(size, size),), {}


BUILDERS = {"timm": _timm, "torchvision": _torchvision, "smp": _smp, "transformers": _transformers, "ultralytics": _ultralytics}


def _of(package, *rows):
    """Return modules of a package: names, or names with options."""
    return tuple(Module(package, r) if isinstance(r, str) else Module(package, r[0], tuple(r[1].items())) for r in rows)


def _named(package, text):
    return tuple(Module(package, name) for name in text.split())


def _shaped(package, *rows):
    return tuple(Module(package, name, tuple(options.items())) for name, options in rows)


_SHORT, _PAIR = {"num_hidden_layers": 4}, {"text_config.num_hidden_layers": 4, "vision_config.num_hidden_layers": 4}
_TEXT, _PICTURE = {**_SHORT, "tokens": 128}, {**_SHORT, "pixels": (224, 224)}
_BOTH = {"encoder_layers": 3, "decoder_layers": 3, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "tokens": 128, "targets": 64}
_SOUND = {**_SHORT, "sounds": ("input_values", 1, 32000), "apply_spec_augment": False, "layerdrop": 0.0}

MODULES = (
    *_named("torchvision", "deeplabv3_resnet50 deeplabv3_mobilenet_v3_large fcn_resnet50 lraspp_mobilenet_v3_large"),
    *_named("smp", "FPN-resnet18 UPerNet-resnet18 PAN-resnet18 DeepLabV3Plus-resnet18 Segformer-resnet18 FPN-mobilenet_v2"),
    *_named("ultralytics", "yolov8n yolov8n-obb yolov8n-pose yolov8n-seg yolo11n"),
    *_shaped("transformers", ("CLIPModel", {**_PAIR, "pixels": (224, 224), "tokens": 77})),
    *_shaped("transformers", ("DPTForDepthEstimation", {"pixels": (384, 384)}), ("ZoeDepthForDepthEstimation", {"pixels": (384, 384)})),
    *_named("torchvision", "retinanet_resnet50_fpn fcos_resnet50_fpn ssd300_vgg16 ssdlite320_mobilenet_v3_large fasterrcnn_mobilenet_v3_large_fpn"),
    *_named("timm", "crossvit_15_dagger_240 crossvit_tiny_240 crossvit_9_240 hrnet_w18_small twins_pcpvt_small twins_svt_small pvt_v2_b0 pvt_v2_b2"),
    *_named("torchvision", "alexnet vgg11 vgg16_bn resnet18 resnet34 resnet50 resnext50_32x4d wide_resnet50_2 densenet121"),
    *_shaped("transformers", *((name, _TEXT) for name in (
        "BertModel", "BertForMaskedLM", "RobertaModel", "DistilBertModel", "AlbertModel", "ElectraModel", "DebertaV2Model", "MPNetModel", "GPT2LMHeadModel",
        "OPTForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM", "PhiForCausalLM",
        "GPTNeoXForCausalLM", "BloomForCausalLM", "FalconForCausalLM", "ModernBertModel", "CanineModel", "FNetModel", "SqueezeBertModel"))),
    *_shaped("transformers", *((name, _PICTURE) for name in (
        "ViTModel", "DeiTModel", "BeitModel", "Dinov2Model", "YolosModel", "ConvNextModel", "SwinModel", "PvtModel", "PoolFormerModel", "MobileViTModel"))),
    *_shaped("transformers", *((name, _BOTH) for name in ("BartModel", "PegasusModel", "MarianModel", "MBartModel", "M2M100Model"))),
    *_shaped("transformers", ("T5Model", {"num_layers": 3, "num_decoder_layers": 3, "tokens": 128, "targets": 64})),
    *_shaped("transformers", ("SiglipModel", {**_PAIR, "pixels": (224, 224), "tokens": 64})),
    *_shaped("transformers", ("ChineseCLIPModel", {**_PAIR, "pixels": (224, 224), "tokens": 52})),
    *_shaped("transformers", ("SegformerForSemanticSegmentation", {"pixels": (512, 512)}), ("GLPNForDepthEstimation", {"pixels": (224, 224)})),
    *_shaped("transformers", ("UperNetForSemanticSegmentation", {"pixels": (512, 512)}), ("DepthAnythingForDepthEstimation", {"pixels": (224, 224)})),
    *_shaped("transformers", ("MaskFormerModel", {"pixels": (384, 384)}), ("VitPoseForPoseEstimation", {"pixels": (256, 192)})),
    *_shaped("transformers", ("Wav2Vec2Model", _SOUND), ("HubertModel", _SOUND), ("WavLMModel", _SOUND)),
    *_shaped("transformers", ("WhisperModel", {"encoder_layers": 3, "decoder_layers": 3, "targets": 64, "sounds": ("input_features", 1, 80, 3000)})),
    *_named("torchvision", "squeezenet1_0 squeezenet1_1 googlenet inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large"),
    *_named("torchvision", "shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 efficientnet_b0 convnext_tiny regnet_y_400mf"),
    *_named("torchvision", "regnet_x_400mf vit_b_16 vit_b_32 swin_t r3d_18 mc3_18 r2plus1d_18 raft_small"),
    *_named("timm", "test_vit test_resnet test_convnext resnet10t deit_tiny_patch16_224 deit_tiny_distilled_patch16_224"),
    *_named("timm", "vit_tiny_patch16_224 pit_ti_224 mixer_s32_224 resmlp_12_224 convit_tiny poolformer_s12 legacy_seresnet18 skresnet18"),
    *_named("timm", "resnest14d resnet26d ecaresnet26t dla34 dla46x_c ese_vovnet19b_dw selecsls42b gernet_s repvgg_a0 hgnet_tiny"),
    *_named("timm", "hgnetv2_b0 convnext_atto mambaout_femto lcnet_050 tinynet_e mobilenetv3_small_100 mobilenetv4_conv_small"),
    *_named("smp", "Unet-resnet18 UnetPlusPlus-resnet18 MAnet-resnet18 Linknet-resnet18 PSPNet-resnet18 DeepLabV3-resnet18"),
    *_named("ultralytics", "yolo11n-seg yolo11n-pose yolo11n-obb yolov8n-cls yolov5n yolov3-tiny yolov10n"),
    *_named("timm", "regnetx_002 regnety_002 starnet_s1 efficientvit_b0 fasternet_t0 resnext26ts nf_regnet_b0 mnasnet_100 spnasnet_100"),
    *_named("timm", "semnasnet_100 fbnetc_100 hardcorenas_a tf_efficientnet_lite0 ghostnet_100 rexnet_100 repghostnet_050 mobileone_s0"),
    *_named("timm", "visformer_tiny mobilevit_xxs mobilevitv2_050 edgenext_xx_small eva02_tiny_patch14_224 levit_128s efficientformer_l1"),
    *_named("timm", "coat_lite_tiny xcit_nano_12_p16_224 gmlp_ti16_224 shvit_s1 resnetv2_50 cspresnet50 halonet26t botnet26t_256"),
    *_named("timm", "lambda_resnet26t bat_resnext26ts regnetz_005 tnt_s_legacy_patch16_224 beit_base_patch16_224 pvt_v2_b1"),
    *_named("timm", "hiera_tiny_224"),
    *_named("smp", "Unet-mobilenet_v2 UPerNet-mobilenet_v2 PAN-mobilenet_v2 DeepLabV3Plus-mobilenet_v2 Segformer-mobilenet_v2 Linknet-mobilenet_v2"),
    *_named("smp", "Unet-efficientnet-b0 FPN-efficientnet-b0 UPerNet-efficientnet-b0 DeepLabV3Plus-efficientnet-b0 Unet-mit_b0"),
)
