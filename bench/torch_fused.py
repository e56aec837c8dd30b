"""What Inductor makes of a partition: kernels, bytes that they move, their roofline on an A100, peaks.

Networks are at their real sizes on fake tensors. Both graphs are lowered by Inductor's CPU
backend up to its fused kernels; nothing is compiled or run. What the forward pass saves has
the strides that it left it with. Peaks are by Inductor's own account, after its own order and
after onnxmem's, with what the forward pass leaves beside. Arguments are networks, and words that partitions' names begin with.

    PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python bench/torch_fused.py resnet50 unet
    ... bench/torch_fused.py resnet50 min-cut ours
"""

import sys
import warnings

import torch
import torch._functorch.config
import torch._inductor.lowering
import torchvision
import transformers
from functorch.compile import default_partition, min_cut_rematerialization_partition
from torch import fx, nn
from torch._inductor import config
from torch._inductor.compile_fx import _recursive_joint_graph_passes, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch.nn import functional

import onnxmem_torch
from onnxmem_torch import _partition, _scheduler, _step, _trace
from onnxmem_torch._costs import DEFAULT
from onnxmem_torch._lowering import Lowering
from onnxmem_torch._prepare import copied

MIB = 2**20


class Classes(nn.Module):
    """Images with a label each, or with one for each pixel."""

    def __init__(self, network, size, *labels):
        super().__init__()
        self.network = network
        self.inputs = torch.empty(size), torch.empty(size[0], *labels, dtype=torch.long)

    def forward(self, x, labels):
        return functional.cross_entropy(self.network(x), labels)


class Words(nn.Module):
    """Words as their own labels."""

    def __init__(self, network, *size):
        super().__init__()
        self.network = network
        self.inputs = (torch.empty(size, dtype=torch.long),)

    def forward(self, words):
        return self.network(input_ids=words, labels=words).loss


def twice(a, b):
    """Return two convolutions with GroupNorm and ReLU."""
    layers = []
    for k in (a, b):
        layers += [nn.Conv2d(k, b, 3, padding=1), nn.GroupNorm(8, b), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels down and up, 64 to 1,024 channels."""

    def __init__(self):
        super().__init__()
        widths = (64, 128, 256, 512, 1024)
        self.down = nn.ModuleList(twice(a, b) for a, b in zip((3, *widths), widths))
        self.larger = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.up = nn.ModuleList(twice(2 * w, w) for w in widths[-2::-1])
        self.last = nn.Conv2d(64, 2, 1)

    def forward(self, x):
        kept = []
        for k, level in enumerate(self.down):
            x = level(functional.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for larger, level, beside in zip(self.larger, self.up, kept[-2::-1]):
            x = level(torch.cat((beside, larger(x)), 1))
        return self.last(x)


def llama():
    options = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 16, "num_attention_heads": 16}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(use_cache=False, **options))


#: Each on the device "meta".
NETWORKS = {
    "resnet50": lambda: Classes(torchvision.models.resnet50(), (32, 3, 224, 224)),
    "gpt2": lambda: Words(transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)), 4, 1024),
    "unet": lambda: Classes(UNet(), (8, 3, 256, 256), 256, 256),
    "vit": lambda: Classes(torchvision.models.vit_b_16(), (32, 3, 224, 224)),
    "bert": lambda: Words(transformers.BertForMaskedLM(transformers.BertConfig()), 32, 128),
    "llama": lambda: Words(llama(), 1, 2048),
}

#: Partitions: for PyTorch's the budget, for ours the limit.
WAYS = {
    "default": 1.0, "min-cut": 1.0, "budget 0.5": 0.5, "budget 0.3": 0.3, "budget 0.1": 0.1,
    "ours": None, "ours 80%": "80%", "ours 60%": "60%", "ours 40%": "40%",
}  # fmt: skip


class Stop(Exception):
    """Ends the lowering once the kernels are there."""


def kernels(gm, backward, strides=()):
    """Return kernels, bytes moved, seconds, the peaks by Inductor's order and by onnxmem's, and the results' strides and names.

    strides are those of the first inputs, where they are known.
    """
    found, order = [], onnxmem_torch.inductor_pass()

    def look(nodes):
        sizes = [n.get_read_write_buffers_sizes() for n in nodes]
        times = [max((n.estimate_flops() or 0) / DEFAULT.flops, s / DEFAULT.bytes) + DEFAULT.launch for n, s in zip(nodes, sizes)]
        order(nodes)
        left = [list(map(int, x.get_stride())) if x.has_tensor_output() else None for x in V.graph.graph_outputs]
        found.extend([len(nodes), sum(sizes), sum(times), order.reports[0].inductor_bytes, order.reports[0].peak_bytes, left, _scheduler.output_names(), set(V.graph.graph_inputs)])
        raise Stop

    args = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    mode = next(a.fake_mode for a in args if isinstance(a, torch.Tensor))
    with config.patch(_post_fusion_custom_pass=look, fx_graph_cache=False), torch._guards.tracing(torch._guards.TracingContext(mode)), mode:
        args[: len(strides)] = [a if s is None else a.as_strided(a.size(), s) for a, s in zip(args, strides)]
        try:
            compile_fx_inner(fx.GraphModule(gm, copied(gm.graph)), args, is_backward=backward)
        except Exception:
            if not found:
                raise
    return found


def joint_graph(name):
    with torch.device("meta"):
        network = NETWORKS[name]()
    joint = _trace.joint(network.train(), network.inputs, decompositions=select_decomp_table(), device="cpu")
    mode = next(n.meta["val"] for n in joint.module.graph.nodes if n.op == "placeholder").fake_mode
    with torch._guards.tracing(torch._guards.TracingContext(mode)), V.set_fake_mode(mode):
        gm = _recursive_joint_graph_passes(joint.module, skip_invoke_subgraph=True, input_device=torch.device("cpu"))
    return gm, joint, mode


def rows(name, ways):
    gm, joint, mode = joint_graph(name)
    more = {"num_fwd_outputs": joint.num_fwd_outputs, "static_lifetime_input_indices": joint.static}
    for way in ways:
        ours = onnxmem_torch.Partitioner(WAYS[way]) if way.startswith("ours") else None
        partition = ours or (default_partition if way == "default" else min_cut_rematerialization_partition)
        if way != "default":
            more["compiler"] = "inductor"
        budget = 1.0 if ours else WAYS[way]
        with torch._functorch.config.patch(activation_memory_budget=budget), torch._guards.tracing(torch._guards.TracingContext(mode)):
            parts = partition(fx.GraphModule(gm, copied(gm.graph)), (), **more)
        a = kernels(parts[0], False)
        b = kernels(parts[1], True, a[5][joint.num_fwd_outputs :])
        both = Lowering(parts[0], parts[1], joint.num_fwd_outputs)
        both.forward(a[3], a[6], a[7])
        time, left = a[2] + b[2], both.left_bytes
        planned = f"{ours.reports[0].peak_bytes / MIB:,.0f}" if ours else ""
        limit = f"{ours.reports[0].limit_bytes / MIB:,.0f}" if ours and ours.reports[0].limit_bytes else ""
        figures = [f"{a[0]} + {b[0]}", f"{(a[1] + b[1]) / MIB:,.0f}", f"{1e3 * time:.2f}", limit, planned]
        yield " | ".join([f"| {name}", way, *figures, f"{max(a[3], b[3] + left) / MIB:,.0f}", f"{max(a[4], b[4] + left) / MIB:,.0f} |"])


def main(words):
    warnings.simplefilter("ignore")
    _partition.device_of = _step.device_of = lambda graph: DEFAULT  # plan as for the roofline that is printed
    print("| network | partition | kernels | MiB moved | ms | limit | planned | peak, Inductor's order | peak, `inductor_pass` |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    asked = tuple(w for w in words if w not in NETWORKS)
    for name in [w for w in words if w in NETWORKS] or NETWORKS:
        for row in rows(name, [w for w in WAYS if not asked or w.startswith(asked)]):
            print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
