"""What allocators reserve for training steps of PyTorch at their real sizes, by simulation, without a GPU.

    PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python bench/torch_reserve.py [NAME ...]

The steps are those of bench/gpu/steps_torch.py, traced on fake tensors: as PyTorch's min-cut
has them, also with torch.utils.checkpoint for each block; planned by onnxmem_torch for the
best order and below limits; and as the first of four stages of a pipeline runs them, each of
two virtual stages, eight batches, in the interleaved order of Megatron-LM. Each step runs
three times. The load is the bytes that live at the peak; PyTorch's caching allocator with its
defaults and with expandable_segments:True, and our arena, are multiples of it.
"""

import json
import sys
import warnings

import torch
from onnxmem._command import call
from torch._functorch.partitioners import min_cut_rematerialization_partition

sys.path.insert(0, __file__.rpartition("/")[0] + "/gpu")
import steps_torch

import onnxmem_torch
from onnxmem_torch import _lives, _trace

ROUNDS = 3
STAGES, VIRTUAL, BATCHES = 4, 2, 8
MIB = 2**20


def events(load):
    """The blocks of a load as they are taken and freed, each with the step at which it is."""
    found = [(b.first, 0, k) for k, b in enumerate(load.blocks)] + [(b.last + 1, -1, k) for k, b in enumerate(load.blocks)]
    return sorted(found)


def step(load):
    return [("alloc" if kind == 0 else "free", k, load.blocks[k].bytes) for _, kind, k in events(load)]


def pipeline(load):
    """The events of a stage that holds chunks of a network, each like this one; gradients are kept."""
    parts = {"F": [], "B": []}
    for at, kind, k in events(load):
        last_of_forward = kind == -1 and load.blocks[k].last < load.boundary
        parts["F" if at < load.boundary or last_of_forward else "B"].append(("alloc" if kind == 0 else "free", k, load.blocks[k].bytes))
    program = []
    for kind, batch, chunk in interleaved():
        program += [(what, (batch, chunk, k), size) for what, k, size in parts[kind]]
    return program


def interleaved():
    """The order of passes of the first stage: batches in groups of as many as there are stages."""
    group = [(batch, chunk) for first in range(0, BATCHES, STAGES) for chunk in range(VIRTUAL) for batch in range(first, first + STAGES)]
    back = [(batch, VIRTUAL - 1 - chunk) for batch, chunk in group]
    ahead = min((STAGES - 1) * 2 + (VIRTUAL - 1) * STAGES, len(group))
    order = [("F", *x) for x in group[:ahead]]
    for i, b in enumerate(back):
        if ahead + i < len(group):
            order.append(("F", *group[ahead + i]))
        order.append(("B", *b))
    return order


def reserved(program):
    lines, names = [], {}
    for _ in range(ROUNDS):
        lines.append('{"mark":"run"}')
        for what, k, size in program:
            names.setdefault(k, len(names))
            lines.append(json.dumps({"alloc": names[k], "size": size} if what == "alloc" else {"free": names[k]}))
    return call(["pack", "--trace", "-", "--json", "--effort=fast", "--align=512"], "\n".join(lines).encode()).result


def traced(name, again=False):
    with torch.device("meta"):
        model, *inputs = steps_torch.network(name, small=False)
    model.again = again
    return _trace.joint(model.train(), tuple(inputs), training=True)


def compiled(joint):
    with torch._guards.tracing(torch._guards.TracingContext(joint.mode)):
        graphs = min_cut_rematerialization_partition(joint.module, (), num_fwd_outputs=joint.num_fwd_outputs, static_lifetime_input_indices=joint.static)
    return _lives.graph_load(*graphs, joint.num_fwd_outputs, "min-cut")


def planned(joint, limit):
    p = onnxmem_torch.Partitioner(limit).plan(joint.module, joint.num_fwd_outputs)
    return _lives.planned_load(p.step, p.steps, str(limit))


def row(name, what, program):
    found = reserved(program)
    load, by = found["max_load_bytes"], found["reserved_bytes"]
    sizes = [by["pytorch"], by["pytorch-expandable"], found["arena_bytes"]]
    print(f"| {name} | {what} | {load / MIB:,.0f} | " + " | ".join(f"{s / load:.3f}" for s in sizes) + " |", flush=True)


def main(names):
    warnings.simplefilter("ignore")
    print("| network | step | load, MiB | caching allocator | expandable segments | arena |\n| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
    for name in names:
        joint = traced(name)
        for limit in (None, "70%", "60%"):
            row(name, f"planned, {limit or 'no limit'}", step(planned(joint, limit)))
        load = compiled(joint)
        row(name, "min-cut", step(load))
        row(name, "min-cut, virtual stages", pipeline(load))
        row(name, "checkpoints", step(compiled(traced(name, again=True))))


if __name__ == "__main__":
    main(sys.argv[1:] or ["resnet50", "unet", "gpt2", "llama"])
