"""The networks of crosscheck/run exports that tf2onnx writes.

    python -m crosscheck.exporting_tf FOLDER    write NAME.onnx, and NAME.npz with inputs

This runs in an environment of its own, with tensorflow-cpu, tf2onnx and onnx 1.18.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf
import tf2onnx
from tensorflow import keras
from tensorflow.keras import layers


class Greedy(tf.Module):
    """Six steps of a loop, each of which takes the index of a largest element."""

    def __init__(self, random):
        super().__init__()
        self.weights = tf.Variable(random.normal(size=(32, 64)).astype("f"))

    def __call__(self, x, training=False):
        state = tf.zeros_like(x)
        best = tf.TensorArray(tf.int32, 6)
        for i in tf.range(6):
            state = tf.tanh(state + tf.einsum("bi,ij->bj", x, self.weights[:, :32]))
            best = best.write(i, tf.argmax(tf.matmul(state, self.weights), -1, output_type=tf.int32))
        return tf.transpose(best.stack())


def _recurrent():
    words = keras.Input((None,), dtype="int32")
    y = layers.Bidirectional(layers.LSTM(32, return_sequences=True))(layers.Embedding(500, 48)(words))
    y = layers.LayerNormalization()(layers.MultiHeadAttention(4, 16)(y, y))
    return keras.Model(words, layers.Dense(6, activation="softmax")(layers.GRU(40)(y)))


def _write(path, model, given):
    (name, value), = given.items()
    signature = [tf.TensorSpec((None, *(None if value.dtype.kind == "i" else n for n in value.shape[1:])), value.dtype, name=name)]
    called = tf.function(lambda x: model(x, training=False), input_signature=signature)
    tf2onnx.convert.from_function(called, input_signature=signature, opset=18, output_path=str(path))
    np.savez(path.with_suffix(".npz"), **given)


def main():
    folder = pathlib.Path(sys.argv[1])
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    pictures = keras.applications.EfficientNetV2B0(weights=None, input_shape=(96, 96, 3), classes=10, include_preprocessing=False)
    _write(folder / "keras_efficientnetv2.onnx", pictures, {"x": random.uniform(-1, 1, (2, 96, 96, 3)).astype("f")})
    _write(folder / "keras_recurrent.onnx", _recurrent(), {"words": random.integers(1, 500, (2, 19)).astype("int32")})
    _write(folder / "tf_loop.onnx", Greedy(random), {"x": random.normal(size=(3, 32)).astype("f")})


if __name__ == "__main__":
    main()
