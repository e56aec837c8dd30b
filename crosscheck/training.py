"""Compare training graphs that onnxmem optimize --train makes with torch and central differences.

One network at a time, in its own process: python -m crosscheck.training.
"""

import numpy as np
import onnx

from . import apart, differences, kinks, networks, optimizers, probe, step

_TOLERANCE = 1e-4  # of a gradient, relative to the parameter's largest one
_SLOPE = 3e-2  # of the median central difference
_DRAWS = 12  # of data
_EXAMPLES = 4  # of a kind of fault are told in full


def find(subset, data):
    """Return the titles to check: networks, optimizers; for CI, a few networks. Without
    the zoo's files, those that need none."""
    zoo = (data / "zoo/expected.csv").exists()
    found = [n.title for n in networks.NETWORKS if zoo or not n.source.startswith("zoo/")]
    if subset:
        return [t for t in found if t in networks.SUBSET]
    return found + [c.title for c in optimizers.CASES]


def examine(title, tool, work, data, result, torch):
    """Check an optimizer or a network. Without torch, a network is checked only by central differences."""
    for case in optimizers.CASES:
        if case.title == title:
            return optimizers.check(case, work, tool, result)
    network = next(n for n in networks.NETWORKS if n.title == title)
    return _Examination(network, work, tool, data, result).run(torch)


class _Examination:
    """Run the steps in order; each writes its verdict into result."""

    def __init__(self, network, work, tool, data, result):
        self.network, self.tool, self.data, self.result = network, tool, data, result
        self.source = work / "training" / f"{network.name}.onnx"
        self.target = self.source.with_name(f"{network.name}.step.onnx")

    def run(self, torch):
        self.source.parent.mkdir(parents=True, exist_ok=True)
        networks.write(self.network, self.source, self.tool, self.data)
        model = onnx.load(str(self.source))
        self.loss = self.network.loss
        if self.loss == "none:":
            self.loss += model.graph.output[0].name
        flags = ("--keep-gradients", f"--loss={self.loss}", *self.network.flags)
        self.result["autodiff_ms"] = self.tool.train(self.source, self.target, flags)
        for violation in self.tool.verify(self.target)[:_EXAMPLES]:
            self.fault(f"verify: {violation}")
        onnx.checker.check_model(str(self.target), full_check=True)
        self.step = step.Step(self.target)
        self.result["nodes"] = len(self.step.model.graph.node)
        self.result["parameters"] = int(sum(self.step.values[n].size for n in self.step.trainable))
        self.model = model
        self.settle_data(torch)
        loss, gradients = self.differentiate(optimized=False)
        self.result["loss"] = loss
        self.compare_differences(gradients)
        if torch:
            self.compare_torch({"plain": (loss, gradients), "optimized": self.differentiate(optimized=True)})

    def fault(self, text):
        self.result["faults"].append(text)

    def settle_data(self, torch):
        """Find data for which ONNX Runtime and torch, if installed, are on the same side of every kink."""
        classes = self.step.classes()
        self.given = self.draw(classes)
        if not torch:
            return
        from . import autograd  # only this check needs torch

        kinked = kinks.nodes(self.model)
        names = kinks.tensors(kinked)
        part = step.forward(self.step.model)
        probe.expose(part, names)
        session, read = self.step.session(model=part), {v.name for v in part.graph.input}
        for seed in range(_DRAWS):
            self.given = self.draw(classes, seed)
            self.torch = autograd.Run(self.model, self.given, self.step.trainable, self.loss, "--probabilities" in self.network.flags)
            got = session.run(names or None, {n: a for n, a in {**self.step.values, **self.given}.items() if n in read})
            self.result["kinks"] = kinks.disagreements(kinked, dict(zip(names, got)), self.torch.arrays(names))
            if not self.result["kinks"]:
                return

    def draw(self, classes, seed=0):
        """Draw data and labels, some of which do not count, if the network says so."""
        given = self.step.data(classes, seed)
        if self.network.ignored:
            given["labels"].reshape(-1)[::3] = -100
        return given

    def differentiate(self, optimized):
        """Compute loss and gradients by ONNX Runtime."""
        session = self.step.session(optimized)
        names = ["loss"] + [self.step.gradients[n] for n in self.step.trainable]
        loss, *gradients = session.run(names, {**self.step.values, **self.given, step.RATE: np.array(0.01, np.float32)})
        return float(loss), dict(zip(self.step.trainable, gradients))

    def compare_differences(self, gradients):
        part = step.forward(self.step.model)
        session = self.step.session(model=part)
        read = {v.name for v in part.graph.input}
        feeds = {n: a for n, a in {**self.step.values, **self.given}.items() if n in read}

        def loss(changed):
            return float(session.run(["loss"], {**feeds, **changed})[0])

        found = differences.errors(loss, self.result["loss"], self.step.values, gradients)
        self.result["difference"] = float(np.median(found))
        if not self.result["difference"] <= _SLOPE:
            self.fault(f"central differences: median error {np.median(found):.2g} of {[f'{e:.2g}' for e in found]}")

    def compare_torch(self, runs):
        want = self.torch.differentiate()
        vanishing, largest = want.vanishing(), want.largest()
        self.result["vanishing"] = len(vanishing)
        worst = 0.0
        for name, (loss, gradients) in runs.items():
            if not abs(loss - want.loss) <= _TOLERANCE * max(1e-3, abs(want.loss)):
                self.fault(f"{name}: loss {loss}, torch has {want.loss}")
            errors = {}
            for parameter, expected in want.gradients.items():
                difference = float(abs(gradients[parameter] - expected).max())
                errors[parameter] = difference / (largest if parameter in vanishing else float(abs(expected).max()))
            for parameter in sorted(errors, key=errors.get, reverse=True)[:_EXAMPLES]:
                if not errors[parameter] <= _TOLERANCE:
                    self.fault(f"{name}: gradient of {parameter} is off by {errors[parameter]:.2g}")
            worst = max([worst, *errors.values()])
        self.result["error"] = worst
        self.compare_statistics(want.statistics)

    def compare_statistics(self, want):
        """Compare the new running statistics."""
        names = [n for n in want if n in self.step.updates]
        session = self.step.session()
        got = session.run([self.step.updates[n] for n in names], {**self.step.values, **self.given, step.RATE: np.array(0.01, np.float32)}) if names else []
        for name, new in zip(names, got):
            if not np.allclose(new, want[name], rtol=1e-4, atol=1e-5):
                self.fault(f"running statistics {name}: off by {abs(new - want[name]).max():.2g}")


_COLUMNS = (
    ("parameters", "{:,} parameters"),
    ("nodes", "{} nodes"),
    ("error", "torch {:.1e}"),
    ("difference", "differences {:.1e}"),
    ("vanishing", "zero {}"),
    ("kinks", "kinks {}"),
    ("autodiff_ms", "autodiff {:.0f} ms"),
)


def row(result):
    """Return one line of text."""
    said = [form.format(result[key]) for key, form in _COLUMNS if key in result]
    return f"{result['title']:34} " + ", ".join([*said, f"{result['seconds']} s"])


if __name__ == "__main__":
    apart.main(examine, torch=False)
