#!/usr/bin/env python3
"""Measure two programs from PyPI from outside their processes, for docs/results/onnxruntime-memory.md.

    python bench/apps.py [--runs N] [--packages NAME=DIR]... [--ways WAY,...] [PROGRAM...]

RapidOCR reads text from pictures (three networks), Magika names the type of files (one
small network); both have their models in their wheels:

    python -m venv venv
    venv/bin/pip install onnxruntime==1.31.1 rapidocr-onnxruntime==1.4.4 magika==1.0.3

Programs:

    ocr-one     ten times one page
    ocr-grow    twelve pages, each larger than the one before: every run is recorded
    ocr-many    thirty-six pages of eighteen sizes, in turn
    magika      two hundred files

Ways: "on" and "off" are ONNX Runtime with and without its arena; RapidOCR itself turns it
off. "on+NAME" and "off+NAME" are the same with onnxmem_ort.install() before, from the
folder that --packages names: a source tree that has the library as
libonnxmem_ort.so at its root (default: ours=build/apps with this tree, built by the script).

Each process works on one thread. It is read in /proc: the high-water mark of its resident
memory (VmHWM), what is resident six seconds after its last run (VmRSS), its processor time
and page faults from the first run to the end, with those of commands that it ran. Of N
processes (3), the least of each is shown. It needs Linux, bin/onnxmem and a C compiler.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import harness

PROGRAMS = ("ocr-one", "ocr-grow", "ocr-many", "magika")
REST = 6  # seconds


def main():
    if sys.argv[1:2] == ["child"]:
        return child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--packages", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--ways", default="")
    parser.add_argument("programs", nargs="*", default=[])
    given = parser.parse_args()
    packages = dict(p.split("=", 1) for p in given.packages) or {"ours": str(built())}
    ways = given.ways.split(",") if given.ways else ["on", "off", *(f"{arena}+{name}" for name in packages for arena in ("on", "off"))]
    harness.head("program", "arena:", "VmHWM, MiB", "VmRSS at rest, MiB", "processor, s", "faults, thousand", "same results:")
    for program in given.programs or PROGRAMS:
        want = None
        for way in ways:
            done = [measure(program, way, packages) for _ in range(given.runs)]
            want = want or done[0]["results"]
            same = all(d["results"] == want for d in done)
            least = [min(d[key] for d in done) for key in ("high", "rest", "seconds", "faults")]
            harness.row(program, way, f"{least[0] / harness.MIB:.1f}", f"{least[1] / harness.MIB:.1f}", f"{least[2]:.2f}", f"{least[3] / 1000:.1f}", "yes" if same else "NO")
            for memory in done[0].get("memory", []):
                print(json.dumps(memory), file=sys.stderr)


def built():
    """Build this tree's library, and return the folder of it and the packages."""
    folder = harness.ROOT / "build/apps"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("ort", "python"):
        if not (folder / name).exists():
            (folder / name).symlink_to(harness.ROOT / name)
    sources = [str(p) for p in sorted((harness.ROOT / "ort/src").glob("*.c"))]
    subprocess.run(["cc", "-std=c11", "-O2", "-pthread", "-fPIC", "-shared", "-fvisibility=hidden", "-o", str(folder / "libonnxmem_ort.so"), *sources, "-ldl"], check=True)
    return folder


def measure(program, way, packages):
    """Run a child, and read it from outside."""
    arena, _, name = way.partition("+")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if name:
        tree = pathlib.Path(packages[name]).resolve()
        environment["ONNXMEM_ORT_LIBRARY"] = str(tree / "libonnxmem_ort.so")
        environment["ONNXMEM_COMMAND"] = os.environ.get("ONNXMEM_COMMAND", str(harness.BINARY))
        environment["PYTHONPATH"] = os.pathsep.join((str(tree / "ort/python/src"), str(tree / "python/src")))
    line = [sys.executable, __file__, "child", program, arena, name]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        own = pathlib.Path("/proc", str(process.pid))
        expect(process, "made")
        before = stat(own)
        process.stdin.write("\n")
        process.stdin.flush()
        done = json.loads(process.stdout.readline() or sys.exit(f"{program}, {way}: does not run"))
        time.sleep(REST)
        after = stat(own)
        done.update(high=status(own, "VmHWM"), rest=status(own, "VmRSS"), seconds=after[0] - before[0], faults=after[1] - before[1])
        process.stdin.close()
    return done


def expect(process, said):
    if process.stdout.readline() != said + "\n":
        sys.exit("the child does not run")


def status(own, key):
    """Return a line of /proc/PID/status in bytes."""
    for text in (own / "status").read_text(encoding="ascii").splitlines():
        if text.startswith(key + ":"):
            return 1024 * int(text.split()[1])
    raise KeyError(key)


def stat(own):
    """Return processor time in seconds and page faults, with those of children that have ended."""
    fields = (own / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
    ticks = sum(int(fields[i]) for i in (11, 12, 13, 14))
    return ticks / os.sysconf("SC_CLK_TCK"), sum(int(fields[i]) for i in (7, 8, 9, 10))


def child(program, arena, ours):
    """Run a program, and print what it has found."""
    if ours:
        import onnxmem_ort

        onnxmem_ort.install()
    work = (magika if program == "magika" else ocr)(program, arena)
    print("made", flush=True)
    sys.stdin.readline()
    done = {"results": work()}
    if ours:
        import gc

        done["memory"] = [s.memory for s in gc.get_objects() if hasattr(type(s), "memory") and hasattr(type(s), "run_with_iobinding")]
    print(json.dumps(done), flush=True)
    sys.stdin.read()


def ocr(program, arena):
    import cv2
    import numpy
    from rapidocr_onnxruntime import RapidOCR
    from rapidocr_onnxruntime.utils.infer_engine import OrtInferSession

    cv2.setNumThreads(1)
    options = OrtInferSession._init_sess_opts

    def set_arena(config):
        made = options(config)
        made.enable_cpu_mem_arena = arena == "on"
        return made

    OrtInferSession._init_sess_opts = staticmethod(set_arena)
    engine = RapidOCR(intra_op_num_threads=1)

    def page(i, width, height):
        drawn = numpy.full((height, width, 3), 255, numpy.uint8)
        for k, y in enumerate(range(60, height - 20, 120)):
            cv2.putText(drawn, f"page {i} line {k} of {width}", (20, y), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (0, 0, 0), 2)
        return drawn

    if program == "ocr-one":
        sizes = [(960, 736)] * 10
    elif program == "ocr-grow":
        sizes = [(736 + 32 * i, 736 + 32 * i) for i in range(12)]
    else:
        sizes = [(736 + 32 * (7 * i % 18), 736 + 32 * (i % 6)) for i in range(36)]

    def work():
        found = []
        for i, size in enumerate(sizes):
            read, _ = engine(page(i % 18, *size))
            found.append([(text, str(score)) for _, text, score in read or []])
        return found

    return work


def magika(program, arena):
    import onnxruntime

    made = onnxruntime.InferenceSession.__init__

    def with_options(self, path, options=None, *args, **kwargs):
        options = options or onnxruntime.SessionOptions()
        options.enable_cpu_mem_arena = arena == "on"
        options.intra_op_num_threads = 1
        made(self, path, options, *args, **kwargs)

    onnxruntime.InferenceSession.__init__ = with_options
    from magika import Magika

    named = Magika()
    files = [p.read_bytes()[:50000] for p in sorted(pathlib.Path(os.__file__).parent.glob("*.py"))[:100]]

    def work():
        return [named.identify_bytes(b[i:]).output.label for i in (0, 50) for b in files]

    return work


if __name__ == "__main__":
    main()
