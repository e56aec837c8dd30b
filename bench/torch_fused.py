"""What Inductor makes of a partition: kernels, bytes that they move, their roofline on an A100, peaks.

Networks are at their real sizes on fake tensors. Both graphs are lowered by Inductor's CPU
backend up to its fused kernels; nothing is compiled or run. What the forward pass saves has
the strides that it left it with. Peaks are by Inductor's own account, after its own order and
after onnxmem's, with what the forward pass leaves beside. Arguments are networks, and words that partitions' names begin with.

    PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python bench/torch_fused.py resnet50 unet
    ... bench/torch_fused.py resnet50 min-cut ours
    ... bench/torch_fused.py gpt2 "ours 26.88%"
"""

import sys
import warnings

import torch
import torch._functorch.config
import torch._inductor.lowering
from functorch.compile import default_partition, min_cut_rematerialization_partition
from torch import fx
from torch._inductor.compile_fx import _recursive_joint_graph_passes
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch_networks import NETWORKS, build

import onnxmem_torch
from onnxmem_torch import _scheduler, _step, _trace
from onnxmem_torch._costs import DEFAULT
from onnxmem_torch._inductor import lower, result_strides
from onnxmem_torch._lowering import Lowering
from onnxmem_torch._prepare import copied

MIB = 2**20

#: Partitions: for PyTorch's the budget, for ours the limit.
WAYS = {
    "default": 1.0, "min-cut": 1.0, "budget 0.5": 0.5, "budget 0.3": 0.3, "budget 0.1": 0.1, "checkpoints": 1.0,
    "ours": None, "ours 80%": "80%", "ours 60%": "60%", "ours 40%": "40%",
}  # fmt: skip


def kernels(gm, backward, strides=(), ours=None):
    """Return kernels, bytes moved, seconds, the peaks by Inductor's order and by onnxmem's, and the results' strides and names.

    strides are those of the first inputs, where they are known. With the partitioner that planned
    the graph, kernels are taken apart as it does.
    """
    order = onnxmem_torch.inductor_pass("fast", ours)

    def look(nodes):
        nodes = order(nodes)
        sizes = [n.get_read_write_buffers_sizes() for n in nodes]
        times = [max(flops(n) / DEFAULT.flops, s / DEFAULT.bytes) + DEFAULT.launch for n, s in zip(nodes, sizes)]
        report = order.reports[0]
        return [len(nodes), sum(sizes), sum(times), report.inductor_bytes, report.peak_bytes, result_strides(), _scheduler.output_names(), set(V.graph.graph_inputs)]

    return lower(gm, backward, strides, look)


def flops(kernel):
    """Return a kernel's arithmetic as Inductor estimates it, and of a product that was taken out of a sum, which it does not know."""
    found = kernel.estimate_flops()
    if found is None and getattr(kernel.node, "python_kernel_name", None) == "extern_kernels.mm":
        rows, columns = kernel.node.get_size()
        found = 2 * int(rows) * int(columns) * int(kernel.node.inputs[0].get_size()[1])
    return found or 0


def joint_graph(name, again):
    network = build(name, again=again, device="meta")
    joint = _trace.joint(network, network.inputs, decompositions=select_decomp_table(), device="cpu")
    mode = next(n.meta["val"] for n in joint.module.graph.nodes if n.op == "placeholder").fake_mode
    with torch._guards.tracing(torch._guards.TracingContext(mode)), V.set_fake_mode(mode):
        gm = _recursive_joint_graph_passes(joint.module, skip_invoke_subgraph=True, input_device=torch.device("cpu"))
    return gm, joint, mode


def rows(name, ways):
    graphs = {}
    for way in ways:
        again = way == "checkpoints"
        if again not in graphs:
            graphs[again] = joint_graph(name, again)
        gm, joint, mode = graphs[again]
        more = {"num_fwd_outputs": joint.num_fwd_outputs, "static_lifetime_input_indices": joint.static}
        ours = onnxmem_torch.Partitioner(WAYS[way]) if way.startswith("ours") else None
        partition = ours or (default_partition if way == "default" else min_cut_rematerialization_partition)
        if way != "default":
            more["compiler"] = "inductor"
        budget = 1.0 if ours else WAYS[way]
        with torch._functorch.config.patch(activation_memory_budget=budget), torch._guards.tracing(torch._guards.TracingContext(mode)):
            parts = partition(fx.GraphModule(gm, copied(gm.graph)), (), **more)
        a = kernels(parts[0], False, ours=ours)
        b = kernels(parts[1], True, a[5][joint.num_fwd_outputs :], ours)
        both = Lowering(parts[0], parts[1], joint.num_fwd_outputs)
        both.forward(a[3], a[6], a[7])
        time, left = a[2] + b[2], both.left_bytes
        planned = f"{ours.reports[0].peak_bytes / MIB:,.0f}" if ours else ""
        limit = f"{ours.reports[0].limit_bytes / MIB:,.0f}" if ours and ours.reports[0].limit_bytes else ""
        figures = [f"{a[0]} + {b[0]}", f"{(a[1] + b[1]) / MIB:,.0f}", f"{1e3 * time:.2f}", limit, planned]
        yield " | ".join([f"| {name}", way, *figures, f"{max(a[3], b[3] + left) / MIB:,.0f}", f"{max(a[4], b[4] + left) / MIB:,.0f} |"])


def main(words):
    warnings.simplefilter("ignore")
    _step.device_of = lambda graph: DEFAULT  # plan as for the roofline that is printed
    print("| network | partition | kernels | MiB moved | ms | limit | planned | peak, Inductor's order | peak, `inductor_pass` |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    asked = tuple(w for w in words if w not in NETWORKS)
    WAYS.update((w, w.removeprefix("ours ")) for w in asked if w.startswith("ours "))
    for name in [w for w in words if w in NETWORKS] or NETWORKS:
        for row in rows(name, [w for w in WAYS if not asked or w.startswith(asked)]):
            print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
