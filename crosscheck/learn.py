"""A small convolutional network learns to read digits, in our arena and in ONNX Runtime.

    python -m crosscheck.learn --work build/learn

The Go example examples/train-mnist-like makes the network, its training step and its
pictures, trains in place, and records data and losses. Here ONNX Runtime takes the same
steps from the same initial values, by the loop that the file's metadata describes:
feed, run, copy each x.new over x. Both curves must agree.
"""

import argparse
import json
import pathlib
import subprocess

import numpy as np

from . import step

STEPS = 100
_RATE = 0.05
_TOLERANCE = 1e-4  # of a loss; relative above 1
_ROOT = pathlib.Path(__file__).resolve().parent.parent


def learn(work):
    """Return the loss of every step: ours, and ONNX Runtime's."""
    folder = (work / "learn").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    command = ["go", "run", "./examples/train-mnist-like", f"-dir={folder}", f"-steps={STEPS}", f"-rate={_RATE}", "-record"]
    subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
    training = step.Step(folder / "train.onnx")
    ours = np.fromfile(folder / "losses.f64", "<f8")
    labels = np.fromfile(folder / "labels.i64", "<i8").reshape(STEPS, -1)
    images = np.fromfile(folder / "images.f32", "<f4").reshape(STEPS, labels.shape[1], 1, 28, 28)
    session = training.session()
    theirs = np.array([training.advance(session, {"image": x, "labels": y}, _RATE) for x, y in zip(images, labels)])
    (folder / "learn.json").write_text(json.dumps({"ours": ours.tolist(), "onnxruntime": theirs.tolist()}), encoding="utf-8")
    return ours, theirs


def check(work, result):
    """Check that both losses fall to less than half, on the same curve."""
    ours, theirs = learn(work)
    error = float((abs(ours - theirs) / np.maximum(1, abs(theirs))).max())
    first, last = ours[:10].mean(), ours[-10:].mean()
    result["error"] = error
    result["curve"] = f"loss {first:.3f} to {last:.3f} in {STEPS} steps, ONNX Runtime's within {error:.1e}"
    if not last < first / 2:
        result["faults"].append(f"{result['curve']}: expected less than half")
    if not error <= _TOLERANCE:
        result["faults"].append(f"losses differ from ONNX Runtime's by {error:.2g}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, required=True)
    ours, theirs = learn(parser.parse_args().work)
    for i in range(0, STEPS, 10):
        print(f"step {i:3} loss {ours[i]:.6f}, ONNX Runtime {theirs[i]:.6f}, difference {abs(ours[i] - theirs[i]):.1e}")


if __name__ == "__main__":
    main()
