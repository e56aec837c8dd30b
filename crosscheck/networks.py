"""The networks whose training graphs are checked: their sources, their reduced sizes, their losses.

A network of the zoo keeps its graph; its pictures, sequences and vocabularies become
smaller. Its weights are replaced by random ones, scaled for the operator that reads
them, so that signals neither vanish nor explode and no two weights are equal.
"""

import dataclasses
import re
import zlib

import numpy as np
import onnx
import onnx.inliner

from . import build, probe


@dataclasses.dataclass
class Network:
    """One network and the flags of its training step."""

    name: str
    source: str = ""  # zoo/NAME, model/NAME, or a function of build.py; "": of the same name
    shapes: dict = dataclasses.field(default_factory=dict)  # of inputs, by name
    lengths: dict = dataclasses.field(default_factory=dict)  # of initializers' axes: old to new
    settings: dict = dataclasses.field(default_factory=dict)  # of a built-in network
    loss: str = "cross-entropy"
    flags: tuple = ()
    ignored: bool = False  # a third of the labels are -100

    @property
    def title(self):
        return f"training/{self.name}"


def _pictures(batch, size, channels=3, name="input"):
    return {name: (batch, channels, size, size)}


_SMALL = {"layers": "2", "hidden": "32", "heads": "4", "ff": "64"}

NETWORKS = (
    Network("resnet18", "zoo/resnet18-b1", _pictures(2, 64)),
    Network("resnet18-bn", "model/resnet18", _pictures(4, 64, name="image"), settings={"width": "0.25", "classes": "10"}),
    Network("resnet50-bn", "model/resnet50", _pictures(16, 64, name="image"), settings={"width": "0.125", "classes": "10"}),
    Network("mobilenet_v2", "zoo/mobilenet_v2-dyn", _pictures(2, 64)),
    Network("mobilenet_v2-bn", "model/mobilenet_v2", _pictures(8, 64, name="image"), settings={"width": "0.35", "classes": "10"}),
    Network("mobilenet_v3", "zoo/mobilenet_v3_large-dyn", _pictures(2, 64)),
    Network("efficientnet_b0", "zoo/efficientnet_b0-dyn", _pictures(2, 64)),
    Network("efficientnet_b0-bn", "model/efficientnet_b0", _pictures(4, 64, name="image"), settings={"width": "0.5", "classes": "10"}),
    Network("densenet121", "zoo/densenet121-dyn", _pictures(4, 64)),
    Network("densenet121-ts", "zoo/densenet121-b1", _pictures(4, 64)),
    Network("convnext_tiny", "zoo/convnext_tiny-dyn", _pictures(2, 64)),
    Network("squeezenet1_1", "zoo/squeezenet1_1-b1-inline", _pictures(2, 96)),
    Network("googlenet", "zoo/googlenet-dyn", _pictures(2, 64)),
    Network("ghostnet_100", "zoo/ghostnet_100-b1", _pictures(1, 64)),
    Network("mnasnet1_0", "zoo/mnasnet1_0-b1", _pictures(2, 64)),
    Network("res2net50", "zoo/res2net50_14w_8s-dyn", _pictures(2, 64)),
    Network("randwire", "zoo/randwire_ws-dyn", _pictures(2, 64)),
    Network("nasnet", "zoo/nasnetalarge-b1", _pictures(2, 64)),
    Network("resnet3d18", "model/r3d_18", {"video": (2, 3, 8, 32, 32)}, settings={"width": "0.25", "classes": "10"}),
    Network("unet", "zoo/unet-dyn", _pictures(1, 32)),
    Network("deeplabv3", "zoo/deeplabv3_resnet50-dyn", _pictures(1, 64)),
    Network("vgg16", "model/vgg16", _pictures(2, 32, name="image"), settings={"width": "0.25", "classes": "10", "size": "32"}),
    Network("alexnet", "model/alexnet", _pictures(2, 96, name="image"), settings={"width": "0.25", "classes": "10", "size": "96"}),
    Network("vit", "model/vit_b_16", _pictures(2, 32, name="image"), settings={**_SMALL, "classes": "10", "size": "32", "patch": "8"}),
    Network("swin", "swin"),
    Network("bert", "model/bert", {n: (2, 12) for n in ("input_ids", "attention_mask", "token_type_ids")}, settings={**_SMALL, "vocab": "100", "positions": "32"}),
    Network("distilbert", "zoo/distilbert-dyn", {"input_ids": (2, 12), "attention_mask": (2, 12)}, {30522: 300}, loss="mse"),
    Network("gpt2", "zoo/gpt2-dyn", {"input_ids": (2, 8)}, {50257: 300, 1024: 32}),
    Network("llama_small", "zoo/llama_small-dyn", {"input_ids": (2, 8)}, {32000: 300}),
    Network("transformer", "model/transformer", {"source": (2, 9), "target": (2, 7)}, settings={**_SMALL, "vocab": "100", "positions": "32"}),
    Network("transformer_functions", "zoo/transformer_functions-dyn", {"x": (2, 9, 256)}, loss="mse"),
    Network("t5", "t5"),
    Network("gru_lm", "zoo/gru_lm-dyn", {"tokens": (2, 9)}, {10000: 300}),
    Network("lstm", "lstm"),
    Network("gru", "gru"),
    Network("rnn", "rnn"),
    Network("lstm_long", "lstm_long"),
    Network("gru_long", "gru_long"),
    # The kinds of loss.
    Network("cnn", "cnn"),
    Network("loss-rank-3", "tagger"),
    Network("loss-rank-4", "segmenter"),
    Network("loss-ignored", "tagger", ignored=True),
    Network("loss-ignored-rank-4", "segmenter", ignored=True, flags=("--no-lean=all",)),
    Network("loss-softmax", "mlp-softmax"),
    Network("loss-mse", "mlp", loss="mse"),
    Network("loss-l1", "mlp", loss="l1"),
    Network("loss-bce", "mlp", loss="bce"),
    Network("loss-bce-probabilities", "mlp-sigmoid", loss="bce", flags=("--probabilities",)),
    Network("loss-bce-of-probabilities", "mlp-hard-sigmoid", loss="bce", flags=("--probabilities",)),
    Network("loss-none", "mlp-loss", loss="none:"),
)

# The networks for CI, which checks them by central differences only.
SUBSET = ("training/cnn", "training/swin", "training/t5")

_BUILT = {"mlp-softmax": lambda: build.mlp(last="Softmax"), "mlp-sigmoid": lambda: build.mlp(last="Sigmoid"), "mlp-hard-sigmoid": lambda: build.mlp(last="HardSigmoid"), "mlp-loss": lambda: build.mlp(last="ReduceL2")}


def write(network, path, tool, data):
    """Write the network as a file that contains its weights."""
    kind, _, name = network.source.partition("/")
    if kind == "model":
        tool.model(name, path, network.settings)
        model = onnx.load(path)
    elif kind == "zoo":
        model = probe.load(data / f"{network.source}.onnx")
    else:
        model = _BUILT.get(kind, getattr(build, kind, None))()
    shrink(model.graph, network.shapes, network.lengths)
    draw_weights(model)
    onnx.save(model, str(path))


def shrink(graph, shapes, lengths):
    """Change the shapes of the inputs and the lengths of the initializers' axes."""
    for value in graph.input:
        if value.name in shapes:
            dims = value.type.tensor_type.shape.dim
            if len(dims) != len(shapes[value.name]):
                raise ValueError(f'input "{value.name}" has rank {len(dims)}, expected {len(shapes[value.name])}')
            for dim, length in zip(dims, shapes[value.name]):
                dim.dim_value = length
    if unknown := shapes.keys() - {v.name for v in graph.input}:
        raise ValueError(f"no inputs named {sorted(unknown)}: expected some of {[v.name for v in graph.input]}")
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    for t in graph.initializer:
        if t.data_location == onnx.TensorProto.EXTERNAL:
            t.dims[:] = [lengths.get(n, n) for n in t.dims]


# The role of an operator's input if it is an initializer. Add and Mul read parameters
# as well as constants: there the size decides.
_ROLES = {
    "Conv": {1: "weight", 2: "bias"},
    "ConvTranspose": {1: "columns", 2: "bias"},
    "Gemm": {1: "columns", 2: "bias"},
    "MatMul": {0: "columns", 1: "columns"},
    "Gather": {0: "table"},
    "BatchNormalization": {1: "scale", 2: "bias", 3: "bias", 4: "scale"},
    "LayerNormalization": {1: "scale", 2: "bias"},
    "LSTM": {1: "weight", 2: "weight", 3: "bias"},
    "GRU": {1: "weight", 2: "weight", 3: "bias"},
    "RNN": {1: "weight", 2: "weight", 3: "bias"},
    "Transpose": {0: "weight"},
    "Mul": {0: "scale", 1: "scale"},
    "Add": {0: "bias", 1: "bias"},
}
_FEWEST = 5  # elements of a parameter that Add or Mul reads
_EXPORTERS = re.compile(r"val_\d+|_to_copy.*|constant\d+|.*Constant.*|onnx::(Mul|Add)_\d+")


def draw_weights(model):
    """Draw random values for all parameters; the same names give the same values."""
    graph, roles = model.graph, {}
    # The reader determines a parameter's role within a function, too.
    for node in (onnx.inliner.inline_local_functions(model) if model.functions else model).graph.node:
        for place, role in _ROLES.get(node.op_type, {}).items():
            if place < len(node.input):
                if node.op_type == "Gemm" and place == 1 and any(a.name == "transB" and a.i for a in node.attribute):
                    role = "weight"
                roles.setdefault(node.input[place], (node.op_type, role))
    for t in graph.initializer:
        external = t.data_location == onnx.TensorProto.EXTERNAL
        op, role = roles.get(t.name, ("", "columns" if external else ""))
        shape = tuple(t.dims)
        small = op in ("Add", "Mul", "Gather", "Transpose") and int(np.prod(shape)) < _FEWEST
        if t.data_type != onnx.TensorProto.FLOAT or not external and (not role or small or _EXPORTERS.fullmatch(t.name)):
            if external:
                raise ValueError(f'initializer "{t.name}": no values for its type')
            continue
        t.CopyFrom(onnx.numpy_helper.from_array(_values(t.name, role, shape), t.name))


def _values(name, role, shape):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if role == "scale":
        drawn = rng.uniform(0.5, 1.5, shape)
    elif role == "bias" or len(shape) < 2:
        drawn = 0.1 * rng.standard_normal(shape)
    elif role == "table":
        drawn = 0.3 * rng.standard_normal(shape)
    else:
        fan_in = shape[-2] if role == "columns" else int(np.prod(shape[1:])) if len(shape) != 3 else shape[-1]
        drawn = rng.standard_normal(shape) * (1.5 / max(1, fan_in)) ** 0.5
    return drawn.astype(np.float32)
