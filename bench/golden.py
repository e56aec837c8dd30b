#!/usr/bin/env python3
"""Print one line for each plan of the test data, to check that a change affects none of them.

The cases are models of the zoo, planned as they are, as training steps, below a limit and with
a host pool, some of them in slices, in several pools, and with every order strategy; bare
problems, ordered and below a limit; and buffers.
Each line has the case, the digest of the files that were written (without the tool's name and
times), and the figures.

    bench/golden.py > before.txt                                # the base, bin/onnxmem
    bench/golden.py --binary PATH --against before.txt          # the change; exit 1: lines differ
    bench/golden.py --only 'zoo/resnet.*'

Needs only Python's standard library. ONNXMEM_DATA names the folder of the test data.
"""

import argparse
import concurrent.futures
import difflib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import harness

STRATEGIES = "program greedy dfs bfs reverse-dfs ort-priority lpmf inductor-bfs inductor-dfs kahn-size".split()
FIGURES = ("program_order_peak_bytes", "peak_bytes", "lower_bound_bytes", "arena_bytes", "optimal", "fits", "feasible", "extra_cost_percent")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, default=harness.BINARY)
    parser.add_argument("--against", type=pathlib.Path, help="lines of another run: print the differences")
    parser.add_argument("--only", default="", help="regular expression of the cases")
    args = parser.parse_args()
    jobs = [(name, command) for name, command in cases(harness.data()) if re.search(args.only, name)]
    with tempfile.TemporaryDirectory(prefix="onnxmem-golden-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        binary = args.binary.resolve()
        lines = list(pool.map(lambda job: run(binary, pathlib.Path(folder), *job), jobs))
    if not args.against:
        print("\n".join(lines))
        return 0
    names = {name for name, _ in jobs}
    before = [line for line in args.against.read_text().splitlines() if line.split()[0] in names]
    changed = list(difflib.unified_diff(before, lines, str(args.against), str(args.binary), n=0, lineterm=""))
    print("\n".join(changed) or f"{len(lines)} cases, none differs")
    return 1 if changed else 0


def cases(data):
    """Return (name, arguments) of each case; OUT stands for the case's own output file."""
    models = sorted((data / "zoo").glob("*.onnx")) + sorted((data / "light").glob("*.onnx"))
    for model in models:
        plan = ("optimize", model, "OUT.onnx", "--allow-missing-weights", "--json")
        name = f"{model.parent.name}/{model.stem}"
        if model.stem.endswith("-dyn") and b"batch" in model.read_bytes():
            plan = (*plan, "--dim=batch=8")
        yield name, plan
        yield name + "/train", (*plan, "--train", "--optimizer=adam")
        yield name + "/limit", (*plan, "--limit=95%")
        yield name + "/train-limit", (*plan, "--train", "--limit=75%", "--effort=fast")
        yield name + "/train-swap", (*plan, "--train", "--limit=75%", "--host-link=16GB/s", "--effort=fast")
        yield name + "/fast", (*plan, "--effort=fast", "--align=1", "--no-inplace")
    for model in models[::6]:
        plan, name = ("optimize", model, "OUT.onnx", "--allow-missing-weights", "--json"), f"{model.parent.name}/{model.stem}"
        for strategy in STRATEGIES:
            yield f"{name}/{strategy}", (*plan, f"--schedule={strategy}")
        yield name + "/slices", (*plan, "--slices=exact", "--extra=10%", "--effort=fast")
        yield name + "/train-slices", (*plan, "--train", "--slices=any", "--limit=75%", "--effort=fast")
        yield name + "/pools", (*plan, "--slices=exact", "--pool=fast=512KiB", "--pool=slow=1GiB", "--effort=fast")
    for folder in ("training", "open-orders", "budget"):
        for problem in sorted((data / folder).glob("*.json*")):
            name = f"{folder}/{problem.name.split('.json')[0]}"
            yield name, ("order", problem, "--json", "--out=OUT.json")
            if folder != "open-orders":
                yield name + "/limit", ("order", problem, "--json", "--limit=50%", "--effort=fast", "--out=OUT.json")
            yield name + "/area", ("order", problem, "--json", "--schedule-goal=area", "--effort=fast", "--out=OUT.json")
    for table in sorted((data / "dsa").glob("*.csv")):
        if table.name != "MANIFEST.csv":
            yield f"dsa/{table.stem}", ("pack", table, "--json", "--out=OUT.csv")
            yield f"dsa/{table.stem}/fast", ("pack", table, "--json", "--effort=fast", "--align=64", "--out=OUT.csv")


def run(binary, folder, name, command):
    work = pathlib.Path(tempfile.mkdtemp(dir=folder))
    done = subprocess.run([binary, *map(str, command)], cwd=work, capture_output=True, text=True, check=False)
    digest = hashlib.sha256(str(done.returncode).encode())
    figures = ""
    result = json.loads(done.stdout) if done.stdout else {"error": ""}
    if "error" not in result:
        result.pop("times_ms", None)
        digest.update(json.dumps(result, sort_keys=True).encode())
        figures = " ".join(f"{k}={result[k]}" for k in FIGURES if k in result)
    else:
        figures = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    for path in sorted(work.iterdir()):
        text = path.read_bytes()
        if path.suffix == ".json":
            text = re.sub(rb'"tool": ?"[^"]*"', b"", text)
        digest.update(path.name.encode() + text)
        path.unlink()
    return f"{name} {done.returncode} {digest.hexdigest()[:16]} {figures}"


if __name__ == "__main__":
    sys.exit(main())
