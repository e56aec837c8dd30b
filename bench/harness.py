"""Functions that the scripts of this folder share: paths, results of the command, tables.

Only ONNXMEM_DATA names the folder of the test data; the Makefile sets it. Needs only
Python's standard library.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "bin/onnxmem"
MIB = 1 << 20


def find_data(*parts):
    """Return the path of a file or folder of the test data, or None if it does not exist."""
    if not (root := os.environ.get("ONNXMEM_DATA")):
        return None
    path = pathlib.Path(root, *parts)
    return path if path.exists() else None


def data(*parts):
    """Return the path of a file or folder of the test data; end the script if it does not exist."""
    if path := find_data(*parts):
        return path
    name = "/".join(parts) or "the folder"
    sys.exit(f"{name}: not found: set ONNXMEM_DATA to the folder of the test data (now {os.environ.get('ONNXMEM_DATA') or 'not set'})")


def zoo(work, *names):
    """Return a folder with copies of the named models of the zoo and their weights (818 MiB, made once)."""
    source, folder = data("zoo"), work / "zoo"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "weights.bin").exists():
        subprocess.run([sys.executable, source / "make-weights", folder], check=True, stdout=sys.stderr)
    for name in names:
        (folder / f"{name}.onnx").write_bytes((source / f"{name}.onnx").read_bytes())
    return folder


def answer(*args, binary=BINARY, accept=(0,)):
    """Run onnxmem with --json and return its result; end the script if it fails."""
    done = subprocess.run([binary, *map(str, args), "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in accept:
        sys.exit(f"onnxmem {' '.join(map(str, args))}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def head(*columns):
    """Print the head of a Markdown table."""
    print("".join(head_lines(columns)), end="", flush=True)


def row(*cells):
    """Print a row of a Markdown table."""
    print(line(cells), end="", flush=True)


def head_lines(columns):
    """Return the two lines of a head. The first column and those whose titles end with a colon hold words, the others numbers."""
    rule = ("---" if i == 0 or c.endswith(":") else "---:" for i, c in enumerate(columns))
    return [line(c.removesuffix(":") for c in columns), line(rule)]


def line(cells):
    """Return a line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |\n"
