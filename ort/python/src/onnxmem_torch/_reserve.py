"""What an allocator would take for a load: by the command, which simulates PyTorch's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from onnxmem._command import call

from ._load import Load
from ._storages import BLOCK


@dataclass(frozen=True)
class Reserve:
    """Bytes that hold the blocks of a load, iteration after iteration."""

    #: By CUDA's caching allocator with its default settings.
    caching: int
    #: By the same with ``expandable_segments:True``.
    expandable: int
    #: By the packed arena of this package.
    arena: int


#: Iterations that are simulated: an allocator's blocks settle after one or two.
_ROUNDS = 3


def reserve(load: Load) -> Reserve:
    """Return what allocators would reserve for equal iterations of a load."""
    lines = []
    for _ in range(_ROUNDS):
        lines.append('{"mark":"run"}')
        for begins, k in load.events():
            lines.append(json.dumps({"alloc": k, "size": load.blocks[k].bytes} if begins else {"free": k}))
    if len(lines) == _ROUNDS:
        return Reserve(0, 0, 0)
    result: dict[str, Any] = call(["pack", "--trace", "-", "--json", "--effort=fast", f"--align={BLOCK}"], "\n".join(lines).encode()).result or {}
    reserved = result["reserved_bytes"]
    return Reserve(reserved["pytorch"], reserved["pytorch-expandable"], result["arena_bytes"])
