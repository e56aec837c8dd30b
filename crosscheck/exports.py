"""crosscheck/run exports: networks as today's exporters write them, from optimize to run, against ONNX Runtime.

    crosscheck/run exports check FOLDER [NAME ...]    optimize, verify, run and compare each; print a table
    crosscheck/run exports more FOLDER [NAME ...]     also a training step, slices, and ranges of the open dimensions
    crosscheck/run exports time FOLDER [NAME ...]     processor time of a run beside ONNX Runtime's, one thread, by turns

FOLDER holds NAME.onnx and NAME.npz, as exporting.py, exporting_tf.py and exporting_optimum.py write them in environments
of their own. Each is planned and run at the shapes of its inputs. Where float32 results differ, the same model in float64
decides.
"""

import argparse
import contextlib
import pathlib
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

from . import apart, cases, command, feeds, probe, running, runtime, step, wild, wildmodels

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_SECONDS = 900  # of one command
_TURNS = 3
_LONG = 0.5  # seconds of processor time that a turn takes at least: the first run finds cold caches


def main():
    parser = argparse.ArgumentParser(prog="crosscheck/run exports", description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("check", "more", "time"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--binary", type=pathlib.Path, default=_ROOT / "bin/onnxmem")
    args = parser.parse_args()
    names = args.names or sorted(p.stem for p in args.folder.glob("*.npz"))
    examiner, show = {"check": (examine, wild.row), "more": (further, _said), "time": (timed, _said)}[args.what]
    if args.what == "check":
        print(wild.header(), flush=True)
    results = []
    for name in names:
        results.append(apart.result(examiner, name, command.Command(args.binary), args.folder, args.folder))
        print(show(results[-1]), flush=True)
        for text in results[-1]["faults"]:
            print(f"    {text}", flush=True)
    return 1 if any(r["faults"] for r in results) else 0


def _load(folder, name):
    """Return the path of a model, the model without its data, the inputs that it declares, and the flags for their shapes."""
    source = folder / f"{name}.onnx"
    loaded = probe.load(source)
    with np.load(source.with_suffix(".npz")) as arrays:
        given = {k: arrays[k] for k in feeds.declared(loaded.graph) if k in arrays}
    return source, loaded, given, wild.flags(wildmodels.Model(name, "", "", ""), loaded.graph, given)


def examine(name, tool, work, data, result):
    """Take one model from optimize to run; write the stages that it passed into the result."""
    source, loaded, given, flags = _load(data, name)
    result["nodes"] = len(loaded.graph.node)
    with _exact(source) as exact:
        want = wild.arrays(wild.wanted(exact, _objects(given), {n.op_type for n in probe.nodes_of(loaded)}))
        if not any(map(runtime.telling, want.values())):
            result["faults"].append("the outputs of ONNX Runtime tell nothing: expected other inputs")
        with tempfile.TemporaryDirectory(dir=work) as folder:
            wild.stages(exact, pathlib.Path(folder, source.name), tool, flags, given, want, result, running.tolerance(loaded))


@contextlib.contextmanager
def _exact(source):
    """Give the path of a model whose MatMulNBits multiply in float32. With accuracy_level 4 they round rows to 8 bits first, and a step more or less decides."""
    model = probe.load(source)
    levels = [a for n in probe.nodes_of(model) for a in n.attribute if a.name == "accuracy_level"]
    if not levels:
        yield source
        return
    for level in levels:
        level.i = 0
    copy = source.with_suffix(".exact.onnx")  # beside its data
    onnx.save(model, copy)
    try:
        yield copy
    finally:
        copy.unlink()


def _objects(given):
    """Return strings as ONNX Runtime takes them."""
    return {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in given.items()}


def further(name, tool, work, data, result):
    """Make a training step and run it; run in slices; plan for ranges and run at several points of them."""
    source, loaded, given, flags = _load(data, name)
    want = wild.arrays(wild.wanted(source, _objects(given), {n.op_type for n in probe.nodes_of(loaded)}))
    with tempfile.TemporaryDirectory(dir=work) as folder:
        target = pathlib.Path(folder, source.name)
        for kind, examiner in (("train", _train), ("slices", _slices), ("ranges", _ranges)):
            found = {"faults": []}
            try:
                examiner(source, target, tool, flags, given, want, found, running.tolerance(loaded), loaded)
            except Exception as err:  # the next kind is tried all the same
                found["faults"].append(f"{type(err).__name__}: {apart.first_line(err)}")
            result[kind] = found.get("said", "")
            result["faults"] += [f"{kind}: {f}" for f in found["faults"]]


def _train(source, target, tool, flags, given, want, result, tolerance, loaded):
    tool.train(source, target, ("--keep-gradients", "--loss=mse", *flags))
    training = step.Step(target)
    data = {**training.data(training.classes(), 0), step.RATE: np.array(1e-3, np.float32)}
    data |= {k: v for k, v in given.items() if k in data}
    report, got = tool.run(target, data, ("--check", "--poison"), _SECONDS)
    result["faults"] += command.differing(report)
    names = [training.gradients[n] for n in training.trainable]
    loss, *gradients = training.session().run(["loss", *names], {**training.values, **data})
    error = running.gradient_error(got, dict(zip(names, gradients)))
    result["said"] = f"{len(names)} gradients {error:.1e}"


def _slices(source, target, tool, flags, given, want, result, tolerance, loaded):
    whole = tool.plan(source, target, flags)
    found = tool.attempt(source, target, (*flags, "--slices=exact", "--limit=60%"))
    if not found.get("feasible", True):
        result["said"] = "not below the limit"
        return
    _agree(source, target, tool, given, want, result, tolerance)
    result["said"] = f"peak {found['peak_bytes'] / whole['peak_bytes']:.2f}"


def _agree(source, target, tool, given, want, result, tolerance):
    """Verify a plan, run it, and compare what it gives with what ONNX Runtime gave."""
    result["faults"] += tool.verify(target)
    report, got = tool.run(target, given, ("--check", "--poison"), _SECONDS)
    result["faults"] += command.differing(report)
    wild.compare(got, want, source, given, result, tolerance)


def _ranges(source, target, tool, flags, given, want, result, tolerance, loaded):
    lengths = [f.removeprefix("--dim=").rpartition("=") for f in flags]
    if not lengths:
        result["said"] = "none open"
        return
    tool.plan(source, target, [f"--dim={name}=1..{int(length) + 1}" for name, _, length in lengths])
    _agree(source, target, tool, given, want, result, tolerance)
    result["said"] = f"{len(lengths)} open"


def timed(name, tool, work, data, result):
    """Measure a run, one thread, beside ONNX Runtime with all its optimizations: our clock, its processor time, least means of turns."""
    source, _, given, flags = _load(data, name)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        target = pathlib.Path(folder, source.name)
        tool.plan(source, target, flags)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
        given = _objects(given)
        theirs = lambda: session.run(None, given)
        for _ in range(2):
            theirs()
        began = time.process_time()
        theirs()
        steps = max(3, int(_LONG / max(time.process_time() - began, 1e-6)))
        best = {"ours": np.inf, "theirs": np.inf}
        for _ in range(_TURNS):
            report, _ = tool.run(target, wild.arrays(given), ("--workers=1", f"--steps={steps}"), _SECONDS)
            best["ours"] = min(best["ours"], report["times_ms"]["step"])
            began = time.process_time()
            for _ in range(steps):
                theirs()
            best["theirs"] = min(best["theirs"], (time.process_time() - began) / steps * 1e3)
    result |= {k: round(v, 3) for k, v in best.items()} | {"ratio": round(best["ours"] / best["theirs"], 2)}


def _said(result):
    """Return one line of text."""
    shown = ", ".join(f"{k} {v}" for k, v in result.items() if k not in ("title", "faults", "seconds"))
    return f"{result['title']:26}{shown}"


if __name__ == "__main__":
    sys.exit(main())
