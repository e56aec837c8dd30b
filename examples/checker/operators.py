"""Which outputs are views of an input, and which may be written over one: docs/formats/sharing.md."""

import collections
import math
import pathlib
import re

import onnx

# docs/formats/storage.md, Tensors: bits of an element by ONNX's number of its type.
BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2, 27: 8, 28: 8}

ALWAYS = set("Identity Reshape Flatten Squeeze Unsqueeze BitCast com.microsoft::ExpandDims".split())
SAME_COUNT = set("Expand Tile ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin".split())
ONLY_INPUT = set("Concat Sum Mean Min Max".split())
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/formats/sharing.md"


def in_place():
    """The pairs (output, input) of operators by the tables of PAGE, and the operators with a pair for each input."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## In-place results\n")[2].partition("\n## ")[0]
    pairs, each = {}, set()
    for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE):
        *domain, operators, rule = row.split(" | ")
        names = ["::".join((*domain, op)) for op in re.findall("`([^`]+)`", operators)]
        if rule.startswith("(0, i) for each input i"):
            each.update(names)
        else:
            pairs.update(dict.fromkeys(names, [(int(o), int(i)) for o, i in re.findall(r"\((\d+), (\d+)\)", rule)]))
    return pairs, each


PAIRS, EACH = in_place()


def name(node):
    """The operator as plans spell it."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


class Sharing:
    """The sharing that the nodes of a graph permit.

    types has the number of the element type and the shape of each tensor, constants the
    elements of small constants, and bytes the size of each tensor before it is rounded.
    """

    def __init__(self, types, constants, bytes):
        self.types, self.constants, self.bytes = types, constants, bytes

    def equal(self, a, b):
        """Equal shapes, and elements of one width."""
        (x, shape), (y, other) = self.types[a], self.types[b]
        return shape == other and BITS[x] == BITS[y]

    def view(self, node, k):
        """Whether output k is a view of input 0."""
        if k > 0 or not node.input or not node.input[0] or self.bytes[node.output[k]] != self.bytes[node.input[0]]:
            return False
        op, x, y = name(node), node.input[0], node.output[k]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if op == "Transpose":
            shape = self.types[x][1]
            kept = [a for a in attributes.get("perm", range(len(shape))[::-1]) if shape[a] != 1]
            return kept == sorted(kept)
        if op == "Slice":
            steps = self.constant(node, 4)
            return self.equal(x, y) and (len(node.input) < 5 or steps is not None and bool((steps > 0).all()))
        if op == "Pad":
            pads = attributes.get("pads", attributes.get("paddings", self.constant(node, 1)))
            return pads is not None and not any(pads)
        if op in ("Resize", "Upsample"):
            scales = self.constant(node, 2 if op == "Resize" else 1)
            return bool((scales == 1).all()) if scales is not None and scales.size else op == "Resize" and self.equal(x, y)
        if op == "Dropout":
            training = self.constant(node, 2)
            return len(node.input) < 3 or not node.input[2] or training is not None and not training.any()
        return (
            op in ALWAYS
            or op in ("Cast", "CastLike") and self.types[x][0] == self.types[y][0]
            or op in SAME_COUNT and math.prod(self.types[x][1]) == math.prod(self.types[y][1])
            or op in ONLY_INPUT and len(node.input) == 1
            or op == "Split" and len(node.output) == 1
            or op in ("CenterCropPad", "Crop") and self.equal(x, y)
            or op in ("DepthToSpace", "SpaceToDepth") and attributes.get("blocksize") == 1
        )

    def constant(self, node, i):
        """The elements of input i, None if they are not known."""
        return self.constants.get(node.input[i]) if i < len(node.input) else None

    def pairs(self, node, base):
        """The pairs (output, input) of tensors; base gives the tensor of which another is a view, or itself."""
        op, ins, outs = name(node), node.input, node.output
        pairs = [(0, i) for i in range(len(ins))] if op in EACH else PAIRS.get(op, [])
        pairs = [(o, i) for o, i in pairs if o < len(outs) and i < len(ins) and outs[o] and ins[i] and self.equal(outs[o], ins[i])]
        if op == "Gemm" and self.types[outs[0]][0] != onnx.TensorProto.FLOAT:
            return []
        reads = collections.Counter(base[x] for x in ins if x)
        over = collections.Counter((o, base[ins[i]]) for o, i in pairs)
        safe = [(o, i) for o, i in pairs if len(ins) == 1 or over[o, base[ins[i]]] == reads[base[ins[i]]]]
        return [(outs[o], ins[i]) for o, i in safe if not self.view(node, o)]
