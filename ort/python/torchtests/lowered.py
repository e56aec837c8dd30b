"""A step that Inductor lowers up to its fused kernels, on fake tensors; nothing is compiled or run."""

from __future__ import annotations

from typing import Any

import torch
import torch._inductor.lowering
from torch import fx, nn
from torch._inductor import config
from torch._inductor.compile_fx import _recursive_joint_graph_passes, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V

import onnxmem_torch
from onnxmem_torch import _trace
from onnxmem_torch._limit import Report
from onnxmem_torch._prepare import copied


class _Stop(Exception):
    """Ends the lowering once the kernels are there."""


class Step:
    """A network's joint graph as Inductor gets it. Its parameters and inputs may be of the device "meta"."""

    def __init__(self, network: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self._joint = _trace.joint(network.train(), inputs, decompositions=select_decomp_table(), device="cpu")
        graph: Any = self._joint.module.graph
        self._mode = next(n.meta["val"] for n in graph.nodes if n.op == "placeholder").fake_mode
        with torch._guards.tracing(torch._guards.TracingContext(self._mode)), V.set_fake_mode(self._mode):
            self._gm = _recursive_joint_graph_passes(self._joint.module, skip_invoke_subgraph=True, input_device=torch.device("cpu"))

    def report(self, partitioner: onnxmem_torch.Partitioner) -> Report:
        """Partition the step; return the report, with what Inductor's kernels need."""
        self.forward(partitioner)
        self.backward(partitioner)
        return partitioner.reports[-1]

    def forward(self, partitioner: onnxmem_torch.Partitioner) -> None:
        """Partition the step and lower its forward pass."""
        joint = self._joint
        with torch._guards.tracing(torch._guards.TracingContext(self._mode)):
            gm = fx.GraphModule(self._gm, copied(self._gm.graph))
            forward, self._backward = partitioner(gm, (), num_fwd_outputs=joint.num_fwd_outputs, static_lifetime_input_indices=joint.static, compiler="inductor")
        self._saved = self._lower(forward, False, onnxmem_torch.inductor_pass("fast", partitioner), [])[joint.num_fwd_outputs :]

    def backward(self, partitioner: onnxmem_torch.Partitioner) -> None:
        """Lower the backward pass."""
        self._lower(self._backward, True, onnxmem_torch.inductor_pass("fast", partitioner), self._saved)

    def _lower(self, part: fx.GraphModule, backward: bool, order: Any, strides: list[Any]) -> list[Any]:
        """Lower one graph; strides are those of its first inputs. Return those of its results."""
        found: list[Any] = []

        def look(nodes: list[Any]) -> None:
            order(nodes)
            found.extend(list(map(int, x.get_stride())) if x.has_tensor_output() else None for x in V.graph.graph_outputs)
            raise _Stop

        args = [n.meta["val"] for n in part.graph.nodes if n.op == "placeholder"]
        tracing = torch._guards.tracing(torch._guards.TracingContext(self._mode))
        with config.patch(_post_fusion_custom_pass=look, fx_graph_cache=False), tracing, self._mode:
            args[: len(strides)] = [a if s is None else a.as_strided(a.size(), s) for a, s in zip(args, strides)]
            try:
                compile_fx_inner(fx.GraphModule(part, copied(part.graph)), args, is_backward=backward)
            except Exception:
                if not found:
                    raise
        return found
