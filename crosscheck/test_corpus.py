"""Test the problems made of PyTorch modules: crosscheck/run corpus test. Skipped without torch."""

import copy
import importlib.util
import unittest

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn

    from onnxmem_torch import _problem

    from . import corpus, storages


def ran_before(problem):
    """Return for each node the set of all nodes that must run before it."""
    before = [set() for _ in problem["nodes"]]
    edges = sorted((c, t["producer"]) for t in problem["tensors"] if t["producer"] >= 0 for c in t["consumers"])
    for c, p in edges:
        before[c] |= {p} | before[p]
    return before


class Function(torch.nn.Module if importlib.util.find_spec("torch") else object):
    """A module that runs a function."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, *given):
        return self.run(*given)


def problem(module, *given, training=False, inplace=False):
    """Return the problem of a module, after its comparison with torch's storages, and what faults() takes besides."""
    traced, step = corpus.step_of(module, given, training=training)
    made = _problem.named_problem(traced, step, "test", inplace, storages.ALIGNMENT)
    return made, (traced.module, step)


def pairs(run, *given):
    """Return the names of the tensors that each tensor may overwrite, by its name."""
    made, _ = problem(Function(run), *given, inplace=True)
    return {t["name"]: [made["tensors"][i]["name"] for i in t["reuses"]] for t in made["tensors"] if "reuses" in t}


@unittest.skipUnless(importlib.util.find_spec("torch"), "needs torch")
class Problems(unittest.TestCase):
    def net(self):
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 5))

    def test_views_are_merged(self):
        made, seen = problem(Function(lambda x: (x.exp().view(4, 16).t().contiguous(), x.exp() * 2)), torch.zeros(8, 8))
        self.assertEqual([n["op"] for n in made["nodes"]], [f"aten.{op}" for op in ("exp.default", "clone.default", "mul.Tensor")])
        self.assertEqual([(t["bytes"], t["producer"], t["consumers"]) for t in made["tensors"]], [(256, -1, [0]), (256, 0, [1, 2]), (256, 1, []), (256, 2, [])])
        self.assertEqual(storages.faults(*seen, made), [])

    def test_updates_come_after_all_readers(self):
        made, seen = problem(self.net(), torch.zeros(2, 3, 8, 8), training=True)
        self.assertEqual(storages.faults(*seen, made), [])
        before = ran_before(made)
        updates = 0
        for i, n in enumerate(made["nodes"]):
            for t in n.get("writes", ()):
                updates += n["op"] == "onnxmem.update.default"
                readers = [c for c in made["tensors"][t]["consumers"] if c < i]
                self.assertLessEqual(set(readers), before[i])
        self.assertEqual(updates, 6)

    def test_a_buffer_is_overwritten_after_its_last_reader(self):
        class Running(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.ones(4))

            def forward(self, x):
                old = self.mean.view(2, 2) * 1
                y = x.exp() * self.mean.view(2, 2)
                self.mean.copy_(x.view(4).sin())
                return old + y + self.mean.view(2, 2)

        made, seen = problem(Running(), torch.randn(2, 2))
        self.assertEqual(storages.faults(*seen, made), [])
        (mean,) = [i for i, t in enumerate(made["tensors"]) if t["name"] == "mean"]
        self.assertEqual(sum(mean in n.get("writes", ()) for n in made["nodes"]), 1)

    def test_shared_and_unused_parameters(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)])
                self.layers[1].weight = self.layers[0].weight

            def forward(self, x):
                return self.layers[1](self.layers[0](x))

        made, _ = problem(Tied(), torch.zeros(2, 4), training=True)
        written = {made["tensors"][t]["name"] for n in made["nodes"] for t in n.get("writes", ())}
        self.assertEqual(written, {"layers.0.weight", "layers.0.bias", "layers.1.bias"})

    def test_results_in_place_of_operands(self):
        x = torch.zeros(8, 8)
        self.assertEqual(pairs(lambda x: x.exp().relu(), x), {"relu": ["exp"]})
        self.assertEqual(pairs(lambda x: x.relu(), x), {})  # an input belongs to the caller
        self.assertEqual(pairs(lambda x: (a := x.exp()) + a.t(), x), {})  # read in two layouts
        self.assertEqual(pairs(lambda x: x.exp() + x.sum(0).exp(), x), {"add": ["exp"], "exp_1": ["sum_1"]})  # one is broadcast
        self.assertEqual(pairs(lambda x: x.exp().double() * 2.0, x), {"mul": ["_to_copy"]})

    def test_faults_are_found(self):
        made, seen = problem(self.net(), torch.zeros(2, 3, 8, 8), training=True)
        for i, t in enumerate(made["tensors"]):
            if t["bytes"] and not t.get("resident"):
                for change in ({"bytes": t["bytes"] + 64}, *([{"consumers": t["consumers"][1:]}] if t["consumers"] else [])):
                    wrong = copy.deepcopy(made)
                    wrong["tensors"][i] |= change
                    self.assertTrue(storages.faults(*seen, wrong), t)
        wrong = copy.deepcopy(made)
        wrong["tensors"] = [t for t in made["tensors"] if t["kind"] != "control"]
        self.assertLess(len(wrong["tensors"]), len(made["tensors"]))
        self.assertTrue(storages.faults(*seen, wrong))

    def test_random_operators_run_once(self):
        made, _ = problem(nn.Dropout(), torch.ones(4))
        self.assertEqual(made["nodes"], [])
        made, seen = problem(nn.Sequential(nn.Linear(4, 4), nn.Dropout()), torch.ones(4), training=True)
        self.assertEqual([n["name"].partition(" ")[0] for n in made["nodes"] if n.get("once") and "bernoulli" in n["op"]], ["bernoulli_p"])
        self.assertEqual(storages.faults(*seen, made), [])


if __name__ == "__main__":
    unittest.main()
