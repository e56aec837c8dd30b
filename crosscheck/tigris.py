"""Compare plans for memories of some KiB with those of TiGrIS, a compiler for microcontrollers (PyPI: tigris-ml).

TiGrIS cuts a network into stages. Each reads its inputs from a slow memory and writes its
outputs there; inside a stage, tensors lie in a fast memory, in tiles where they do not
fit. Both figures count activations without weights, which stay in flash, rounded up to
TiGrIS's alignment of 32 or to ours of 64 bytes:

- its peak is the largest load of the fast memory over all stages, by its planner. The
  network's inputs and outputs lie in the slow memory;
- its traffic is what one inference reads from the slow memory and writes to it, counted
  by its runtime on this machine: also the network's inputs and outputs.

Our peak, without pools, is that of an arena that holds the inputs and outputs, too.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import time
import venv

import onnx

from . import command, edge

_REQUIREMENTS = pathlib.Path(__file__).with_name("requirements-tigris.txt")
_KIB = 1 << 10

# Networks, and sizes of the fast memory in KiB: 64, 128, 256 and 512, as far as the whole
# network does not fit into a smaller one, and sizes in which that network is tight.
_BUDGETS = {
    "mobilenet_v2": (64, 128, 252, 256, 512),
    "mobilenet_v2-int8": (32, 64, 128, 172, 256, 512),
    "tiny_autoencoder": (3, 64),
    "tiny_autoencoder-int8": (1, 64),
    "tiny_ds_cnn": (32, 48, 64),
    "tiny_ds_cnn-int8": (8, 12, 64),
    "tiny_mobilenet": (32, 64, 128, 256),
    "tiny_mobilenet-int8": (8, 16, 32, 64),
    "tiny_resnet8": (32, 64, 128, 256),
    "tiny_resnet8-int8": (8, 16, 32, 64),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A network and a size of the fast memory."""

    name: str
    budget: int  # bytes
    theirs: pathlib.Path  # the file that TiGrIS reads
    ours: pathlib.Path

    @property
    def stem(self):
        return f"{self.name}-{self.budget // _KIB}"


def find(tool, work):
    """Write the networks; return the cases."""
    return [Case(n.name, budget * _KIB, n.theirs, n.ours) for n in edge.find(tool, work) for budget in _BUDGETS[n.name]]


def examine(case, tool, work):
    """Plan a network for one size by both tools."""
    began = time.monotonic()
    result = {"title": f"tigris/{case.stem}", "network": case.name, "budget": case.budget, "faults": []}
    try:
        result["theirs"] = _analyze(case)
        result["whole"] = tool.plan(case.ours, work / "whole.edge.onnx", [])["peak_bytes"]
        target = work / f"{case.stem}.planned.onnx"
        found = tool.attempt(case.ours, target, ["--slices=exact", f"--limit={case.budget}", edge.DEVICE])
        result["met"] = "peak_bytes" in found
        if result["met"]:
            result["peak"], result["extra"] = found["peak_bytes"], edge.extra(found)
            result["faults"] += [f"verify: {text}" for text in tool.verify(target)]
            onnx.checker.check_model(str(target), full_check=True)
        if tool.offers("optimize", "--pool"):
            pools = tool.attempt(case.ours, target, ["--slices=exact", edge.DEVICE, f"--pool=fast={case.budget}", "--pool=slow=1GiB"])
            result["traffic"], result["least"] = pools.get("slow_traffic_bytes"), pools.get("slow_traffic_lower_bound_bytes")
            result["moved_extra"] = None if result["traffic"] is None else edge.extra(pools)
    except (command.Failed, onnx.checker.ValidationError, subprocess.CalledProcessError) as err:
        result["faults"].append(str(err))
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def _analyze(case):
    """Return what TiGrIS says: the peak and the traffic in bytes, None if it finds no plan, and the number of stages."""
    done = subprocess.run([_installed(), "analyze", case.theirs, "-m", str(case.budget), "--json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    fast, traffic = found["fast"], found["slow"]["traffic"]
    fits = not fast["infeasible"] and not found["model"]["unsupported_operators"]
    return {
        "whole": found["model"]["unscheduled_peak_bytes"],
        "peak": fast["scheduled_peak_bytes"] if fits else None,
        "traffic": traffic["read"] + traffic["written"] if traffic else None,
        "stages": fast["stages"],
    }


def _installed():
    """Return the path of the command tigris, in an environment of its own in the cache folder."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "onnxmem" / _REQUIREMENTS.read_text(encoding="utf-8").strip().replace("==", "-")
    path = folder / "bin/tigris"
    if not path.exists():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "-r", _REQUIREMENTS], check=True)
    return path


HEAD = (
    "network", "fast memory", "TiGrIS: whole", "peak", "stages", "traffic",
    "onnxmem: whole", "peak", "extra time", "traffic", "at least", "extra time",
)


def cells(result):
    """Return the cells of a row, as text: sizes in KiB, extra time in per cent."""
    theirs = result["theirs"]
    return [
        result["network"], result["budget"] // _KIB, edge.size(theirs["whole"]), edge.size(theirs["peak"]), theirs["stages"], edge.size(theirs["traffic"]),
        edge.size(result["whole"]), edge.size(result.get("peak")), edge.percent(result.get("extra")), edge.size(result.get("traffic")), edge.size(result.get("least")), edge.percent(result.get("moved_extra")),
    ]


def row(result):
    """Return one line of text."""
    if "whole" not in result:
        return f"{result['title']:34} failed"
    return f"{result['title']:34} " + ", ".join(f"{title} {cell}" for title, cell in zip(HEAD[2:], cells(result)[2:]) if cell != "–") + " (KiB, %)"
