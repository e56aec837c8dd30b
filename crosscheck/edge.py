"""The smallest peaks that slices reach, on networks for microcontrollers."""

import dataclasses
import pathlib
import time

import onnx

from . import command, feeds, quantized

_NETWORKS = ("mobilenet_v2", "tiny_autoencoder", "tiny_ds_cnn", "tiny_mobilenet", "tiny_resnet8")

# For our estimates of time: a microcontroller of 240 MHz that multiplies and adds once a cycle.
DEVICE = "--device=roofline,flops=480e6,bandwidth=500e6"

_STEP = 1 / 64  # of the smallest peak: how far below it no plan was found


@dataclasses.dataclass(frozen=True)
class Network:
    """A network at batch 1. An int8 one has two files, because TiGrIS reads no operators on int8."""

    name: str
    ours: pathlib.Path
    theirs: pathlib.Path

    @property
    def stem(self):
        return self.name


def find(tool, work):
    """Write each network in float32 and in int8."""
    found = []
    for name in _NETWORKS:
        path, integer, around = (work / f"{name}{kind}.edge.onnx" for kind in ("", ".int8", ".qdq"))
        tool.model(name, path, {}, {"batch": 1})
        quantized.write(path, around, integer)
        found += [Network(name, path, path), Network(f"{name}-int8", integer, around)]
    return found


def examine(network, tool, work):
    """Lower the limit until no slices meet it, with the input in the arena and with the input elsewhere."""
    began = time.monotonic()
    result = {"title": f"edge/{network.name}", "faults": []}
    stored = work / f"{network.name}.stored.edge.onnx"
    model = onnx.load(network.ours)
    result["input"] = store(model.graph)
    onnx.save(model, stored)
    try:
        result["with"] = _smallest(network.ours, tool, result["faults"])
        result["without"] = _smallest(stored, tool, result["faults"])
    except (command.Failed, onnx.checker.ValidationError) as err:
        result["faults"].append(str(err))
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def store(graph):
    """Turn the inputs of a graph into initializers, which a plan does not count; return their bytes."""
    given = feeds.make(graph, feeds.declared(graph))
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in given.items())
    del graph.input[:]
    return sum(array.nbytes for array in given.values())


def _smallest(path, tool, faults):
    """Return the peak without slices, the smallest that was found, and its extra time; check that plan, and compare its results with those of the plan without slices."""
    whole, target, sliced = (path.with_suffix(f".{kind}.onnx") for kind in ("whole", "tried", "sliced"))
    result = {"whole": tool.plan(path, whole, ["--fold=off"])["peak_bytes"], "extra": None}

    def attempt(limit):
        found = tool.attempt(path, target, ["--fold=off", "--slices=exact", f"--limit={limit}", DEVICE])
        if "peak_bytes" not in found:
            return None
        for suffix in (".onnx", ".plan.json"):
            target.with_suffix(suffix).replace(sliced.with_suffix(suffix))
        result["extra"] = extra(found)
        return found["peak_bytes"]

    result["peak"] = lowest(result["whole"], attempt)
    if result["extra"] is not None:
        faults += _check(whole, sliced, tool)
    return result


def lowest(whole, attempt):
    """Return the smallest peak that bisection of limits finds. attempt returns the peak of a plan within a limit, None if there is none."""
    low, high = 0, whole
    while high - low > high * _STEP:
        limit = (low + high) // 2
        if (peak := attempt(limit)) is None:
            low = limit
        else:
            high = peak
    return below(high, attempt)


def below(high, attempt):
    """Return the peak of a plan within a limit just below high; high if there is none. The plan for the last limit may be one of a larger peak that takes less time."""
    return peak if high and (peak := attempt(high - 1)) is not None else high


def _check(whole, sliced, tool):
    """Return what is wrong with a plan with slices."""
    faults = [f"verify: {text}" for text in tool.verify(sliced)]
    onnx.checker.check_model(str(sliced), full_check=True)
    graph = onnx.load(sliced).graph
    given = feeds.make(graph, feeds.declared(graph))
    plain, ours = (tool.run(path, given, [], 600)[1] for path in (whole, sliced))
    return faults + [f"{name}: slices change bits" for name in plain if plain[name].tobytes() != ours[name].tobytes()]


def extra(found):
    """Return the extra time of a plan within a limit in per cent: of slices, or of nodes that run again."""
    return found.get("slice_cost_percent", 0) + found.get("extra_cost_percent", 0)


HEAD = ("network", "whole", "sliced", "factor", "extra time", "input", "elsewhere: sliced", "factor", "extra time")


def cells(result):
    """Return the cells of a row, as text: sizes in KiB, extra time in per cent."""

    def of(found):
        return [size(found["peak"]), f"{found['whole'] / found['peak']:.2f}", percent(found["extra"])]

    return [result["title"].partition("/")[2], size(result["with"]["whole"]), *of(result["with"]), size(result["input"]), *of(result["without"])]


def size(value):
    """Return bytes in KiB."""
    return "–" if value is None else f"{value / 1024:,.1f}"


def percent(value):
    """Return per cent with one digit."""
    return "–" if value is None else f"{value:.1f}"


def row(result):
    """Return one line of text."""
    if "without" not in result:
        return f"{result['title']:34} failed"
    return f"{result['title']:34} " + ", ".join(f"{title} {cell}" for title, cell in zip(HEAD[1:], cells(result)[1:]) if cell != "–") + f" (KiB, %), {result['seconds']} s"
