#!/usr/bin/env python3
"""Measure ONNX Runtime with its own allocator and in a packed arena, for docs/results/onnxruntime-memory.md.

    crosscheck/run bench/runtime.py [zoo] [plan] [ranges] [resident] [time] [shapes] [MODEL...]

zoo: every model of the zoo at one shape: arena, bound, misses, same bits.
plan: the same with the plan of the model as ONNX Runtime fuses it.
resident: the process's high-water mark, read by another process, for some of them.
shapes: the same, of runs with random lengths, of every model that has an open dimension.
ranges: runs with random lengths in one plan for ranges of them.
time: a run of ResNet-50, and a block among many.

With names of models, each part leaves out the others.

It needs bin/onnxmem and a C compiler, and makes the weights of the zoo in build/runtime.
"""

import csv
import json
import os
import pathlib
import subprocess
import sys
import time

import harness
import runtime_peaks

WORK = harness.ROOT / "build/runtime"
LIBRARY = WORK / "libonnxmem_ort.so"
TYPES = {"tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(float)": "float32", "tensor(float16)": "float16", "tensor(bool)": "bool"}
RESIDENT = (
    "bert_base-dyn",
    "convnext_tiny-dyn",
    "deeplabv3_resnet50-dyn",
    "densenet121-dyn",
    "efficientnet_b0-dyn",
    "googlenet-dyn",
    "mobilenet_v2-dyn",
    "resnet50-dyn",
    "unet-dyn",
    "vit_b_16-dyn",
)
RANGES = ("bert_base-dyn", "distilbert-dyn", "googlenet-dyn", "gpt2-dyn", "mobilenet_v2-dyn", "resnet50-dyn", "vit_b_16-dyn")
LENGTHS = {"batch": (1, 4), "sequence": (1, 128), "past": (1, 128), "height": (240, 480), "width": (240, 480)}  # of shapes and ranges
WAYS = ("default", "no arena", "record")
ONLY = set()  # the models that the command names


def main():
    if len(sys.argv) > 2 and sys.argv[1] in ("child", "fuse"):
        return (child if sys.argv[1] == "child" else fuse)(*sys.argv[2:])
    os.environ["ONNXMEM_ORT_LIBRARY"] = str(LIBRARY)
    os.environ["ONNXMEM_COMMAND"] = str(harness.BINARY)
    WORK.mkdir(parents=True, exist_ok=True)
    sources = [str(p) for p in sorted((harness.ROOT / "ort/src").glob("*.c"))]
    build = ["cc", "-std=c11", "-O2", "-pthread"]
    subprocess.run([*build, "-fPIC", "-shared", "-fvisibility=hidden", "-o", str(LIBRARY), *sources, "-ldl"], check=True)
    subprocess.run([*build, "-o", str(WORK / "speed"), *sources, str(harness.ROOT / "ort/tests/speed.c"), "-ldl"], check=True)
    parts = {"zoo": zoo, "plan": plan, "ranges": ranges, "resident": resident, "shapes": shapes, "time": speed}
    ONLY.update(a for a in sys.argv[1:] if a not in parts)
    for part in [a for a in sys.argv[1:] if a in parts] or parts:
        print(f"<!-- table: onnxruntime/{part} -->")
        parts[part]()
        print()


def models(names=None, opened=False):
    """Return name and input shapes of the models of the zoo that were asked for, whose files are copied beside their weights.

    names leaves out others; with opened, so does having no open dimension.
    """
    with open(harness.data("zoo", "expected.csv"), encoding="utf-8") as f:
        rows = {r["file"].removesuffix(".onnx"): r["inputs"] for r in csv.DictReader(f) if r["unbound_dims"] or not opened}
    rows = {name: inputs for name, inputs in rows.items() if name in (ONLY or rows) and name in (names or rows)}
    harness.zoo(WORK, *rows)
    return rows


def zoo():
    """Compare the arena of each model with what ONNX Runtime's own rules of reuse would hold."""
    harness.head("model", "blocks", "its own reuse, MiB", "arena, MiB", "lower bound, MiB", "fragmentation, %", "results, MiB", "misses", "same bits:")
    for name, inputs in models().items():
        done = run("zoo", name, inputs)
        if "error" in done:
            harness.row(name, "", "", "", "", "", "", "", done["error"])
            continue
        m = done["memory"]
        loss = 100 * (m["arena_bytes"] - m["lower_bound_bytes"]) / m["arena_bytes"]
        cells = mib(done["reuse"]), mib(m["arena_bytes"]), mib(m["lower_bound_bytes"]), f"{loss:.2f}", mib(m["output_bytes"])
        harness.row(name, m["recorded"], *cells, m["misses"], "yes" if done["same"] else "NO")


def plan():
    """Compare the arena of each model's plan with that of its recorded run, for the same file and order."""
    harness.head("model", "fused by:", "blocks", "recorded, MiB", "plan, MiB", "in the plan file, MiB", "lower bound, MiB", "scratch, MiB", "misses", "same bits:")
    for name, inputs in models().items():
        path, level, summary = planned(name, inputs)
        if path is None:
            harness.row(name, level, "", "", "", "", "", "", "", summary)
            continue
        done = run("plan", path, inputs, "plan", level)
        if "error" in done:
            harness.row(name, level, "", "", "", "", "", "", "", done["error"])
            continue
        m, kept = done["memory"], done["memory"]["mode"] == "plan"
        cells = mib(done["recorded"]), mib(m["arena_bytes"]) if kept else "", mib(summary["arena_bytes"]), mib(summary["lower_bound_bytes"]), mib(m["scratch_bytes"]) if kept else ""
        harness.row(name, level, m["recorded"], *cells, m["misses"] if kept else "", ("yes" if done["same"] else "NO") if kept else done["warning"])


def ranges():
    """Run each model 100 times with random lengths in one plan for all of them."""
    harness.head("model", "fused by:", "points", "of them optimal", "runs", "kept", "misses", "worst plan / bound", "arena, MiB", "of the largest lengths, MiB", "same bits:")
    for name, inputs in models(RANGES).items():
        path, level, summary = planned(name, inputs, ranged=True)
        if path is None:
            harness.row(name, level, "", "", "", "", "", "", "", "", summary)
            continue
        done = run("ranges", path, inputs, "plan", level)
        plan = json.loads(path.with_suffix("").with_suffix(".plan.json").read_text(encoding="utf-8"))["ranges"]
        m = done["memory"]
        cells = done["runs"], done["kept"], m["misses"], f"{done['worst']:.3f}", mib(m["arena_bytes"]), mib(summary["arena_bytes"])
        harness.row(name, level, plan["points"], plan["optimal_points"], *cells, "yes" if done["same"] else "NO")


def planned(name, inputs, ranged=False):
    """Return a model's planned file, the level at which ONNX Runtime has fused its nodes, and the plan's summary."""
    folder = WORK / "planned"
    folder.mkdir(exist_ok=True)
    source, fused, out = WORK / "zoo" / f"{name}.onnx", folder / f"{name}.fused.onnx", folder / f"{name}.onnx"
    said = ""
    for level in ("extended", "basic"):
        subprocess.run([sys.executable, __file__, "fuse", str(source), str(fused), level], check=True)
        flags = [f"--dim={name}={LENGTHS[name][0]}..{LENGTHS[name][1]}" for name in open_names(fused)] if ranged else runtime_peaks.dims(fused, inputs)
        line = [harness.BINARY, "optimize", fused, out, "--json", "--runtime", "onnxruntime-arena", *flags]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        fused.unlink()
        if done.returncode == 0:
            return out, level, json.loads(done.stdout)
        said = said or done.stderr.strip().splitlines()[-1]
    return None, "", said


def open_names(path):
    """Return the names of the open lengths of a model's inputs."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    held = {tensor.name for tensor in model.graph.initializer}
    return sorted({d.dim_param for i in model.graph.input if i.name not in held for d in i.type.tensor_type.shape.dim if d.dim_param})


def fuse(source, out, level):
    """Write a model as ONNX Runtime fuses it, with its weights: pages of a mapped file would count when they are read."""
    import onnx
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = LEVELS(ort)[level]
    options.optimized_model_filepath = out
    ort.InferenceSession(source, options, ["CPUExecutionProvider"])
    model = onnx.load(out, load_external_data=False)
    with open(WORK / "zoo/weights.bin", "rb") as weights:
        for tensor in model.graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            where = {e.key: e.value for e in tensor.external_data}
            weights.seek(int(where.get("offset", 0)))
            tensor.raw_data = weights.read(int(where["length"]))
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    onnx.save(model, out)


def LEVELS(ort):
    """Return the levels of optimization by name."""
    of = ort.GraphOptimizationLevel
    return {"basic": of.ORT_ENABLE_BASIC, "extended": of.ORT_ENABLE_EXTENDED, "": of.ORT_ENABLE_ALL}


def resident():
    """Compare what runs at one shape add to the resident memory of a process."""
    harness.head("model", *(f"{way}, MiB" for way in WAYS), "arena and results, MiB", "plan, MiB", "arena and results, MiB")
    for name, inputs in models(RESIDENT).items():
        done = [run("resident", name, inputs, way) for way in WAYS]
        done.append(run("resident", planned(name, inputs)[0], inputs, "plan"))
        taken = [mib(d["memory"]["arena_bytes"] + d["memory"]["output_bytes"]) for d in done[-2:]]
        grown = [mib(d["grown"]) for d in done]
        harness.row(name, *grown[:-1], taken[0], grown[-1], taken[1])


def shapes():
    """Compare what 100 runs with random lengths add to the resident memory of a process."""
    harness.head("model", *(f"{way}, MiB" for way in WAYS), "arena, MiB", "hits", "misses", "recorded")
    for name, inputs in models(opened=True).items():
        done = [run("shapes", name, inputs, way) for way in WAYS]
        m = done[-1]["memory"]
        harness.row(name, *(mib(d["grown"]) for d in done), mib(m["arena_bytes"]), m["hits"], m["misses"], m["recorded"])


def speed():
    """Measure the overhead of a run and of a block."""
    harness.head("what", "time")
    done = run("time", "resnet50-dyn", models()["resnet50-dyn"])
    default, none, record = (done[way] for way in WAYS)
    harness.row("ResNet-50 at batch 2, one thread, least processor time of 60 runs, ONNX Runtime's arena", f"{default:.2f} ms")
    harness.row("the same, without its arena", f"{none:.2f} ms")
    harness.row("the same, in the packed arena", f"{record:.2f} ms")
    for live in (100, 1000, 10000):
        said = subprocess.run([WORK / "speed", str(live)], capture_output=True, text=True, check=True).stdout.split()
        for what, ns in zip(("recorded", "replayed", "every second missed"), said):
            harness.row(f"a block among {live}, allocated and freed, {what}", f"{int(ns) / 1000:.2f} µs")


def mib(size):
    return f"{size / harness.MIB:.2f}"


def run(kind, name, inputs, way="record", level=""):
    """Run a child for a model. After its session is made, its high-water mark is reset from outside, and read at its end."""
    path = name if isinstance(name, pathlib.Path) else WORK / "zoo" / f"{name}.onnx"
    line = [sys.executable, __file__, "child", kind, str(path), inputs, way, level]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        own = pathlib.Path("/proc", str(process.pid))
        if process.stdout.readline() == "made\n":
            (own / "clear_refs").write_text("5", encoding="ascii")  # VmHWM begins again
            before = status(own, "VmRSS")
            process.stdin.write("\n")
            process.stdin.flush()
        else:
            return {"error": "does not run"}
        answer = process.stdout.readline()
        if not answer:
            return {"error": "does not run"}
        done = json.loads(answer)
        done["grown"] = status(own, "VmHWM") - before
        process.stdin.close()
        return done


def status(own, key):
    """Return a line of /proc/PID/status in bytes."""
    for text in (own / "status").read_text(encoding="ascii").splitlines():
        if text.startswith(key + ":"):
            return 1024 * int(text.split()[1])
    raise KeyError(key)


def child(kind, path, inputs, way, level):
    """Run a model as asked, and print what was seen as a line of JSON."""
    sys.path[:0] = [str(harness.ROOT / "ort/python/src"), str(harness.ROOT / "python/src")]
    import warnings

    import numpy as np
    import onnxmem_ort
    import onnxruntime as ort

    rng = np.random.default_rng(0)
    given = dict(text.split("=") for text in inputs.split(";"))
    threads = 1 if kind == "time" else 2

    def session(way, **arguments):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        if way == "plan":
            return onnxmem_ort.InferenceSession(path, options, ["CPUExecutionProvider"], arena="plan", **arguments)
        if way == "record":
            if level:
                options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
                options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
            return onnxmem_ort.InferenceSession(path, options, ["CPUExecutionProvider"], arena="record", **arguments)
        options.enable_cpu_mem_arena = way == "default"
        return ort.InferenceSession(path, options, ["CPUExecutionProvider"])

    def feed(s, lengths=None):
        """Draw inputs; lengths replaces the lengths of open dimensions."""
        made = {}
        for value in s.get_inputs():
            shape = [] if given[value.name] == "scalar" else [int(d) for d in given[value.name].split("x")]
            if lengths:
                shape = [d if isinstance(declared, int) else lengths.get(declared, d) for d, declared in zip(shape, value.shape)]
            dtype = np.dtype(TYPES[value.type])
            if dtype.kind == "f":
                made[value.name] = rng.standard_normal(shape).astype(dtype)
            else:
                made[value.name] = np.ones(shape, dtype) if "mask" in value.name or dtype.kind == "b" else rng.integers(2, 6, shape).astype(dtype)
        return made

    def lengths():
        drawn = {name: int(rng.integers(least, most + 1)) for name, (least, most) in LENGTHS.items()}
        return {**drawn, "past + 1": drawn["past"] + 1}

    def same(a, b):
        return all(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(a, b))

    def milliseconds(s, fed):
        began = time.thread_time()
        s.run(None, fed)
        return 1e3 * (time.thread_time() - began)

    s = session(way)
    fed = feed(s)
    print("made", flush=True)
    sys.stdin.readline()
    done = {}
    if kind == "zoo":
        want = session("default").run(None, fed)
        done["same"] = True
        for i in range(4):
            done["same"] &= same(want, s.run(None, fed))
            if i == 0:
                s.wait()
        other = session("record", reuse=True)
        other.run(None, fed)
        done["reuse"] = other.memory["live_peak_bytes"]
    elif kind == "plan":
        source = str(WORK / "zoo" / pathlib.Path(path).name)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        options.graph_optimization_level = LEVELS(ort)[level]
        want = ort.InferenceSession(source, options, ["CPUExecutionProvider"]).run(None, fed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            done["same"] = all([same(want, s.run(None, fed)) for _ in range(4)])
        done["warning"] = str(caught[0].message) if caught else ""
        other = session("record")
        other.run(None, fed)
        other.wait()
        done["recorded"] = other.memory["plan_bytes"]
    elif kind == "resident":
        for i in range(10):
            s.run(None, fed)
            if i == 0 and way in ("record", "plan"):
                s.wait()
    elif kind == "shapes":
        for _ in range(100):
            s.run(None, feed(s, lengths()))
    elif kind == "ranges":
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        plain = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
        done = {"same": True, "runs": 0, "kept": 0, "worst": 1}
        for _ in range(100):
            fed = feed(s, lengths())
            want = plain.run(None, fed)
            for _ in range(2):
                done["same"] &= same(want, s.run(None, fed))
            done["runs"] += 2
            done["kept"] += 2 * (s.memory["mode"] == "plan")
            done["worst"] = max(done["worst"], s.memory["plan_bytes"] / s.memory["lower_bound_bytes"])
    elif kind == "time":
        sessions = {"default": session("default"), "no arena": session("no arena"), "record": s}
        for other in sessions.values():
            other.run(None, fed)
        s.wait()
        times = {way: [] for way in sessions}
        for _ in range(60):
            for way, other in sessions.items():
                times[way].append(milliseconds(other, fed))
        done.update({way: min(t) for way, t in times.items()})
    if way in ("record", "plan") or kind == "time":
        done["memory"] = s.memory
    print(json.dumps(done), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
