"""The native command: where it is, and how it is run."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from ._errors import NotInstalled, Variable, error_of
from ._record import Record, decode

#: The value of a flag: True for the bare flag, False or None to leave it out, a text or
#: a number, several values, or names with values, such as ``{"batch": 8}``.
Flag = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[object], Mapping[str, object]]

#: This variable names another command, such as one that was built from source.
VARIABLE = "ONNXMEM_COMMAND"
_NAMED = Variable(VARIABLE)


def command() -> str:
    """Return the path of the native command.

    It is the file that the environment variable ONNXMEM_COMMAND names, else the one
    that was installed with this package. NotInstalled says where it was expected.
    """
    named = _NAMED.value()
    if named:
        return named
    name = "onnxmem.exe" if os.name == "nt" else "onnxmem"
    folders = list(dict.fromkeys(_folders()))
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    raise NotInstalled(f"{name} is in none of the folders {', '.join(folders)}: install onnxmem again, or name it in {VARIABLE}")


def _folders() -> Iterator[str]:
    """List the folders in which installers place the commands of a package.

    Those that belong to the folder of this module come first, so that module and
    command are of one version where several are installed.
    """
    windows = os.name == "nt"
    modules = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    scripts = "Scripts" if windows else "bin"
    # PREFIX/bin for PREFIX/lib/python3.11/site-packages, PREFIX\Scripts for
    # PREFIX\Lib\site-packages.
    prefix = modules
    for _ in range(2 if windows else 3):
        prefix = os.path.dirname(prefix)
    yield os.path.join(prefix, scripts)
    # pip install --target: beside the modules.
    yield os.path.join(modules, scripts)
    yield os.path.join(modules, "bin")
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))


def version() -> str:
    """Return the version of the native command."""
    return call(["--version"]).stdout.decode().strip()


@dataclass(frozen=True)
class Output:
    """What a call of the command printed."""

    stdout: bytes
    #: The object that ``--json`` printed, on either stream; None without --json.
    result: Record | None
    #: The lines on standard error.
    messages: list[str]


def call(
    arguments: Iterable[str],
    stdin: bytes = b"",
    *,
    data: bool = False,
    answers: bool = False,
) -> Output:
    """Run the command and return its output.

    With data, standard output is for a file, and results are on standard error. With
    answers, a result with exit status 1 is an answer, as that a plan is not valid;
    otherwise it is an error.
    """
    line = [command(), *arguments]
    try:
        done = subprocess.run(line, input=stdin, capture_output=True, check=False)
    except FileNotFoundError as e:
        raise NotInstalled(f"{line[0]}: not found: expected the native command") from e
    messages, objects = _split(done.stderr.decode(errors="replace"))
    if not data or done.returncode != 0:
        # A failure without a result has no data; what is there is an object.
        more = _split(done.stdout.decode(errors="replace"))[1] if "--json" in line else []
        objects = more + objects
    place = next((o for o in reversed(objects) if "error" in o), None)
    result = next((o for o in objects if "error" not in o), None)
    if done.returncode == 0 or (answers and done.returncode == 1 and result is not None):
        return Output(done.stdout, result, [m.removeprefix("onnxmem: ") for m in messages])
    reason = place["error"] if place is not None else messages[-1] if messages else f"onnxmem ended with status {done.returncode}"
    raise error_of(done.returncode)(reason.removeprefix("onnxmem: "), done.returncode, place, result)


def _split(text: str) -> tuple[list[str], list[Record]]:
    """Take the objects of ``--json`` out of the lines of a stream.

    An object begins and ends with a line that is a brace.
    """
    lines: list[str] = []
    objects: list[Record] = []
    begun: list[str] | None = None
    for line in text.splitlines():
        if begun is None and line != "{":
            if line:
                lines.append(line)
            continue
        begun = [] if begun is None else begun
        begun.append(line)
        if line == "}":
            objects.append(decode("\n".join(begun)))
            begun = None
    return lines, objects


def flags(values: Mapping[str, Flag]) -> list[str]:
    """Return the command line of keyword arguments: dim={"batch": 8} is --dim=batch=8."""
    line: list[str] = []
    for name, value in values.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            line.append(flag)
        elif isinstance(value, Mapping):
            line += [f"{flag}={k}={_text(v)}" for k, v in value.items()]
        elif isinstance(value, (str, int, float, os.PathLike)):
            line.append(f"{flag}={_text(value)}")
        else:
            line += [f"{flag}={_text(v)}" for v in value]
    return line


def _text(value: object) -> str:
    """Return a value as the command reads it: a path, a number, or a JSON list."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_text(v) for v in value) + "]"
    return str(value)
