"""Take steps of torch.optim on an inference model, in float64."""

import re

import torch

from . import autograd


class Steps:
    """Steps of one optimizer (optimizers.Case)."""

    def __init__(self, case, model):
        self.case, self.model = case, model
        self.optimizer, self.parameters, self.statistics = None, {}, {}  # none before the first step
        self.runs = 0
        s = case.scale
        constants = {"init_scale": s["initial"], "growth_factor": s["growth"], "backoff_factor": s["backoff"], "growth_interval": s["interval"]} if s else {}
        self.scaler = torch.amp.GradScaler("cpu", enabled=bool(s), **constants)

    def advance(self, given, trainable, rate):
        """Take one step, or one run of several that make a step."""
        run = autograd.Run(self.model, given, trainable, "cross-entropy", values={**self.parameters, **self.statistics})
        if not self.optimizer:
            self.parameters = {name: run.graph.values[name] for name in trainable}
            self.optimizer = _optimizer(self.case, self.parameters)
        run.loss = self.scaler.scale(run.loss / self.case.runs)
        said = run.differentiate()
        self.statistics = {n: torch.from_numpy(v) for n, v in said.statistics.items()}
        self.runs += 1
        if self.runs % self.case.runs:
            return
        if self.case.clip:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.case.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["times"]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def values(self):
        """Return parameters and running statistics."""
        return {n: p.detach().numpy() for n, p in {**self.parameters, **self.statistics}.items()}


def _groups(case, parameters):
    """Return the groups of parameters: weight decay on matrices and kernels only, unless all parameters of it decay."""
    known = {"weight_decay": 0.01 if case.optimizer == "adamw" else 0.0, **case.constants}
    left, groups = dict(parameters), []
    for g in case.groups:
        mine = [left.pop(name) for name in list(left) if re.search(g.pattern, name)]
        all_decay = case.decay_all or "weight_decay" in g.constants
        groups.append((mine, g.rate, {**known, **g.constants}, all_decay))
    groups.append((list(left.values()), 1.0, known, case.decay_all))
    for params, rate, constants, all_decay in groups:
        rest = {} if case.optimizer in ("sgd", "momentum") else {"betas": (constants.get("beta1", 0.9), constants.get("beta2", 0.999))}
        decaying = [p for p in params if p.dim() > 1 or all_decay]
        if decaying:
            yield {"params": decaying, "weight_decay": constants["weight_decay"], "times": rate, **rest}
        if flat := [p for p in params if p.dim() <= 1 and not all_decay]:
            yield {"params": flat, "weight_decay": 0.0, "times": rate, **rest}


def _optimizer(case, parameters):
    """Return torch's optimizer."""
    known, groups = case.constants, list(_groups(case, parameters))
    if case.optimizer in ("sgd", "momentum"):
        return torch.optim.SGD(groups, lr=1.0, momentum=known.get("momentum", 0.9) if case.optimizer == "momentum" else 0.0)
    kind = torch.optim.Adam if case.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, lr=1.0, eps=known.get("epsilon", 1e-8))
