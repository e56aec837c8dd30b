"""The step of a network of these tests as a bare problem: python -m torchtests.problem [--once] NETWORK > STEP.

With --once, no kernel that makes the loss or a parameter's gradient may run again.
"""

import argparse
import json
import sys
from typing import Any

import onnxmem_torch

from .networks import NETWORKS


def once(problem: dict[str, Any]) -> None:
    """Let what makes an output, the loss or a gradient, run once."""
    for t in problem["tensors"]:
        if t.get("output") and t["producer"] >= 0:
            problem["nodes"][t["producer"]]["once"] = True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m torchtests.problem", description="Print a network's step as a bare problem.")
    parser.add_argument("network", choices=[n.name for n in NETWORKS], metavar="NETWORK", help="such as timm/test_convnext")
    parser.add_argument("--once", action="store_true", help="kernels that make the loss or a parameter's gradient run once")
    args = parser.parse_args()
    network = next(n for n in NETWORKS if n.name == args.network)
    problem = onnxmem_torch.problem(network.build(), network.draw(), name=args.network)
    if args.once:
        once(problem)
    json.dump(problem, sys.stdout)


if __name__ == "__main__":
    main()
