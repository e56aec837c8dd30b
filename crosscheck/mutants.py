"""Compare the mutants of operator tests that onnxmem ran with ONNX Runtime.

    crosscheck/run mutants [--number N] [--first K]

A mutant counts if ONNX Runtime accepts it, without optimizations. A mutant can crash
the process that runs it, so chunks of mutants run in separate processes.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import tempfile
import zipfile

import numpy as np

from . import judging

_CHUNK = 200
_SECONDS = 120  # for a chunk
_RANDOM = ("random", "bernoulli", "dropout", "multinomial")


def main(argv):
    parser = argparse.ArgumentParser(prog="crosscheck mutants", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--number", type=int, default=50_000, help="number of mutants (default: 50000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("ONNXMEM_DATA") or None, help="folder of node-tests.tar.gz (default: $ONNXMEM_DATA)")
    args = parser.parse_args(argv)
    if not args.data:
        parser.error("no test data: set ONNXMEM_DATA or say --data")
    with tempfile.TemporaryDirectory(prefix="onnxmem-mutants-") as folder:
        made = subprocess.run(
            ["go", "run", "./vm/internal/mutate/mutants", f"-data={args.data}", f"-n={args.number}", f"-first={args.first}", f"-keep={folder}"],
            cwd=judging.ROOT, check=False,
        )
        if made.returncode not in (0, 1):
            return made.returncode
        jobs = [(archive, names) for archive in sorted(pathlib.Path(folder).glob("*.zip")) for names in _chunks(archive)]
        verdicts = []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(_judge, jobs):
                verdicts += found
    counts = collections.Counter(v["verdict"] for v in verdicts)
    print(f"{sum(counts.values())} ran here; ONNX Runtime: " + ", ".join(f"{n} {v}" for v, n in counts.most_common()))
    differ = collections.defaultdict(list)
    for v in verdicts:
        if v["verdict"] == "differs":
            differ[v["operators"]].append(v)
    for operators, list_ in sorted(differ.items(), key=lambda kv: -len(kv[1])):
        v = list_[0]
        print(f"{len(list_):6}  {operators}: {v['name']}: {v['what']} ({v['edits']})")
    return made.returncode or bool(differ)


def _chunks(archive):
    with zipfile.ZipFile(archive) as z:
        names = sorted({n.split("/")[0] for n in z.namelist()})
    return [names[i : i + _CHUNK] for i in range(0, len(names), _CHUNK)]


def _judge(job):
    """Return the verdicts of a chunk; if its process ends early, a mutant has crashed it."""
    archive, names = job
    return judging.verdicts("crosscheck.mutants", archive, names, _SECONDS, lambda name, why: {"name": name, "verdict": why})


def _verdict(z, name):
    try:
        return _judged(z, name)
    except Exception as e:
        return {"name": name, "verdict": "not read", "what": repr(e)[:200]}


def _judged(z, name):
    import onnx
    import onnxruntime as ort
    from onnx import numpy_helper

    def value(data):
        return numpy_helper.to_array(onnx.TensorProto.FromString(data))

    files = [n for n in z.namelist() if n.startswith(name + "/")]
    model = onnx.ModelProto.FromString(z.read(f"{name}/model.onnx"))
    operators = " ".join(sorted({n.op_type for n in model.graph.node if n.op_type != "Reshape"})) or "Reshape"
    result = {"name": name, "operators": operators, "edits": z.read(f"{name}/edits").decode()}
    if any(w in name for w in _RANDOM):
        return result | {"verdict": "random"}
    inputs = {n.split("/", 2)[2]: z.read(n) for n in files if "/input/" in n}
    want = {n.split("/", 2)[2]: z.read(n) for n in files if "/output/" in n}
    try:
        session = ort.InferenceSession(model.SerializeToString(), judging.options(), providers=["CPUExecutionProvider"])
        feeds = {i.name: ort.OrtValue.ortvalue_from_numpy(value(inputs[i.name])) for i in session.get_inputs()}
        names = [o.name for o in session.get_outputs()]
        made = dict(zip(names, session.run_with_ort_values(names, feeds)))
    except Exception as e:  # any error means that the runtime does not accept the mutant
        return result | {"verdict": "refuses", "what": str(e)[:200]}
    for output, data in want.items():
        here = value(data)
        try:
            there = made[output].numpy()
        except Exception:
            return result | {"verdict": "not read"}
        if fault := _difference(here, there):
            return result | {"verdict": "differs", "what": f"{output}: {fault}"}
    return result | {"verdict": "agrees"}


def _difference(here, there):
    """Describe the difference between two results; "" if there is none."""
    if here.shape != there.shape or here.dtype.itemsize != there.dtype.itemsize:
        return f"{here.dtype}{list(here.shape)} here, {there.dtype}{list(there.shape)} there"
    if here.dtype.kind not in "fV" and there.dtype.kind not in "fV":
        off = here != there
    else:
        relative = {2: 2e-2}.get(here.dtype.itemsize, 1e-3)
        with np.errstate(all="ignore"):
            a, b = here.astype(np.float64), there.astype(np.float64)
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=0)
            near = np.abs(a - b) <= 1e-5 + relative * np.maximum(np.abs(b), 1e-2 * scale)
            off = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not off.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(off)) if here.ndim else ()
    return f"element {list(at)} is {here[at]} here, {there[at]} there; {int(off.sum())} of {off.size} differ"


if __name__ == "__main__":
    judging.start(main, _verdict)
