#!/usr/bin/env python3
"""Compare the memory of whole processes with the plan, ONNX Runtime and PyTorch, for docs/results/process.md.

    crosscheck/run ort bench/process.py [--torch PYTHON] [--theirs FILE] [--times] [--table] [models] [steps] [sessions] [NAME...]

models: every model of the zoo, the light networks and the built-in ones at batch 1: `onnxmem
    run --steps 3` of the planned model, and ONNX Runtime's session of the source model in a
    Python process, with its default options, three runs.
steps: training steps with momentum, plain and with --limit, beside PyTorch's own; two of each.
sessions: ONNX Runtime's session and that of onnxmem_ort, ten runs each (needs a C compiler).

Without names of parts, models and steps are measured; names of models leave out the others.
Sizes are MiB of resident memory as /proc has it: the peak of the whole process (VmHWM), and
what is resident at rest (VmRSS), a second after the last run (of sessions: six seconds). The
plan's total is its arena and its resident pools; the estimate is what `optimize` says that the
process of `run` takes at most. `run` is read while it waits for the reader of its result: all
steps have run then, and the session is open.

The exit status is 1 if `run` takes more than the plan's total and PROMISE_MIB, than the
estimate, or than ONNX Runtime or PyTorch; the last column marks such rows. With --table it is
0. It needs Linux and bin/onnxmem, and makes models and 818 MiB of weights in build/process.
"""

import argparse
import difflib
import fcntl
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import compared
import harness

PROMISE_MIB = 48  # that a process may take beyond its plan's total; cmd/onnxmem's test reads it here
REST = 1  # seconds from the last run to the reading at rest
WORK = harness.ROOT / "build/process"
OWN = 2 * harness.MIB  # what the package onnxmem_ort takes itself; sessions may differ by it
RUNS = 3  # of a model
STEPS = 2  # of a training step
TRAINED = {"resnet50": 16, "vit_b_16": 8}  # network: batch
LIMITS = ("", "50%", "25%")
SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ
WRITE = {"x86_64": "1", "aarch64": "64"}  # the number of write(2), as /proc/PID/syscall has it


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], usage="%(prog)s [options] [models] [steps] [sessions] [NAME...]")
    parser.add_argument("--binary", type=pathlib.Path, default=harness.BINARY)
    parser.add_argument("--onnxruntime", default=sys.executable, metavar="PYTHON", help="of an environment with ONNX Runtime and numpy (default: this one)")
    parser.add_argument("--torch", default="", metavar="PYTHON", help="of an environment with torch and torchvision (default: PyTorch is not measured)")
    parser.add_argument("--theirs", type=pathlib.Path, metavar="FILE", help="keep the figures of ONNX Runtime and PyTorch in FILE, and take those that are there")
    parser.add_argument("--sessions", action="store_true", help="the part sessions")
    parser.add_argument("--times", action="store_true", help="also the times of the start and of the fastest run or step, which need an idle machine")
    parser.add_argument("--table", action="store_true", help="exit status 0 whatever the figures are")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    if platform.machine() not in WRITE or not os.path.exists("/proc/self/syscall"):
        sys.exit("process.py needs Linux on amd64 or arm64, with /proc/PID/syscall")
    parts = {"models": models, "steps": steps, "sessions": sessions}
    chosen = [name for name in parts if name in args.names] + ["sessions"] * (args.sessions and "sessions" not in args.names)
    args.names = set(args.names) - set(parts)
    args.binary = args.binary.resolve()
    chosen = chosen or ["models", "steps"]
    known(args, chosen)
    args.theirs = compared.Kept(args.theirs)
    WORK.mkdir(parents=True, exist_ok=True)
    fine = True
    for part in chosen:
        print(f"<!-- table: process/{part} -->")
        fine &= parts[part](args)
        print(flush=True)
    return 0 if fine or args.table else 1


def known(args, parts):
    """End the script if a name is none of a model, or of a step, of the chosen parts."""
    if not args.names:
        return
    names = set(TRAINED) if "steps" in parts else set()
    if parts != ["steps"]:
        names |= {*compared.zoo(), *compared.light(), *compared.built(args.binary)}
    for name in sorted(args.names - names):
        near = difflib.get_close_matches(name, sorted(names), 1)
        sys.exit(f"process.py: {name}: unknown: expected {near[0] if near else ', '.join(sorted(names))}")


def models(args):
    """Print the table of models; return whether all processes are as small as they must be."""
    version = compared.run([args.onnxruntime, "-c", "import onnxruntime; print(onnxruntime.__version__)"]).strip()
    theirs = f"ONNX Runtime {version}"
    times = ["start, ms", theirs, "run, ms", theirs] if args.times else []
    harness.head("model", "plan's total", "estimate", "run", "beyond", "at rest", theirs, "at rest", *times, "above:")
    seen = Worst()
    for name, source, dims, inputs in compared.found(args.binary, WORK, args.names):
        with tempfile.TemporaryDirectory(dir=source.parent) as folder:
            us = ours(args.binary, *compared.planned_in(folder, args.binary, source, dims), RUNS)
        them = args.theirs.get(f"{theirs}: {name}", lambda: session(args, "plain", source, inputs, RUNS, REST))
        above = seen.add(name, us, them, "ONNX Runtime")
        times = [ms(of[key]) for key in ("start_ms", "step_ms") for of in (us, them)] if args.times else []
        harness.row(name, *memory(us, them), *times, above)
    return seen.say("ONNX Runtime")


def steps(args):
    """Print the table of training steps; return whether all processes are as small as they must be."""
    times = ["start, ms", "step, ms", "PyTorch"] if args.times else []
    harness.head("step", "limit:", "plan's total", "estimate", "run", "beyond", "at rest", "PyTorch", "at rest", *times, "above:")
    seen = Worst()
    for network, batch in TRAINED.items():
        if network not in (args.names or TRAINED):
            continue
        name = f"{network}, batch {batch}"
        them = args.theirs.get(f"PyTorch: {name}", lambda: torch(args.torch, network, batch)) if args.torch else None
        for limit in LIMITS:
            with tempfile.TemporaryDirectory(dir=WORK) as folder:
                source = pathlib.Path(folder, f"{network}.onnx")
                compared.run([args.binary, "model", network, source])
                flags = ["--train", "--optimizer=momentum", f"--dim=batch={batch}", *([f"--limit={limit}"] if limit else [])]
                us = ours(args.binary, *compared.planned_in(folder, args.binary, source, flags), STEPS)
            above = seen.add(f"{name} {limit}".strip(), us, them, "PyTorch")
            times = [ms(us["start_ms"]), ms(us["step_ms"]), ms(them["step_ms"]) if them else ""] if args.times else []
            harness.row(name, limit, *memory(us, them), *times, above)
    return seen.say("PyTorch")


def sessions(args):
    """Print the table of ONNX Runtime's sessions, plain and in a packed arena."""
    library = WORK / "libonnxmem_ort.so"
    sources = sorted((harness.ROOT / "ort/src").glob("*.c"))
    compared.run(["cc", "-std=c11", "-O2", "-pthread", "-fPIC", "-shared", "-fvisibility=hidden", "-o", library, *sources, "-ldl"])
    harness.head("model", "ONNX Runtime", "at rest", "onnxmem_ort", "at rest", "difference", "at rest", "mode:", "arena", "above:")
    fine = True
    for name, source, _, inputs in compared.found(args.binary, WORK, args.names):
        plain, packed = (session(args, way, source, inputs, 10, 6, library) for way in ("plain", "packed"))
        above = [word for key, word in (("peak", "peak"), ("rest", "at rest")) if packed[key] > plain[key] + OWN]
        fine &= not above
        cells = (mib(p[key]) for p in (plain, packed) for key in ("peak", "rest"))
        harness.row(name, *cells, *(mib(packed[key] - plain[key]) for key in ("peak", "rest")), packed["mode"], mib(packed["arena"]), ", ".join(above))
    return fine


class Worst:
    """What a table has come to: whether every process is small enough, and the worst rows, for standard error."""

    def __init__(self):
        self.fine = True
        self.beyond = []  # (MiB, name)
        self.above = []

    def add(self, name, us, them, whose):
        """Return the words of the last column."""
        beyond = (us["peak"] - us["total"]) / harness.MIB
        self.beyond.append((beyond, name))
        words = []
        if beyond > PROMISE_MIB:
            words.append("the promise")
        if us["peak"] > us["estimate"]:
            words.append("the estimate")
        if them and us["peak"] > them["peak"]:
            words.append(whose)
            self.above.append(name)
        self.fine &= not words
        return ", ".join(words)

    def say(self, whose):
        over = sum(beyond > PROMISE_MIB for beyond, _ in self.beyond)
        worst, name = max(self.beyond, default=(0, "none"))
        print(f"{len(self.beyond)} processes: {over} above the promise, the worst {worst:.1f} MiB beyond ({name}), {len(self.above)} above {whose}", file=sys.stderr)
        return self.fine


def ours(binary, planned, said, steps):
    """Run a planned model some times and return what its plan says, and the figures of its process.

    Its standard output is a pipe that is full of blanks, so that its first write, of the
    result, waits for a reader. That is after the steps, and before the session is closed.
    """
    reader, writer = os.pipe()
    fcntl.fcntl(writer, SET_PIPE_SIZE, 1)  # it has at least a page
    os.set_blocking(writer, False)
    try:
        while os.write(writer, b" "):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8") as errors, open(reader, encoding="utf-8") as text:
        command = [binary, "run", planned, f"--steps={steps}", "--json"]
        with subprocess.Popen(command, stdout=writer, stderr=errors) as process:
            os.close(writer)
            while process.poll() is None and not waits(process.pid):
                time.sleep(0.01)
            if process.returncode is not None:
                errors.seek(0)
                sys.exit(f"onnxmem run {planned}: exit {process.returncode}: {errors.read().strip()}")
            time.sleep(REST)
            figures = status(process.pid)
            done = json.loads(text.read())
    return said | figures | {"start_ms": done["times_ms"]["prepare"], "step_ms": done["times_ms"]["step"]}


def waits(pid):
    """Report whether a thread of a process is in write(2) to its standard output."""
    try:
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if (thread / "syscall").read_text(encoding="ascii").split()[:2] == [WRITE[platform.machine()], "0x1"]:
                return True
    except (FileNotFoundError, ProcessLookupError):  # a thread, or the process, has ended
        pass
    return False


def status(pid):
    """Return the peak of a process's resident memory and what is resident now, in bytes."""
    lines = (line.split(":") for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    sizes = {key: 1024 * int(text.split()[0]) for key, text in lines if key in ("VmHWM", "VmRSS")}
    return {"peak": sizes["VmHWM"], "rest": sizes["VmRSS"]}


def session(args, way, source, inputs, runs, rest, library=""):
    """Run a model in a session of ONNX Runtime and return the figures of its process."""
    variables = {"ONNXMEM_ORT_LIBRARY": str(library), "ONNXMEM_COMMAND": str(args.binary)} if library else {}
    return child([args.onnxruntime, harness.ROOT / "bench/ortsession.py", way, source, inputs, runs], rest, os.environ | variables)


def torch(python, network, batch):
    """Run PyTorch's step of a network and return the figures of its process."""
    flags = [f"--batch={batch}", f"--steps={STEPS}", f"--threads={os.cpu_count()}", "--momentum=0.9", "--stay"]
    done = child([python, harness.ROOT / "bench/torchsteps.py", network, *flags], REST, os.environ)
    return done | {"step_ms": done["wall_ms"]}


def child(command, rest, variables):
    """Run a script that prints a line of JSON and waits; return it with the memory of its process, read after some seconds."""
    with subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as process:
        if not (answer := process.stdout.readline()):
            sys.exit(f"{' '.join(map(str, command))}: ended without a result")
        time.sleep(rest)
        figures = status(process.pid)
        process.stdin.close()
        return json.loads(answer) | figures


def memory(us, them):
    """Return the cells of the memory of both processes."""
    cells = [us["total"], us["estimate"], us["peak"], us["peak"] - us["total"], us["rest"]]
    return [*map(mib, cells), *(mib(them[key]) if them else "" for key in ("peak", "rest"))]


def mib(size):
    return f"{size / harness.MIB:.1f}"


def ms(milliseconds):
    return f"{milliseconds:.1f}" if milliseconds < 100 else f"{milliseconds:.0f}"


if __name__ == "__main__":
    sys.exit(main())
