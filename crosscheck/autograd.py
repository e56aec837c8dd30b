"""Compute loss and gradients of an inference model by torch's autograd in float64."""

import dataclasses

import torch
import torch.nn.functional as F

from . import torchgraph

# A gradient below this fraction of the network's largest is structurally zero, such
# as that of the bias of a convolution before BatchNormalization or of the keys of an
# attention. In float64, about 1e-16 remains of it.
VANISHING = 1e-10


@dataclasses.dataclass
class Reference:
    loss: float
    gradients: dict  # arrays by parameter
    statistics: dict  # running mean or variance of a BatchNormalization: its new value

    def largest(self):
        return max(float(abs(g).max()) for g in self.gradients.values())

    def vanishing(self):
        """Return the parameters whose gradient is structurally zero."""
        floor = VANISHING * self.largest()
        return [name for name, g in self.gradients.items() if float(abs(g).max()) <= floor]


class Run:
    """One step of an inference model in torch, given its inputs and the labels; values replace initializers."""

    def __init__(self, model, given, trainable, loss, probabilities=False, values=None):
        self.graph = torchgraph.Graph(model)
        self.graph.values.update(values or {})
        if missing := [name for name in trainable if name not in self.graph.values]:
            raise ValueError(f"no initializers of the model: {', '.join(missing[:4])}")
        self.trainable = trainable
        for name in trainable:
            self.graph.values[name].requires_grad_()
        self.known, self.loss = evaluate(self.graph, given, loss, probabilities)

    def arrays(self, names):
        """Return tensors of the forward pass."""
        return {name: self.known[name].detach().numpy() for name in names}

    def differentiate(self):
        """Return the step's loss and gradients by torch."""
        self.loss.backward()
        gradients = {}
        for name in self.trainable:
            gradient = self.graph.values[name].grad
            if gradient is None:
                raise ValueError(f"torch finds no path from {name} to the loss")
            gradients[name] = gradient.numpy()
        return Reference(float(self.loss.detach()), gradients, {n: v.numpy() for n, v in self.graph.statistics.items()})


def evaluate(graph, given, loss, probabilities=False):
    """Return all tensors of a graph, and the loss: torch's own function of the model's first output."""
    labels = torchgraph.tensor(given["labels"]) if "labels" in given else None
    output = graph.model.graph.output[0].name
    known = graph.run({n: a for n, a in given.items() if n != "labels"})
    y = known[output]
    if loss == "cross-entropy":
        return known, cross_entropy(graph, y, output, labels)
    if loss == "bce":
        return known, (F.binary_cross_entropy if probabilities else F.binary_cross_entropy_with_logits)(y, labels)
    if loss.startswith("none:"):
        return known, y.reshape(())
    return known, {"mse": F.mse_loss, "l1": F.l1_loss}[loss](y, labels)


def cross_entropy(graph, y, output, labels):
    """Compute cross-entropy from logits, or from the output of a final Softmax; at rank 3, the class axis is last."""
    if y.dim() == 3:
        y = y.movedim(-1, 1)
    last = next(n for n in graph.model.graph.node if output in n.output)
    return F.nll_loss(torch.log(y), labels) if last.op_type == "Softmax" else F.cross_entropy(y, labels)
