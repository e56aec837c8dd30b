"""Run onnxmem as a user does."""

import json
import pathlib
import re
import subprocess
import tempfile

import numpy as np

_TRAIN = re.compile(r"^train +([0-9.]+) ms", re.MULTILINE)  # a line of --verbose


class Failed(Exception):
    """The command's exit status was not 0."""


def differing(report):
    """Return a fault for each output of `run --check` whose bits are not those of an unplanned run."""
    return [f"{o['name']} differs from an unplanned run" for o in report["outputs"] if not o["identical"]]


class Command:
    """One binary of onnxmem."""

    def __init__(self, binary):
        self.binary = str(binary)

    def networks(self):
        """Return the names of the built-in networks."""
        return [n["name"] for n in self._json("model", "--json")["networks"]]

    def model(self, name, path, settings, dims=None):
        """Write a built-in network; the dimensions that dims lacks stay symbolic."""
        self._run("model", name, str(path), *[f"--set={k}={v}" for k, v in settings.items()], *_dims(dims or {}))

    def optimize(self, source, target, dims, schedule=""):
        """Plan source into target; return the plan's summary."""
        strategy = [f"--schedule={schedule}"] if schedule else []
        return self._json("optimize", str(source), str(target), "--json", *strategy, *_dims(dims))

    def plan(self, source, target, flags):
        """Plan source into target with the given flags; return the plan's summary."""
        return self._json("optimize", str(source), str(target), "--json", *flags)

    def attempt(self, source, target, flags):
        """Plan source into target with the given flags; return the plan's summary, or, if no plan meets a limit, what is known about it."""
        done = self._start("optimize", str(source), str(target), "--json", *flags)
        if done.returncode == 1 and done.stdout and "error" not in json.loads(done.stdout):
            return json.loads(done.stdout)
        if done.returncode != 0:
            raise Failed(f"onnxmem optimize: exit {done.returncode}: {_last_line(done)}")
        return json.loads(done.stdout)

    def offers(self, name, flag):
        """Report whether a command has a flag."""
        return f"{flag}=" in self._run(name, "--help").stdout

    def train(self, source, target, flags):
        """Make a training step of source; return the milliseconds that differentiation took."""
        done = self._run("optimize", str(source), str(target), "--train", "--effort=fast", "--verbose", *flags)
        return float(_TRAIN.search(done.stderr)[1])

    def verify(self, target):
        """Verify a planned file; return the violations."""
        done = self._start("verify", str(target), "--json")
        try:
            report = json.loads(done.stdout)
        except ValueError:
            return [_last_line(done)]
        if done.returncode == 0 and report["valid"]:
            return []
        return [f"{v['code']}: {v['message']}" for v in report.get("violations") or []] or [_last_line(done)]

    def tensors(self, path, dims):
        """Return every tensor of the main graph, by name, as inference sees it."""
        found = self._json("inspect", str(path), "--tensors", "--json", *_dims(dims))
        if found.get("refused"):
            raise Failed(found["refused"])
        return {t["name"]: t for t in found["tensors"]}

    def export(self, plan, form, target):
        """Write a plan for another tool."""
        self._run("export", "--to", form, str(plan), "-o", str(target))

    def order(self, problem, program):
        """Order a bare problem, and write it as an integer program."""
        return self._json("order", str(problem), "--lp", str(program), "--json")

    def programs(self, kind, problem, flags):
        """Order or pack a bare problem and write it for solvers: flags name files, and what --ilp changes."""
        return self._json(kind, str(problem), "--json", *[f"{flag}={value}" for flag, value in flags.items()])

    def solved(self, kind, problem, solver, limit):
        """Order or pack a bare problem and let a solver work on it; return what --json prints."""
        return self._json(kind, str(problem), "--json", f"--solver={solver}", limit)

    def run(self, target, given, flags, seconds):
        """Run a planned model; return the report and the outputs by name. The report lists outputs that --check finds to differ."""
        with tempfile.TemporaryDirectory(dir=pathlib.Path(target).parent) as folder:
            inputs, outputs = pathlib.Path(folder, "in.npz"), pathlib.Path(folder, "out.npz")
            np.savez(inputs, **given)
            done = self._start("run", str(target), f"--inputs={inputs}", f"--outputs={outputs}", "--json", *flags, timeout=seconds)
            if not done.stdout:
                raise Failed(f"onnxmem run: exit {done.returncode}: {_last_line(done)}")
            with np.load(outputs) as arrays:
                return json.loads(done.stdout), dict(arrays)

    def reference(self, target, given, seconds):
        """Run a planned model once, compare every node with the reference evaluator, and return the report."""
        with tempfile.TemporaryDirectory(dir=pathlib.Path(target).parent) as folder:
            inputs = pathlib.Path(folder, "in.npz")
            np.savez(inputs, **given)
            done = self._start("run", str(target), f"--inputs={inputs}", "--check=reference", "--json", timeout=seconds)
            if not done.stdout:
                raise Failed(f"onnxmem run: exit {done.returncode}: {_last_line(done)}")
            return json.loads(done.stdout)["reference"]

    def _json(self, *args):
        return json.loads(self._run(*args).stdout)

    def _run(self, *args):
        done = self._start(*args)
        if done.returncode != 0:
            raise Failed(f"onnxmem {args[0]}: exit {done.returncode}: {_last_line(done)}")
        return done

    def _start(self, *args, timeout=None):
        return subprocess.run([self.binary, *args], capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=timeout)


def _dims(dims):
    return [f"--dim={name}={value}" for name, value in sorted(dims.items())]


def _last_line(done):
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit {done.returncode} without a word"
