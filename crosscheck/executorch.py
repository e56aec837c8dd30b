"""Programs of ExecuTorch whose memory onnxmem plans: crosscheck/run executorch [--subset] [--table] [--large] [NAME ...].

Each network is lowered four times: as ExecuTorch plans it, and with onnxmem's memory planning
with the nodes as they are, after an order of its own, and after the same order as a pass of the
edge dialect. All run twice in ExecuTorch's own runtime, with its kernels, so that state which a
program keeps is used, and the outputs must be equal bit by bit. ExecuTorch's own verifier checks
all plans. --subset is what CI runs; --table prints the table of docs/results/executorch.md, and
--large that of a decoder of a published size, which is planned only.
"""

import argparse
import copy
import logging
import sys
import unittest
import warnings

import onnxmem.executorch
import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import Verifier
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from executorch.runtime import Runtime

from . import executorch_networks

_SUBSET = ("branches",)


def _ways():
    planned = onnxmem.executorch.memory_planning
    return {
        "greedy": {},
        "placed": {"memory_planning_pass": planned(order_nodes=False)},
        "ordered": {"memory_planning_pass": planned()},
        "pass": {"memory_planning_pass": planned(order_nodes=False), "passes": [onnxmem.executorch.order]},
    }


def lowered(model, inputs):
    """Return a network in the edge dialect, its weights transposed once and not in every run."""
    exported = torch.export.export(model.eval().requires_grad_(False), inputs, strict=False)
    return to_edge(constant_prop_pass(exported.run_decompositions()), compile_config=EdgeCompileConfig(_check_ir_validity=False))


def run(program, *calls):
    """Return the outputs of calls of a program, one after another."""
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    return [x.clone() for inputs in calls for x in method.execute(list(inputs))]


def examine(name, build):
    """Return what the plans of a network take, in bytes, and what is wrong with them."""
    torch.manual_seed(1)
    model, inputs = build()
    edge = lowered(model, inputs)
    row, outputs, faults = {"name": name}, {}, []
    for way, options in _ways().items():
        program = copy.deepcopy(edge).to_executorch(ExecutorchBackendConfig(**options))
        graph = program.exported_program().graph_module
        found = graph.meta.get("onnxmem", {})
        row[way] = sum(graph.meta["non_const_buffer_sizes"])
        if way == "placed":
            row["load"] = sum(b["lower_bound_bytes"] for b in found["buffers"])
        if way == "ordered":
            row["nodes"] = sum(n.op == "call_function" for n in graph.graph.nodes)
            row["bound"] = found["order"]["lower_bound_bytes"]
        Verifier(graph, True, True, True, program.exported_program().graph_signature).verify_storage_reuse()
        outputs[way] = run(program, inputs, inputs)
        for a, b in zip(outputs["greedy"], outputs[way], strict=True):
            if not torch.equal(a, b):
                faults.append(f"{way}: outputs differ from those of ExecuTorch's plan by {(a - b).abs().max()}")
    for way in ("placed", "ordered", "pass"):
        if row[way] > row["greedy"]:
            faults.append(f"{way}: {row[way]} B, more than ExecuTorch's {row['greedy']}")
    return row, faults


def table_row(r):
    """Return a line of the table: bytes, and how much less than ExecuTorch's plan the last is."""
    less = f"{100 - 100 * r['ordered'] / r['greedy']:.1f} %"
    cells = (r["name"], r["nodes"], *(f"{r[k]:,}" for k in ("greedy", "placed", "load", "ordered", "bound")), less)
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(prog="crosscheck/run executorch", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these networks")
    parser.add_argument("--subset", action="store_true", help="the tests, and the smallest network")
    parser.add_argument("--table", action="store_true", help="print a table in Markdown")
    parser.add_argument("--large", action="store_true", help="print the table of a decoder without weights, or of cases such as 2048:4")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if args.large:
        from . import executorch_large

        for case in args.names or executorch_large.CASES:
            row = executorch_large.examine(case)
            print(f"{table_row(row)} {row['objects']:,} |", flush=True)
        return False
    failed = False
    if not args.names and not args.table:
        tests = unittest.defaultTestLoader.loadTestsFromName("crosscheck.test_executorch")
        failed = not unittest.TextTestRunner(verbosity=0).run(tests).wasSuccessful()
    for name, build in executorch_networks.NETWORKS.items():
        if args.names and name not in args.names or args.subset and name not in _SUBSET or args.table and name == "branches":
            continue
        row, faults = examine(name, build)
        print(table_row(row) if args.table else row, flush=True)
        for text in faults:
            print(f"    {name}: {text}", flush=True)
        failed |= bool(faults)
    return failed


if __name__ == "__main__":
    sys.exit(main())
