"""Set up the folder that holds models and weights.

External data must lie in the model's folder. onnx refuses symbolic links that leave it,
and hard links, too, so models are copied, and the zoo's weights are made once. Planned
models are written beside their sources, where they find the same external data.
"""

import filecmp
import pathlib
import shutil
import subprocess
import sys

WEIGHTS = "weights.bin"


def prepare(work: pathlib.Path, data: pathlib.Path, cases):
    """Fill the folder for the cases; files that exist and are up to date stay."""
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
    """Write the external data of every zoo model, in one file."""
    if (folder / WEIGHTS).exists() or not script.exists():
        return
    print(f"crosscheck: making {folder / WEIGHTS}", file=sys.stderr)
    subprocess.run([sys.executable, script, folder], check=True)
