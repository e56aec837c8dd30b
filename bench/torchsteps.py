#!/usr/bin/env python3
"""Measure training steps of PyTorch, or export one of its networks, for steptimes.py and process.py.

    bench/torchsteps.py NAME [--batch 2] [--steps 3] [--threads 1] [--momentum 0] [--autocast bf16]
                        [--compile] [--stay]
    bench/torchsteps.py lstm --export lstm.onnx

It prints one JSON object: the processor time of a step and the smallest time by the clock,
in milliseconds, and with --compile the seconds that the first step took. With --autocast, the
network and its loss are computed in torch.autocast("cpu"), and float16 has a GradScaler. With --stay it then
waits until its standard input is closed. Needs torch, torchvision and, for BERT and GPT-2,
transformers; --export needs onnx.
"""

import argparse
import json
import sys
import time
import warnings

import torch

IMAGE = (3, 224, 224)
VOCABULARY = 10000  # of the LSTM
TOKENS = 128  # of BERT and GPT-2
STEPS = 64  # of the LSTM


class LanguageModel(torch.nn.Module):
    """An LSTM of two layers between an embedding and a product."""

    def __init__(self, width=512):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, width)
        self.lstm = torch.nn.LSTM(width, width, 2, batch_first=True)
        self.output = torch.nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.output(self.lstm(self.embedding(tokens))[0])


def build(name, batch):
    """Return the network, its input, the labels, and the function from its result to what the loss reads."""
    zeros = lambda *shape: torch.zeros(*shape, dtype=torch.long)
    by_token = lambda scores: scores.transpose(1, 2)  # classes behind the batch
    if name == "bert":
        import transformers

        model = transformers.BertModel(transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
        return model, zeros(batch, TOKENS), zeros(batch, TOKENS), lambda out: by_token(out.last_hidden_state)
    if name == "gpt2":
        import transformers

        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False))
        return model, zeros(batch, TOKENS), zeros(batch, TOKENS), lambda out: by_token(out.logits)
    if name == "lstm":
        return LanguageModel(), zeros(batch, STEPS), zeros(batch, STEPS), by_token
    import torchvision

    if name == "r3d_18":
        return torchvision.models.video.r3d_18(), torch.randn(batch, 3, 16, 112, 112), zeros(batch), lambda out: out
    more = {"googlenet": {"init_weights": False, "aux_logits": False}, "alexnet": {"dropout": 0.0}, "convnext_tiny": {"stochastic_depth_prob": 0.0}}
    model = getattr(torchvision.models, {"mnasnet": "mnasnet1_0"}.get(name, name))(**more.get(name, {}))
    return model, torch.randn(batch, *IMAGE), zeros(batch), lambda out: out


def measure(name, batch, steps, momentum, autocast, compiled, stay):
    model, data, labels, scores = build(name, batch)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=momentum)
    forward = torch.compile(model) if compiled else model
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(autocast)
    scaler = torch.amp.GradScaler("cpu", enabled=half is torch.float16)
    walls = []
    for i in range(steps + 1):
        if i == 1:  # the first one prepares
            start = time.process_time()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", half or torch.bfloat16, enabled=half is not None):
            loss = torch.nn.functional.cross_entropy(scores(forward(data)), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()
        walls.append(time.perf_counter() - begin)
    result = {"cpu_ms": (time.process_time() - start) / steps * 1e3, "wall_ms": min(walls[1:]) * 1e3}
    print(json.dumps(result | ({"first_s": walls[0]} if compiled else {})), flush=True)
    if stay:  # with the network and its gradients, as a program between two steps
        sys.stdin.read()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("name")
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--momentum", type=float, default=0.0)
    p.add_argument("--autocast", choices=["bf16", "fp16"])
    p.add_argument("--compile", action="store_true")
    p.add_argument("--stay", action="store_true")
    p.add_argument("--export", metavar="FILE")
    args = p.parse_args()
    torch.manual_seed(1)
    if not args.export:
        torch.set_num_threads(args.threads)
        measure(args.name, args.batch, args.steps, args.momentum, args.autocast, args.compile, args.stay)
        return
    model, data, *_ = build(args.name, args.batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about other batches
        torch.onnx.export(model.eval(), (data,), args.export, dynamo=False, opset_version=17, input_names=["tokens"], output_names=["logits"])


if __name__ == "__main__":
    main()
