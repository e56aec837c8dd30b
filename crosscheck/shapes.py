"""Compare the shapes in the runtime with those of the plan."""

import dataclasses
import math

_BITS = {"bool": 8, "float32": 32, "float64": 64, "float16": 16, "bfloat16": 16, "complex64": 64, "complex128": 128}


@dataclasses.dataclass
class Shapes:
    """Counts of tensors that are planned at their size, at a bound, or left to the runtime."""

    equal: int = 0
    bounded: int = 0
    dynamic: int = 0
    unseen: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)

    def __str__(self):
        return f"{self.equal}/{self.bounded}/{self.dynamic}" + (f" ?{len(self.unseen)}" if self.unseen else "")


def compare(inferred, plan, seen, names):
    """Compare the named tensors with the runtime's.

    inferred: onnxmem's list of tensors by name; plan: the sidecar; seen: name to
    (type, shape) in the runtime.
    """
    result = Shapes()
    buffers = places(plan)
    dynamic = {d["tensor"] for d in plan["dynamic"]}
    for name in names:
        tensor, place = inferred.get(name), buffers.get(name)
        if tensor is None or (place is None) != (name in dynamic):
            result.faults.append(f'tensor "{name}": {_absent(tensor, place)}')
        elif tensor["dynamic"]:
            result.dynamic += 1
        elif name not in seen:
            result.unseen.append(name)
        elif fault := mismatch(tensor, place, plan["alignment"], *seen[name]):
            result.faults.append(f'tensor "{name}": {fault}')
        elif tensor["bounded"]:
            result.bounded += 1
        else:
            result.equal += 1
    return result


def places(plan):
    """Return by tensor the bytes of its place and the tensors there: of a buffer, or of the buffers of its span."""
    buffers = plan["buffers"]
    spans = [{"bytes": sum(buffers[i]["bytes"] for i in s["buffers"]), "tensors": s["tensors"]} for s in plan.get("spans") or []]
    return {name: place for place in buffers + spans for name in place.get("tensors") or []}


def _absent(tensor, place):
    if tensor is None:
        return "not listed by inspect"
    return "neither in a buffer nor dynamic" if place is None else "both in a buffer and dynamic"


def mismatch(tensor, place, alignment, elem, shape):
    """Return the fault of a planned tensor, given its true type and shape; None if there is none."""
    found = f"{tensor['type']} {tensor['shape']}"
    if tensor["type"] != elem or tensor["shape"] is None or len(tensor["shape"]) != len(shape):
        return f"inferred as {found}, ONNX Runtime made {elem} {list(shape)}"
    if not all(map(_fits, tensor["shape"], shape)):
        return f"inferred as {found}, ONNX Runtime made {elem} {list(shape)}"
    need = size(elem, shape)
    if need is None:
        return f"element type {elem} has no size here"
    if tensor["bounded"]:
        if tensor["bytes"] < need:
            return f"bounded by {tensor['bytes']} bytes, ONNX Runtime needs {need}"
    elif tensor["bytes"] != need:
        return f"inferred as {tensor['bytes']} bytes, ONNX Runtime needs {need}"
    rounded = -(-tensor["bytes"] // alignment) * alignment
    if place["bytes"] < rounded:
        return f"lies in a buffer of {place['bytes']} bytes, expected at least {rounded}"
    if place["bytes"] > rounded and len(place["tensors"]) == 1:
        return f"lies in a buffer of {place['bytes']} bytes, expected {rounded}"
    return None


def _fits(inferred, true):
    if isinstance(inferred, str):
        return inferred == "?" or inferred.startswith("<=") and true <= int(inferred[2:])
    return inferred == true


def size(elem, shape):
    """Return the bytes of a dense tensor; None if the element type has no fixed size."""
    bits = _BITS.get(elem)
    if bits is None and elem.startswith("float8"):
        bits = 8
    if bits is None and elem.lstrip("uint").isdigit():
        bits = int(elem.lstrip("uint"))
    return None if bits is None else -(-bits * math.prod(shape) // 8)
