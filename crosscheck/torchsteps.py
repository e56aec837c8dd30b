"""Take steps of torch.optim on an inference model, in float64."""

import torch

from . import autograd


class Steps:
    """Steps of one optimizer (optimizers.Case)."""

    def __init__(self, case, model):
        self.case, self.model = case, model
        self.optimizer, self.parameters, self.statistics = None, {}, {}  # none before the first step

    def advance(self, given, trainable, rate):
        """Take one step."""
        run = autograd.Run(self.model, given, trainable, "cross-entropy", values={**self.parameters, **self.statistics})
        if not self.optimizer:
            self.parameters = {name: run.graph.values[name] for name in trainable}
            self.optimizer = _optimizer(self.case, self.parameters)
        self.optimizer.zero_grad()
        said = run.differentiate()
        if self.case.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.case.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.statistics = {n: torch.from_numpy(v) for n, v in said.statistics.items()}

    def values(self):
        """Return parameters and running statistics."""
        return {n: p.detach().numpy() for n, p in {**self.parameters, **self.statistics}.items()}


def _optimizer(case, parameters):
    """Return torch's optimizer, with weight decay on matrices and kernels only, unless all parameters decay."""
    known = dict(case.constants)
    decay = known.get("weight_decay", 0.01 if case.optimizer == "adamw" else 0.0)
    groups = [
        {"params": [p for p in parameters.values() if p.dim() > 1 or case.decay_all], "weight_decay": decay},
        {"params": [p for p in parameters.values() if p.dim() <= 1 and not case.decay_all], "weight_decay": 0.0},
    ]
    if case.optimizer in ("sgd", "momentum"):
        return torch.optim.SGD(groups, lr=1.0, momentum=known.get("momentum", 0.9) if case.optimizer == "momentum" else 0.0)
    betas = known.get("beta1", 0.9), known.get("beta2", 0.999)
    kind = torch.optim.Adam if case.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, lr=1.0, betas=betas, eps=known.get("epsilon", 1e-8))
