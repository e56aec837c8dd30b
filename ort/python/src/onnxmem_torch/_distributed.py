"""What is refused, or warned of, where several processes train one model."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch


def examine(model: Any, warning: type[Warning]) -> None:
    """Refuse a model whose parameters are in shards; warn of gradients that lie in buckets, too."""
    if not isinstance(model, torch.nn.Module) or "torch.distributed.fsdp" not in sys.modules and not _parallel(model):
        return
    fsdp = sys.modules.get("torch.distributed.fsdp")
    sharded = tuple(c for c in (getattr(fsdp, "FSDPModule", None), getattr(fsdp, "FullyShardedDataParallel", None)) if c is not None)
    for name, module in model.named_modules():
        if sharded and isinstance(module, sharded):
            raise NotImplementedError(
                f"onnxmem_torch: {name or 'the model'} is sharded (FSDP): its parameters are gathered and freed within the step, "
                "by collectives whose order all processes must share, which is not planned; expected a model without shards, or DistributedDataParallel"
            )
        if _parallel(module) and not module.gradient_as_bucket_view:
            warnings.warn(
                "onnxmem_torch: DistributedDataParallel keeps gradients a second time in its buckets, which no plan counts: "
                "gradient_as_bucket_view=True avoids it",
                warning,
                stacklevel=3,
            )


def _parallel(module: Any) -> bool:
    return isinstance(module, torch.nn.parallel.DistributedDataParallel)
