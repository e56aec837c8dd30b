"""What a traced module reads, makes and keeps, measured on torch's own storages.

A second opinion on fromtorch.problem: it runs the graph again on new fake tensors, node
by node, and frees each value after its last reader. A dispatch mode sees the tensors
that each operator reads and makes, and asks weak references which storages are still
alive. An operator that returns one of its arguments has written it; one that returns new
tensors on known storages has made views. It uses neither the schemas of operators nor
the problem.
"""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import fromtorch


def faults(traced, problem):
    """Return the differences between a problem and the run of its module, as sentences.

    For every node, the makers and sizes of the storages that it reads and the sizes of those
    that it makes must be the same, and so must the load in program order. Every other access
    to a tensor must run before or after each write to it, as in program order.
    """
    seen = _run(traced)
    said = steps(problem)
    if len(seen.steps) != len(said):
        return [f"{problem['name']}: expected {len(seen.steps)} nodes, found {len(said)}"]
    found = []
    for node, (read, made, load), (reads, makes, expected) in zip(problem["nodes"], seen.steps, said):
        for what, run, listed in (("reads", read, reads), ("makes", made, makes), ("load", load, expected)):
            if run != listed and not (what == "load" and load is None):
                found.append(f"{problem['name']}: node {node['name']}: {what}: expected {run}, found {listed}")
    return found + _unordered(problem)


def _unordered(problem):
    """Return the writes in place that could run on the wrong side of another access to their tensor."""
    before, found = [set() for _ in problem["nodes"]], []
    for t in problem["tensors"]:
        for c in t["consumers"] if t["producer"] >= 0 else ():
            before[c].add(t["producer"])
    closed = []  # by node: all nodes that run before it in every order, as bits
    for predecessors in before:
        bits = 0
        for p in predecessors:
            bits |= closed[p] | 1 << p
        closed.append(bits)
    for i, node in enumerate(problem["nodes"]):
        for t in node.get("writes", ()):
            for c in problem["tensors"][t]["consumers"]:
                if c != i and not closed[max(c, i)] >> min(c, i) & 1:
                    found.append(f"{problem['name']}: node {node['name']}: expected an order of its write and node {problem['nodes'][c]['name']}")
    return found


def steps(problem):
    """Return what each node of a problem reads and makes, and the load at its step of the program order."""
    count = len(problem["nodes"])
    rows = [([], [], None) for _ in range(count)]
    change = [0] * (count + 1)
    for t in problem["tensors"]:
        if t["kind"] == "control":
            continue
        for c in t["consumers"]:
            rows[c][0].append((t["producer"], t["bytes"]))
        if t["producer"] >= 0:
            rows[t["producer"]][1].append(t["bytes"])
        if not t.get("resident"):
            first = max(t["producer"], 0)
            change[first] += t["bytes"]
            change[count if t.get("output") else max([first, *t["consumers"]]) + 1] -= t["bytes"]
    load = 0
    for i, (reads, makes, _) in enumerate(rows):
        load += change[i]
        rows[i] = sorted(reads), sorted(makes), load
    return rows


class _Recorder(TorchDispatchMode):
    """Records for each operator that makes or writes storages: (maker, bytes) of what it reads, the bytes
    that it makes, and the load while it runs (None for one that only writes)."""

    def __init__(self, resident, inputs):
        super().__init__()
        self.known = {}  # by storage: maker, bytes
        self.alive = {}  # by storage that is not resident: a weak reference
        self.steps = []
        self._add(resident, -1, False)
        self._add(inputs, -1, True)

    def _add(self, found, maker, counts):
        made = {_key(t): t for t in found if _key(t) not in self.known}
        for key, t in made.items():
            self.known[key] = maker, fromtorch.aligned(t)
            if counts:
                self.alive[key] = StorageWeakRef(t.untyped_storage())
        return sorted(self.known[key][1] for key in made)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for key in [key for key, reference in self.alive.items() if reference.expired()]:
            del self.alive[key], self.known[key]
        given = _tensors((args, kwargs))
        result = func(*args, **(kwargs or {}))
        read = sorted(self.known[key] for key in {_key(t) for t in given if _key(t) in self.known})
        made = self._add(_tensors(result), len(self.steps), True)
        wrote = {id(t) for t in _tensors(result)} & {id(t) for t in given}
        if made or wrote:
            self.steps.append((read, made, sum(self.known[key][1] for key in self.alive) if made else None))
        return result


def _key(tensor):
    return tensor.untyped_storage()._cdata


def _tensors(values):
    return [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


class _Interpreter(torch.fx.Interpreter):
    """Runs a graph and frees each value after its last reader, inputs included."""

    def placeholder(self, target, args, kwargs):
        return self.given.pop(target)


def _run(traced):
    """Run a traced module on new fake tensors; return the recorder."""
    run = _Interpreter(traced.module, garbage_collect_values=True)
    run.given = {}
    kept = {"input": [], "resident": _tensors(list(vars(traced.module).values()))}
    given = [n for n in traced.module.graph.nodes if n.op == "placeholder"]
    with given[0].meta["val"].fake_mode:
        for n in given:
            value = n.meta["val"]
            run.given[n.target] = t = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
            kept["input" if traced.kinds[n.name] == "input" else "resident"].append(t)
        recorder = _Recorder(kept["resident"], kept["input"])
        del kept["input"], t
        with recorder:
            run.run()
    return recorder
