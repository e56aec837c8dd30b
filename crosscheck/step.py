"""Run a training graph in ONNX Runtime: initial values, inputs, loop."""

import json

import numpy as np
import onnx
import onnxruntime

from . import feeds

RATE = "learning_rate"
_FEWEST_CLASSES = 2  # where onnx cannot infer how many there are


class Step:
    """The files that onnxmem optimize --train wrote."""

    def __init__(self, path):
        self.path = path
        self.model = onnx.load(str(path))
        said = {p.key: p.value for p in self.model.metadata_props}
        self.trainable = json.loads(said["onnxmem.trainable"])
        pairs = [entry.rpartition("=") for entry in json.loads(said["onnxmem.updates"])]
        self.updates = {old: new for old, _, new in pairs}
        pairs = [entry.rpartition("=") for entry in json.loads(said["onnxmem.gradients"])]
        self.gradients = {name: gradient for name, _, gradient in pairs}
        self.inputs = {v.name for v in self.model.graph.input}
        params = onnx.load(str(path.with_suffix(".params.onnx")))
        self.values = {t.name: onnx.numpy_helper.to_array(t) for t in params.graph.initializer}

    def session(self, optimized=False, model=None):
        """A session of the training graph, or of another model."""
        options = onnxruntime.SessionOptions()
        if not optimized:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        source = model.SerializeToString() if model is not None else str(self.path)
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    def advance(self, session, given, rate, of_groups=None):
        """Run one step: feed, run, replace each x by x.new; return the loss. of_groups: rates of groups by name."""
        names = ["loss", *self.updates.values()]
        rates = {RATE: rate, **{f"{RATE}.{name}": r for name, r in (of_groups or {}).items()}}
        rates = {n: np.array(r, np.float32) for n, r in rates.items() if n in self.inputs}
        loss, *new = session.run(names, {**self.values, **given, **rates})
        self.values = dict(zip(self.updates, new))
        return float(loss)

    def classes(self):
        """Return the length of the class axis, from the emitted loss; 0 if it has none."""
        inferred = onnx.shape_inference.infer_shapes(forward(self.model), data_prop=True).graph
        for node in inferred.node:
            if node.op_type in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
                shapes = {v.name: v.type.tensor_type.shape for v in inferred.value_info}
                return shapes[node.input[0]].dim[1].dim_value if node.input[0] in shapes else _FEWEST_CLASSES
        return 0

    def data(self, classes, seed=0):
        """Draw random data and labels for the inputs that are not parameters; integer labels are below classes."""
        graph = onnx.GraphProto()
        graph.CopyFrom(self.model.graph)
        rates = [v.name for v in graph.input if v.name == RATE or v.name.startswith(f"{RATE}.")]
        names = {v.name: v for v in graph.input if v.name not in self.values and v.name not in rates}
        shapes = {name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for name, v in names.items()}
        graph.initializer.extend(onnx.TensorProto(name=n, data_type=1, dims=v.shape) for n, v in self.values.items())
        given = feeds.make(graph, {**shapes, **dict.fromkeys(rates, ())}, seed=seed)
        for name in rates:
            del given[name]
        if "labels" in given:
            given["labels"] = _labels(given["labels"], classes, seed)
        return given


def _labels(like, classes, seed):
    rng = np.random.default_rng(seed)
    if np.issubdtype(like.dtype, np.integer):
        return rng.integers(0, classes, like.shape)
    return rng.uniform(0, 1, like.shape).astype(like.dtype)


def _reads(node):
    """List what a node and the nodes of its bodies read."""
    names = list(node.input)
    for a in node.attribute:
        for body in [a.g, *a.graphs]:
            for inner in body.node:
                names.extend(_reads(inner))
    return names


def forward(model, output="loss"):
    """Return the part of a model that computes one output, as a separate model.

    Running statistics remain outputs: ONNX Runtime writes those that are not requested
    over the arrays that it is fed.
    """
    maker = {t: i for i, n in enumerate(model.graph.node) for t in n.output if t}
    needed, waiting = set(), [output]
    while waiting:
        i = maker.get(waiting.pop())
        if i is not None and i not in needed:
            needed.add(i)
            waiting.extend(_reads(model.graph.node[i]))
    part = onnx.ModelProto()
    part.CopyFrom(model)
    nodes = [n for i, n in enumerate(model.graph.node) if i in needed]
    del part.graph.node[:]
    part.graph.node.extend(nodes)
    kept = [v for v in model.graph.output if maker.get(v.name) in needed]
    del part.graph.output[:]
    part.graph.output.extend(kept)
    read = {t for n in nodes for t in _reads(n)}
    inputs = [v for v in model.graph.input if v.name in read]
    del part.graph.input[:]
    part.graph.input.extend(inputs)
    return part
