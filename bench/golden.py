#!/usr/bin/env python3
"""Print one line for each plan and run of the test data, to check that a change affects none of them.

Cases of plans are models of the zoo, planned as they are, as training steps, below a limit and
with a host pool, some of them in slices, compact or not, in several pools, with caches, for
ranges, for ONNX Runtime and with every order strategy; bare problems, ordered and below a limit;
and buffers. Cases of runs ("run/…") plan built-in networks, small decoders and the operator
tests, and run them in plain Go, with AVX2, with AVX-512, and on a fake CUDA driver that counts
what is asked of it and computes nothing. With ONNXMEM_ZOO, a folder with the zoo's models and
weights, there is a run of each of these, too.

Each line has the case, the exit status, the digest of the files that were written (without the
tool's name and times), the figures, and, after a #, the seconds that it took. Of a run there are
a digest of the outputs at each level, the allocations on the heap in one step, the bytes of
memory beside the plan, counters of the driver in four steps, and digests of all launches and of
all sources. Go's runtime now and then allocates by itself: ± says how far allocations may differ.

    bench/golden.py --base main --only '^run/'                  # the change against a commit
    bench/golden.py --base PATH                                 # ... or against a binary
    bench/golden.py > before.txt                                # the base, bin/onnxmem
    bench/golden.py --binary PATH --against before.txt          # the change; exit 1: lines differ
    bench/golden.py --only 'zoo/resnet.*' --list

Lines of a base are kept in build/golden and not computed again. They belong to one machine: where
it has no AVX-512, that level is the next lower one. Needs Python's standard library, and a C++
compiler for the driver. ONNXMEM_DATA names the folder of the test data.
"""

import argparse
import concurrent.futures
import csv
import difflib
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import harness

KEPT = harness.ROOT / "build/golden"
STRATEGIES = "program greedy dfs bfs reverse-dfs ort-priority lpmf inductor-bfs inductor-dfs kahn-size".split()
FIGURES = ("program_order_peak_bytes", "peak_bytes", "lower_bound_bytes", "arena_bytes", "optimal", "fits", "feasible", "extra_cost_percent")

# The fields of a run's result that do not depend on the machine and its load.
STABLE = ("outputs", "losses", "tokens", "arena_bytes", "state_bytes", "dynamic_bytes", "host_bytes", "scratch_bytes", "table_bytes", "decoded_bytes", "packed_bytes", "device")
LEVELS = {"plain": "cpu.avx512f=off,cpu.avx2=off", "avx2": "cpu.avx512f=off", "avx512": "cpu.avx512f=on"}
FAST = ("avx2", "avx512")

# Built-in networks as small as they still have every kind of node, with their weights.
NETWORKS = {
    "alexnet": "--dim=batch=1", "bert": "--set=layers=2 --set=hidden=192 --set=heads=4 --set=ff=512 --set=vocab=400 --dim=batch=2 --dim=sequence=24",
    "efficientnet_b0": "--set=width=0.5 --dim=batch=2", "googlenet": "--dim=batch=1", "mnasnet": "--dim=batch=2", "mobilenet_v1": "--dim=batch=2",
    "mobilenet_v2": "--set=width=0.5 --dim=batch=3", "r3d_18": "", "resnet18": "--dim=batch=1", "resnet50": "--dim=batch=1",
    "tiny_autoencoder": "--dim=batch=4", "tiny_ds_cnn": "--dim=batch=3", "tiny_mobilenet": "--dim=batch=2", "tiny_resnet8": "--dim=batch=2",
    "transformer": "--set=layers=2 --set=hidden=128 --set=heads=4 --set=ff=256 --set=vocab=300 --dim=batch=2 --dim=source=20 --dim=target=12",
    "vit_b_16": "--set=layers=2 --set=hidden=192 --set=heads=4 --set=ff=512 --dim=batch=2",
}
LARGE = ("r3d_18", "resnet50", "alexnet")  # slow in plain Go, and as training steps
WAYS = {"": "", "/limit": "--extra=10% --device=cpu --effort=fast", "/pools": "--pool=fast=512KiB --pool=slow=1GiB --effort=fast"}
STEPS = {
    "/slices": "--slices=exact --extra=10% --effort=fast", "/compact": "--slices=any --compact --extra=10% --effort=fast",
    "/train": "--train --optimizer=adam", "/train-limit": "--train --extra=10% --effort=fast",
    "/train-swap": "--train --extra=10% --host-link=16GB/s --no-recompute --effort=fast", "/train-slices": "--train --slices=any --extra=10% --effort=fast",
}
DECODERS = "gpt2 gpt2-eager llama llama-23 llama-any t5 whisper".split()
KV_RANGES = "--kv-capacity=16 --dim=batch=1..2 --dim=new=1..3"

COUNTERS = ("launches allocations frees live_bytes live_blocks pinned uploads uploaded downloads downloaded copies copied fills modules compiles"
            " graph_launches captures synchronizations waits float_atomics products beside convolutions live_objects live_pinned live_handles compiled launched").split()
SHOWN = "launches graph_launches captures uploads downloads copies fills synchronizations waits compiles".split()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, default=harness.BINARY)
    parser.add_argument("--against", type=pathlib.Path, help="lines of another run: print the differences")
    parser.add_argument("--base", help="a commit or another binary: print the differences from it")
    parser.add_argument("--only", default="", help="regular expression of the cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at once")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    args = parser.parse_args()
    jobs = {name: do for name, do in cases(harness.data()) if re.search(args.only, name)}
    if args.list:
        print("\n".join(jobs))
        return 0
    began = time.monotonic()
    before, title = None, args.against
    if args.base:
        base = base_binary(args.base)
        before, title = base_lines(base, jobs, args.jobs), args.base
    elif args.against:
        before = args.against.read_text().splitlines()
    lines = run_all(args.binary.resolve(), jobs, args.jobs)
    print(f"{len(lines)} cases in {time.monotonic() - began:.0f} s", file=sys.stderr)
    if before is None:
        print("\n".join(lines))
        return 0
    before = [untimed(line) for line in before if line.split()[0] in jobs]
    lines = level_allocations(before, list(map(untimed, lines)))
    changed = list(difflib.unified_diff(before, lines, str(title), str(args.binary), n=0, lineterm=""))
    print("\n".join(changed) or f"{len(lines)} cases, none differs")
    return 1 if changed else 0


def untimed(line):
    """Return a line without the seconds that its case took."""
    return line.split(" # ")[0]


def level_allocations(before, lines):
    """Return the lines, each with the allocations of the one before if they differ by no more than is permitted."""
    pattern = re.compile(r"allocs=(\d+)±(\d+)")
    had = {line.split()[0]: found for line in before if (found := pattern.search(line))}
    level = []
    for line in lines:
        old, new = had.get(line.split()[0]), pattern.search(line)
        if old and new and abs(int(old[1]) - int(new[1])) <= int(new[2]):
            line = line.replace(new[0], old[0])
        level.append(line)
    return level


def run_all(binary, jobs, at_once, case=None):
    """Return the lines of all cases, in their order. case does one; by default do_case."""
    with tempfile.TemporaryDirectory(prefix="onnxmem-golden-") as folder, concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda name: (case or do_case)(binary, pathlib.Path(folder), name, jobs[name]), jobs))


def base_binary(base):
    """Return the binary of a commit, which is built once, or the one of that name."""
    if pathlib.Path(base).is_file():
        return pathlib.Path(base).resolve()
    git = ["git", "-C", harness.ROOT]
    commit = subprocess.run([*git, "rev-parse", "--verify", base + "^{commit}"], check=True, capture_output=True, text=True).stdout.strip()
    binary = KEPT / commit[:12] / "onnxmem"
    if not binary.exists():
        with tempfile.TemporaryDirectory(prefix="onnxmem-base-") as folder:
            source = subprocess.Popen([*git, "archive", commit], stdout=subprocess.PIPE)
            subprocess.run(["tar", "-x", "-C", folder], stdin=source.stdout, check=True)
            source.wait()
            made = pathlib.Path(folder, "made")
            subprocess.run(["go", "build", "-trimpath", "-o", made, "./cmd/onnxmem"], cwd=folder, check=True, env={**os.environ, "CGO_ENABLED": "0"})
            binary.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(made, binary)
    return binary


def base_lines(binary, jobs, at_once):
    """Return the lines of a base. Those that it had before, by this script and with this driver, are kept."""
    key = hashlib.sha256(binary.read_bytes() + pathlib.Path(__file__).read_bytes() + FAKE.read_bytes()).hexdigest()[:16]
    path = KEPT / f"{key}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)

    def kept(binary, folder, name, do):
        """Return the line of a case. Another run may have added it meanwhile."""
        if name not in (have := kept_lines(path)):
            have[name] = do_case(binary, folder, name, do)
            with open(path, "a", encoding="utf-8") as f:
                f.write(have[name] + "\n")
        return have[name]

    return run_all(binary, jobs, at_once, kept)


def kept_lines(path):
    return {line.split()[0]: line for line in path.read_text().splitlines()} if path.exists() else {}


def do_case(binary, folder, name, do):
    work = pathlib.Path(tempfile.mkdtemp(dir=folder))
    began = time.monotonic()
    status, digest, figures = do(binary, work)
    shutil.rmtree(work)
    return f"{name} {status} {digest.hexdigest()[:16]} {figures} # {time.monotonic() - began:.2f} s"


def cases(data):
    """Return the name of each case and its function, of the binary and an empty folder, to status, digest and figures."""
    for name, command in plans(data):
        yield name, functools.partial(plan_case, command)
    yield from runs(data)


def plans(data):
    """Return (name, arguments) of each case of a plan; OUT stands for the case's own output file."""
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
        yield name + "/no-aliases", (*plan, "--effort=fast", "--no-aliases")
        yield name + "/ort", (*plan, "--effort=fast", "--runtime=onnxruntime", "--order=default")
        yield name + "/ort-arena", (*plan, "--effort=fast", "--runtime=onnxruntime-arena")
        yield name + "/cpu", (*plan, "--limit=90%", "--device=cpu", "--effort=fast")
    for model in models[::6]:
        plan, name = ("optimize", model, "OUT.onnx", "--allow-missing-weights", "--json"), f"{model.parent.name}/{model.stem}"
        for strategy in STRATEGIES:
            yield f"{name}/{strategy}", (*plan, f"--schedule={strategy}")
        yield name + "/slices", (*plan, "--slices=exact", "--extra=10%", "--effort=fast")
        yield name + "/slices-compact", (*plan, "--slices=exact", "--compact", "--extra=10%", "--effort=fast")
        yield name + "/train-slices", (*plan, "--train", "--slices=any", "--limit=75%", "--effort=fast")
        yield name + "/pools", (*plan, "--slices=exact", "--pool=fast=512KiB", "--pool=slow=1GiB", "--effort=fast")
        yield name + "/pools-whole", (*plan, "--pool=fast=512KiB", "--pool=slow=1GiB@1GB/s", "--effort=fast")
        yield name + "/pools-compact", (*plan, "--slices=any", "--compact", "--pool=fast=256KiB", "--pool=slow=1GiB", "--effort=fast")
    for name, (file, flags) in special(data).items():
        yield name, ("optimize", file, "OUT.onnx", "--allow-missing-weights", "--json", *flags.split())
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


def special(data):
    """Return the file and the flags of each case of caches and of ranges."""
    zoo, of = data / "zoo", {}
    for name in DECODERS:
        of[f"caches/{name}"] = decoder(name), "--kv-capacity=16"
        of[f"caches/{name}/fold"] = decoder(name), "--kv-capacity=16 --fold=any --effort=fast"
    of["caches/llama-any/ranges"] = decoder("llama-any"), KV_RANGES
    for name in ("gpt2_past-dyn", "greedy_gru-script", "gru_lm-dyn"):
        of[f"caches/{name}"] = zoo / f"{name}.onnx", "--kv-capacity=64 --effort=fast"
        of[f"caches/{name}/state"] = zoo / f"{name}.onnx", "--state=auto --effort=fast"
    sequences, batch = "--dim=batch=1..4 --dim=sequence=1..64", "--dim=batch=1..16"
    for name in ("bert_base-dyn", "distilbert-dyn", "gpt2-dyn", "llama_small-dyn", "transformer_functions-dyn", "gru_lm-dyn"):
        of[f"ranges/{name}"] = zoo / f"{name}.onnx", sequences
    of["ranges/gpt2_past-dyn"] = zoo / "gpt2_past-dyn.onnx", "--dim=batch=1,2,4 --dim=past=1..63"
    for name in ("transformer_base-dyn", "alexnet-dyn", "densenet121-dyn", "efficientnet_b0-dyn", "googlenet-dyn", "mobilenet_v2-dyn", "resnet50-dyn", "unet-dyn", "vit_b_16-dyn", "greedy_gru-script"):
        of[f"ranges/{name}"] = zoo / f"{name}.onnx", batch
        of[f"ranges/{name}/list"] = zoo / f"{name}.onnx", "--dim=batch=1,3,8 --effort=fast"
    of["ranges/fasterrcnn_resnet50_fpn"] = zoo / "fasterrcnn_resnet50_fpn.onnx", "--dim=height=480 --dim=width=480..544:32"
    of["ranges/resnet50-dyn/one-proof"] = zoo / "resnet50-dyn.onnx", "--dim=batch=1..64 --points=8 --effort=fast"
    for name in ("googlenet-dyn", "vit_b_16-dyn", "mobilenet_v2-dyn"):
        of[f"ranges/{name}/train"] = zoo / f"{name}.onnx", "--train --dim=batch=2..8 --effort=fast"
        of[f"ranges/{name}/limit"] = zoo / f"{name}.onnx", "--train --limit=80% --dim=batch=2..4 --effort=fast"
    return of


def decoder(name):
    return harness.ROOT / f"testdata/decoders/{name}.onnx"


def plan_case(command, binary, work):
    done = subprocess.run([binary, *map(str, command)], cwd=work, capture_output=True, text=True, check=False)
    digest = hashlib.sha256(str(done.returncode).encode())
    figures = ""
    result = json.loads(done.stdout) if done.stdout else {"error": ""}
    if "error" not in result:
        result.pop("times_ms", None)
        digest.update(json.dumps(result, sort_keys=True).encode())
        figures = " ".join(f"{k}={result[k]}" for k in FIGURES if k in result)
    else:
        figures = last_line(done.stderr)
    for path in sorted(work.iterdir()):
        digest.update(path.name.encode() + contents(path))
    return done.returncode, digest, figures


def last_line(text):
    return text.strip().splitlines()[-1] if text.strip() else ""


def contents(path):
    """Return the bytes of a file, those of a plan without the tool's name."""
    text = path.read_bytes()
    return re.sub(rb'"tool": ?"[^"]*"', b"", text) if path.suffix == ".json" else text


def runs(data):
    """Return each case of runs: with the built-in networks, decoders, operator tests and the zoo."""
    for name, sizes in NETWORKS.items():
        make, large = built_in(name, sizes.split()), name in LARGE
        for way, flags in (WAYS if large else WAYS | STEPS).items():
            yield f"run/{name}{way}", functools.partial(run_case, {name: (make, flags.split())}, FAST if large else tuple(LEVELS))
    for name in DECODERS:
        for way, flags in {"": "", "/kv": "--kv-capacity=16", **({"/ranges": KV_RANGES} if name == "llama-any" else {})}.items():
            yield f"run/decoders/{name}{way}", functools.partial(run_case, {name: (copied(decoder(name)), flags.split())}, tuple(LEVELS))
    for operator, tests in node_tests(data).items():
        yield f"run/node/{operator}", functools.partial(run_case, tests, tuple(LEVELS))
    if not (folder := os.environ.get("ONNXMEM_ZOO")):
        return
    for model in sorted(pathlib.Path(folder).glob("*.onnx")):
        if (data / "zoo" / model.name).exists():
            yield f"run/zoo/{model.stem}", functools.partial(run_case, {model.stem: (beside(model), ["--effort=fast", "--external-data=keep"])}, FAST)


def built_in(name, sizes):
    """Return the function that writes a built-in network into a folder, and returns its path."""
    def make(binary, work):
        out = work / "model.onnx"
        subprocess.run([binary, "model", name, out, *sizes], check=True, capture_output=True)
        return out
    return make


def copied(model):
    return lambda binary, work: shutil.copy(model, work / "model.onnx")


def beside(model):
    """Return the function that brings a model and the weights beside it into a folder."""
    def make(binary, work):
        for path in model.parent.glob("*.bin"):
            if not path.name.endswith(".folded.bin"):
                try:
                    (work / path.name).hardlink_to(path.resolve())  # links that lead elsewhere are refused
                except OSError:  # another file system
                    shutil.copyfile(path, work / path.name)
        return shutil.copy(model, work / "model.onnx")
    return make


def node_tests(data):
    """Return the operator tests, by their last operator."""
    with open(data / "node-tests.csv", encoding="utf-8") as table:
        operators = {row["test"]: row["operators"].split()[-1] if row["operators"] else "none" for row in csv.DictReader(table)}
    of = {}
    for test, operator in operators.items():
        of.setdefault(operator, {})[test] = (functools.partial(unpacked, data, test), [])
    return dict(sorted(of.items()))


def unpacked(data, test, binary, work):
    """Write a test's model and inputs into a folder, and return the model's path."""
    for name, text in node_files(data).get(test, {}).items():
        (work / name).write_bytes(text)
    return work / "model.onnx"


@functools.cache
def node_files(data):
    """Return the bytes of each operator test's model and inputs."""
    of = {}
    with tarfile.open(data / "node-tests.tar.gz") as tar:
        for member in tar:
            parts = pathlib.PurePath(member.name).parts
            if member.isfile() and (parts[-1] == "model.onnx" or parts[-1].startswith("input_") and parts[-2] == "test_data_set_0"):
                of.setdefault(parts[1], {})[parts[-1]] = tar.extractfile(member).read()
    return of


def planned(binary, work, make, flags):
    """Plan a model in a folder. Returns the status, the planned model, and the last line of what went wrong."""
    model = make(binary, work)
    out = work / "planned.onnx"
    done = subprocess.run([binary, "optimize", model, out, *flags], cwd=work, capture_output=True, text=True, check=False)
    return done.returncode, out, last_line(done.stderr)


def given(binary, work):
    """Return the flags that give a run the inputs that lie in its folder, in the order of the model's inputs."""
    files = sorted(work.glob("input_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    if not files:
        return []
    shown = subprocess.run([binary, "inspect", work / "model.onnx", "--json"], capture_output=True, text=True, check=False)
    names = [one["name"] for one in json.loads(shown.stdout).get("inputs", [])] if shown.returncode == 0 else []
    return [f"--input={name}={path}" for name, path in zip(names, files)]


class Runs:
    """What is known of the runs of a case."""

    def __init__(self, levels):
        self.status, self.message, self.digest = 0, "", hashlib.sha256()
        self.outputs = {level: hashlib.sha256() for level in levels}
        self.memory = dict.fromkeys(levels, 0)
        self.allocations = self.networks = 0
        self.counted = dict.fromkeys(COUNTERS, 0)

    def failed(self, status, message):
        self.status, self.message = max(self.status, status), self.message or message
        self.digest.update(f"{status} {message}\n".encode())

    def figures(self):
        yield from (f"{level}={output.hexdigest()[:8]}" for level, output in self.outputs.items())
        yield f"allocs={self.allocations}±{self.networks}"
        yield "bytes=" + "/".join(map(str, dict.fromkeys(self.memory.values())))  # equal ones once
        if driver():
            yield from (f"{k}={self.counted[k]}" for k in SHOWN)
            yield from (f"{k}={self.counted[k]:016x}" for k in ("launched", "compiled"))
        yield self.message


def run_case(networks, levels, binary, work):
    """Plan networks, and run each at each level and on the fake driver."""
    r = Runs(levels)
    for name, (make, flags) in networks.items():
        folder = work / name
        folder.mkdir()
        r.digest.update(name.encode())
        failed, out, message = planned(binary, folder, make, flags)
        if failed:
            r.failed(failed, relative(message, work))
            continue
        for path in sorted(folder.glob("planned*")):
            r.digest.update(path.name.encode() + contents(path))
        inputs = given(binary, folder)
        run_levels(r, binary, folder, out, inputs)
        run_driver(r, binary, folder, out, inputs)
        shutil.rmtree(folder)
    for output in r.outputs.values():
        r.digest.update(output.digest())
    return r.status, r.digest, " ".join(r.figures()).rstrip()


def run_levels(r, binary, folder, out, inputs):
    """Run a planned model for two steps at each level."""
    allocations = []
    for level, output in r.outputs.items():
        result = run_step(r, binary, folder, ["run", out, "--steps=2", f"--outputs={folder / 'out.npz'}", *inputs], {"GODEBUG": LEVELS[level]})
        output.update(arrays(folder / "out.npz"))
        allocations.append(result.get("heap_allocs_per_step", 0))
        r.memory[level] += sum(result.get(k, 0) for k in ("packed_bytes", "scratch_bytes", "table_bytes", "decoded_bytes"))
    r.allocations += min(allocations)
    r.networks += 1


def run_driver(r, binary, folder, out, inputs):
    """Run a planned model for four steps on the fake driver: the last two may be replayed."""
    if not (library := driver()):
        return
    env = {"ONNXMEM_LIBCUDA": library, "ONNXMEM_NVRTC": library, "ONNXMEM_CUBLAS": "off", "ONNXMEM_CUDNN": "off", "FAKECUDA_COUNTERS": folder / "counters", "XDG_CACHE_HOME": folder / "cache"}
    run_step(r, binary, folder, ["run", out, "--steps=4", "--device=cuda", *inputs], {k: str(v) for k, v in env.items()})
    if (folder / "counters").exists():
        for k, n in zip(COUNTERS, struct.unpack(f"{len(COUNTERS)}Q", (folder / "counters").read_bytes())):
            r.counted[k] = (r.counted[k] + n) % (1 << 64)
            r.digest.update(n.to_bytes(8, "little"))


def run_step(r, binary, folder, command, env):
    """Run a planned model so that nothing but the command decides on the allocations: one worker, no collection."""
    done = subprocess.run([binary, *map(str, command), "--workers=1", "--json"], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "GOGC": "off", **env})
    result = json.loads(done.stdout) if done.stdout else {}
    if done.returncode:
        r.failed(done.returncode, relative(last_line(done.stderr), folder.parent))
    r.digest.update(json.dumps({k: result[k] for k in STABLE if k in result}, sort_keys=True).encode())
    return result


def relative(message, work):
    return message.replace(f"{work}/", "")


def arrays(path):
    """Return the arrays of a file of NumPy's, without what depends on the archive, and remove it."""
    if not path.exists():
        return b""
    with zipfile.ZipFile(path) as archive:
        text = b"".join(name.encode() + archive.read(name) for name in sorted(archive.namelist()))
    path.unlink()
    return text


FAKE = harness.ROOT / "vm/cuda/fake/native/fake.cpp"


@functools.cache
def driver():
    """Return the fake driver that counts, compiled once; None without a compiler."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
    if not compiler:
        return None
    sources = b"".join(path.read_bytes() for path in sorted(FAKE.parent.iterdir()))
    library = KEPT / f"fake-{hashlib.sha256(sources).hexdigest()[:16]}.so"
    if not library.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        new = tempfile.NamedTemporaryFile(dir=KEPT, suffix=".so", delete=False)
        subprocess.run([compiler, "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-DCOUNT_ONLY", "-o", new.name, FAKE, "-ldl"], check=True)
        os.replace(new.name, library)
    return library


if __name__ == "__main__":
    sys.exit(main())
