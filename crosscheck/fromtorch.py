"""Turn a PyTorch module into a bare scheduling problem, the input of onnxmem order.

    traced = fromtorch.trace(module, (x,), training=True)
    fromtorch.write(fromtorch.problem(traced, "mine", inplace=True), "mine.json.gz")

trace runs the module on fake tensors, which have shapes but no data, and records ATen
operators: the forward pass, or a training step with loss, backward pass and an update
by SGD for each parameter. Operators are functional, as torch's compiler sees them. Only
updates of parameters and buffers write in place.

problem merges views into the storage that they view. A node that writes in place makes
no storage; tensors of 0 bytes order it against the other nodes that access the storage.
"""

import dataclasses
import functools
import gzip
import json
import operator

import torch
from torch._functorch.aot_autograd import aot_export_module
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

ALIGNMENT = 64  # bytes: sizes are rounded up, as optimize does


@dataclasses.dataclass
class Traced:
    """A traced module: its graph with all updates; by the name of a placeholder its kind
    (input, parameter or state) and the module's name of it."""

    module: torch.fx.GraphModule
    kinds: dict
    titles: dict
    loss: torch.fx.Node = None  # in training: the forward pass ends here


def trace(module, args=(), kwargs=None, training=False, loss=None, momentum=0.0):
    """Trace one forward pass in evaluation mode, or one training step.

    loss: function of the module's result that returns a scalar tensor; by default the sum of
    the mean squares of all its tensors that have a gradient. momentum: that of SGD; 0 for none.
    A parameter that the loss does not depend on is not updated. The module may be fake.
    Errors are torch's: a module whose shapes or branches depend on data cannot be traced.
    """
    leaves, spec = pytree.tree_flatten((tuple(args), kwargs or {}))
    whole = _Whole(module, leaves, spec, (loss or mean_squares) if training else None)
    was_training, was_compiling = module.training, torch.compiler._is_compiling_flag
    module.train(training)
    torch.compiler._is_compiling_flag = True  # modules that know it keep nothing for a later run
    try:
        with whole.mode, torch.set_grad_enabled(training):
            export = functools.partial(aot_export_module, whole, whole.given, trace_joint=training, output_loss_index=0 if training else None)
            try:
                graph, signature = export()
            except (RuntimeError, AssertionError) as error:
                if "did not receive a gradient" not in str(error):
                    raise
                whole.freeze_unused()
                graph, signature = export()
    finally:
        module.train(was_training)
        torch.compiler._is_compiling_flag = was_compiling
    graph.graph.eliminate_dead_code(is_impure_node=lambda n: n.op in ("placeholder", "output"))  # random operators, too
    return _closed(graph, signature, whole, momentum)


class _Whole(torch.nn.Module):
    """A module as a function of flat tensors that returns a tuple of tensors, with fake
    parameters and buffers of its own, each of them once."""

    def __init__(self, module, leaves, spec, loss):
        super().__init__()
        self.run = functools.partial(torch.func.functional_call, module)
        self.leaves, self.spec, self.loss = leaves, spec, loss
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        state = [*module.parameters(), *module.buffers(), *(leaves[i] for i in self.places)]
        self.mode = detect_fake_mode(state) or FakeTensorMode(allow_non_fake_inputs=True)
        self.given = [self._fake(leaves[i]) for i in self.places]
        self.titles = {}  # the module's names by our names
        for name, p in module.named_parameters():
            self.titles[f"p{len(self.titles)}"] = name
            self.register_parameter(f"p{len(self.titles) - 1}", torch.nn.Parameter(self._fake(p), p.requires_grad and p.is_floating_point()))
        for name, b in module.named_buffers():
            self.titles[f"p{len(self.titles)}"] = name
            self.register_buffer(f"p{len(self.titles) - 1}", self._fake(b))

    def _fake(self, tensor):
        tensor = tensor.detach()
        return tensor if isinstance(tensor, FakeTensor) else self.mode.from_tensor(tensor)

    def forward(self, *given):
        leaves = list(self.leaves)
        for i, tensor in zip(self.places, given):
            leaves[i] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        state = {title: getattr(self, name) for name, title in self.titles.items()}
        result = self.run(state, args, kwargs)
        return (self.loss(result),) if self.loss else tuple(tensors(result))

    def freeze_unused(self):
        """Freeze the parameters that the loss does not depend on."""
        state = {name: b.clone() for name, b in self.named_buffers()}
        trained = [p for p in self.parameters() if p.requires_grad]
        (loss,) = torch.func.functional_call(self, state, tuple(self.given))
        for p, gradient in zip(trained, torch.autograd.grad(loss, trained, allow_unused=True)):
            p.requires_grad_(gradient is not None)

    def trained(self):
        """Return the names of the parameters that have a gradient, in the order of the gradients."""
        return [name for name, p in self.named_parameters() if p.requires_grad] if self.loss else []


def tensors(result):
    """Return the tensors of a module's result: a tensor, a sequence, a mapping, an object with attributes."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    elif not isinstance(result, (list, tuple)):
        result = list(vars(result).values()) if hasattr(result, "__dict__") else []
    return [t for part in result for t in tensors(part)]


def mean_squares(result):
    """Return the sum of the mean squares of all tensors of a result that have a gradient."""
    return functools.reduce(torch.add, (t.square().mean() for t in tensors(result) if t.requires_grad))


def _closed(module, signature, whole, momentum):
    """Return the exported graph with its updates as nodes and the module's results as its only outputs."""
    graph = module.graph
    output = next(n for n in graph.nodes if n.op == "output")
    given = {n.name: n for n in graph.nodes if n.op == "placeholder"}
    places = {n: i for i, n in enumerate(graph.nodes)}
    readers = {}  # of a storage, by identity: the last one
    for n in graph.nodes:
        if n is not output:
            readers |= {identity(v): n for m in n.all_input_nodes for v in _values(m)}
    owned = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    by_name = {name: given[i] for i, name in owned.items()}
    kinds = dict.fromkeys(given, "input")
    kinds |= dict.fromkeys(signature.inputs_to_parameters, "parameter") | dict.fromkeys(signature.inputs_to_buffers, "state")

    # The outputs: new contents of what is overwritten, the module's results, gradients.
    results = list(output.args[0])
    overwritten = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    new, results = results[: len(overwritten)], results[len(overwritten) :]
    for name, value in zip(overwritten, new):  # as early as the readers of the old content permit
        old = by_name.get(name) or given[name]
        last = max(value, readers.get(identity(old.meta["val"]), old), key=places.get)
        with graph.inserting_after(last if last.op != "placeholder" else list(given.values())[-1]):
            _overwrite(graph, torch.ops.aten.copy_.default, old, value)
    loss = results[0] if whole.loss else None
    if loss:
        for name, gradient in zip(whole.trained(), results[1:], strict=True):
            _descend(graph, output, by_name[name], gradient, momentum, kinds)
        results = [loss]
    output.args = (tuple(dict.fromkeys(results)),)
    module.recompile()
    titles = {i: whole.titles[name] for i, name in owned.items()}
    return Traced(module, kinds, titles, loss)


def _overwrite(graph, op, target, *args, **kwargs):
    """Insert an operator that writes its first argument in place."""
    node = graph.call_function(op, (target, *args), kwargs)
    node.meta["val"] = target.meta["val"]
    return node


def _descend(graph, output, parameter, gradient, momentum, kinds):
    """Insert the update of a parameter by SGD before the output."""
    aten, rate = torch.ops.aten, 0.01
    with graph.inserting_before(output):
        if momentum:
            last = [n for n in graph.nodes if n.op == "placeholder"][-1]
            with graph.inserting_after(last):
                state = graph.placeholder(parameter.name + "_momentum")
            state.meta["val"] = torch.empty_like(parameter.meta["val"])
            kinds[state.name] = "state"
            _overwrite(graph, aten.mul_.Scalar, state, momentum)
            _overwrite(graph, aten.add_.Tensor, state, gradient)
            gradient = state
        _overwrite(graph, aten.add_.Tensor, parameter, gradient, alpha=-rate)


def problem(traced, name, inplace=False):
    """Return the bare scheduling problem of a traced module; inplace: with the pairs of results
    and operands that elementwise operators may share storage between."""
    made = _Problem(traced)
    if not inplace:
        for t in made.tensors:
            t.pop("reuses", None)
    return {"name": name, "mode": "training" if traced.loss else "inference", "nodes": made.nodes, "tensors": made.tensors}


class _Problem:
    """Nodes and tensors of a problem as they are collected from a graph in program order."""

    def __init__(self, traced):
        self.nodes, self.tensors = [], []
        self.storages = {}  # of torch, by identity: index of the tensor
        self.accesses = {}  # by tensor: the nodes since the last write, that write first
        self.written = set()  # tensors that were written in place
        self.before = []  # by node: the set of all nodes that must run before, as bits
        self.controls = {}  # by node: the tensor of 0 bytes that says that it has run
        kind = "activation"
        for n in traced.module.graph.nodes:
            if n.op == "placeholder":
                self._given(traced.titles.get(n.name, n.name), n, traced.kinds[n.name])
            elif n.op == "get_attr" and isinstance(n.meta.get("val"), torch.Tensor):
                self._given(n.name, n, "constant")
            elif n.op == "call_function" and n.target is not operator.getitem:
                self._called(n, kind)
            elif n.op == "output":
                for value in pytree.tree_leaves(n.args):
                    for v in _values(value):
                        self.tensors[self.storages[identity(v)]]["output"] = True
            if n is traced.loss:
                kind = "gradient"
        for t in self.tensors:
            t["consumers"] = sorted(set(t["consumers"]))

    def _add(self, name, size, producer, kind):
        self.tensors.append({"name": name, "bytes": size, "producer": producer, "consumers": [], "kind": kind})
        return len(self.tensors) - 1

    def _given(self, name, node, kind):
        """Add what exists before the first node."""
        for v in _values(node):
            if identity(v) not in self.storages:
                self.storages[identity(v)] = i = self._add(name, aligned(v), -1, kind)
                if kind != "input":
                    self.tensors[i]["resident"] = True

    def _called(self, node, kind):
        """Add a node and its new storages, unless it only views others."""
        reads = list(dict.fromkeys(self.storages[identity(v)] for n in node.all_input_nodes for v in _values(n) if identity(v) in self.storages))
        new = [(k, v) for k, v in enumerate(_values(node, keep=True)) if v is not None and identity(v) not in self.storages]
        writes = [self.storages[identity(v)] for n in overwritten(node) for v in _values(n)]
        if not new and not writes:
            return
        i = len(self.nodes)
        self.nodes.append({"name": node.name, "op": str(node.target).removeprefix("aten.")})
        if writes:
            self.nodes[i]["writes"] = writes
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            self.nodes[i]["once"] = True
        self._order(i, reads, writes)
        several = isinstance(node.meta["val"], (list, tuple))
        for k, v in new:
            if identity(v) in self.storages:  # two results of one storage
                continue
            self.storages[identity(v)] = t = self._add(f"{node.name}.{k}" if several else node.name, aligned(v), i, kind)
            if not several and (places := self._places(node)):
                self.tensors[t]["reuses"] = places

    def _order(self, i, reads, writes):
        """Make node i read its tensors, and order it against the nodes that access them before."""
        before, waits = 0, []
        for t in reads:
            self.tensors[t]["consumers"].append(i)
            p = self.tensors[t]["producer"]
            if p >= 0:
                before |= self.before[p] | 1 << p
            past = self.accesses.setdefault(t, [])
            if t in writes:
                waits += past
                self.accesses[t] = [i]
                self.written.add(t)
            else:
                waits += past[:1] if t in self.written else []
                past.append(i)
        for w in sorted(set(waits), reverse=True):
            if not before >> w & 1:
                before |= self.before[w] | 1 << w
                if w not in self.controls:
                    self.controls[w] = self._add("before." + self.nodes[w]["name"], 0, w, "control")
                self.tensors[self.controls[w]]["consumers"].append(i)
        self.before.append(before)

    def _places(self, node):
        """Return the tensors that an elementwise result may overwrite: made by nodes, with the
        same elements at the same places, and read in this layout only."""
        result = node.meta["val"]
        if torch.Tag.pointwise not in getattr(node.target, "tags", ()) or not _covers(result):
            return []
        layouts = {}
        for n in node.all_input_nodes:
            for v in _values(n):
                layouts.setdefault(self.storages[identity(v)], set()).add(_layout(v))
        return [t for t, found in layouts.items() if self.tensors[t]["producer"] >= 0 and found == {_layout(result)}]


def _values(node, keep=False):
    """Return the fake tensors of a node; keep: with None for other values."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    found = value if isinstance(value, (list, tuple)) else [value]
    found = [v if isinstance(v, torch.Tensor) else None for v in found]
    return found if keep else [v for v in found if v is not None]


def identity(tensor):
    """Return a number that two tensors share if and only if they share storage."""
    return tensor.untyped_storage()._cdata


def aligned(tensor):
    """Return the bytes of a tensor's storage, rounded up."""
    return -(-tensor.untyped_storage().nbytes() // ALIGNMENT) * ALIGNMENT


def overwritten(node):
    """Return the arguments that a node writes in place, by its operator's schema."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    found = []
    for k, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[k] if k < len(node.args) else node.kwargs.get(argument.name)
            found += [n for n in pytree.tree_leaves(given) if isinstance(n, torch.fx.Node)]
    return found


def _layout(tensor):
    return tensor.dtype.itemsize, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes()


def _covers(tensor):
    """Report whether a tensor is the whole of its storage."""
    return tensor.numel() * tensor.dtype.itemsize == tensor.untyped_storage().nbytes()


def write(problem, path):
    """Write a problem as JSON, gzipped if the name ends in .gz; the same problem gives the same bytes."""
    text = json.dumps(problem, separators=(",", ":")).encode()
    if str(path).endswith(".gz"):
        text = gzip.compress(text, mtime=0)
    with open(path, "wb") as file:
        file.write(text)
