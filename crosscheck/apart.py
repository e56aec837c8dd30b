"""Examine each model in its own process, so that a crash of the runtime costs one line of
the table, and all memory is freed.

A module that runs this way has a function examine(title, tool, work, data, result), which
writes its verdict into result, a dict of JSON values, and ends with apart.main(examine).
run() starts it in a process; result() calls it directly.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

from . import command

_ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(module, title, binary, work, data, options, seconds):
    """Return the result of one title. The process is killed after the given seconds."""
    began = time.monotonic()
    paths = ["--binary", str(binary), "--work", str(work), "--data", str(data)]
    flags = [f"--{name}={json.dumps(value)}" for name, value in options.items()]
    found = {"title": title}
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"crosscheck.{module}", "--title", title, *paths, *flags], stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", errors="replace", timeout=seconds, check=False, cwd=_ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if done.returncode == 0:
            return json.loads(done.stdout)
        said = done.stderr.strip().splitlines() or ["nothing said"]
        found["faults"] = [f"the examination died with status {done.returncode}: {said[-1]}"]
    except subprocess.TimeoutExpired:
        found["faults"] = [f"not done within {seconds} s"]
    found["seconds"] = round(time.monotonic() - began, 1)
    return found


def main(examine, **options):
    """Implement the command line of a module: print the result of one title as JSON.

    The options are further arguments of examine, with their defaults.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--title", required=True)
    for name in ("binary", "work", "data"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=json.loads, default=default)
    args = parser.parse_args()
    given = {name: getattr(args, name) for name in options}
    json.dump(result(examine, args.title, command.Command(args.binary), args.work, args.data, **given), sys.stdout)


def result(examine, title, tool, work, data, **options):
    """Return the result of one title as a dict; without faults, it has passed."""
    began = time.monotonic()
    found = {"title": title, "faults": []}
    try:
        examine(title, tool, work, data, found, **options)
    except command.Failed as err:
        found["faults"].append(str(err))
    except Exception as err:  # an unexpected error counts as a fault of this model and does not end the run
        found["faults"].append(f"{type(err).__name__}: {first_line(err)}")
    found["seconds"] = round(time.monotonic() - began, 1)
    return found


def first_line(err):
    """Return the message of an error in one line."""
    return (str(err).strip().splitlines() or ["without a word"])[0]
