"""Compare five steps of each optimizer with torch.optim in float64."""

import dataclasses

import numpy as np
import onnx

from . import build, networks, step

_STEPS = 5
_RATES = (0.01, 0.02, 0.01, 0.005, 0.01)  # of each step: the caller is responsible for a schedule
_TOLERANCE = 1e-5  # relative to the parameter's largest element
_DECAY = 0.02
_SCALE = {"initial": 1024, "growth": 4, "backoff": 0.5, "interval": 2}


@dataclasses.dataclass
class Group:
    """Parameters with their own rate, a multiple of the others', and constants."""

    name: str
    pattern: str
    rate: float
    constants: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    """An optimizer with its flags."""

    name: str
    optimizer: str
    constants: dict = dataclasses.field(default_factory=dict)
    clip: float = 0.0
    decay_all: bool = False
    groups: tuple = ()
    runs: int = 1  # of an update
    scale: dict = dataclasses.field(default_factory=dict)  # constants of a dynamic loss scale
    infinite: tuple = ()  # updates whose first run gets data that are not finite
    network: str = "cnn"

    @property
    def title(self):
        return f"training/{self.name}"

    def flags(self):
        """Return the flags for onnxmem optimize. Adam divides a gradient by its own size. If the
        gradient is structurally zero, that divides rounding noise by itself, and no two
        runs agree; so the bias before a BatchNormalization is not trained."""
        freeze = ["--freeze=^conv2.bias$"] if self.optimizer.startswith("adam") and self.network == "cnn" else []
        set_ = [f"--optimizer-set={','.join(f'{k}={v}' for k, v in self.constants.items())}"] if self.constants else []
        clip = [f"--clip-norm={self.clip}"] if self.clip else []
        more = [f"--group={g.name}={g.pattern}" for g in self.groups]
        more += [f"--group-set={g.name}.{k}={v}" for g in self.groups for k, v in g.constants.items()]
        if self.runs > 1:
            more.append(f"--accumulate={self.runs}")
        if self.scale:
            more += ["--loss-scale=dynamic", f"--loss-scale-set={','.join(f'{k}={v}' for k, v in self.scale.items())}"]
        return (f"--optimizer={self.optimizer}", *set_, *clip, *freeze, *(["--decay-all"] if self.decay_all else []), *more)


CASES = (
    Case("sgd", "sgd"),
    Case("sgd-decay", "sgd", {"weight_decay": _DECAY}),
    Case("sgd-clip", "sgd", clip=0.3),
    Case("momentum", "momentum"),
    Case("momentum-decay-clip", "momentum", {"momentum": 0.8, "weight_decay": _DECAY}, clip=0.3),
    Case("adam", "adam"),
    Case("adam-decay", "adam", {"weight_decay": _DECAY, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-6}),
    Case("adamw", "adamw"),
    Case("adamw-decay-all", "adamw", {"weight_decay": 0.1}, decay_all=True),
    Case("adamw-clip", "adamw", clip=0.3),
    Case("groups-sgd", "sgd", groups=(Group("first", "^conv1", 0.1), Group("head", "^fc", 3.0, {"weight_decay": 0.1}))),
    Case("groups-adamw", "adamw", groups=(Group("head", "^fc", 3.0, {"weight_decay": 0.1, "beta1": 0.8}), Group("rest", ".", 1.0))),
    Case("accumulate-momentum", "momentum", runs=3),
    Case("accumulate-adamw-clip", "adamw", clip=0.3, runs=2),
    Case("scale-sgd", "sgd", scale=_SCALE, infinite=(1,), network="mlp"),
    Case("scale-adamw-clip", "adamw", clip=0.3, scale=_SCALE, infinite=(0, 2), network="mlp"),
    Case("scale-accumulate-adam", "adam", runs=2, scale=_SCALE, infinite=(2,), network="mlp"),
)


def check(case, work, tool, result):
    """Take five steps, each on new data; write differences into result."""
    from . import torchsteps  # only this check needs torch

    source = work / "training" / f"{case.name}.onnx"
    target = source.with_name(f"{case.name}.step.onnx")
    source.parent.mkdir(parents=True, exist_ok=True)
    model = build.cnn(batch=8) if case.network == "cnn" else build.mlp()
    networks.draw_weights(model)
    onnx.save(model, str(source))
    result["autodiff_ms"] = tool.train(source, target, case.flags())
    result["faults"] += [f"verify: {v}" for v in tool.verify(target)]
    onnx.checker.check_model(str(target), full_check=True)
    ours, theirs = step.Step(target), torchsteps.Steps(case, model)
    result["nodes"] = len(ours.model.graph.node)
    result["parameters"] = sum(ours.values[n].size for n in ours.trainable)
    session = ours.session()
    for i in range(_STEPS):
        for k in range(case.runs):
            given = ours.data(3, seed=i * case.runs + k)
            if i in case.infinite and k == 0:
                spoil(given)
            ours.advance(session, given, _RATES[i], {g.name: _RATES[i] * g.rate for g in case.groups})
            theirs.advance(given, ours.trainable, _RATES[i])
    worst = 0.0
    if case.scale and float(ours.values["loss_scale"]) != theirs.scaler.get_scale():
        result["faults"].append(f"the loss scale is {ours.values['loss_scale']}, torch's {theirs.scaler.get_scale()}")
    for name, want in theirs.values().items():
        error = float(abs(ours.values[name] - want).max() / abs(want).max())
        worst = max(worst, error)
        if not error <= _TOLERANCE:
            result["faults"].append(f"{name} is off by {error:.2g} after {_STEPS} steps")
    result["error"] = worst


def spoil(given):
    """Make one element of the data infinite."""
    name = next(n for n, a in given.items() if a.dtype == np.float32)
    given[name] = given[name].copy()
    given[name].flat[0] = np.inf
