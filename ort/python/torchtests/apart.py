"""Tests in a process of their own, so that one that ends it, or takes too long, leaves the others alone."""

import gc
import multiprocessing
import sys
import unittest
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from . import settings


def run_apart(tests: Sequence[unittest.TestCase], seconds: float) -> int:
    """Run each test for at most some seconds; return 0 if all passed. What they find comes back into settings.

    One process runs test after test, so that PyTorch prepares itself once. When it fails to
    answer in time, another one takes the next test.
    """
    for library in ("timm", "torchvision", "transformers"):
        import_module(library)
    fork = multiprocessing.get_context("fork")
    failed, next_test = [], 0
    while next_test < len(tests):
        ours, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=_run, args=(tests[next_test:], theirs))
        process.start()
        theirs.close()
        answer: Any = True
        while answer and next_test < len(tests):
            answer = _answer(ours, seconds)
            passed, found = answer or (False, ([], []))
            settings.add(found)
            failed += [] if passed else [tests[next_test].id()]
            next_test += 1
        process.kill()
        process.join()
    print("\n".join([f"{len(tests)} tests, {len(failed)} failed", *failed]), file=sys.stderr)
    return 1 if failed else 0


def _answer(connection: Connection, seconds: float) -> Any:
    try:
        return connection.recv() if connection.poll(seconds) else None
    except EOFError:
        return None


def _run(tests: Sequence[unittest.TestCase], connection: Connection) -> None:
    gc.freeze()
    gc.disable()  # it takes a tenth of the time
    for test in tests:
        settings.begin()
        passed = unittest.TextTestRunner(verbosity=0).run(unittest.TestSuite([test])).wasSuccessful()
        gc.collect()
        connection.send((passed, settings.take()))
