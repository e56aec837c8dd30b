"""A step that Inductor lowers up to its fused kernels, on fake tensors; nothing is compiled or run."""

from __future__ import annotations

from typing import Any

import torch
import torch._inductor.lowering
from torch import fx, nn
from torch._inductor.compile_fx import _recursive_joint_graph_passes
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V

import onnxmem_torch
from onnxmem_torch import _trace
from onnxmem_torch._inductor import lower, result_strides
from onnxmem_torch._limit import Report
from onnxmem_torch._prepare import copied


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
        self._saved = self._lower(forward, False, partitioner, [])[joint.num_fwd_outputs :]

    def backward(self, partitioner: onnxmem_torch.Partitioner) -> list[Any]:
        """Lower the backward pass; return the strides of its results."""
        return self._lower(self._backward, True, partitioner, self._saved)

    def _lower(self, part: fx.GraphModule, backward: bool, partitioner: onnxmem_torch.Partitioner, strides: list[Any]) -> list[Any]:
        """Lower one graph in the order of its kernels; strides are those of its first inputs. Return those of its results."""
        order = onnxmem_torch.inductor_pass("fast", partitioner)

        def look(nodes: list[Any]) -> list[Any]:
            order(nodes)
            return result_strides()

        return lower(part, backward, strides, look)
