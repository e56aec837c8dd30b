"""Tests of onnxmem.executorch that need the package executorch; crosscheck/run executorch runs them."""

import copy
import unittest

import onnxmem.executorch
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.tensor import TensorSpec

from . import executorch


class _Graph:
    """What an algorithm looks at in a graph."""

    def __init__(self, below=()):
        self.meta, self.input_mem_buffer_sizes = {}, list(below)


def _spec(first, last, size, mem_id=None, base=None, offset=0):
    spec = TensorSpec(torch.uint8, torch.Size([size]))
    spec.lifetime, spec.mem_id, spec.storage_base, spec.storage_base_offset = [first, last], mem_id, base, offset
    return spec


class Algorithm(unittest.TestCase):
    def plan(self, specs, alignment=16, padding=0, below=()):
        """Return the plan, which must be valid and have as many buffers as ExecuTorch's."""
        got = onnxmem.executorch.algorithm(alignment, specs, _Graph(below), None, padding)
        self.assertEqual(len(got.bufsizes), len(greedy(alignment, specs, _Graph(below), None, padding).bufsizes))
        self.assertEqual(set(got.spec_dict), set(specs))
        for a, at in got.spec_dict.items():
            self.assertEqual(at.mem_offset % alignment, 0)
            self.assertLessEqual(at.mem_offset + a.allocated_memory + padding, got.bufsizes[at.mem_id])
            for b, bt in got.spec_dict.items():
                related = a is b or a.storage_base is not None or b.storage_base is not None
                if related or at.mem_id != bt.mem_id or a.lifetime[1] < b.lifetime[0] or b.lifetime[1] < a.lifetime[0]:
                    continue
                self.assertTrue(at.mem_offset + a.allocated_memory <= bt.mem_offset or bt.mem_offset + b.allocated_memory <= at.mem_offset)
        return got

    def test_both_ends_of_a_lifetime_count(self):
        self.assertEqual(self.plan([_spec(0, 2, 100), _spec(2, 3, 100), _spec(3, 4, 100)], alignment=64).bufsizes, [0, 256])

    def test_buffers_padding_and_what_bodies_need(self):
        specs = [_spec(0, 1, 10), _spec(0, 1, 20, mem_id=3), _spec(1, 2, 30, mem_id=3)]
        self.assertEqual(self.plan(specs, padding=64).bufsizes, [0, 16 + 64, 0, 64 + 64])
        got = self.plan([_spec(0, 1, 16), _spec(5, 6, 32)], below=[0, 40])
        self.assertEqual((got.bufsizes, {r.mem_offset for r in got.spec_dict.values()}), ([0, 48 + 32], {48}))

    def test_storage_within_another(self):
        base = _spec(0, 9, 64)
        part = _spec(2, 3, 16, base=base, offset=32)
        again = _spec(2, 3, 16, base=part)
        got = self.plan([again, part, base, _spec(0, 9, 128)])
        self.assertEqual(got.spec_dict[part].mem_offset - got.spec_dict[base].mem_offset, 32)
        self.assertEqual(got.spec_dict[again].mem_offset, got.spec_dict[part].mem_offset)
        with self.assertRaisesRegex(ValueError, "expected the storage that it lies in"):
            onnxmem.executorch.algorithm(16, [part], _Graph(), None)

    def test_nothing_to_place(self):
        self.assertEqual(self.plan([]).bufsizes, [0, 0])
        self.assertEqual(self.plan([_spec(0, 1, 0)]).bufsizes, [0, 0])


class _Counter(torch.nn.Module):
    """Reads a buffer before and after it is written to, with results that would better be made later."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(64))

    def forward(self, x):
        wide = (self.state + x).repeat(50)
        self.state.add_(x)
        other = (self.state * 2).repeat(40)
        return wide.sum(), other.sum(), torch.cat([wide, other]).max()


class Order(unittest.TestCase):
    def test_writes_stay_between_what_reads_before_and_after(self):
        x = torch.arange(64.0)
        program = executorch.lowered(_Counter(), (x,)).to_executorch(ExecutorchBackendConfig(memory_planning_pass=onnxmem.executorch.memory_planning()))
        model = _Counter()
        want = [y for _ in range(3) for y in model(x)]
        got = executorch.run(program, (x,), (x,), (x,))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(want, got, strict=True)))

    def test_lengths_that_change_have_room_for_the_largest(self):
        class Model(torch.nn.Module):
            def forward(self, x):
                wide = torch.cat([x, x * 2, x * 3], 1)
                return wide.sum(1), (x + 1).exp()

        batch = torch.export.Dim("batch", min=1, max=8)
        exported = torch.export.export(Model(), (torch.ones(4, 16),), dynamic_shapes=({0: batch},))
        program = to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=onnxmem.executorch.memory_planning()))
        for rows in (8, 3):
            x = torch.arange(16.0 * rows).reshape(rows, 16) / 100
            for a, b in zip(Model()(x), executorch.run(program, (x,)), strict=True):
                torch.testing.assert_close(a, b)

    def test_random_numbers_stay_in_order(self):
        class Draws(torch.nn.Module):
            def forward(self, x):
                a, b = (torch.rand_like(x.repeat(n)) for n in (9, 8))
                return b.sum() + torch.rand_like(x).sum(), a.sum()

        graph = executorch.lowered(Draws(), (torch.zeros(8),)).exported_program().graph_module
        before = [n.name for n in graph.graph.nodes if "rand" in n.name]
        self.assertTrue(onnxmem.executorch.order(graph).modified)
        self.assertEqual([n.name for n in graph.graph.nodes if "rand" in n.name], before)


class _Changes(torch.nn.Module):
    """Reads an input before and after it changes it."""

    def forward(self, x, y):
        wide = (x + y).repeat(50)
        x.add_(1)
        other = (x * 2).repeat(40)
        return wide.sum(), other.sum(), torch.cat([wide, other]).max()


class _Chooses(torch.nn.Module):
    """Has results of a body of control flow between those that would better be made apart."""

    def forward(self, x):
        wide, other = x.repeat(50), (x + 1).repeat(40)
        a, b = torch.cond(x.sum() > 0, lambda x: (x.sin() + 1, x * 3), lambda x: (x.cos() - 1, x * 4), (x,))
        return wide.sum() + a.sum(), (other * 2).sum() + b, a


class Options(unittest.TestCase):
    """The options of ExecuTorch's pass, with ours."""

    allocations = tuple({"alloc_graph_input": a, "alloc_graph_output": b} for a in (True, False) for b in (True, False))

    def programs(self, edge, **options):
        """Return a program that ExecuTorch plans alone, and that which onnxmem plans; check its figures."""
        config = {"emit_mutable_buffer_names": True} if options.get("alloc_mutable_buffers") is False else {}
        found = [
            copy.deepcopy(edge).to_executorch(ExecutorchBackendConfig(memory_planning_pass=way(**options), **config))
            for way in (MemoryPlanningPass, onnxmem.executorch.memory_planning)
        ]
        meta = found[1].exported_program().graph_module.meta
        sizes = meta["non_const_buffer_sizes"]
        if meta["onnxmem"]["order"]:
            self.assertGreaterEqual(sum(sizes), meta["onnxmem"]["order"]["lower_bound_bytes"])
        for b in meta["onnxmem"]["buffers"]:
            self.assertEqual(b["arena_bytes"], sizes[b["mem_id"]])
            self.assertLessEqual(b["lower_bound_bytes"], b["arena_bytes"])
        return found

    def test_outputs_are_those_of_executorchs_plan(self):
        x = torch.arange(64.0)
        others = (*({"alignment": n} for n in (1, 4, 64)), {"share_mutable_buffers": True})
        for model, inputs, ways in ((_Counter(), (x,), self.allocations + others), (_Changes(), (x, x + 3), self.allocations)):
            edge = executorch.lowered(model, inputs)
            for options in ways:
                with self.subTest(model=type(model).__name__, **options):
                    calls = [tuple(t.clone() for t in inputs) for _ in range(4)]
                    alone, ours = self.programs(edge, **options)
                    want, got = executorch.run(alone, *calls[:2]), executorch.run(ours, *calls[2:])
                    self.assertEqual(len(want), len(got))
                    self.assertTrue(all(torch.equal(a, b) for a, b in zip(want, got, strict=True)), (want, got))

    def test_the_order_alone_keeps_what_a_program_changes(self):
        inputs = (torch.arange(64.0), torch.ones(64))
        for model, given in ((_Changes(), inputs), (_Counter(), inputs[:1])):
            edge = executorch.lowered(model, given)
            for options in self.allocations:
                calls = [tuple(t.clone() for t in given) for _ in range(2)]
                ways = [{}, {"passes": [onnxmem.executorch.order]}]
                plans = [ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(**options), **way) for way in ways]
                want, got = (executorch.run(copy.deepcopy(edge).to_executorch(p), c) for p, c in zip(plans, calls, strict=True))
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(want, got, strict=True)), (options, want, got))

    def test_buffers_that_others_hold_do_not_count(self):
        edge = executorch.lowered(_Counter(), (torch.arange(64.0),))
        held, free = (self.programs(edge, alloc_mutable_buffers=a)[1] for a in (True, False))
        bounds = [p.exported_program().graph_module.meta["onnxmem"]["order"]["lower_bound_bytes"] for p in (held, free)]
        self.assertEqual(bounds[0] - bounds[1], 64 * 4)

    def test_figures_are_those_of_the_plan_that_is_taken(self):
        def wasteful(*args):
            plan = onnxmem.executorch.algorithm(*args)
            return type(plan)(plan.spec_dict, [n + 1024 * (n > 0) for n in plan.bufsizes])

        edge = executorch.lowered(_Counter(), (torch.arange(64.0),))
        at = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=onnxmem.executorch.memory_planning(memory_planning_algo=MemoryPlanningAlgorithmSuite([wasteful]))))
        (buffer,) = at.exported_program().graph_module.meta["onnxmem"]["buffers"]
        self.assertEqual(buffer["arena_bytes"] - buffer["lower_bound_bytes"], 1024)

    def test_bodies_of_control_flow_count(self):
        meta = self.programs(executorch.lowered(_Chooses(), (torch.arange(64.0),)))[1].exported_program().graph_module.meta
        self.assertEqual(meta["onnxmem"]["order"]["peak_bytes"], sum(meta["non_const_buffer_sizes"]))


if __name__ == "__main__":
    unittest.main()
