"""The joint graph of a model's forward and backward pass, traced on fake tensors.

The graph is the one that ``compile`` plans: Dynamo captures the model, AOTAutograd traces it,
and its partitioner, which would get the graph, keeps it instead. Nothing is allocated or run.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ._fake import Call, Fakes, call_of, module_of


class TraceError(RuntimeError):
    """A model that could not be traced as one graph."""


@dataclass
class Joint:
    """A traced step."""

    #: The joint graph of forward and backward; in inference the forward graph alone.
    module: fx.GraphModule
    #: How many of its outputs are the forward pass's.
    num_fwd_outputs: int
    #: Inputs that stay where they are from step to step.
    static: list[int]
    mode: Any
    training: bool
    #: What the inputs of the graph are to the user, by the name of the placeholder: a
    #: parameter's name in the model, or "input" with its place.
    titles: dict[str, str] = field(default_factory=dict)
    #: "parameter", "buffer" or "input", by the name of the placeholder.
    kinds: dict[str, str] = field(default_factory=dict)
    #: Why torch.compile would not make it one graph; empty if it does.
    breaks: str = ""


class _Kept(Exception):
    """Ends the compilation once the graph is there."""


def joint(
    model: Any,
    inputs: Any,
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    loss: Optional[Callable[[Any], torch.Tensor]] = None,
    decompositions: Optional[Mapping[Any, Any]] = None,
    training: Optional[bool] = None,
    device: Optional[Any] = None,
    fakes: Optional[Fakes] = None,
) -> Joint:
    """Trace one step of a model, under the autocast of the caller.

    inputs are those of ``model(*inputs)``: a tuple, one tensor, or a mapping of names. The model
    and its inputs may be on any device, also "meta", or fake. Its result has a loss: a
    scalar, an attribute ``loss``, or what the function loss makes of it. decompositions
    are those of AOTAutograd. training is by default whether the module is and gradients
    are enabled. TraceError says why a model is no single graph.
    """
    model = module_of(model)
    call = call_of(inputs, kwargs)
    if training is None:
        training = model.training and torch.is_grad_enabled()
    fakes = fakes or Fakes((call, list(model.parameters())), device)
    args, named = fakes.call(call)
    with fakes.within(model), _mode(model, training):
        kept = _Keep(model, (args, named), decompositions)
        step = _step(model, loss, training)
        breaks = ""
        try:
            _capture(step, kept, args, named, fakes.mode)
        except Exception as e:
            breaks = _reason(e)
            try:
                _without_dynamo(step, model, kept, args, named, fakes.mode)
            except Exception:
                raise TraceError(breaks) from e
    if kept.found is None:
        raise TraceError("the model computes nothing that can be traced")
    return Joint(*kept.found, mode=fakes.mode, training=training, titles=kept.titles, kinds=kept.kinds, breaks=breaks)


def by_dynamo(model: Any, call: Call, loss: Optional[Callable[[Any], torch.Tensor]], fakes: Fakes, kept: Any) -> None:
    """Give a training step to a backend that keeps what it found."""
    args, named = fakes.call(call)
    with fakes.within(model), _mode(model, True):
        _capture(_step(model, loss, True), kept, args, named, fakes.mode)


def _capture(step: Any, kept: Any, args: Any, kwargs: Any, mode: Any) -> None:
    """Capture a step as ``torch.compile(fullgraph=True)`` does. Calls of loggers are left out."""
    import logging

    config = torch._dynamo.config
    loggers = {f for name, f in vars(logging.Logger).items() if callable(f) and not name.startswith("_")}
    patches: dict[str, Any] = {"suppress_errors": False}
    for name in ("ignore_logging_functions", "ignore_logger_methods"):  # as versions of PyTorch name it
        if hasattr(config, name):
            patches[name] = set(getattr(config, name)) | loggers
    with config.patch(patches), mode:
        try:
            torch.compile(step, backend=kept.backend(), fullgraph=True, dynamic=False)(*args, **kwargs)
        except Exception:
            if kept.found is None:
                raise


def _without_dynamo(step: Any, model: Any, kept: _Keep, args: Any, kwargs: Any, mode: Any) -> None:
    """Trace a step by running its Python: what Dynamo does not capture may still be one graph."""
    from functorch.compile import aot_function

    values, spec = pytree.tree_flatten((args, kwargs))
    places = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
    owned = dict(_owned(model))

    def flat(*given: Any) -> Any:
        now = list(values)
        for i, t in zip(places, given[len(owned) :]):
            now[i] = t
        new_args, new_kwargs = pytree.tree_unflatten(now, spec)
        with _given(model, dict(zip(owned, given))):
            result = step(*new_args, **new_kwargs)
        return tuple(t for t in leaves(result) if isinstance(t, torch.Tensor))

    tensors = [*owned.values(), *(values[i] for i in places)]
    kept.given = [kept.known.get(id(t), ("input", "input")) for t in tensors]
    with mode:
        try:
            aot_function(flat, **kept.compilers())(*tensors)
        except Exception:
            if kept.found is None:
                raise


def _owned(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """List the parameters and buffers of a model, each once."""
    yield from model.named_parameters()
    yield from model.named_buffers()


@contextmanager
def _given(model: Any, tensors: dict[str, Any]) -> Iterator[None]:
    """Give a model other parameters and buffers for a while, tied ones together."""
    by_id = {id(t): tensors[name] for name, t in _owned(model)}
    kept = []
    for m in model.modules():
        for own in (m._parameters, m._buffers):
            kept.append((own, dict(own)))
            for name, t in own.items():
                if t is not None:
                    own[name] = by_id[id(t)]
    try:
        yield
    finally:
        for own, was in kept:
            own.update(was)


def leaves(result: Any) -> list[Any]:
    """Return what a model's result holds: of a sequence, a mapping, or an object with attributes."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, Mapping):
        result = list(result.values())
    elif not isinstance(result, (list, tuple)):
        result = list(vars(result).values()) if hasattr(result, "__dict__") else []
    return [t for part in result for t in leaves(part)]


@contextmanager
def _mode(model: Any, training: bool) -> Iterator[None]:
    """Set a model's mode and whether gradients are computed."""
    was = [(m, m.training) for m in model.modules()]
    try:
        if model.training != training:
            model.train(training)
        with torch.set_grad_enabled(training):
            yield
    finally:
        for m, on in was:
            m.training = on


def _step(model: Any, loss: Optional[Callable[[Any], torch.Tensor]], training: bool) -> Any:
    """Return the function that is compiled, with a code of its own, under which Dynamo keeps nothing."""

    def step(*args: Any, **kwargs: Any) -> Any:
        result = model(*args, **kwargs)
        return loss(result) if loss is not None and training else result

    return types.FunctionType(step.__code__.replace(co_name="step"), step.__globals__, "step", None, step.__closure__)


class _Keep:
    """A backend of torch.compile that keeps the graph, and what its inputs are."""

    def __init__(self, model: Any, call: Any, decompositions: Optional[Mapping[Any, Any]]) -> None:
        self._decompositions = decompositions
        self.found: Optional[tuple[fx.GraphModule, int, list[int]]] = None
        self.titles: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.known: dict[int, tuple[str, str]] = {}
        for name, t in _owned(model):
            self.known[id(t)] = (name, "parameter" if isinstance(t, torch.nn.Parameter) else "buffer")
        for name, value in [*((f"input {k}", v) for k, v in enumerate(call[0])), *call[1].items()]:
            for t in pytree.tree_leaves(value):
                if isinstance(t, torch.Tensor):
                    self.known.setdefault(id(t), (name, "input"))
        self.given: list[tuple[str, str]] = []

    def compilers(self) -> dict[str, Any]:
        """Return the options of AOTAutograd that hand the graph over."""
        from functorch.compile import nop

        more = {"decompositions": self._decompositions} if self._decompositions is not None else {}
        return {
            "fw_compiler": nop,
            "bw_compiler": nop,
            "inference_compiler": self._inference,
            "partition_fn": self._partition,
            "keep_inference_input_mutations": True,
            **more,
        }

    def backend(self) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        compiled = aot_autograd(**self.compilers())

        def backend(gm: fx.GraphModule, inputs: Any) -> Any:
            self.given = [self._title(n) for n in gm.graph.find_nodes(op="placeholder")]
            return compiled(gm, inputs)

        return backend

    def _title(self, node: fx.Node) -> tuple[str, str]:
        """Return what an input of Dynamo's graph is: the tensor tells."""
        given = node.meta.get("grapharg")
        try:
            known = self.known.get(id(given.example)) if given is not None else None
        except AssertionError:
            known = None
        return known or (str(node.target), "input")

    def _partition(self, gm: fx.GraphModule, inputs: Any, **options: Any) -> Any:
        self._keep(gm, int(options["num_fwd_outputs"]), options.get("static_lifetime_input_indices"))

    def _inference(self, gm: fx.GraphModule, inputs: Any) -> Any:
        self._keep(gm, len(pytree.arg_tree_leaves(*gm.graph.output_node().args)), None)

    def _keep(self, gm: fx.GraphModule, outputs: int, static: Optional[list[int]]) -> None:
        self.found = (gm, outputs, list(static or []))
        given = [n for n in gm.graph.find_nodes(op="placeholder") if "tangents" not in str(n.target)]
        if len(given) == len(self.given):
            for node, (title, kind) in zip(given, self.given):
                self.titles[node.name], self.kinds[node.name] = title, kind
        raise _Kept


def _reason(error: BaseException) -> str:
    """Return the first line of an error of Dynamo that says something."""
    cause: BaseException = error
    while cause.__cause__ is not None and not str(cause).strip():
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"not one graph: {type(error).__name__}: {' '.join(lines[:2])}" if lines else f"not one graph: {type(error).__name__}"


def where(node: fx.Node) -> str:
    """Return the module and the line of source that a node comes from, as far as they are noted.

    A node of the backward pass has those of the operator whose gradient it computes.
    """
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    module = ""
    for entry in stack.values():
        module = tidy(str(entry[0])) or module
    line = ""
    for text in (node.meta.get("stack_trace") or node.meta.get("fwd_stack_trace") or "").splitlines():
        text = text.strip()
        if text.startswith('File "'):
            path, _, rest = text[len('File "') :].partition('", line ')
            line = f"{path.rsplit('/', 1)[-1]}:{rest.split(',')[0]}"
    return ", ".join(x for x in (module, line) if x)


def tidy(path: str) -> str:
    """Return a module's name as ``named_modules`` gives it, from Dynamo's expression for it."""
    for cover in ("L['self']", "L['model']", "L['fn']"):
        path = path.replace(cover, "")
    path = path.replace("._modules['", ".").replace("['", ".").replace("']", "").replace('["', ".").replace('"]', "")
    if "._modules" in path or path.startswith("getattr"):
        path = path.replace("getattr(", "").replace(")", "").replace(", ", ".").replace('"', "").replace("'", "")
    return path.strip(".").removeprefix("model.") if path.count(".") or path else path
