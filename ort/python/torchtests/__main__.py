"""Run the tests of compiled steps: python -m torchtests [--subset] [--apart SECONDS] [--table FILE] [NAME ...]."""

import argparse
import sys
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path

from . import settings
from .apart import run_apart


def main() -> int:
    parser = argparse.ArgumentParser(prog="crosscheck/run compiled", description="Check what onnxmem_torch compiles, beside eager PyTorch.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only tests whose names contain one of these, in this order")
    parser.add_argument("--subset", action="store_true", help="a minute's worth of them, one limit for each network")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the peaks of the networks as a table")
    parser.add_argument("--apart", type=float, metavar="SECONDS", help="run each test in a process of its own, for at most as long")
    args = parser.parse_args()
    settings.subset, settings.file = args.subset, args.table
    warnings.filterwarnings("ignore")
    folder = Path(__file__).parent
    found = unittest.defaultTestLoader.discover(str(folder), top_level_dir=str(folder.parent))
    chosen = [t for t in _tests(found) if _wanted(t.id(), args.names)]
    chosen.sort(key=lambda t: next((i for i, n in enumerate(args.names) if n in t.id()), 0))
    if not chosen:
        print(f"no test has a name with {' or '.join(args.names)}", file=sys.stderr)
        return 2
    if args.apart:
        return run_apart(chosen, args.apart)
    result = unittest.TextTestRunner(verbosity=2 if args.names else 1).run(unittest.TestSuite(chosen))
    return 0 if result.wasSuccessful() else 1


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _tests(test)
        elif isinstance(test, unittest.TestCase):
            yield test


def _wanted(name: str, names: list[str]) -> bool:
    if names and not any(n in name for n in names):
        return False
    return not settings.subset or name.removeprefix("torchtests.") in settings.SUBSET


sys.exit(main())
