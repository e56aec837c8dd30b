"""Run a file of --order default by the examples in C and in Go, through ONNX Runtime's C API, and compare the orders.

The example in C needs a C compiler and ONNX Runtime's header: in a folder named by
ONNXRUNTIME_INCLUDE, else in the repository. Without one of them it is left out, and the row says so.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import time

from . import command, runtime_order

_ROOT = pathlib.Path(__file__).resolve().parent.parent


def find(tool, _data, work):
    """Return the model that the examples run."""
    path = work / "examples.onnx"
    tool.model("googlenet", path, {"width": 0.25, "size": 64}, {"batch": 1})
    return [path]


def examine(path, tool, work):
    """Plan the model, run the planned file by each example, and compare the orders."""
    began = time.process_time()
    result = {"title": "runtime/examples", "faults": [], "ran": []}
    planned = work / "examples.listed.onnx"
    try:
        tool.plan(path, planned, ["--runtime", "onnxruntime", "--order", "default"])
    except command.Failed as err:
        result["faults"].append(str(err))
        return result
    steps = [s["name"] for s in json.loads(planned.with_suffix(".plan.json").read_text(encoding="utf-8"))["steps"] if s["op"] != "Constant"]
    folder = pathlib.Path(importlib.util.find_spec("onnxruntime").origin).parent / "capi"
    library = next(folder.glob("libonnxruntime.so*"))
    for name, build in (("Go", _build_go), ("C", _build_c)):
        words, environment = build(work, library)
        if not words:
            continue
        done = subprocess.run([*words, str(planned), str(work / f"trace-{name}")], capture_output=True, text=True, env={**os.environ, **environment}, check=False)
        if done.returncode:
            result["faults"].append(f"{name}: {done.stderr.strip()}")
            continue
        result["ran"].append(name)
        events = json.loads(pathlib.Path(done.stdout.strip()).read_text(encoding="utf-8"))
        ran = [e["name"].removesuffix("_kernel_time") for e in events if e["name"].endswith("_kernel_time")]
        if fault := runtime_order.differs(steps, ran):
            result["faults"].append(f"{name}: {fault}")
    result["seconds"] = round(time.process_time() - began, 1)
    return result


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} --order default by the C API, in {' and '.join(result['ran']) or 'no language'}: {'NO' if result['faults'] else 'yes'}"


def _build_go(work, library):
    if not shutil.which("go"):
        return [], {}
    program = work / "example-go"
    subprocess.run(["go", "build", "-o", str(program), "./examples/onnxruntime"], cwd=_ROOT, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    return [str(program), str(library)], {}


def _build_c(work, library):
    header = _header()
    if not shutil.which("cc") or not header:
        return [], {}
    program, link = work / "example-c", work / "libonnxruntime.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(library)
    subprocess.run(["cc", "-Wall", "-Werror", f"-I{header}", str(_ROOT / "examples/onnxruntime-c/main.c"), "-o", str(program), str(library)], check=True)
    return [str(program)], {"LD_LIBRARY_PATH": str(work)}


def _header():
    """Return the folder with ONNX Runtime's header, or nothing."""
    if given := os.environ.get("ONNXRUNTIME_INCLUDE"):
        return pathlib.Path(given)
    found = sorted(_ROOT.glob("**/third_party/**/onnxruntime_c_api.h"))
    return found[0].parent if found else None
