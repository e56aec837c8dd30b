"""The networks of crosscheck/run exports that optimum writes, and what ONNX Runtime's optimizer for transformers makes of them.

    python -m crosscheck.exporting_optimum FOLDER    write NAME.onnx, and NAME.npz with inputs

This runs in an environment of its own: optimum-onnx needs transformers 4.57, and no diffusers beside it.
"""

import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from onnxruntime.transformers import optimizer
from optimum.exporters.onnx import onnx_export_from_model

_HEADS, _WIDE = 4, 128
_random = np.random.default_rng(0)


def _ids(*shape):
    return _random.integers(3, 1000, shape)


def _cache(layers, lengths):
    """Return keys and values of layers at batch 2; lengths by the part of the name that tells one cache from another."""
    names = [(f"past_key_values.{i}.{part}{kind}", n) for i in range(layers) for part, n in lengths.items() for kind in ("key", "value")]
    return {name: _random.normal(size=(2, _HEADS, n, _WIDE // _HEADS)).astype("f") for name, n in names}


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(0)
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=_WIDE, n_layer=2, n_head=_HEADS, vocab_size=2000))
    t5 = transformers.T5ForConditionalGeneration(transformers.T5Config(d_model=_WIDE, d_ff=256, d_kv=32, num_layers=2, num_heads=_HEADS, vocab_size=2000, decoder_start_token_id=0))
    vit = transformers.ViTForImageClassification(transformers.ViTConfig(hidden_size=_WIDE, num_hidden_layers=2, num_attention_heads=_HEADS, intermediate_size=256, image_size=64))
    seen = {"encoder_attention_mask": np.ones((2, 11), np.int64)}
    both = _cache(2, {"decoder.": 6, "encoder.": 11})
    pixels = _random.normal(size=(2, 3, 64, 64)).astype("f")
    for model, task, opset, files in (
        (gpt2, "text-generation-with-past", 17, {"model": ("gpt2", {"input_ids": _ids(2, 3), "attention_mask": np.ones((2, 9), np.int64), "position_ids": np.tile(np.arange(6, 9), (2, 1)), **_cache(2, {"": 6})})}),
        (t5, "text2text-generation-with-past", 17, {
            "encoder_model": ("t5_encoder", {"input_ids": _ids(2, 11), "attention_mask": np.ones((2, 11), np.int64)}),
            "decoder_with_past_model": ("t5_past", {"input_ids": _ids(2, 1), **seen, **both}),
            "decoder_model_merged": ("t5_merged", {"input_ids": _ids(2, 1), **seen, "encoder_hidden_states": _random.normal(size=(2, 11, _WIDE)).astype("f"), **both, "use_cache_branch": np.array([True])}),
        }),
        (vit, "image-classification", 18, {"model": ("vit", {"pixel_values": pixels})}),
    ):
        with tempfile.TemporaryDirectory() as written:
            onnx_export_from_model(model, pathlib.Path(written), task=task, do_validation=False, opset=opset)
            for file, (name, given) in files.items():
                shutil.copy(pathlib.Path(written, f"{file}.onnx"), folder / f"optimum_{name}.onnx")
                np.savez(folder / f"optimum_{name}.npz", **given)
    for name in ("gpt2", "vit"):
        made = optimizer.optimize_model(str(folder / f"optimum_{name}.onnx"), model_type=name, num_heads=_HEADS, hidden_size=_WIDE, opt_level=0)
        made.save_model_to_file(str(folder / f"optimum_{name}_fused.onnx"))
        shutil.copy(folder / f"optimum_{name}.npz", folder / f"optimum_{name}_fused.npz")


if __name__ == "__main__":
    main()
