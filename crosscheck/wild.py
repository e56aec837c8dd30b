"""crosscheck/run wild: models as they lie in public repositories, from optimize to run, against ONNX Runtime.

    crosscheck/run wild take CLONES FOLDER [NAME ...]    copy the models out of clones CLONES/OWNER/REPOSITORY, or out of
                                                         what pip download --no-deps -d CLONES PACKAGE==VERSION leaves
    crosscheck/run wild check FOLDER [NAME ...]          optimize, verify, run and compare each; print a table

wildmodels.py lists the models with their repositories, commits and checksums. Each is planned
and run at the shapes that the code around it uses, on inputs drawn from its name. Files that
lie in FOLDER already are kept if their checksum is right. Where float32 results differ, the
same model in float64 decides: ONNX Runtime's may be those that are off.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx

from . import apart, cases, command, double, feeds, probe, running, runtime, wildmodels

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_SECONDS = 900  # of one command
_STAGES = ("optimize", "verify", "run", "same")
_WIDTH = 26


def main():
    parser = argparse.ArgumentParser(prog="crosscheck/run wild", description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("take", "check"))
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="take: CLONES FOLDER [NAME ...]; check: FOLDER [NAME ...]")
    parser.add_argument("--binary", type=pathlib.Path, default=_ROOT / "bin/onnxmem")
    args = parser.parse_args()
    count = 2 if args.what == "take" else 1
    if len(args.folders) < count:
        parser.error(f"{args.what}: expected {count} folders, found {len(args.folders)}")
    *folders, folder = map(pathlib.Path, args.folders[:count])
    try:
        chosen = choose(args.folders[count:])
    except ValueError as err:
        parser.error(str(err))
    if args.what == "take":
        return take(chosen, folders[0], folder)
    return check(chosen, folder, command.Command(args.binary))


def choose(names):
    """Return the models with the given names; all without names."""
    known = {m.name: m for m in wildmodels.MODELS}
    if unknown := [n for n in names if n not in known]:
        raise ValueError(f"no such model: {', '.join(unknown)}")
    return [known[n] for n in names] or list(wildmodels.MODELS)


def take(models, clones, folder):
    """Copy each model out of its clone or package; return the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = 0
    for model in models:
        target = folder / f"{model.name}.onnx"
        if target.exists() and not fault(model, target.read_bytes()):
            continue
        data, said = (packed if model.packaged else blob)(model, clones)
        said = said or fault(model, data)
        if said:
            missing += 1
            print(f"{model.name}: {model.repository} {model.commit}: {said}", file=sys.stderr)
        else:
            target.write_bytes(data)
    print(f"{len(models) - missing} of {len(models)} models in {folder}")
    return 1 if missing else 0


def blob(model, clones):
    """Return the bytes of a file of a repository, or what is wrong."""
    done = subprocess.run(["git", "-C", clones / model.repository, "cat-file", "blob", f"{model.commit}:{model.path}"], capture_output=True, check=False)
    return done.stdout, done.stderr.decode(errors="replace").strip().partition("\n")[0] if done.returncode else ""


def packed(model, folder):
    """Return the bytes of a file of a wheel, or what is wrong."""
    name, _, version = model.repository.partition("==")
    for wheel in folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(model.path), ""
    return b"", f"no wheel in {folder}"


def fault(model, data):
    """Return what is wrong with the bytes of a file, or nothing."""
    found = hashlib.sha256(data).hexdigest()
    return "" if found == model.sha256 else f"expected sha256 {model.sha256}, found {found}"


def check(models, folder, tool):
    """Check all models that lie in the folder; print the table; return the exit status."""
    print(header(), flush=True)
    results = []
    for model in models:
        results.append(apart.result(examine, model.name, tool, folder, folder))
        print(row(results[-1]), flush=True)
        for text in results[-1]["faults"]:
            print(f"    {text}", flush=True)
    (folder / "wild.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(summary(results))
    return 1 if any(r["faults"] for r in results) else 0


def examine(title, tool, work, data, result):
    """Take one model from optimize to run; write the stages that it passed into the result."""
    model = next(m for m in wildmodels.MODELS if m.name == title)
    source = data / f"{model.name}.onnx"
    if not source.exists():
        raise FileNotFoundError(f"{source} is missing: crosscheck/run wild take")
    if wrong := fault(model, source.read_bytes()):
        raise ValueError(wrong)
    loaded = probe.load(source)
    given = inputs(model, loaded.graph)
    result["nodes"] = len(loaded.graph.node)
    want = arrays(wanted(source, given, {n.op_type for n in probe.nodes_of(loaded)}))
    given = arrays(given)
    if not any(map(runtime.telling, want.values())):
        result["faults"].append("the outputs of ONNX Runtime tell nothing: expected other inputs in the list")
    with tempfile.TemporaryDirectory(dir=work) as folder:
        stages(source, pathlib.Path(folder, source.name), tool, flags(model, loaded.graph, given), given, want, result, running.tolerance(loaded))


def stages(source, target, tool, given_flags, given, want, result, tolerance):
    """Plan, verify, run and compare a model; write the stages that it passed into the result."""
    summary = tool.plan(source, target, given_flags)
    result["optimize"] = True
    result["assumed"] = len(summary.get("assumed_dims") or [])
    result["peak"], result["resident"], result["total"] = (summary[k] for k in ("peak_bytes", "resident_bytes", "total_bytes"))
    result["file"] = [source.stat().st_size, target.stat().st_size]
    result["faults"] += tool.verify(target)
    result["verify"] = not result["faults"]
    report, got = tool.run(target, given, ("--check", "--poison"), _SECONDS)
    result["faults"] += command.differing(report)
    result["run"] = not result["faults"]
    compare(got, want, source, given, result, tolerance)
    result["same"] = not result["faults"]


def compare(got, want, source, given, result, tolerance):
    """Compare with ONNX Runtime's outputs, and, if float32 results differ, with the model's in float64."""
    found = {"faults": []}
    running.fill_error(got, want, found, tolerance)
    if found["faults"] and not tolerance:
        exact = {name: value.astype(want[name].dtype) for name, value in double.run(source, given).items()}
        theirs, ours = {"faults": []}, {"faults": []}
        running.fill_error(want, exact, theirs)
        running.fill_error(got, exact, ours)
        if not ours["faults"]:
            result["float64"], found = theirs["error"], ours
    result["faults"] += found["faults"]
    result["error"] = found["error"]


def wanted(source, given, operators):
    """Return the outputs of ONNX Runtime by exact 8-bit products, unless its optimizations, which these require, fail."""
    try:
        return running.expected(source, given, operators)
    except Exception:  # onnxruntime raises many types of its own
        return runtime.run(source, given, 1)[0]


def arrays(values):
    """Return values as onnxmem's .npz files hold them: strings without objects; for the maps of a classifier, one per
    sample, NAME.keys and NAME.values with a row per sample; for another sequence NAME.0, NAME.1 and so on."""
    found = {}
    for name, value in values.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            found[f"{name}.keys"] = np.array(list(value[0]))
            found[f"{name}.values"] = np.array([[m[k] for k in value[0]] for m in value], np.float32)
        elif isinstance(value, list):
            found |= arrays({f"{name}.{i}": item for i, item in enumerate(value)})
        else:
            found[name] = value.astype(str) if value.dtype == object else value
    return found


def inputs(model, graph):
    """Return an array for each input, at the shapes of the list, or else at the declared ones."""
    shapes = shapes_of(model, graph)
    given = feeds.make(graph, shapes)
    for name, (low, high) in model.ranges.items():
        rng = np.random.default_rng(len(name))
        given[name] = rng.uniform(low, high, shapes[name]).astype(given[name].dtype)
    for name, words in model.words.items():
        count = int(np.prod(shapes[name]))
        given[name] = np.array([words[i % len(words)] for i in range(count)], object).reshape(shapes[name])
    if model.text:
        given[model.text] = _lines(shapes[model.text])
    for name, value in model.values.items():
        given[name] = np.array(value, given[name].dtype)
    return given


def _lines(shape):
    """Return a picture of a line of text, roughly: thin light bars on a dark ground."""
    picture = np.full(shape, -0.5, np.float32)
    high, wide = shape[-2:]
    picture[..., 5 * high // 12 : 7 * high // 12, wide // 8 : 7 * wide // 8 : 8] = 1.5
    return picture


def shapes_of(model, graph):
    """Return the shape of each input: of the list, of its value, or as declared."""
    shapes = {}
    for name, dims in feeds.declared(graph).items():
        if name in model.shapes:
            shapes[name] = model.shapes[name]
        elif name in model.values:
            shapes[name] = np.shape(model.values[name])
        elif all(isinstance(d, int) for d in dims):
            shapes[name] = tuple(dims)
        else:
            raise ValueError(f'input "{name}": expected a shape in the list for {dims}')
    return shapes


def flags(model, graph, given):
    """Return the flags that bind the open dimensions and the values of the list, as a user would write them."""
    shapes = {name: array.shape for name, array in given.items()}
    found = [f"--dim={name}={length}" for name, length in sorted(cases.symbols(_named(graph, shapes), shapes).items())]
    return found + [f"--value={name}={json.dumps(value)}" for name, value in sorted(model.values.items())]


def _named(graph, shapes):
    """Return the declared dimensions; "?", which no flag can express, and -1 count as none, as do those of an input without a shape."""
    named = {name: [None if d in ("?", -1) else d for d in dims] for name, dims in feeds.declared(graph).items()}
    shapeless = [v.name for v in feeds.inputs(graph) if not v.type.tensor_type.HasField("shape")]
    return named | {name: [None] * len(shapes[name]) for name in shapeless if name in shapes}


def header():
    """Return the line above the rows."""
    return f"{'model':{_WIDTH}}{'nodes':>6}" + "".join(f"{s:>9}" for s in _STAGES) + f"{'error':>9}{'peak':>12}{'resident':>12}"


def row(result):
    """Return one line of text."""
    said = [f"{result['title']:{_WIDTH}}{result.get('nodes', '-'):>6}"]
    said += [f"{ {True: 'yes', False: 'NO', None: '-'}[result.get(s)]:>9}" for s in _STAGES]
    said.append(f"{result['error']:9.1e}" if "error" in result else f"{'-':>9}")
    said += [f"{result.get(k, '-'):>12}" for k in ("peak", "resident")]
    return "".join(said) + (f"  of float64; ONNX Runtime is off by {result['float64']:.1e}" if "float64" in result else "")


def summary(results):
    """Return the closing line."""
    counts = ", ".join(f"{stage} {sum(bool(r.get(stage)) for r in results)}" for stage in _STAGES)
    return f"{len(results)} models: {counts}"


if __name__ == "__main__":
    sys.exit(main())
