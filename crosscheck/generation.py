"""A decoder as ONNX Runtime's generation tools write it: weights of 4 bits in blocks of 32, and caches in GroupQueryAttention."""

import dataclasses
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from . import command

_BLOCK = 32
_POSITIONS = 2048
_MS = "com.microsoft"


@dataclasses.dataclass(frozen=True)
class Size:
    """The lengths of a decoder."""

    layers: int
    wide: int
    heads: int
    kv_heads: int
    inner: int
    words: int
    level: int = 4  # accuracy_level of the products: 4 permits ONNX Runtime 8-bit integers

    @property
    def head(self):
        return self.wide // self.heads


SMALL = Size(2, 64, 4, 2, 128, 100)
REAL = Size(4, 1024, 16, 4, 2816, 32000)


class _Writer:
    """Collects the nodes and the weights of a graph."""

    def __init__(self, size):
        self.size, self.nodes, self.weights, self.random = size, [], [], np.random.default_rng(1)

    def constant(self, name, value):
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, name, *inputs, outputs=1, domain="", **attributes):
        made = [name, *[f"{name}.{i}" for i in range(1, outputs)]] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, list(inputs), made, name=name, domain=domain, **attributes))
        return made[0]

    def product(self, name, x, rows, columns):
        """A product by weights of 4 bits, which lie around 8: their standard deviation is 1/sqrt(rows)."""
        blocks = rows // _BLOCK
        numbers = self.constant(f"{name}.weight_Q4", self.random.integers(0, 256, (columns, blocks, _BLOCK // 2), np.uint8))
        drawn = self.random.uniform(0.5, 1.5, (columns * blocks)) * 0.22 / rows**0.5
        scales = self.constant(f"{name}.weight_scales", drawn.astype("f"))
        return self.node("MatMulNBits", name, x, numbers, scales, domain=_MS, N=columns, K=rows, bits=4, block_size=_BLOCK, accuracy_level=self.size.level)

    def scale(self, name):
        return self.constant(name, self.random.uniform(0.5, 1.5, self.size.wide).astype("f"))

    def skip_norm(self, name, x, skip, last=False):
        """Return the norm of a sum, and the sum; the last sum has no reader."""
        outputs = [name] if last else [name, "", "", f"{name}.sum"]
        self.node("SkipSimplifiedLayerNormalization", name, x, skip, self.scale(f"{name}.scale"), outputs=outputs, domain=_MS, epsilon=1e-5)
        return name, outputs[-1]


def decoder(path, size):
    """Write a decoder with inputs input_ids, attention_mask and past_key_values.N.key and .value, and outputs logits and present.N.key and .value."""
    w, s = _Writer(size), size
    w.constant("one", np.int64(1))
    w.constant("axis", np.array([1]))
    sums = w.node("Sub", "keys_less_1", w.node("ReduceSum", "keys", "attention_mask", "axis", keepdims=0), "one")
    counts = w.node("Cast", "seqlens_k", sums, to=TensorProto.INT32)
    length = w.node("Gather", "mask_length", w.node("Shape", "mask_shape", "attention_mask"), "one", axis=0)
    total = w.node("Cast", "total_length", length, to=TensorProto.INT32)
    angles = np.arange(_POSITIONS)[:, None] / 10000 ** (np.arange(s.head // 2) / (s.head // 2))
    w.constant("cos_cache", np.cos(angles).astype("f"))
    w.constant("sin_cache", np.sin(angles).astype("f"))
    w.constant("embed_tokens", w.random.standard_normal((s.words, s.wide)).astype("f"))
    x = w.node("Gather", "embedded", "embed_tokens", "input_ids")
    y = w.node("SimplifiedLayerNormalization", "layer0.input_norm", x, w.scale("layer0.input_norm.scale"), axis=-1, epsilon=1e-5, stash_type=1)
    inputs = [_info("input_ids", TensorProto.INT64, "batch_size", "sequence_length"), _info("attention_mask", TensorProto.INT64, "batch_size", "total_sequence_length")]
    outputs = [_info("logits", TensorProto.FLOAT, "batch_size", "sequence_length", s.words)]
    for k in range(s.layers):
        n = f"layer{k}"
        q, key, value = (w.product(f"{n}.{of}_proj", y, s.wide, heads * s.head) for of, heads in (("q", s.heads), ("k", s.kv_heads), ("v", s.kv_heads)))
        past, present = ([f"{kind}.{k}.{of}" for of in ("key", "value")] for kind in ("past_key_values", "present"))
        w.node("GroupQueryAttention", f"{n}.attention", q, key, value, *past, counts, total, "cos_cache", "sin_cache", outputs=[f"{n}.attention", *present], domain=_MS, num_heads=s.heads, kv_num_heads=s.kv_heads, do_rotary=1, scale=s.head**-0.5)
        inputs += [_info(name, TensorProto.FLOAT, "batch_size", s.kv_heads, "past_sequence_length", s.head) for name in past]
        outputs += [_info(name, TensorProto.FLOAT, "batch_size", s.kv_heads, "total_sequence_length", s.head) for name in present]
        y, x = w.skip_norm(f"{n}.post_norm", x, w.product(f"{n}.o_proj", f"{n}.attention", s.wide, s.wide))
        gate, up = (w.product(f"{n}.{of}_proj", y, s.wide, s.inner) for of in ("gate", "up"))
        gated = w.node("Mul", f"{n}.silu", gate, w.node("Sigmoid", f"{n}.sigmoid", gate))
        down = w.product(f"{n}.down_proj", w.node("Mul", f"{n}.gated", gated, up), s.inner, s.wide)
        y, x = w.skip_norm("final_norm" if k + 1 == s.layers else f"layer{k + 1}.input_norm", x, down, k + 1 == s.layers)
    head = w.product("lm_head", y, s.wide, s.words)
    w.nodes[-1].output[0] = "logits"
    assert head == "lm_head"
    graph = helper.make_graph(w.nodes, "decoder", inputs, outputs, w.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(_MS, 1)], ir_version=10), path)


def _info(name, elements, *shape):
    return helper.make_tensor_value_info(name, elements, shape)


_PROMPT, _ROOM = 5, 16  # tokens; places in the caches of the token after them
_TOLERANCE = {0: 2e-5, 4: 1e-2}  # of the largest score; 8-bit integers round what differs in its last bits


@dataclasses.dataclass(frozen=True)
class Case:
    """A small decoder at an accuracy_level."""

    level: int

    @property
    def stem(self):
        return f"level{self.level}"


def find():
    return [Case(level) for level in _TOLERANCE]


def examine(case, tool, work):
    """Run a prompt, one more token with caches that have room, and a sequence of tokens; compare all with ONNX Runtime."""
    began = time.monotonic()
    result = {"title": f"generation/{case.stem}", "faults": [], "worst": 0.0}
    source = work / f"generation.{case.stem}.onnx"
    decoder(source, dataclasses.replace(SMALL, level=case.level))
    session = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    caches = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), "f") for i in session.get_inputs() if "past" in i.name}
    try:
        for tokens, total, flags in ((np.arange(_PROMPT), _PROMPT, []), (np.array([7]), _PROMPT + 1, ["--state=auto"])):
            given = {"input_ids": tokens[None], "attention_mask": np.ones((1, total), np.int64), **caches}
            names = [o.name for o in session.get_outputs()]
            want = dict(zip(names, session.run(names, given)))
            _compare(source, given, want, total, flags, case, tool, result)
            room = [(0, 0), (0, 0), (0, _ROOM - total), (0, 0)]
            caches = {name: np.pad(want[name.replace("past_key_values", "present")], room) for name in caches}
        if case.level == 0:  # else a rounding step may decide between two tokens
            _decode(source, session, tool, result)
    except command.Failed as err:
        result["faults"].append(str(err))
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def _decode(source, session, tool, result):
    """Choose the token with the largest score again and again, in caches that stay, as ONNX Runtime does in caches that grow."""
    target = source.with_suffix(".decoded.onnx")
    tool.plan(source, target, ["--state=auto", f"--dim=past_sequence_length={_ROOM}", f"--dim=total_sequence_length={_ROOM}"])
    flags = [f"--steps={_ROOM}", "--decode=input_ids=logits", "--mask=attention_mask", "--check"]
    report, _ = tool.run(target, {"input_ids": np.array([[7]])}, flags, 60)
    result["faults"] += command.differing(report)
    token, want = 7, []
    caches = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), "f") for i in session.get_inputs() if "past" in i.name}
    names = [o.name for o in session.get_outputs()]
    for seen in range(1, _ROOM):
        given = {"input_ids": np.array([[token]]), "attention_mask": np.ones((1, seen), np.int64), **caches}
        got = dict(zip(names, session.run(names, given)))
        caches = {name: got[name.replace("past_key_values", "present")] for name in caches}
        token = int(got["logits"][0, -1].argmax())
        want.append(token)
    if report["tokens"] != want:
        result["faults"].append(f"decoding chose {report['tokens']}, ONNX Runtime {want}")


def _compare(source, given, want, total, flags, case, tool, result):
    """Plan a step, verify the plan, run it, and compare what it gives with what ONNX Runtime gave."""
    target = source.with_suffix(".planned.onnx")
    past = given["past_key_values.0.key"].shape[2]
    lengths = {"batch_size": 1, "sequence_length": given["input_ids"].shape[1], "past_sequence_length": past, "total_sequence_length": total}
    tool.plan(source, target, [*flags, *[f"--dim={name}={n}" for name, n in lengths.items()]])
    result["faults"] += [f"verify: {text}" for text in tool.verify(target)]
    report, got = tool.run(target, given, ["--check", "--poison"], 60)
    result["faults"] += command.differing(report)
    for name in want:
        if name not in got:  # a cache that stays
            continue
        apart = float(np.abs(got[name] - want[name]).max() / np.abs(want[name]).max())
        result["worst"] = max(result["worst"], apart)
        if apart > _TOLERANCE[case.level]:
            result["faults"].append(f"{name} of {lengths['sequence_length']} tokens differs from ONNX Runtime's by {apart:.2g} of the largest")


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} a prompt and a token: {result['worst']:.1e} of the largest score from ONNX Runtime's, {len(result['faults'])} faults, {result['seconds']} s"
