"""Confirm the optimum of small problems with HiGHS, by the integer program of `onnxmem order --lp`."""

import pathlib
import time

from . import command, foreign

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


def find():
    """Return the problems: sizes and precedence of up to 23 nodes."""
    return [_FOLDER / f"{name}.json" for name in _PROBLEMS]


def examine(problem, tool, work):
    """Order a problem and compare the peak with the optimum of a solver."""
    began = time.monotonic()
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
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def solve(program):
    """Return the exact optimum of an integer program in bytes.

    Sizes are multiples of the unit and the peak counts units, so a gap below one unit
    is zero: the solver's relative tolerances cannot hide a byte.
    """
    unit = foreign.unit_of(program)
    found = foreign.limited(program, _SECONDS)["optimum"]
    if found is None:
        raise ValueError(f"{program}: HiGHS takes more than {_SECONDS} s")
    return found * unit


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} peak {result.get('peak', '-')}, HiGHS {result.get('optimum', '-')}, {result['seconds']} s"
