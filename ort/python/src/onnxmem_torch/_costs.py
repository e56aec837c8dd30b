"""What a kernel takes: the roofline of its floating-point operations and of the bytes that it moves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

from ._storages import concrete, elements, tensors


@dataclass(frozen=True)
class Device:
    """What a device attains, not what its maker promises."""

    name: str
    #: Floating-point operations in a second, of float32 as PyTorch multiplies it, and of 16 bits.
    flops: float
    half: float
    #: Bytes to and from memory in a second.
    bytes: float
    #: Seconds to launch a kernel.
    launch: float


#: By a part of the name that CUDA has for them; the first that fits is taken.
DEVICES = (
    Device("H200", 350e12, 600e12, 4.0e12, 2e-6),
    Device("H100", 350e12, 600e12, 2.8e12, 2e-6),
    Device("A100", 90e12, 230e12, 1.3e12, 2e-6),
    Device("A10", 30e12, 60e12, 0.5e12, 2e-6),
    Device("L40", 60e12, 150e12, 0.75e12, 2e-6),
    Device("L4", 25e12, 55e12, 0.25e12, 2e-6),
    Device("V100", 13e12, 90e12, 0.8e12, 3e-6),
    Device("T4", 6e12, 30e12, 0.25e12, 3e-6),
)

#: What is assumed of a GPU that is not listed, and of sizes on fake tensors without a device.
DEFAULT = DEVICES[2]

#: Processors differ less in the ratio of the two, which decides what is made again.
CPU = Device("cpu", 0.8e12, 0.8e12, 0.05e12, 4e-6)


def named(name: str) -> Device:
    """Return a device by its name, such as "A100" or "cpu"; ValueError lists them."""
    for d in (*DEVICES, CPU):
        if d.name.lower() == name.lower():
            return d
    raise ValueError(f"on {name!r}: expected one of {', '.join(d.name for d in (*DEVICES, CPU))}")


def device_of(graph: fx.Graph) -> Device:
    """Return the device of a graph: that of its first tensor on a GPU, else the processor."""
    for node in graph.nodes:
        for tensor in tensors(node):
            if tensor is not None and tensor.device.type == "cuda":
                name = torch.cuda.get_device_name(tensor.device) if torch.cuda.is_available() else ""
                return next((d for d in DEVICES if d.name in name), DEFAULT)
    return CPU


def flops(node: fx.Node) -> int:
    """Return the floating-point operations of products, convolutions and attention; 0 of all others."""
    count = flop_registry.get(getattr(node.target, "_overloadpacket", None))
    if count is None:
        return 0
    fixed = pytree.tree_map_only(fx.Node, lambda n: n.meta["val"], (node.args, node.kwargs))
    try:
        return concrete(count(*fixed[0], **fixed[1], out_val=node.meta["val"]))
    except (RuntimeError, AssertionError, TypeError, ValueError, KeyError):
        return 0  # sizes that only the data tells


def moved(node: fx.Node) -> int:
    """Return the bytes that a kernel of its own reads and writes."""
    size = 0
    for m in [*node.all_input_nodes, node]:
        size += sum(elements(t) * t.element_size() for t in tensors(m) if t is not None)
    return size


def seconds(node: fx.Node, device: Device = DEFAULT) -> float:
    """Return the time of a node as a kernel of its own."""
    operations = flops(node)
    narrow = operations and all(t is None or t.element_size() <= 2 for t in tensors(node))
    rate = device.half if narrow else device.flops
    return max(operations / rate, moved(node) / device.bytes) + device.launch
