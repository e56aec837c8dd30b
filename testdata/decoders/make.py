#!/usr/bin/env python3
"""Write the decoders of this folder: make.py FOLDER [NAME ...]

Small GPT-2, Llama (rotary embeddings, grouped queries), T5 and Whisper decoders (cross
attention) with random weights, exported by PyTorch as they are: one new token, caches of
keys and values that grow by a Concat. Those called -any take any batch and number of new
tokens. Needs torch 2.15.0, transformers 5.23.0, onnx 1.23.2
and onnxscript.
"""

import pathlib
import sys

import onnx
import torch
import transformers
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

LAYERS, VOCAB, SOURCE = 2, 61, 7


def self_cache(past):
    cache = DynamicCache()
    for i in range(LAYERS):
        cache.update(past[2 * i], past[2 * i + 1], i)
    return cache


def flat(cache):
    return tuple(t for layer in cache.layers for t in (layer.keys, layer.values))


class Decoder(torch.nn.Module):
    """A decoder alone."""

    def __init__(self, model):
        super().__init__()
        self.m = model

    def forward(self, input_ids, attention_mask, *past):
        cache = self_cache(past)
        out = self.m(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return (out.logits, *flat(cache))


class CrossDecoder(torch.nn.Module):
    """The decoder of an encoder and a decoder; the keys and values of the encoder's result
    are computed from it."""

    def __init__(self, model, head):
        super().__init__()
        self.m, self.head = model, head

    def forward(self, input_ids, encoder_hidden_states, *past):
        cache = EncoderDecoderCache(self_cache(past), DynamicCache())
        out = self.m(input_ids=input_ids, encoder_hidden_states=encoder_hidden_states, past_key_values=cache, use_cache=True)
        return (self.head(out.last_hidden_state), *flat(cache.self_attention_cache))


class CachedCrossDecoder(CrossDecoder):
    """The same with the keys and values of the encoder's result as inputs."""

    def forward(self, input_ids, *past):
        cross = self_cache(past[2 * LAYERS :])
        cache = EncoderDecoderCache(self_cache(past[: 2 * LAYERS]), cross)
        hidden = torch.zeros(input_ids.shape[0], SOURCE, self.m.config.d_model)
        out = self.m(input_ids=input_ids, encoder_hidden_states=hidden, past_key_values=cache, use_cache=True)
        return (self.head(out.last_hidden_state), *flat(cache.self_attention_cache))


def gpt2():
    c = transformers.GPT2Config(n_layer=LAYERS, n_head=4, n_embd=32, vocab_size=VOCAB, n_positions=32, attn_implementation="sdpa")
    return Decoder(transformers.GPT2LMHeadModel(c)), 4, 8, 0


def gpt2_eager():
    c = transformers.GPT2Config(n_layer=LAYERS, n_head=4, n_embd=32, vocab_size=VOCAB, n_positions=32, attn_implementation="eager")
    return Decoder(transformers.GPT2LMHeadModel(c)), 4, 8, 0


def llama():
    c = transformers.LlamaConfig(num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2, hidden_size=32,
                                 intermediate_size=48, vocab_size=VOCAB, max_position_embeddings=64, attn_implementation="sdpa")
    return Decoder(transformers.LlamaForCausalLM(c)), 2, 8, 0


def t5():
    c = transformers.T5Config(num_layers=LAYERS, num_heads=4, d_model=32, d_kv=8, d_ff=48, vocab_size=VOCAB,
                              relative_attention_num_buckets=8, relative_attention_max_distance=16)
    m = transformers.T5ForConditionalGeneration(c)
    return CrossDecoder(m.decoder, m.lm_head), 4, 8, 32


def whisper():
    c = transformers.WhisperConfig(decoder_layers=LAYERS, encoder_layers=1, decoder_attention_heads=4, encoder_attention_heads=4, d_model=32,
                                   decoder_ffn_dim=48, encoder_ffn_dim=48, vocab_size=VOCAB, max_target_positions=32, max_source_positions=SOURCE,
                                   pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, attn_implementation="sdpa")
    m = transformers.WhisperForConditionalGeneration(c)
    return CachedCrossDecoder(m.model.decoder, m.proj_out), 4, 8, -1


# name: network, opset, exporter
MODELS = {"gpt2": (gpt2, 20), "gpt2-eager": (gpt2_eager, 18), "llama": (llama, 20), "llama-23": (llama, 23), "t5": (t5, 20), "whisper": (whisper, 20),
          "llama-any": (llama, 20)}


def export(name, folder):
    build, opset = MODELS[name]
    torch.manual_seed(7)
    model, heads, size, source = build()
    model = model.eval()
    for p in model.parameters():  # a fresh network is nearly linear: larger weights tell positions apart
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.3)
    open_ = name.endswith("-any")
    held, texts, new = 5, 3 if open_ else 1, 4 if open_ else 1
    past = [torch.randn(texts, heads, held, size) for _ in range(2 * LAYERS)]
    length = torch.export.Dim.DYNAMIC
    batch = {0: length} if open_ else {}
    args, names, shapes = [torch.ones(texts, new, dtype=torch.int64)], ["input_ids"], [{0: length, 1: length} if open_ else {}]
    if source == 0:
        args.append(torch.ones(texts, held + new, dtype=torch.int64))
        names.append("attention_mask")
        shapes.append({**batch, 1: length})
    elif source > 0:
        args.append(torch.randn(texts, SOURCE, source))
        names.append("encoder_hidden_states")
        shapes.append(batch)
    pasts = [f"past_{i}_{k}" for i in range(LAYERS) for k in "kv"]
    rest, rest_names, rest_shapes = list(past), list(pasts), [{**batch, 2: length} for _ in past]
    if source < 0:
        rest += [torch.randn(texts, heads, SOURCE, size) for _ in range(2 * LAYERS)]
        rest_names += [f"cross_{i}_{k}" for i in range(LAYERS) for k in "kv"]
        rest_shapes += [batch for _ in past]
    outputs = ["logits"] + [n.replace("past", "present") for n in pasts]
    path = folder / f"{name}.onnx"
    program = torch.onnx.export(model, (*args, *rest), dynamo=True, opset_version=opset, input_names=names + rest_names, output_names=outputs,
                                dynamic_shapes=(*shapes, tuple(rest_shapes)), optimize=True)
    program.save(path, external_data=False)
    m = onnx.load(path)
    (rename_all if open_ else rename)(m)
    for n in m.graph.node:
        n.ClearField("metadata_props")
        n.ClearField("doc_string")
    for v in list(m.graph.value_info) + list(m.graph.input) + list(m.graph.output):
        v.ClearField("metadata_props")
    m.graph.ClearField("metadata_props")
    onnx.save(m, path)
    print(name, len(m.graph.node), path.stat().st_size)


def rename_all(m):
    """Call the dimensions of inputs batch, new, past and past + new, and no others."""
    for v in m.graph.input:
        d = v.type.tensor_type.shape.dim
        if d[0].dim_param:
            d[0].dim_param = "batch"
        if v.name == "input_ids":
            d[1].dim_param = "new"
        elif v.name == "attention_mask":
            d[1].dim_param = "past + new"
        elif v.name.startswith("past"):
            d[2].dim_param = "past"
    del m.graph.value_info[:]
    for v in m.graph.output:
        for d in v.type.tensor_type.shape.dim:
            d.ClearField("dim_param")


def rename(m):
    """Call the length of the caches past, and what grows with it past + 1."""
    for v in list(m.graph.input) + list(m.graph.output) + list(m.graph.value_info):
        for d in v.type.tensor_type.shape.dim:
            if not d.dim_param:
                continue
            text = d.dim_param.replace(" ", "")
            d.dim_param = "past + 1" if text.endswith("+1") or text.startswith("1+") else "past"
        if v.name == "attention_mask":
            v.type.tensor_type.shape.dim[1].dim_param = "past + 1"


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or MODELS:
        export(name, folder)


if __name__ == "__main__":
    main()
