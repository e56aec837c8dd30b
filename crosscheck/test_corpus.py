"""Test the problems made of PyTorch modules: crosscheck/run corpus test. Skipped without torch."""

import copy
import importlib.util
import unittest

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn

    from . import fromtorch, storages


def ran_before(problem):
    """Return for each node the set of all nodes that must run before it."""
    before = [set() for _ in problem["nodes"]]
    edges = sorted((c, t["producer"]) for t in problem["tensors"] if t["producer"] >= 0 for c in t["consumers"])
    for c, p in edges:
        before[c] |= {p} | before[p]
    return before


def function(run):
    """Return a module that runs a function."""
    module = nn.Module()
    module.forward = run
    return module


def pairs(run, *given):
    """Return the names of the tensors that each tensor may overwrite, by its name."""
    made = fromtorch.problem(fromtorch.trace(function(run), given), "pairs", inplace=True)
    return {t["name"]: [made["tensors"][i]["name"] for i in t["reuses"]] for t in made["tensors"] if "reuses" in t}


@unittest.skipUnless(importlib.util.find_spec("torch"), "needs torch")
class FromTorch(unittest.TestCase):
    def net(self):
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 5))

    def test_views_are_merged(self):
        traced = fromtorch.trace(function(lambda x: (x.exp().view(4, 16).t().contiguous(), x.exp())), (torch.zeros(8, 8),))
        made = fromtorch.problem(traced, "views")
        self.assertEqual([n["op"] for n in made["nodes"]], ["exp.default", "clone.default", "exp.default"])
        self.assertEqual([(t["bytes"], t["producer"], t["consumers"]) for t in made["tensors"]], [(256, -1, [0, 2]), (256, 0, [1]), (256, 1, []), (256, 2, [])])
        self.assertEqual(storages.faults(traced, made), [])

    def test_a_step_is_that_of_sgd(self):
        for momentum in (0.0, 0.9):
            torch.manual_seed(1)
            ours, x = self.net(), torch.randn(2, 3, 8, 8)
            theirs = copy.deepcopy(ours)
            traced = fromtorch.trace(ours, (x,), training=True, momentum=momentum)
            values = {**dict(ours.named_parameters()), **dict(ours.named_buffers())}
            given = [n for n in traced.module.graph.nodes if n.op == "placeholder"]
            state = {i: values[title].detach().clone() for i, title in traced.titles.items()}
            for n in given:
                state.setdefault(n.name, x if traced.kinds[n.name] == "input" else torch.zeros(n.meta["val"].shape))
            feeds = [state[n.name] for n in given]
            (loss,) = traced.module(*feeds)
            expected = fromtorch.mean_squares(theirs(x))
            expected.backward()
            torch.optim.SGD(theirs.parameters(), lr=0.01, momentum=momentum).step()
            torch.testing.assert_close(loss, expected.detach())
            for name, value in {**dict(theirs.named_parameters()), **dict(theirs.named_buffers())}.items():
                got = state[next(i for i, title in traced.titles.items() if title == name)]
                torch.testing.assert_close(got, value.detach(), msg=name)

    def test_updates_come_after_all_readers(self):
        for momentum in (0.0, 0.9):
            traced = fromtorch.trace(self.net(), (torch.zeros(2, 3, 8, 8),), training=True, momentum=momentum)
            made = fromtorch.problem(traced, "step")
            self.assertEqual(storages.faults(traced, made), [])
            before = ran_before(made)
            updates = 0
            for i, n in enumerate(made["nodes"]):
                for t in n.get("writes", ()):
                    updates += 1
                    readers = [c for c in made["tensors"][t]["consumers"] if c < i]
                    self.assertLessEqual(set(readers), before[i])
            self.assertEqual(updates, 3 + 6 * (3 if momentum else 1))  # statistics, parameters

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

        theirs, ours, x = Running(), Running(), torch.randn(2, 2)
        traced = fromtorch.trace(ours, (x,))
        mean = torch.ones(4)
        (y,) = traced.module(*[mean if traced.kinds[n.name] == "state" else x for n in traced.module.graph.nodes if n.op == "placeholder"])
        torch.testing.assert_close(y, theirs(x))
        torch.testing.assert_close(mean, theirs.mean)
        self.assertEqual(storages.faults(traced, fromtorch.problem(traced, "running")), [])

    def test_shared_and_unused_parameters(self):
        module = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)])
        module[1].weight = module[0].weight
        module.forward = lambda x: module[1](module[0](x))
        made = fromtorch.problem(fromtorch.trace(module, (torch.zeros(2, 4),), training=True), "tied")
        written = [made["tensors"][t]["name"] for n in made["nodes"] for t in n.get("writes", ())]
        self.assertEqual(written, ["0.weight", "0.bias", "1.bias"])

    def test_results_in_place_of_operands(self):
        x = torch.zeros(8, 8)
        self.assertEqual(pairs(lambda x: x.exp().relu(), x), {"relu": ["exp"]})
        self.assertEqual(pairs(lambda x: x.relu(), x), {})  # an input belongs to the caller
        self.assertEqual(pairs(lambda x: (a := x.exp()) + a.t(), x), {})  # read in two layouts
        self.assertEqual(pairs(lambda x: x.exp() + x.sum(0).exp(), x), {"add": ["exp"], "exp_1": ["sum_1"]})  # one is broadcast
        self.assertEqual(pairs(lambda x: x.exp().double() * 2.0, x), {"mul": ["_to_copy"]})

    def test_faults_are_found(self):
        traced = fromtorch.trace(self.net(), (torch.zeros(2, 3, 8, 8),), training=True)
        made = fromtorch.problem(traced, "step")
        for i, t in enumerate(made["tensors"]):
            if t["bytes"]:
                for change in ({"bytes": t["bytes"] + 64}, *([{"consumers": t["consumers"][1:]}] if t["consumers"] else [])):
                    wrong = copy.deepcopy(made)
                    wrong["tensors"][i] |= change
                    self.assertTrue(storages.faults(traced, wrong), t)
        wrong = copy.deepcopy(made)
        wrong["tensors"] = [t for t in made["tensors"] if t["kind"] != "control"]
        self.assertLess(len(wrong["tensors"]), len(made["tensors"]))
        self.assertTrue(storages.faults(traced, wrong))

    def test_random_operators_run_once(self):
        made = fromtorch.problem(fromtorch.trace(nn.Dropout(), (torch.ones(4, requires_grad=False),), training=False), "dropout")
        self.assertEqual(made["nodes"], [])
        made = fromtorch.problem(fromtorch.trace(nn.Sequential(nn.Linear(4, 4), nn.Dropout()), (torch.ones(4),), training=True), "dropout")
        self.assertEqual(sum(n.get("once", False) for n in made["nodes"]), 1)


if __name__ == "__main__":
    unittest.main()
