"""Runs of planned models on arrays of numpy, which these functions need."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from ._calls import _dims, _path
from ._command import Flag, Output, call, flags
from ._plan import Planned
from ._record import Record

if TYPE_CHECKING:
    import numpy  # type: ignore[import-not-found, unused-ignore]

    Array: TypeAlias = "numpy.ndarray[Any, Any]"

#: The inputs of a step by name: arrays, or what numpy.asarray makes one of. Floats and ints
#: of Python become float32 and int64.
Inputs = Mapping[str, Any]
#: Inputs of one step or of several, or a .npz file or pattern as of ``onnxmem run --inputs``.
Feed = Union[Inputs, Iterable[Inputs], str, "os.PathLike[str]"]


def run(
    planned: Planned | str | os.PathLike[str],
    inputs: Feed | None = None,
    **options: Flag,
) -> dict[str, Array]:
    """Run a planned model inside its arena, and return the outputs by name.

    planned is a planned model, or its file with its plan beside it. inputs has an array for
    each input; inputs without one are random. Of several mappings, each is for one step, and
    the outputs are those of the last. Strings are arrays of dtype U, the items of a sequence
    ``NAME.0``, ``NAME.1``, and a map ``NAME.keys`` and ``NAME.values``, in inputs and outputs.
    A type that numpy lacks comes as raw bytes. options are further flags of ``onnxmem run``:
    ``run(planned, {"x": x}, device="cuda", seed=1)``.

    Refused says which input is at fault, what was expected and what was found.
    """
    import numpy

    with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
        out = Path(folder, "outputs.npz")
        _call(planned, inputs, folder, {"outputs": out, **options})
        with numpy.load(out, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def train(
    step: Planned | str | os.PathLike[str],
    batches: Feed,
    *,
    learning_rate: float | None = None,
    save: str | os.PathLike[str] | None = None,
    save_model: str | os.PathLike[str] | None = None,
    **options: Flag,
) -> list[float]:
    """Train: run a step for each batch, and return the loss of each.

    step is a training step, ``optimize(model, "step.onnx", train=True)``, whose parameters
    begin as in the file beside it, or as in the file of the option params. batches is an
    iterable of the inputs of each step, such as ``{"image": x, "labels": y}``, each with the
    same names; with the option steps, they begin again when they end. learning_rate holds for
    all steps, unless batches have their own; without, it is 0.001. save is a file for the
    parameters and the state of the optimizer, with which ``params=`` continues; save_model is
    one for the model with its new weights (source= names the model of which the step was made,
    if it is not beside the step any more). options are further flags of ``onnxmem run``.

    The batches are written to a temporary folder before the first step.
    """
    given: dict[str, object] = {}
    if learning_rate is not None:
        given["learning_rate"] = float(learning_rate)
    more = options.pop("input", None)
    if isinstance(more, Mapping):
        given.update(more)
    with tempfile.TemporaryDirectory(prefix="onnxmem-") as folder:
        done = _call(step, batches, folder, {"save": save, "save_model": save_model, "input": given, **options})
    losses = (done.result or Record()).get("losses")
    if losses is None:
        raise ValueError("the model has no output loss of one number: expected a training step, as optimize(model, out, train=True) makes it")
    return [float(x) for x in losses]


def _call(model: Planned | str | os.PathLike[str], inputs: Feed | None, folder: str, options: Mapping[str, Flag]) -> Output:
    """Run the command once; inputs that are no files are written to the folder."""
    line = ["run", *_files(model, folder), *flags({"json": True, **_dims(dict(options))})]
    if inputs is None or isinstance(inputs, (str, os.PathLike)):
        return call(line + flags({"inputs": inputs}))
    if isinstance(inputs, Mapping):
        file = os.path.join(folder, "inputs.npz")
        _write(file, inputs)
        return call([*line, f"--inputs={file}"])
    names = []
    for i, batch in enumerate(inputs):
        names.append(os.path.join(folder, f"batch-{i}.npz"))
        _write(names[-1], batch)
    if not names:
        raise ValueError("no inputs: expected those of at least one step")
    return call([*line, "--inputs=-"], "".join(n + "\n" for n in names).encode())


def _files(model: object, folder: str) -> list[str]:
    """Return the arguments that name a planned model and its plan."""
    if isinstance(model, Planned):
        if model.path is not None:
            return [_path(model.path), *([f"--plan={model.plan_path}"] if model.plan_path is not None else [])]
        file = os.path.join(folder, "planned.onnx")
        model.save(file)
        return [file]
    if isinstance(model, (str, os.PathLike)):
        return [_path(model)]
    raise TypeError(f"a {type(model).__name__}: expected a planned model, or the path of one")


def _write(path: str, arrays: Inputs) -> None:
    """Write a .npz file. numpy.savez takes no array of the name "file"."""
    import numpy

    if not isinstance(arrays, Mapping):
        raise TypeError(f"a {type(arrays).__name__}: expected the inputs of a step by name")
    with zipfile.ZipFile(path, "w") as z:
        for name, value in arrays.items():
            a = numpy.asarray(value, order="C")
            if not hasattr(value, "dtype") and a.dtype == numpy.float64:
                a = a.astype(numpy.float32)
            if not hasattr(value, "dtype") and a.dtype.kind == "i":
                a = a.astype(numpy.int64)
            if a.dtype.byteorder != "|":
                a = a.astype(a.dtype.newbyteorder("<"), copy=False)
            if a.dtype.hasobject:
                raise TypeError(f"input {name!r}: an array of objects: expected numbers, bools or strings (dtype U)")
            with z.open(name + ".npy", "w", force_zip64=True) as f:
                numpy.lib.format.write_array(f, a, allow_pickle=False)
