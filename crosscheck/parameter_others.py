"""What Keras (by tf2onnx) and JAX (Flax, by jax2onnx) write, for crosscheck/run parameters.

    python -m crosscheck.parameter_others keras|jax FOLDER    write all modules of a framework

Each framework runs in a process of its own.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_KERAS = ("dense", "batch_norm", "convolutions", "layer_norm", "group_norm", "embedding", "lstm", "gru", "attention", "image_statistics", "prelu")
_FLAX = ("linear", "batch_norm", "convolutions", "layer_norm", "group_norm", "rms_norm", "embedding", "attention", "scales")


def cases():
    """Yield the name of each module, the exporter, and a function that writes its files and returns its record."""
    for framework, exporter, names in (("keras", "tf2onnx", _KERAS), ("jax", "jax2onnx", _FLAX)):
        for name in names:
            yield f"{framework}/{name}", exporter, lambda base, framework=framework: _write(base, framework)


def _write(base, framework):
    folder = base.parent / framework
    if not (folder / "done").exists():
        folder.mkdir(exist_ok=True)
        subprocess.run([sys.executable, "-m", "crosscheck.parameter_others", framework, folder], cwd=_ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (folder / "done").touch()
    name = base.name.split(".")[0].removeprefix(framework + "_")
    record = json.loads((folder / f"{name}.json").read_text())
    if "refused" not in record:
        for part in ("fresh.onnx", "onnx"):
            os.replace(folder / f"{name}.{part}", base.with_name(f"{base.name}.{part}"))
    return record


def _keras(folder):
    os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    import keras
    from keras import layers

    def row(shape, *parts, dtype="float32"):
        return lambda: keras.Sequential([keras.Input(shape, dtype=dtype), *(p() for p in parts)])

    def attention():
        x = keras.Input((5, 16))
        y = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
        return keras.Model(x, layers.Dense(4)(y))

    def conv(*args, **options):
        return lambda: layers.Conv2D(*args, **options)

    image = (16, 16, 3)
    models = {
        "dense": row((16,), lambda: layers.Dense(8, activation="relu"), lambda: layers.Dense(1)),
        "batch_norm": row(image, conv(8, 3), layers.BatchNormalization, layers.ReLU, conv(4, 3, use_bias=False), layers.BatchNormalization),
        "convolutions": row(image, conv(8, 3, strides=2), lambda: layers.DepthwiseConv2D(3), lambda: layers.SeparableConv2D(4, 3), lambda: layers.Conv2DTranspose(2, 2)),
        "layer_norm": row((5, 16), lambda: layers.Dense(8), layers.LayerNormalization, lambda: layers.Dense(3, activation="gelu")),
        "group_norm": row(image, conv(8, 3), lambda: layers.GroupNormalization(2), layers.ReLU, conv(2, 1)),
        "embedding": row((6,), lambda: layers.Embedding(20, 8), layers.GlobalAveragePooling1D, lambda: layers.Dense(2), dtype="int32"),
        "lstm": row((5, 8), lambda: layers.LSTM(6, return_sequences=True), lambda: layers.Dense(2)),
        "gru": row((5, 8), lambda: layers.Bidirectional(layers.GRU(6)), lambda: layers.Dense(2)),
        "attention": attention,
        "image_statistics": row(image, lambda: layers.Rescaling(1 / 127.5, -1), lambda: layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.1, 1.2, 1.3]), conv(4, 3)),
        "prelu": row((16,), lambda: layers.Dense(8), layers.PReLU, lambda: layers.Dense(2)),
    }
    for name in _KERAS:
        keras.utils.set_random_seed(1)
        model = models[name]()
        given = np.random.default_rng(0).integers(0, 20, (1, 6)) if name == "embedding" else np.random.default_rng(0).normal(size=(1, *model.input_shape[1:])).astype("f")
        model(given)
        yield name, {v.path: list(v.shape) for v in model.trainable_variables}, lambda path: model.export(str(path), format="onnx", verbose=False), lambda: [v.assign(v + 0.02 * np.random.normal(size=v.shape)) for v in model.trainable_variables]


def _jax(folder):
    import jax
    import jax.numpy as jnp
    import onnx
    from flax import nnx
    from jax2onnx import to_onnx

    class Row(nnx.Module):
        def __init__(self, *parts):
            self.parts = nnx.List(parts)

        def __call__(self, x):
            for p in self.parts:
                x = p(x)
            return x

    class Attending(nnx.Module):
        def __init__(self, r):
            self.body, self.norm = nnx.MultiHeadAttention(2, 16, decode=False, rngs=r), nnx.LayerNorm(16, rngs=r)

        def __call__(self, x):
            return self.norm(x + self.body(x, mask=jnp.tril(jnp.ones((1, 1, 5, 5), bool))))

    class Scaling(nnx.Module):
        def __init__(self, r):
            self.body, self.gamma, self.pos = nnx.Linear(8, 8, rngs=r), nnx.Param(jnp.full((8,), 1e-4)), nnx.Param(0.02 * jax.random.normal(jax.random.key(0), (1, 5, 8)))

        def __call__(self, x):
            angles = jnp.arange(5.0)[:, None] / 100 ** (jnp.arange(0, 8, 2) / 8)
            return x + self.gamma[...] * self.body(x + self.pos[...] + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))

    image = (1, 12, 12, 3)
    builders = {
        "linear": (lambda r: Row(nnx.Linear(16, 8, rngs=r), jax.nn.relu, nnx.Linear(8, 1, rngs=r)), (2, 16)),
        "batch_norm": (lambda r: Row(nnx.Conv(3, 8, (3, 3), rngs=r), nnx.BatchNorm(8, use_running_average=True, rngs=r), jax.nn.relu), image),
        "convolutions": (lambda r: Row(nnx.Conv(3, 8, (3, 3), rngs=r), jax.nn.gelu, nnx.Conv(8, 8, (3, 3), feature_group_count=8, use_bias=False, rngs=r)), image),
        "layer_norm": (lambda r: Row(nnx.Linear(16, 8, rngs=r), nnx.LayerNorm(8, rngs=r), jax.nn.silu, nnx.Linear(8, 3, rngs=r)), (2, 16)),
        "group_norm": (lambda r: Row(nnx.Conv(3, 8, (3, 3), rngs=r), nnx.GroupNorm(8, 2, rngs=r), jax.nn.relu), image),
        "rms_norm": (lambda r: Row(nnx.Linear(16, 8, rngs=r), nnx.RMSNorm(8, rngs=r), nnx.Linear(8, 3, rngs=r)), (2, 16)),
        "embedding": (lambda r: Row(nnx.Embed(20, 8, rngs=r), nnx.Linear(8, 3, rngs=r)), (2, 6)),
        "attention": (Attending, (2, 5, 16)),
        "scales": (Scaling, (2, 5, 8)),
    }
    for name in _FLAX:
        build, shape = builders[name]
        module = build(nnx.Rngs(0))
        if hasattr(module, "eval"):
            module.eval()
        given = [jax.ShapeDtypeStruct(shape, jnp.int32 if name == "embedding" else jnp.float32)]

        def change():
            state = nnx.state(module, nnx.Param)
            nnx.update(module, jax.tree.map(lambda v: v + 0.02 * np.random.normal(size=v.shape).astype("f"), state))

        leaves = jax.tree_util.tree_leaves_with_path(nnx.state(module, nnx.Param))
        yield name, {jax.tree_util.keystr(k): list(v.shape) for k, v in leaves}, lambda path: onnx.save(to_onnx(module, inputs=given, model_name=name), path), change


def main():
    framework, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    np.random.seed(0)
    modules = {"keras": _keras, "jax": _jax}[framework](folder)
    for name in {"keras": _KERAS, "jax": _FLAX}[framework]:
        record = folder / f"{name}.json"
        try:
            _, parameters, export, change = next(modules)
            if framework == "keras":  # tf2onnx leaves out what adds zeros or multiplies by ones
                change()
            export(folder / f"{name}.fresh.onnx")
            change()
            export(folder / f"{name}.onnx")
            record.write_text(json.dumps({"parameters": parameters}))
        except StopIteration:
            record.write_text(json.dumps({"refused": "not built"}))
        except Exception as err:  # an exporter may refuse a module
            record.write_text(json.dumps({"refused": f"{type(err).__name__}: {next(iter(str(err).strip().splitlines()), '')}"[:160]}))


if __name__ == "__main__":
    main()
