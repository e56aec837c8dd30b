"""The folder that holds models and weights side by side.

External data must not lead out of a model's folder, so symbolic links are of no
use; onnx refuses hard links, too. Models are copied, and the zoo's weights made
once. Planned models are written beside their sources, where the external data
stay as they are.
"""

import filecmp
import pathlib
import shutil
import subprocess
import sys

WEIGHTS = "weights.bin"


def prepare(work: pathlib.Path, data: pathlib.Path, cases):
    """Lay out work for the cases; what is there already and fresh stays."""
    for case in cases:
        (work / case.kind).mkdir(parents=True, exist_ok=True)
        if not case.file:
            continue
        source, target = data / case.file, work / case.file
        if source.exists() and not (target.exists() and filecmp.cmp(source, target, shallow=False)):
            shutil.copyfile(source, target)
    if any(case.kind == "zoo" for case in cases):
        make_weights(work / "zoo", data / "zoo/make-weights")


def make_weights(folder, script):
    """The external data of every zoo model, in one file."""
    if (folder / WEIGHTS).exists() or not script.exists():
        return
    print(f"crosscheck: making {folder / WEIGHTS}", file=sys.stderr)
    subprocess.run([sys.executable, script, folder], check=True)
