"""What planning adds to PyTorch's partition of a training step, in seconds of the processor.

Networks are at their real sizes on fake tensors. Their joint graphs are partitioned by PyTorch's
min-cut, and by ours for a limit, which begins with min-cut; each once before the clock runs. The
seconds are those of this process and of the planner's. Arguments are networks, and a limit (60% by itself).

    ONNXMEM_PLANS= OMP_NUM_THREADS=1 PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python bench/torch_planning.py resnet50 unet
"""

import gc
import os
import sys
import warnings

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import fx
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch_fused import DEFAULT, NETWORKS, joint_graph

import onnxmem_torch
from onnxmem_torch import _planner, _step
from onnxmem_torch._prepare import copied


def clock():
    """Return the seconds of this process and of those that it has started."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def seconds(partition, gm, joint, mode):
    """Partition a joint graph, as torch.compile does; return the seconds."""
    _planner._kept.clear()
    graph = fx.GraphModule(gm, copied(gm.graph))
    gc.collect()
    began = clock()
    with torch._guards.tracing(torch._guards.TracingContext(mode)), _use_lazy_graph_module(True):
        partition(graph, (), num_fwd_outputs=joint.num_fwd_outputs, static_lifetime_input_indices=joint.static, compiler="inductor")
    return clock() - began


def main(words):
    warnings.simplefilter("ignore")
    _step.device_of = lambda graph: DEFAULT  # an A100, as for the tables of plans
    limit = next((w for w in words if w.endswith("%")), "60%")
    print(f"| network | operators | min-cut | ours {limit} | more |\n| --- | ---: | ---: | ---: | ---: |")
    for name in [w for w in words if w in NETWORKS] or ("resnet50", "gpt2", "vit", "bert", "unet", "llama"):
        traced = joint_graph(name, False)
        ways = min_cut_rematerialization_partition, onnxmem_torch.Partitioner(limit)
        cut, ours = [[seconds(way, *traced) for _ in range(2)][1] for way in ways]
        print(f"| {name} | {len(traced[0].graph.nodes):,} | {cut:.2f} | {ours:.2f} | {ours - cut:.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
