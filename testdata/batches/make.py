"""Make the files beside this one: inputs of three steps of testdata/light/heads.onnx, trained
with --loss mse:box, and files of which one array is wrong."""

import numpy as np

rng = np.random.default_rng(1)
for name in "abc":
    x = rng.integers(-4, 5, (3, 4)).astype(np.float32) / 4
    np.savez(f"{name}.npz", x=x, labels=x[:, :2] / 2)
x = np.zeros((3, 4), np.float32)
np.savez("wrong-shape.npz", x=x[:2], labels=x[:, :2])
np.savez("wrong-type.npz", x=x.astype(np.float64), labels=x[:, :2])
np.savez("missing.npz", x=x)
np.savez("more.npz", x=x, labels=x[:, :2], y=x)
np.savez("state.npz", x=x, labels=x[:, :2], **{"box.weight": np.zeros((4, 2), np.float32)})
