#!/usr/bin/env python3
"""Write the tables of docs/results anew, from the commands that make them.

A table is generated where a comment stands before it:

    <!-- table: go test ./schedule -run TestStrategyFigures -v -->

The rows behind its head are replaced by the lines of the command's output that look
like rows (those of a Go test's log, too). Text around tables stays.

    bench/results.py                 # all generated tables
    bench/results.py orders limits   # those of some pages
    bench/results.py --list

Python's standard library only. ONNXMEM_DATA names the folder of the test data.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs/results"
TABLE = re.compile(r"<!-- table: (?P<command>.+) -->\n\n(?P<head>\|.*\n\|[ :|-]+\n)(?P<rows>(?:\|.*\n)*)")
ROW = re.compile(r"^(?:\s+\w+_test\.go:\d+: )?(\|.*\|)\s*$")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", help="names of pages (default: all)")
    parser.add_argument("--list", action="store_true", help="list the commands and run nothing")
    args = parser.parse_args()
    for path in [PAGES / f"{name}.md" for name in args.pages] or sorted(PAGES.glob("*.md")):
        text = path.read_text()
        if args.list:
            for table in TABLE.finditer(text):
                print(f"{path.stem}: {table['command']}")
            continue
        path.write_text(TABLE.sub(regenerated, text))
    return 0


def regenerated(table):
    command = table["command"]
    print(f"results: {command}", file=sys.stderr)
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True, check=True)
    rows = [m[1] for line in done.stdout.splitlines() if (m := ROW.match(line))]
    columns = table["head"].splitlines()[0].count("|")
    rows = [r for r in rows if r.count("|") == columns and r + "\n" not in table["head"] and not set(r) <= set("| :-")]
    if not rows:
        sys.exit(f"results: {command}: no rows of {columns - 1} columns in its output")
    return f"<!-- table: {command} -->\n\n{table['head']}" + "".join(r + "\n" for r in rows)


if __name__ == "__main__":
    sys.exit(main())
