"""Confirm the optimum of small problems with HiGHS, by the integer program of `onnxmem order --lp`."""

import math
import pathlib
import re
import time

import highspy

from . import command

_FOLDER = pathlib.Path(__file__).with_name("problems")
_PROBLEMS = {
    "branches": "two branches, large in the middle",
    "updates": "gradients freed by updates",
    "workspace": "workspace larger than the tensors",
    "residual": "in-place pairs on both inputs of Add",
    "outputs": "four outputs",
    "dense": "up to five readers",
    "control": "precedence without bytes, a resident tensor",
    "unread": "an input and tensors that nobody reads, an input that is an output",
    "pairs": "13 competing in-place pairs",
    "mlp-train": "a training step, three layers, SGD",
}
_SECONDS = 100  # the largest of the problems takes 6 s
UNIT = re.compile(r"^\\ .*One unit is (\d+) bytes\.$", re.MULTILINE)


def find():
    """Return the problems: sizes and precedence of up to 23 nodes."""
    return [_FOLDER / f"{name}.json" for name in _PROBLEMS]


def examine(problem, tool, work):
    """Order a problem and compare the peak with the optimum of a solver."""
    began = time.process_time()
    result = {"title": f"optimum/{problem.stem}", "has": _PROBLEMS.get(problem.stem, ""), "faults": []}
    try:
        program = work / f"{problem.stem}.lp"
        ordered = tool.order(problem, program)
        result["nodes"], result["peak"] = ordered["nodes"], ordered["peak_bytes"]
        if not ordered["optimal"]:
            result["faults"].append(f"peak {ordered['peak_bytes']}, bound {ordered['lower_bound_bytes']}: not proven")
        result["optimum"] = solve(program)
        if result["optimum"] != result["peak"]:
            result["faults"].append(f"peak {result['peak']}, the solver's optimum is {result['optimum']}")
    except (command.Failed, ValueError) as err:
        result["faults"].append(str(err))
    result["seconds"] = round(time.process_time() - began, 1)
    return result


def solve(program):
    """Return the exact optimum of an integer program in bytes.

    Sizes are multiples of the unit and the peak counts units, so a gap below one unit
    is zero: the solver's relative tolerances cannot hide a byte.
    """
    unit = UNIT.search(program.read_text(encoding="utf-8"))
    if not unit:
        raise ValueError(f"{program}: no line says how many bytes a unit is")
    solver = highspy.Highs()
    solver.silent()
    for option, value in (("threads", 1), ("mip_rel_gap", 0.0), ("mip_abs_gap", 0.5), ("time_limit", float(_SECONDS))):
        solver.setOptionValue(option, value)
    if solver.readModel(str(program)) != highspy.HighsStatus.kOk:
        raise ValueError(f"{program}: HiGHS cannot read it")
    solver.run()
    if (status := solver.getModelStatus()) != highspy.HighsModelStatus.kOptimal:
        raise ValueError(f"{program}: HiGHS ends with {solver.modelStatusToString(status)}")
    info = solver.getInfo()
    units = round(info.objective_function_value)
    if abs(info.objective_function_value - units) > 1e-4 or math.ceil(info.mip_dual_bound - 1e-4) != units:
        raise ValueError(f"{program}: HiGHS gives {info.objective_function_value}, bound {info.mip_dual_bound}: expected the same integer")
    return units * int(unit[1])


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} peak {result.get('peak', '-')}, HiGHS {result.get('optimum', '-')}, {result['seconds']} s"
