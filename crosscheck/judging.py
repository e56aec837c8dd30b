"""What checks against ONNX Runtime share: verdicts in processes of their own, and how two outputs differ.

ONNX Runtime can crash the process that runs it. So a check names itself as the module of a
process that is given names of cases on standard input, and prints a verdict for each, one
line of JSON. If a process ends early, the case after its last verdict has crashed it.
"""

import json
import pathlib
import subprocess
import sys
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
_JUDGE = "--judge"


def verdicts(module, archive, names, seconds, lost):
    """Return the verdicts of the named cases of an archive. lost: returns that of a case that ends its process or takes too long."""
    found = []
    while names:
        try:
            done = subprocess.run(
                [sys.executable, "-m", module, _JUDGE, str(archive)],
                input="\n".join(names), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=seconds, check=False, cwd=ROOT,
            )  # fmt: skip
            out, why = done.stdout, "ends its process"
        except subprocess.TimeoutExpired as e:
            out, why = (e.stdout or b"").decode(), "takes too long"
        read = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
        found += read
        names = names[len(read) :]
        if names:
            found.append(lost(names[0], why))
            names = names[1:]
    return found


def start(main, verdict):
    """Run a check's command, or, in a process for verdicts, judge the cases on standard input."""
    if sys.argv[1:2] != [_JUDGE]:
        sys.exit(main(sys.argv[1:]))
    with zipfile.ZipFile(sys.argv[2]) as z:
        for name in sys.stdin.read().split("\n"):
            print(json.dumps(verdict(z, name)), flush=True)


def options():
    """Return session options without optimizations, on one thread, without messages."""
    import onnxruntime

    made = onnxruntime.SessionOptions()
    made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.intra_op_num_threads = made.inter_op_num_threads = 1
    made.log_severity_level = 4
    return made


def outputs(cases, got, want, describe, tolerance, anything=None):
    """Yield how the outputs y{i}_{k} of numbered cases differ from those of ONNX Runtime."""
    for i, case in cases:
        for k in range(case.outputs):
            if said := compare(got[f"y{i}_{k}"], want[f"y{i}_{k}"], tolerance, anything):
                yield f"{describe(case)}: output {k}: {said}"


def compare(got, want, tolerance, anything=None):
    """Say how an output differs: numbers by more than rounding; NaN, infinities and integers at all. anything: a wanted integer that stands for any."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"expected {want.dtype}{list(want.shape)}, found {got.dtype}{list(got.shape)}"
    if not np.issubdtype(want.dtype, np.floating):
        off = (got != want) & (want != anything) if anything is not None else got != want
    else:
        with np.errstate(invalid="ignore"):
            near = np.abs(got.astype(np.float64) - want.astype(np.float64)) <= tolerance * (1 + np.abs(want.astype(np.float64)))
        off = ~(near | (got == want) | np.isnan(got) & np.isnan(want))
    if not off.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(off)[0])
    return f"{off.sum()} of {off.size} differ, first at {at}: expected {want[at]}, found {got[at]}"
