"""The models whose runs are compared: the zoo, the light networks and the built-in ones; and figures that are kept."""

import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import harness

DIMS = {"batch": 1, "sequence": 128, "source": 32, "target": 32}  # of built-in networks


def zoo():
    """Return the shapes of the inputs of the zoo's models by name."""
    with open(harness.data("zoo", "expected.csv"), encoding="utf-8") as f:
        return {r["file"].removesuffix(".onnx"): r["inputs"] for r in csv.DictReader(f)}


def light():
    """Return the names of the light networks of ONNX's test suite."""
    return [path.stem for path in sorted(harness.data("light").glob("*.onnx"))]


def built(binary):
    """Return the names of the built-in networks."""
    return [network["name"] for network in json.loads(run([binary, "model", "--json"]))["networks"]]


def found(binary, work, names):
    """Yield name, source (in the folder work), flags of the dimensions and shapes of the inputs of each model; of all, without names."""
    wanted = {name: inputs for name, inputs in zoo().items() if name in (names or [name])}
    folder = harness.zoo(work, *wanted) if wanted else None
    for name, inputs in wanted.items():
        source = folder / f"{name}.onnx"
        declared = inspect(binary, source)
        given = (entry.split("=") for entry in filter(None, inputs.split(";")))
        yield name, source, [f"--dim={name}[{i}]={n}" for name, shape in given for i, n in enumerate(shape.split("x")) if shape != "scalar" and int(n) != declared[name][i]], inputs
    networks = built(binary)
    for name in [*light(), *networks]:
        if name not in (names or [name]):
            continue
        with tempfile.TemporaryDirectory(dir=work) as folder:
            source = pathlib.Path(folder, f"{name}.onnx")
            dims = []
            if name in networks:
                run([binary, "model", name, source])
                dims = [f"--dim={d}={DIMS[d]}" for d in json.loads(run([binary, "inspect", source, "--json"]))["dims"]]
            else:
                shutil.copyfile(harness.data("light", f"{name}.onnx"), source)
            yield name, source, dims, ";".join(f"{name}={'x'.join(map(str, shape)) or 'scalar'}" for name, shape in inspect(binary, source, *dims).items())


def inspect(binary, model, *dims):
    """Return the shapes of a model's inputs by name."""
    return {i["name"]: i["shape"] for i in json.loads(run([binary, "inspect", model, "--json", *dims]))["inputs"]}


def planned_in(folder, binary, source, flags):
    """Plan a model and return the path of the planned one, whose weights are hard links, and what its plan says about a process."""
    planned = pathlib.Path(folder, "planned.onnx")
    said = json.loads(run([binary, "optimize", source, planned, "--external-data=link", "--json", *flags]))
    pools = json.loads(planned.with_suffix(".plan.json").read_text(encoding="utf-8"))["pools"]
    return planned, {"total": sum(pool["bytes"] for pool in pools), "estimate": said["process_estimate_bytes"]}


def run(command):
    """Return the standard output of a command; end the script if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Kept:
    """Figures that are measured once, and kept in a file of JSON if there is one."""

    def __init__(self, path):
        self.path = path
        self.figures = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}

    def get(self, key, measure):
        if key not in self.figures:
            self.figures[key] = measure()
            if self.path:
                self.path.write_text(json.dumps(self.figures, indent=1), encoding="utf-8")
        return self.figures[key]
