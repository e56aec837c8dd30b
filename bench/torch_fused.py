"""What Inductor makes of a partition: kernels, bytes that they move, their roofline on an A100, peaks.

Networks are at their real sizes on fake tensors. Both graphs are lowered by Inductor's CPU
backend up to its fused kernels; nothing is compiled or run. Peaks are by its own estimate,
after its own reordering and after onnxmem's.

    PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python bench/torch_fused.py resnet50 vit
"""

import sys
import warnings

import torch
import torch._functorch.config
import torch._inductor.lowering
import torchvision
from functorch.compile import min_cut_rematerialization_partition
from torch import fx
from torch._inductor import config
from torch._inductor.compile_fx import _recursive_joint_graph_passes, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch.nn import functional

import onnxmem_torch
from onnxmem_torch import _partition, _step, _trace
from onnxmem_torch._costs import DEFAULT
from onnxmem_torch._prepare import copied

MIB = 2**20


def images(build, batch):
    with torch.device("meta"):
        return build(), torch.empty(batch, 3, 224, 224, device="meta"), torch.empty(batch, dtype=torch.long, device="meta")


NETWORKS = {
    "resnet50": lambda: images(torchvision.models.resnet50, 32),
    "vit": lambda: images(torchvision.models.vit_b_16, 32),
    "convnext": lambda: images(torchvision.models.convnext_tiny, 32),
}


class Loss(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, labels):
        return functional.cross_entropy(self.network(x), labels)


class Stop(Exception):
    """Ends the lowering once the kernels are there."""


def kernels(gm, backward):
    """Return kernels, bytes moved, seconds, and the peaks by Inductor's order and by onnxmem's."""
    found, order = [], onnxmem_torch.inductor_pass()

    def look(nodes):
        sizes = [n.get_read_write_buffers_sizes() for n in nodes]
        times = [max((n.estimate_flops() or 0) / DEFAULT.flops, s / DEFAULT.bytes) + DEFAULT.launch for n, s in zip(nodes, sizes)]
        order(nodes)
        found.extend([len(nodes), sum(sizes), sum(times), order.reports[0].inductor_bytes, order.reports[0].peak_bytes])
        raise Stop

    args = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    mode = next(a.fake_mode for a in args if isinstance(a, torch.Tensor))
    with config.patch(_post_fusion_custom_pass=look, fx_graph_cache=False), torch._guards.tracing(torch._guards.TracingContext(mode)), mode:
        try:
            compile_fx_inner(fx.GraphModule(gm, copied(gm.graph)), args, is_backward=backward)
        except Exception:
            if not found:
                raise
    return found


def rows(name):
    network, *inputs = NETWORKS[name]()
    joint = _trace.joint(Loss(network).train(), tuple(inputs), decompositions=select_decomp_table(), device="cpu")
    mode = next(n.meta["val"] for n in joint.module.graph.nodes if n.op == "placeholder").fake_mode
    with torch._guards.tracing(torch._guards.TracingContext(mode)), V.set_fake_mode(mode):
        gm = _recursive_joint_graph_passes(joint.module, skip_invoke_subgraph=True, input_device=torch.device("cpu"))
    more = {"num_fwd_outputs": joint.num_fwd_outputs, "static_lifetime_input_indices": joint.static}
    ways = {"min-cut": (1.0, None), "budget 0.5": (0.5, None), "budget 0.3": (0.3, None), "budget 0.1": (0.1, None)}
    ways |= {f"ours {limit}": (1.0, limit) for limit in (None, "80%", "60%", "40%")}
    base = None
    for way, (budget, limit) in ways.items():
        partition = onnxmem_torch.Partitioner(limit) if way.startswith("ours") else min_cut_rematerialization_partition
        with torch._functorch.config.patch(activation_memory_budget=budget), torch._guards.tracing(torch._guards.TracingContext(mode)):
            parts = partition(fx.GraphModule(gm, copied(gm.graph)), (), compiler="inductor", **more)
        a, b = kernels(parts[0], False), kernels(parts[1], True)
        time = a[2] + b[2]
        base = base or time
        yield f"| {name} | {way} | {a[0]} + {b[0]} | {(a[1] + b[1]) / MIB:,.0f} | {100 * (time / base - 1):+.2f} | {max(a[3], b[3]) / MIB:,.0f} | {max(a[4], b[4]) / MIB:,.0f} |"


def main(names):
    warnings.simplefilter("ignore")
    _partition.device_of = _step.device_of = lambda graph: DEFAULT  # plan as for the roofline that is printed
    print("| network | partition | kernels | MiB moved | time % | peak, Inductor's order | peak, `inductor_pass` |\n| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for name in names:
        for row in rows(name):
            print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(NETWORKS))
