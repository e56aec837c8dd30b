"""Solve the files that onnxmem writes for solvers: HiGHS and CP-SAT from PyPI, MiniZinc where it is installed.

python -m crosscheck.foreign FILE THREADS prints what a solver makes of a file, as JSON; its seconds are of the processor.
Without arguments it reads names of files from standard input.
"""

import gzip
import json
import math
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

_SECONDS = 600.0  # where nothing else limits the search
_ROOT = pathlib.Path(__file__).resolve().parent.parent
_PEAK = re.compile(r"^(?:peak|arena) = (\d+);", re.MULTILINE)
_NAMES = {".lp": "HiGHS", ".mps": "HiGHS", ".gz": "HiGHS", ".pb": "CP-SAT", ".mzn": "MiniZinc"}
_UNIT = re.compile(r"^\\ .*One unit is (\d+) bytes\.$", re.MULTILINE)

_workers = {}  # solver -> its process


def solve(path):
    """Solve a file; return its optimum in units, and its columns and rows.

    Each solver has a process, since HiGHS and OR-tools, which contains another HiGHS, do not load into the same one.
    """
    solver = name(path)
    if solver not in _workers:
        _workers[solver] = subprocess.Popen([sys.executable, "-m", "crosscheck.foreign"], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    worker = _workers[solver]
    worker.stdin.write(f"{path}\n")
    worker.stdin.flush()
    found = json.loads(worker.stdout.readline() or '{"error": "ended"}')
    if "error" in found:
        raise ValueError(f"{path}: {found['error']}")
    return found


def limited(path, seconds, threads=1):
    """Solve a file in a process of its own; the optimum is None if that takes more seconds of the processor."""
    limit = (int(seconds), int(seconds) + 1)
    done = subprocess.run(
        [sys.executable, "-m", "crosscheck.foreign", str(path), str(threads)],
        cwd=_ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode == 0:
        return json.loads(lines[-1])
    if done.returncode < 0:  # ended by the limit; the first line has the sizes
        return {"optimum": None} | (json.loads(lines[-1]) if lines else {})
    raise ValueError(f"{path}: {name(path)}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def unit_of(program):
    """Return the bytes of a unit, from the comments of an LP file, packed or not."""
    with gzip.open(program, "rt") if str(program).endswith(".gz") else open(program, encoding="utf-8") as file:
        text = file.read()
    if unit := _UNIT.search(text):
        return int(unit[1])
    raise ValueError(f"{program}: no line says how many bytes a unit is")


def name(path):
    """Return the solver of a file."""
    return _NAMES[pathlib.Path(path).suffix]


def installed(path):
    """Report whether there is a solver for a file."""
    return pathlib.Path(path).suffix != ".mzn" or shutil.which("minizinc") is not None


def _highs(path, threads, say):
    import highspy

    solver = highspy.Highs()
    solver.silent()
    for option, value in (("threads", threads), ("mip_rel_gap", 0.0), ("mip_abs_gap", 0.5), ("time_limit", _SECONDS)):
        solver.setOptionValue(option, value)
    if solver.readModel(path) != highspy.HighsStatus.kOk:
        raise ValueError("HiGHS cannot read it")
    sizes = {"columns": solver.getNumCol(), "rows": solver.getNumRow()}
    say(**sizes)
    began = time.process_time()
    solver.run()
    if (status := solver.getModelStatus()) != highspy.HighsModelStatus.kOptimal:
        raise ValueError(f"HiGHS ends with {solver.modelStatusToString(status)}")
    info = solver.getInfo()
    value = round(info.objective_function_value)
    if abs(info.objective_function_value - value) > 1e-4 or math.ceil(info.mip_dual_bound - 1e-4) != value:
        raise ValueError(f"HiGHS gives {info.objective_function_value}, bound {info.mip_dual_bound}: expected the same integer")
    return {"optimum": value, **sizes, "seconds": time.process_time() - began}


def _cpsat(path, threads, say):
    from google.protobuf import text_format
    from ortools.sat import cp_model_pb2
    from ortools.sat.python import cp_model

    proto = cp_model_pb2.CpModelProto.FromString(pathlib.Path(path).read_bytes())
    model = cp_model.CpModel()
    model.proto.parse_text_format(text_format.MessageToString(proto))
    if fault := model.validate():
        raise ValueError(f"CP-SAT refuses it: {fault}")
    sizes = {"columns": len(proto.variables), "rows": len(proto.constraints)}
    say(**sizes)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = threads
    solver.parameters.max_time_in_seconds = _SECONDS
    began = time.process_time()
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        raise ValueError(f"CP-SAT ends with {solver.status_name(status)}")
    if solver.best_objective_bound != solver.objective_value:
        raise ValueError(f"CP-SAT gives {solver.objective_value}, bound {solver.best_objective_bound}: expected the same")
    return {"optimum": round(solver.objective_value), **sizes, "seconds": time.process_time() - began}


def _minizinc(path, threads, say):
    began = time.monotonic()
    done = subprocess.run(["minizinc", "--solver", "gecode", path], capture_output=True, text=True, check=False)
    found = _PEAK.findall(done.stdout)
    if "==========" not in done.stdout or not found:
        raise ValueError(f"MiniZinc ends with {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
    return {"optimum": int(found[-1]), "seconds": time.monotonic() - began}


def _say(**found):
    print(json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in found.items()}), flush=True)


def _solve(path, threads=1, say=lambda **sizes: None):
    return {"HiGHS": _highs, "CP-SAT": _cpsat, "MiniZinc": _minizinc}[name(path)](path, threads, say)


def _work():
    for path in sys.stdin:
        try:
            _say(**_solve(path.strip()))
        except ValueError as err:
            _say(error=str(err))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        _work()
    else:
        _say(**_solve(sys.argv[1], int(sys.argv[2]), _say))
