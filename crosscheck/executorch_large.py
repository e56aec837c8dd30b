"""What ExecuTorch plans for decoders of published sizes, without their weights: crosscheck/run executorch --large [CASE ...].

A case is SIZE:TOKENS:LAYERS: one new token over caches of so many tokens, buffers that the program
writes to. All tensors are fake, so no program is written and none runs: the planned bytes are
those of ExecuTorch's passes, in the columns of docs/results/executorch.md.
"""

import copy
from unittest import mock

import onnxmem.executorch
import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.program import _program
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from . import executorch_networks

CASES = ("llama-3.2-1b:2048:16", "llama-3.1-8b:2048:4")

# As in the config.json of each: width, heads, groups of keys, width of the gated product.
_SIZES = {
    "llama-3.2-1b": (2048, 32, 8, 8192),
    "llama-3.2-3b": (3072, 24, 8, 8192),
    "llama-3.1-8b": (4096, 32, 8, 14336),
}
_WORDS = 128256


class _Product(nn.Module):
    """A linear layer whose weight lies transposed, as constant_prop_pass leaves it where there are weights."""

    def __init__(self, inner, outer, bias=True, **_):
        super().__init__()
        self.in_features, self.out_features = inner, outer
        self.weight = nn.Parameter(torch.zeros(inner, outer))
        self.bias = nn.Parameter(torch.zeros(outer)) if bias else None

    def forward(self, x):
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


def _build(size, tokens, layers):
    width, heads, groups, wide = _SIZES[size]
    model = executorch_networks._Llama(width, heads, groups, layers, tokens, _WORDS)
    for layer in model.layers:
        layer.gate, layer.wide, layer.narrow = _Product(width, wide, False), _Product(width, wide, False), _Product(wide, width, False)
    return model, (torch.tensor([[7]]), torch.tensor([3]))


class _Passes:
    """What to_executorch makes of a program, before it would be written."""

    def __init__(self, programs, *_args, **_options):
        self.programs = programs


def examine(case):
    """Return what the plans of a case take, in bytes."""
    size, tokens, layers = case.split(":")
    with FakeTensorMode(allow_non_fake_inputs=True), mock.patch.object(nn, "Linear", _Product):
        model, inputs = _build(size, int(tokens), int(layers))
        exported = torch.export.export(model.eval().requires_grad_(False), inputs, strict=False)
    edge = to_edge(exported.run_decompositions(), compile_config=EdgeCompileConfig(_check_ir_validity=False))
    planned = onnxmem.executorch.memory_planning
    row = {"name": case}
    for way, options in (("greedy", {}), ("placed", {"memory_planning_pass": planned(order_nodes=False)}), ("ordered", {"memory_planning_pass": planned()})):
        with mock.patch.object(_program, "ExecutorchProgramManager", _Passes):
            graph = copy.deepcopy(edge).to_executorch(ExecutorchBackendConfig(**options)).programs["forward"].graph_module
        found = graph.meta.get("onnxmem", {})
        row[way] = sum(graph.meta["non_const_buffer_sizes"])
        if way == "placed":
            row["load"] = sum(b["lower_bound_bytes"] for b in found["buffers"])
        if way == "ordered":
            row["nodes"] = sum(n.op == "call_function" for n in graph.graph.nodes)
            row["bound"] = found["order"]["lower_bound_bytes"]
    return row
