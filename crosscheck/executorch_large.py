"""What ExecuTorch plans for its own decoder with the sizes of Llama-3.1-8B, without weights: crosscheck/run executorch --large [CASE ...].

A case is TOKENS:LAYERS: so many new tokens at once over caches of 2,048; with "upto" before it,
any number up to 2,047, which are planned for the most. All tensors are on the device meta, so no
program is written and none runs: the planned bytes are those of ExecuTorch's passes, in the columns of
docs/results/executorch.md, with one more for what sharing whole objects takes.
"""

import copy
from unittest import mock

import onnxmem.executorch
import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import collect_specs_from_nodes
from executorch.exir.program import _program
from torch import nn

CASES = ("1:4", "2048:4", "upto2047:4")

# As in its config.json.
_SIZES = {
    "dim": 4096, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256, "ffn_dim_multiplier": 1.3, "multiple_of": 1024,
    "rope_theta": 500000.0, "use_scaled_rope": True, "use_kv_cache": True, "max_seq_len": 2048, "max_context_len": 2048,
}  # fmt: skip


class _Product(nn.Module):
    """A linear layer whose weight lies transposed, as constant_prop_pass leaves it where there are weights."""

    def __init__(self, layer):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(layer.in_features, layer.out_features, device="meta"), requires_grad=False)

    def forward(self, x):
        return x @ self.weight


def _transpose(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            assert child.bias is None
            setattr(module, name, _Product(child))
        else:
            _transpose(child)


class _Passes:
    """What to_executorch makes of a program, before it would be written."""

    def __init__(self, programs, *_args, **_options):
        self.programs = programs


def _lowered(tokens, layers):
    dynamic = tokens.startswith("upto")
    count = 3 if dynamic else int(tokens)
    with torch.no_grad(), torch.device("meta"):
        model = construct_transformer(ModelArgs(n_layers=int(layers), enable_dynamic_shape=dynamic, **_SIZES)).eval().requires_grad_(False)
        model = model.to("meta")  # the caches, too
        _transpose(model)
        places = torch.zeros(1 if dynamic else count, dtype=torch.long)
        shapes = ({1: torch.export.Dim("tokens", max=int(tokens[4:]))}, {"input_pos": {0: 1}}) if dynamic else None
        exported = torch.export.export(model, (torch.zeros(1, count, dtype=torch.long), {"input_pos": places}), dynamic_shapes=shapes, strict=False)
    return to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def _objects(graph):
    """Return the bytes of objects that tensors take in turn, the largest first: each the free one nearest to its size."""
    objects = []
    for spec in sorted(collect_specs_from_nodes(graph.graph.nodes, ignore_graph_input=False, ignore_graph_output=False), key=lambda s: -s.allocated_memory):
        if spec.mem_id is None:
            continue
        first, last = spec.lifetime
        free = [o for o in objects if all(last < a or b < first for a, b in o[1])]
        if free:
            min(free, key=lambda o: o[0] - spec.allocated_memory)[1].append((first, last))
        else:
            objects.append((spec.allocated_memory, [(first, last)]))
    return sum(size for size, _ in objects)


def examine(case):
    """Return what the plans of a case take, in bytes."""
    edge = _lowered(*case.split(":"))
    planned = onnxmem.executorch.memory_planning
    row = {"name": f"`{case}`"}
    for way, options in (("greedy", {}), ("placed", {"memory_planning_pass": planned(order_nodes=False)}), ("ordered", {"memory_planning_pass": planned()})):
        with mock.patch.object(_program, "ExecutorchProgramManager", _Passes):
            graph = copy.deepcopy(edge).to_executorch(ExecutorchBackendConfig(**options)).programs["forward"].graph_module
        found = graph.meta.get("onnxmem", {})
        row[way] = sum(graph.meta["non_const_buffer_sizes"])
        if way == "greedy":
            row["objects"] = _objects(graph)
        if way == "placed":
            row["load"] = sum(b["lower_bound_bytes"] for b in found["buffers"])
        if way == "ordered":
            row["nodes"] = sum(n.op == "call_function" for n in graph.graph.nodes)
            row["bound"] = found["order"]["lower_bound_bytes"]
    return row
