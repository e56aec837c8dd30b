"""Decoders whose caches were given a fixed capacity, next to the same with caches that grow."""

import dataclasses
import json
import pathlib
import time

import numpy as np
import onnx
import onnxruntime

from . import cases, command, workdir

HEAD = ("decoder", "tokens", "cache", "copied a token: growing", "fixed", "ms a token: growing", "fixed", "largest difference", "same bits")

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
_TOLERANCE = 2e-5  # of the largest score: sums over more elements, those behind the tokens being 0, have another order
_STEPS = 20  # of which the fastest is taken
_SECONDS = 600  # of one command


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A file with one new token, and the capacity that its caches get."""

    title: str
    source: str  # in the folder of the work
    capacity: int

    @property
    def stem(self):
        return self.title


def find(tool, work, data):
    """The decoders of testdata, and that of the zoo if it is there."""
    found = []
    for path in sorted((_ROOT / "testdata/decoders").glob("*.onnx")):
        target = work / "decoders" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        found.append(Decoder(path.stem, f"decoders/{path.name}", 24))
    if (data / "zoo/gpt2_past-dyn.onnx").exists():
        workdir.prepare(work, data, [c for c in cases.find(data, []) if c.title == "zoo/gpt2_past-dyn"])
        for capacity in (64, 1024):
            found.append(Decoder(f"GPT-2, {capacity}", "zoo/gpt2_past-dyn.onnx", capacity))
    return found


def examine(decoder, tool, work):
    """Rewrite a decoder, verify it, and compare the scores of every token by ONNX Runtime, and the last ones by onnxmem run."""
    began = time.monotonic()
    result = {"title": f"decoders/{decoder.title}", "faults": [], "capacity": decoder.capacity}
    source = work / decoder.source
    fixed, growing = (source.with_name(f"{decoder.stem.replace(', ', '-')}.{kind}.onnx") for kind in ("fixed", "growing"))
    try:
        tool.plan(source, fixed, [f"--kv-capacity={decoder.capacity}"])
        result["faults"] += [f"verify: {text}" for text in tool.verify(fixed)]
        kv = json.loads(next(p.value for p in onnx.load(fixed, load_external_data=False).metadata_props if p.key == "onnxmem.kv"))
        _compare(decoder, source, fixed, kv, tool, result)
        _measure(decoder, source, fixed, growing, kv, tool, result)
    except (command.Failed, onnxruntime.capi.onnxruntime_pybind11_state.Fail) as err:
        result["faults"].append(str(err))
    finally:
        for path in source.parent.glob("*.fixed.*"), source.parent.glob("*.growing.*"):
            for file in path:
                file.unlink()
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def _session(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _values(session, kv, tokens):
    """The inputs of every run but the caches and the position, drawn from their names; masks show the given number of tokens."""
    values = {}
    for i in session.get_inputs():
        if i.name in {c["past"] for c in kv["caches"]} | {kv["index"]}:
            continue
        if i.name in kv.get("masks", []):
            values[i.name] = np.ones([d if isinstance(d, int) else tokens if "past" in d else 1 for d in i.shape], _TYPES[i.type])
            continue
        rng = np.random.default_rng(list(i.name.encode()))
        shape = [d if isinstance(d, int) else 1 for d in i.shape]
        drawn = rng.standard_normal(shape) if "float" in i.type else rng.integers(0, 50, shape)
        values[i.name] = drawn.astype(_TYPES[i.type])
    return values


def _caches(session, kv, tokens):
    """Caches of zeros for a number of tokens."""
    axes = {c["past"]: c["axis"] for c in kv["caches"]}
    caches = {}
    for i in session.get_inputs():
        if i.name in axes:
            shape = [d if isinstance(d, int) else 1 for d in i.shape]
            shape[axes[i.name]] = tokens
            caches[i.name] = np.zeros(shape, _TYPES[i.type])
    return caches


def _compare(decoder, source, fixed, kv, tool, result):
    """Decode min(capacity, 24) tokens."""
    grows, stays = _session(source), _session(fixed)
    present = {c["past"]: c["present"] for c in kv["caches"]}
    names = [o.name for o in grows.get_outputs()]
    before, now = _caches(grows, kv, 0), _caches(stays, kv, kv["capacity"])
    count = min(decoder.capacity, 24)
    worst, same = 0.0, 0
    for token in range(count):
        a = dict(zip(names, grows.run(names, _values(grows, kv, token + 1) | before)))
        b = dict(zip(names, stays.run(names, _values(stays, kv, kv["capacity"]) | now | {kv["index"]: np.array([token])})))
        before, now = ({past: out[name] for past, name in present.items()} for out in (a, b))
        scores = [n for n in names if n not in present.values()]
        worst = max(worst, *(float(np.abs(a[n] - b[n]).max() / np.abs(a[n]).max()) for n in scores))
        same += all(a[n].tobytes() == b[n].tobytes() for n in scores)
    result["worst"], result["same"], result["count"] = worst, same, count
    if worst > _TOLERANCE:
        result["faults"].append(f"ONNX Runtime: scores differ by {worst:.2g} of the largest")
    _, ours = tool.run(fixed, _values(stays, kv, kv["capacity"]), [f"--steps={count}"], _SECONDS)
    for n in scores:
        if (apart := float(np.abs(a[n] - ours[n]).max() / np.abs(a[n]).max())) > _TOLERANCE:
            result["faults"].append(f"onnxmem run: {n} differs from ONNX Runtime's by {apart:.2g} of the largest after {count} tokens")


def _measure(decoder, source, fixed, growing, kv, tool, result):
    """Time a token with full caches, and count the bytes of caches that nodes copy."""
    past = decoder.capacity - kv["new"]
    tool.plan(source, growing, [f"--dim={kv['dimension']}={past}"])
    grows, stays = _session(source), _session(fixed)
    caches = _caches(grows, kv, past)
    result["cache"] = sum(c.nbytes for c in _caches(grows, kv, decoder.capacity).values())
    result["copied"] = [result["cache"], result["cache"] // decoder.capacity * kv["new"]]
    report, _ = tool.run(growing, _values(grows, kv, decoder.capacity) | caches, [f"--steps={_STEPS}"], _SECONDS)
    full = _values(stays, kv, kv["capacity"]) | {kv["index"]: np.array([past])}
    again, _ = tool.run(fixed, full, [f"--steps={_STEPS}"], _SECONDS)
    result["ms"] = [report["times_ms"]["step"], again["times_ms"]["step"]]


def cells(result):
    """Return a row of the table."""
    copied, ms = result["copied"], result["ms"]
    return [
        result["title"].partition("/")[2], str(result["capacity"]), _size(result["cache"]), _size(copied[0]), _size(copied[1]),
        f"{ms[0]:.3g}", f"{ms[1]:.3g}", f"{result['worst']:.1e}", f"{result['same']} of {result['count']}",
    ]


def row(result):
    """Return one line of text."""
    if "ms" not in result:
        return f"{result['title']:34} failed"
    return f"{result['title']:34} " + ", ".join(f"{title} {cell}" for title, cell in zip(HEAD[1:], cells(result)[1:])) + f", {result['seconds']} s"


def _size(count):
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 1024:.1f} KiB"
