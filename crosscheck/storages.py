"""What a step of a module reads, makes and keeps, measured on torch's own storages.

A second opinion on onnxmem_torch.problem: it runs the graph again on new fake tensors, node
by node, and frees each value after its last reader. A dispatch mode sees the tensors
that each operator reads and makes, and asks weak references which storages are still
alive. An operator that returns one of its arguments, or nothing, has written it; one that
returns new tensors on known storages has made views. It uses neither the schemas of
operators nor the problem.
"""

import torch
from onnxmem_torch._problem import before_boundary
from onnxmem_torch._step import behind
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

ALIGNMENT = 64  # bytes: sizes are rounded up, as optimize does


def faults(module, step, problem):
    """Return the differences between a problem and the run of its step, as sentences. module has the constants.

    For every node, the makers and sizes of the storages that it reads and the sizes of those
    that it makes must be the same, and so must the load in program order. What is resident is
    left out of the reads: BatchNorm's statistics are read for their next values alone. Every other
    access to a tensor must run before or after each write to it, as in program order.
    """
    seen = _run(module, step, problem["mode"] == "training")
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
        for c in t["consumers"] if t["producer"] >= 0 else ():
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

    def __init__(self, resident):
        super().__init__()
        self.known = {}  # by storage: maker, bytes
        self.alive = {}  # by storage that is not resident: a weak reference
        self.steps = []
        self.resident = resident  # held, so that nothing else gets their storages
        self._add(resident, -1, False)

    def _add(self, found, maker, counts):
        made = {_key(t): t for t in found if _key(t) not in self.known}
        for key, t in made.items():
            self.known[key] = maker, -(-t.untyped_storage().nbytes() // ALIGNMENT) * ALIGNMENT
            if counts:
                self.alive[key] = StorageWeakRef(t.untyped_storage())
        return sorted(self.known[key][1] for key in made)

    def step(self, given, result, wrote):
        """Record an operator, unless it only views storages."""
        keys = {_key(t) for t in given if _key(t) in self.known}
        read = sorted(self.known[key] for key in keys if self.known[key][0] >= 0)
        made = self._add(result, len(self.steps), True)
        if made or wrote:
            self.steps.append((read, made, sum(self.known[key][1] for key in self.alive) if made else None))

    def forget(self):
        for key in [key for key, reference in self.alive.items() if reference.expired()]:
            del self.alive[key], self.known[key]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.forget()
        given = _tensors((args, kwargs))
        result = func(*args, **(kwargs or {}))
        wrote = result is None or {id(t) for t in _tensors(result)} & {id(t) for t in given}
        self.step(given, _tensors(result), wrote)
        return result


def _key(tensor):
    return tensor.untyped_storage()._cdata


def _tensors(values):
    return [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


class _Interpreter(torch.fx.Interpreter):
    """Runs a graph and frees each value after its last reader, inputs included. Before the first node of the
    backward pass stands the boundary, which reads the results and makes the inputs of that pass."""

    def placeholder(self, target, args, kwargs):
        return self.given.pop(target)

    def run_node(self, node):
        if node is self.first:
            self.recorder.forget()
            made = [t for name in self.late if (t := self.given[name]) is not None]
            results = [self.env[n] for n in self.results]
            self.recorder.step(_tensors(results), made, True)
        return super().run_node(node)


def _run(module, step, training):
    """Run a step on new fake tensors; return the recorder."""
    graph, copies = torch.fx.Graph(), {}
    ahead = before_boundary(step)
    kernels = {n: i for i, n in enumerate(step.kernels)}
    nodes = [n for n in step.graph.nodes if n.op != "output"]
    behind_all = [n for n in nodes if _behind(n, step, kernels, ahead)]
    late = set(behind_all)
    for n in [*(n for n in nodes if n not in late), *behind_all]:
        copies[n] = graph.node_copy(n, copies.__getitem__)
    graph.output(torch.fx.map_arg(step.graph.output_node().args[0], copies.__getitem__))
    run = _Interpreter(torch.fx.GraphModule(module, graph), garbage_collect_values=True)
    given = [n for n in step.graph.nodes if n.op == "placeholder"]
    run.given, run.late, resident = {}, [], []
    with given[0].meta["val"].fake_mode:
        for n in given:
            value = n.meta["val"]
            run.given[n.target] = t = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
            if behind(n):
                run.late.append(n.target)
            else:
                resident.append(t)
        del t
        run.recorder = _Recorder(resident)
        run.first = copies[behind_all[0]] if training and behind_all else None
        run.results = [copies[n] for n in step.forward if isinstance(n, torch.fx.Node)]
        with run.recorder:
            run.run()
    return run.recorder


def _behind(node, step, kernels, ahead):
    """Report whether a node runs behind the boundary: a kernel that the boundary does not need, or a view of what is there."""
    if node.op == "placeholder":
        return behind(node)
    if node in kernels:
        return kernels[node] not in ahead
    return node in step.late or any(m.op == "call_function" and _behind(m, step, kernels, ahead) for m in node.all_input_nodes)
