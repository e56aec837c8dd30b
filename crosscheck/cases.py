"""The models to check, with their input shapes and symbol values."""

import csv
import dataclasses
import pathlib
import re

# Small models for CI. Together they cover both exporters, functions, subgraphs,
# sparse and quantized weights, 16-bit floats, contrib operators and past states.
SUBSET = (
    "zoo/bert_base-contrib-b1",
    "zoo/densenet121-dyn",
    "zoo/gpt2_past-dyn",
    "zoo/greedy_gru-script",
    "zoo/gru_lm-dyn",
    "zoo/layered_24k-dyn",
    "zoo/mobilenet_v2-int8-qdq-b1",
    "zoo/resnet18-b1",
    "zoo/resnet50-fp16-b1",
    "zoo/sparse_mlp-dyn",
    "zoo/squeezenet1_1-b1-inline",
    "zoo/transformer_base-dyn",
    "zoo/transformer_functions-dyn",
    "zoo/unet-dyn",
    "light/light_squeezenet",
    "model/mobilenet_v2",
    "model/transformer",
)

_TINY = {"layers": "2", "hidden": "64", "heads": "4", "ff": "128"}
_TEXT = {**_TINY, "vocab": "100", "positions": "32"}

# The built-in networks at small settings: settings, and lengths for the dimensions,
# which stay symbolic in the file.
BUILT_IN = {
    "alexnet": ({"batch": 2}, {"classes": "10", "width": "0.5"}),
    "bert": ({"batch": 2, "sequence": 16}, _TEXT),
    "efficientnet_b0": ({"batch": 2}, {"classes": "10", "width": "0.5"}),
    "googlenet": ({"batch": 2}, {"classes": "10"}),
    "mnasnet": ({"batch": 2}, {"classes": "10", "width": "0.5"}),
    "mobilenet_v1": ({"batch": 2}, {"classes": "10", "width": "0.25"}),
    "mobilenet_v2": ({"batch": 2}, {"classes": "10", "width": "0.35"}),
    "r3d_18": ({"batch": 1}, {"classes": "10", "width": "0.25"}),
    "resnet18": ({"batch": 2}, {"classes": "10", "width": "0.5"}),
    "resnet50": ({"batch": 2}, {"classes": "10", "width": "0.5"}),
    "tiny_autoencoder": ({"batch": 2}, {}),
    "tiny_ds_cnn": ({"batch": 2}, {}),
    "tiny_mobilenet": ({"batch": 2}, {}),
    "tiny_resnet8": ({"batch": 2}, {}),
    "transformer": ({"batch": 2, "source": 12, "target": 9}, _TEXT),
    "vgg16": ({"batch": 1}, {"classes": "10", "width": "0.25"}),
    "vit_b_16": ({"batch": 2}, {**_TINY, "classes": "10"}),
    "xlmr": ({"batch": 2, "sequence": 16}, _TEXT),
}

# Factors on the random inputs: with smaller ones, the detector finds nothing.
SCALES = {"zoo/fasterrcnn_resnet50_fpn": 30.0}

_SYMBOL = re.compile(r"[^\W\d][\w.]*")  # as opposed to an expression such as "past + 1"


@dataclasses.dataclass
class Case:
    """One model. `file` lies in the data folder; a built-in network has none."""

    kind: str  # zoo, light or model
    name: str
    file: str = ""
    shapes: dict = dataclasses.field(default_factory=dict)  # input name: shape
    dims: dict = dataclasses.field(default_factory=dict)  # symbols that are given
    settings: dict = dataclasses.field(default_factory=dict)
    expected: str = ""  # light: the output that the network must give

    @property
    def title(self):
        return f"{self.kind}/{self.name}"

    @property
    def scale(self):
        return SCALES.get(self.title, 1.0)

    def source(self, work):
        """Return the path of the model in the working folder."""
        return work / (self.file or f"{self.kind}/{self.name}.onnx")

    def settle(self, declared):
        """Return the shapes of all inputs, including those that the case leaves open, and the symbols' values."""
        shapes = dict(self.shapes)
        for name, dims in declared.items():
            shapes.setdefault(name, tuple(d if isinstance(d, int) else self.dims.get(d, 1) for d in dims))
        return shapes, symbols(declared, shapes)


def find(data: pathlib.Path, networks):
    """Return all cases: the models below data, then the built-in networks."""
    cases = list(_zoo(data)) + list(_light(data))
    for name in networks:
        dims, settings = BUILT_IN.get(name, ({}, {}))
        cases.append(Case("model", name, dims=dims, settings=settings))
    return cases


def _zoo(data):
    """Return a case for every line of expected.csv, then for the models that it does not name.

    Without that file there are none: testdata/ has only a model, without shapes and
    without weights.
    """
    if not (data / "zoo/expected.csv").exists():
        return
    with open(data / "zoo/expected.csv", newline="", encoding="utf-8") as f:
        rows = {row["file"]: row["inputs"] for row in csv.DictReader(f)}
    names = sorted(rows.keys() | {p.name for p in (data / "zoo").glob("*.onnx")})
    for name in names:
        yield Case("zoo", name.removesuffix(".onnx"), f"zoo/{name}", shapes=parse_shapes(rows.get(name, "")))


def _light(data):
    for path in sorted((data / "light").glob("*.onnx")):
        expected = path.with_name(path.stem + "_output_0.pb")
        yield Case("light", path.stem, f"light/{path.name}", expected=str(expected) if expected.exists() else "")


def parse_shapes(text):
    """Parse expected.csv's inputs: "a=2x3;n=scalar" is {"a": (2, 3), "n": ()}."""
    shapes = {}
    for part in filter(None, text.split(";")):
        name, _, shape = part.rpartition("=")
        shapes[name] = () if shape == "scalar" else tuple(map(int, shape.split("x")))
    return shapes


def symbols(declared, shapes):
    """Return the symbol values that turn the declared shapes into the given ones.

    declared maps each input to a list of ints, symbol names, or None for an unnamed
    dimension, which is identified by its place: x[0]. Expressions follow from their
    symbols and are left out.
    """
    values = {}
    for name, dims in declared.items():
        given = shapes.get(name)
        if given is None:
            continue
        if len(given) != len(dims):
            raise ValueError(f'input "{name}": rank {len(dims)} declared, shape {list(given)} given')
        for i, (dim, length) in enumerate(zip(dims, given)):
            symbol = f"{name}[{i}]" if dim is None else dim
            if isinstance(dim, int):
                if dim != length:
                    raise ValueError(f'input "{name}": dimension {i} is {dim}, {length} given')
            elif dim is not None and not _SYMBOL.fullmatch(dim):
                continue
            elif values.setdefault(symbol, length) != length:
                raise ValueError(f'symbol "{symbol}" is both {values[symbol]} and {length}')
    return values
