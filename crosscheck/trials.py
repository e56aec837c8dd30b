"""Plan, verify and run random networks under random options, and compare them with ONNX Runtime.

    crosscheck/run trials [--number N] [--first K] [--found FOLDER]

ONNX Runtime runs the network and the planned file, without optimizations. It can crash
the process that runs it, so archives of trials are judged in separate processes, one after
another, while the next trials run.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import tempfile
import time
import zipfile

import numpy as np

from . import judging

_SECONDS = 300  # for an archive


def main(argv):
    parser = argparse.ArgumentParser(prog="crosscheck trials", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--number", type=int, default=300, help="number of trials (default: 300)")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--found", type=pathlib.Path, help="folder for what differs, and for findings, shrunk")
    parser.add_argument("--command", help="the command trials, if it is built (default: go run)")
    args = parser.parse_args(argv)
    result = examine(args.number, args.first, args.found, args.command)
    print(row(result))
    for fault in result["faults"]:
        print(f"    {fault}")
    return 1 if result["faults"] else 0


def examine(number, first=0, found=None, built=""):
    """Run the trials; return their counts, and the faults."""
    began = time.monotonic()
    verdicts = []
    if found:
        pathlib.Path(found).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="onnxmem-trials-") as name:
        folder = pathlib.Path(name)
        command = [*([built] if built else ["go", "run", "./internal/trial/trials"]), f"-n={number}", f"-first={first}", f"-keep={folder}"]
        with open(folder / "said", "w+", encoding="utf-8") as said:
            process = subprocess.Popen([*command, *([f"-found={found}"] if found else [])], cwd=judging.ROOT, stdout=said)
            running = True
            while running:
                running = process.poll() is None
                for archive in sorted(folder.glob("*.zip"), key=lambda p: int(p.stem)):
                    verdicts += _judge(archive, found)
                    archive.unlink()
                if running:
                    time.sleep(0.5)
            said.seek(0)
            lines = said.read().splitlines()
    counts = collections.Counter(v["verdict"] for v in verdicts)
    faults = [line for line in lines if line.startswith("trial")] if process.returncode else []
    if process.returncode not in (0, 1):
        faults.append(f"trials: exit status {process.returncode}")
    faults += [f"{v['name']}: {v['options']}: {v['what']}" for v in verdicts if v["verdict"] not in _RIGHT]
    stages = {kind: int(n) for n, kind in (line.split(None, 1) for line in lines if line[:7].strip().isdigit())}
    return {"title": "trials", "number": number, "stages": stages, "counts": dict(counts), "faults": faults, "seconds": round(time.monotonic() - began)}


def row(result):
    """Return one line of text."""
    stages = ", ".join(f"{n} {kind}" for kind, n in sorted(result["stages"].items()))
    counts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(result["counts"].items()))
    return f"trials {result['number']:>8}: {stages}; ONNX Runtime: {counts} {result['seconds']:>8} s"


def _judge(archive, found):
    """Return the verdicts of an archive; if its process ends early, a trial has crashed it."""
    with zipfile.ZipFile(archive) as z:
        names = list(dict.fromkeys(n.split("/")[0] for n in z.namelist()))
    verdicts = judging.verdicts("crosscheck.trials", archive, names, _SECONDS, lambda name, why: {"name": name, "verdict": why, "what": why, "options": ""})
    if found:
        with zipfile.ZipFile(archive) as z:
            for v in verdicts:
                if v["verdict"] not in _RIGHT:
                    (found / f"{v['name']}.onnx").write_bytes(z.read(f"{v['name']}/source.onnx"))
                    about = {"options": v["options"].split(), "kind": v["verdict"], "says": v["what"]}
                    (found / f"{v['name']}.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return verdicts


def _verdict(z, name):
    import onnx
    import onnxruntime as ort
    from onnx import numpy_helper

    options = judging.options()
    options.add_session_config_entry("session.x64quantprecision", "1")

    def values(z, files, place):
        return {n.removeprefix(place): numpy_helper.to_array(onnx.TensorProto.FromString(z.read(n))) for n in files if n.startswith(place)}

    files = [n for n in z.namelist() if n.startswith(name + "/")]
    chosen = z.read(f"{name}/options").decode()
    result = {"name": name, "options": chosen}
    for which in ("planned", "source"):
        if which == "source" and "--train" in chosen:
            continue
        model = z.read(f"{name}/{which}.onnx")
        parsed = onnx.ModelProto.FromString(model)
        part, draws = _rounding(parsed), any(map(_draws, _nodes(parsed.graph)))
        try:
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as e:
            return result | {"verdict": "refuses", "what": f"{which}: {str(e)[-300:]}"}
        for run in sorted({n.split("/")[1] for n in files if n.count("/") > 2}):
            given = values(z, files, f"{name}/{run}/params/") | values(z, files, f"{name}/{run}/input/")
            want = values(z, files, f"{name}/{run}/output/")
            try:
                feeds = {i.name: given[i.name] for i in session.get_inputs() if i.name in given}
                names = [o.name for o in session.get_outputs() if o.name in want]
                made = dict(zip(names, session.run(names, feeds)))
            except Exception as e:
                return result | {"verdict": "fails", "what": f"{which}, run {run}: {str(e)[-300:]}"}
            if draws:
                result["verdict"] = "draws"
                continue
            shaken = None
            for output, there in made.items():
                slack = 2 * _RATE if _has_moments(names, output) else 0.0
                fault = _difference(want[output], there, part, slack)
                if not fault:
                    continue
                shaken = shaken or _shaken(session, lambda m=model: _scales_changed(m, options), names, feeds, made)
                # as much as 20 times what changes of the last bits make
                if fault := _difference(want[output], there, part, slack + 20 * shaken[output]):
                    return result | {"verdict": "differs", "what": f"{which}, run {run}: {output}: {fault}"}
    return {"verdict": "agrees", "what": ""} | result


_RIGHT = ("agrees", "draws")
_RATE = 0.01  # the learning rate of steps


def _has_moments(names, output):
    """Whether an output is a parameter that an optimizer with moments made.

    Such an optimizer divides a gradient by its own size: of one that is nearly zero it makes a step of the
    learning rate in whatever direction its rounding errors point. The moments show errors of gradients.
    """
    param = output.removesuffix(".new")
    return param != output and any(n != output and n.startswith(param + ".") and n.endswith(".new") for n in names)


_CHANGES = (1e-7, 3e-7, 1e-6) * 2  # of inputs, as a part of them
_SCALE_CHANGES = (1e-5, 3e-5) * 3  # of the scales of quantized numbers


def _shaken(session, scales_changed, names, feeds, made):
    """Return by how much each output changes if the inputs, or the scales of quantized numbers, change in their last bits.

    A norm of nearly equal numbers makes much of a rounding, and a number that lies halfway
    between two bytes may become either.
    """
    rng = np.random.default_rng(1)
    most = dict.fromkeys(names, 0.0)

    def compare(results):
        for n, v in zip(names, results):
            if v.dtype.kind == "f" and v.size and v.shape == made[n].shape:
                most[n] = max(most[n], float(np.nan_to_num(np.abs(v.astype(np.float64) - made[n].astype(np.float64)), nan=np.inf).max()))

    for size in _CHANGES:
        compare(session.run(names, {n: _changed(v, size, rng) for n, v in feeds.items()}))
    for other in scales_changed():
        compare(other.run(names, feeds))
    return most


def _changed(v, size, rng):
    return np.asarray(v * (1 + size * rng.standard_normal(v.shape)), v.dtype) if v.dtype.kind == "f" else v


def _scales_changed(model, options):
    """Return sessions of a model whose constant scales of quantized numbers differ in their last bits.

    An exact product of bytes that lies halfway between two others is moved by its scale alone. ONNX Runtime adds
    the zero point, of up to 255, before it rounds: float32 is off by up to 8e-6 there.
    """
    import onnx
    import onnxruntime as ort
    from onnx import numpy_helper

    rng = np.random.default_rng(1)
    for size in _SCALE_CHANGES:
        other = onnx.ModelProto.FromString(model)
        scales = {name for n in _nodes(other.graph) if _quantizes(n) for name in n.input}
        for t in _constants(other.graph):
            if t.name in scales and t.data_type == onnx.TensorProto.FLOAT:
                t.CopyFrom(numpy_helper.from_array(_changed(numpy_helper.to_array(t), size, rng), t.name))
        if not scales:
            return
        yield ort.InferenceSession(other.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _draws(node):
    """Whether a node draws random numbers, which are others in each runtime."""
    if node.op_type == "Dropout":
        return len(node.input) > 2 and bool(node.input[2])
    return node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial")


def _quantizes(node):
    return any(word in node.op_type for word in ("Quantize", "QLinear", "Integer"))


def _constants(graph):
    yield from graph.initializer
    for n in graph.node:
        for a in n.attribute:
            if a.HasField("g"):
                yield from _constants(a.g)


def _nodes(graph):
    for n in graph.node:
        yield n
        for a in n.attribute:
            if a.HasField("g"):
                yield from _nodes(a.g)


_HALF = 10  # TensorProto.FLOAT16
_BYTES = 0.1  # scales are of about a third of that


def _rounding(model):
    """Return by which part of the largest element the results of a model may differ: more if it rounds to bytes or
    to 16 bits, since a number that lies halfway may become either."""
    nodes = list(_nodes(model.graph)) + [n for f in model.functions for n in f.node]
    if any(map(_quantizes, nodes)):
        return _BYTES
    if any(n.op_type == "Cast" and any(a.name == "to" and a.i == _HALF for a in n.attribute) for n in nodes):
        return 3e-3
    return 3e-4 if any("Normalization" in n.op_type for n in nodes) else 3e-5


def _difference(here, there, part, slack):
    """Describe the difference between two results; "" if there is none but rounding, of a part of the largest
    element and the slack."""
    if here.shape != there.shape or here.dtype != there.dtype:
        return f"{here.dtype}{list(here.shape)} here, {there.dtype}{list(there.shape)} there"
    if here.size == 0:
        return ""
    a, b = here.astype(np.float64), there.astype(np.float64)
    scale = max(float(np.max(np.abs(b[np.isfinite(b)]), initial=0)), 1e-3)
    with np.errstate(all="ignore"):
        off = np.where((a == b) | np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b))
    off = np.nan_to_num(off, nan=np.inf)
    if float(off.max()) <= part * max(scale, 1.0 if part == _BYTES else 0.0) + slack:
        return ""
    at = int(off.argmax())
    return f"element {at} of {here.dtype}{list(here.shape)} is {a.flat[at]:.8g} here, {b.flat[at]:.8g} there, of at most {scale:.3g}"


if __name__ == "__main__":
    judging.start(main, _verdict)
