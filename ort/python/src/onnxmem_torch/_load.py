"""The bytes that are live at each step of a training step, and what they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

#: Kinds of blocks, in the order in which tables list them.
SAVED, GRADIENT, PARAMETER_GRADIENT, RESULT, TEMPORARY, WORKSPACE = "activation", "gradient", "parameter gradient", "result", "temporary", "workspace"

PLURALS = {
    SAVED: "activations",
    GRADIENT: "gradients",
    PARAMETER_GRADIENT: "parameters' gradients",
    RESULT: "results",
    TEMPORARY: "temporaries",
    WORKSPACE: "workspaces",
}


@dataclass
class Block:
    """Bytes that are live from one step to another, both inclusive."""

    #: Who makes it: the operator and, if it is known, module and line of source.
    title: str
    bytes: int
    first: int
    last: int
    kind: str = ""


@dataclass
class Load:
    """The blocks of a training step, parameters, inputs and optimizer states apart."""

    #: The operator that runs at each step.
    steps: list[str]
    blocks: list[Block]
    #: The first step of the backward pass; the number of steps in inference.
    boundary: int
    #: The first step of the optimizer; the number of steps without one.
    update: int
    #: What was done to get here, for the reader.
    how: str = field(default="", compare=False)

    @cached_property
    def loads(self) -> list[int]:
        """The bytes that are live at each step."""
        change = [0] * (len(self.steps) + 1)
        for b in self.blocks:
            change[b.first] += b.bytes
            change[b.last + 1] -= b.bytes
        loads, now = [], 0
        for c in change[:-1]:
            now += c
            loads.append(now)
        return loads

    @property
    def peak_bytes(self) -> int:
        """The largest load."""
        return max(self.loads, default=0)

    @property
    def peak_step(self) -> int:
        """The first step of the largest load."""
        return self.loads.index(self.peak_bytes) if self.steps else 0

    @property
    def peak_node(self) -> str:
        """What runs there."""
        return self.steps[self.peak_step] if self.steps else ""

    @property
    def saved_bytes(self) -> int:
        """What the forward pass leaves for the backward pass."""
        return sum(b.bytes for b in self.blocks if b.kind == SAVED)

    def live(self) -> list[Block]:
        """Return the blocks that are live at the peak, the largest first."""
        at = self.peak_step
        return sorted((b for b in self.blocks if b.first <= at <= b.last and b.bytes), key=lambda b: (-b.bytes, b.first))

    def kinds(self) -> dict[str, int]:
        """Return the bytes at the peak by their kind."""
        found: dict[str, int] = {}
        for b in self.live():
            found[b.kind] = found.get(b.kind, 0) + b.bytes
        return found

    def name(self, gradients: Iterable[int], results: Iterable[int]) -> Load:
        """Give the blocks their kinds; gradients and results are those that live on, by index."""
        own, last = set(gradients), set(results)
        for k, b in enumerate(self.blocks):
            if k in own:
                b.kind = PARAMETER_GRADIENT
            elif k in last:
                b.kind = RESULT
            elif b.first >= self.boundary:
                b.kind = GRADIENT if b.first < self.update else TEMPORARY
            else:
                b.kind = SAVED if b.last >= self.boundary else TEMPORARY
        return self

    def beside(self, workspaces: Iterable[int]) -> Load:
        """Add what the operator of each step takes for itself, in bytes."""
        self.blocks += [Block(self.steps[k], size, k, k, WORKSPACE) for k, size in enumerate(workspaces) if size]
        self.__dict__.pop("loads", None)
        return self

    def followed(self, other: Load) -> Load:
        """Return this load with the optimizer's update of another one behind it."""
        if other.update >= len(other.steps):
            return self
        shift, end = len(self.steps) - other.update, len(self.steps) - 1
        steps = self.steps + other.steps[other.update :]
        lasting = (PARAMETER_GRADIENT, RESULT)
        blocks = [replace(b, last=len(steps) - 1) if b.last == end and b.kind in lasting else b for b in self.blocks]
        blocks += [replace(b, first=b.first + shift, last=b.last + shift) for b in other.blocks if b.first >= other.update]
        return Load(steps, blocks, self.boundary, end + 1, self.how)

    def events(self) -> Iterator[tuple[bool, int]]:
        """List allocations (True) and frees of blocks, by index, in the order in which they come."""
        ends: dict[int, list[int]] = {}
        starts: dict[int, list[int]] = {}
        for k, b in enumerate(self.blocks):
            if b.bytes:
                starts.setdefault(b.first, []).append(k)
                ends.setdefault(b.last, []).append(k)
        for step in range(len(self.steps)):
            for k in starts.get(step, []):
                yield True, k
            for k in ends.get(step, []):
                yield False, k
