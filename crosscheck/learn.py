"""A small convolutional network learns to tell shapes apart, in ONNX Runtime.

    python -m crosscheck.learn --binary bin/onnxmem --work build/learn

The network and its pictures are made here; the training step comes from
onnxmem optimize --train. The loop is the one that the file's metadata ask for:
feed, run, copy each x.new over x. The curve of losses is written to
learn.json, for comparison with other runtimes of the same file.
"""

import argparse
import json
import pathlib

import numpy as np
import onnx

from . import build, command, networks, step

STEPS = 150
BATCH = 32
SIZE = 16
CLASSES = 4  # a bar, a column, a cross, a ring
_RATE = 0.05
_NOISE = 0.3


def pictures(count, rng):
    """Noisy pictures of one shape each, and which it is."""
    images = _NOISE * rng.standard_normal((count, 1, SIZE, SIZE), dtype=np.float32)
    labels = rng.integers(0, CLASSES, count)
    for image, label in zip(images[:, 0], labels):
        y, x = rng.integers(4, SIZE - 4, 2)
        part = np.zeros((7, 7), np.float32)
        if label in (0, 2):
            part[3, :] = 1
        if label in (1, 2):
            part[:, 3] = 1
        if label == 3:
            part[:] = 1
            part[1:-1, 1:-1] = 0
        image[y - 3 : y + 4, x - 3 : x + 4] += part
    return images, labels


def learn(work, tool):
    """The loss of every step."""
    work.mkdir(parents=True, exist_ok=True)
    source, target = work / "learn.onnx", work / "learn.step.onnx"
    model = build.cnn(BATCH, SIZE, CLASSES)
    networks.draw_weights(model)
    onnx.save(model, str(source))
    tool.train(source, target, ("--optimizer=momentum",))
    training, rng = step.Step(target), np.random.default_rng(0)
    session, losses = training.session(), []
    for _ in range(STEPS):
        images, labels = pictures(BATCH, rng)
        losses.append(training.advance(session, {"image": images, "labels": labels}, _RATE))
    (work / "learn.json").write_text(json.dumps(losses), encoding="utf-8")
    return losses


def check(work, tool, result):
    """The loss must fall to less than a quarter."""
    losses = learn(work / "training", tool)
    first, last = np.mean(losses[:10]), np.mean(losses[-10:])
    result["curve"] = f"loss {first:.3f} to {last:.3f} in {STEPS} steps"
    if not last < first / 4:
        result["faults"].append(f"{result['curve']}: expected less than a quarter")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    args = parser.parse_args()
    for i, loss in enumerate(learn(args.work, command.Command(args.binary))):
        if i % 10 == 0 or i == STEPS - 1:
            print(f"step {i:3} loss {loss:.4f}")


if __name__ == "__main__":
    main()
