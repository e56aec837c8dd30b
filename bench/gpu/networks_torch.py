"""Measure PyTorch's own networks on the GPU: a line of JSON for each measurement.

    networks_torch.py BATCH STEPS MODE NETWORK [PRECISION]

MODE is eager or compile. The batch is copied from the host at every step, as onnxmem does. Times are the fastest of STEPS steps, in seconds, of inference and
of a training step with AdamW; float32, TF32 off; bytes are what PyTorch's allocator reserves.

With a PRECISION, only the training step is measured: float32, tf32 (products and convolutions), bf16 or fp16 (torch.autocast, with a scaled loss for fp16, and TF32 for
what stays in float32). MODE export writes the network to the file STEPS.
"""

import json
import sys
import time

import torch

batch, mode, name = int(sys.argv[1]), sys.argv[3], sys.argv[4]
steps = 0 if mode == "export" else int(sys.argv[2])
precision = sys.argv[5] if len(sys.argv) > 5 else None
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision not in (None, "float32")
sixteen = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
tokens = 512  # of a sequence of GPT-2


def network():
    """The network with random weights, and an input."""
    if name == "bert":
        import transformers

        model = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa"))
        return model, torch.randint(0, 30000, (batch, 128))
    if name == "gpt2":
        import transformers

        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="eager" if mode == "export" else "sdpa", use_cache=False))
        return model, torch.randint(0, 50257, (batch, tokens))
    import torchvision

    known = {"mnasnet": "mnasnet1_0"}
    more = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    if name == "r3d_18":
        model, shape = torchvision.models.video.r3d_18(), (3, 16, 112, 112)
    else:
        model, shape = getattr(torchvision.models, known.get(name, name))(**more), (3, 224, 224)
    return model, torch.randn(batch, *shape)


def first(y):
    if hasattr(y, "pooler_output"):
        return y.pooler_output
    return y.logits.flatten(0, 1) if hasattr(y, "logits") and name == "gpt2" else y


def measure(kind, step):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    best = None
    for i in range(steps + 3):  # three to warm up, the first of which compiles
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        took = time.perf_counter() - began
        if i >= 3:
            best = took if best is None else min(best, took)
    print(json.dumps({"mode": kind, "seconds": best, "reserved_bytes": torch.cuda.max_memory_reserved(), "version": torch.__version__}), flush=True)


model, images = network()
if mode == "export":

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(ids).logits

    torch.onnx.export(Logits().train(False), (images,), sys.argv[2], input_names=["ids"], output_names=["logits"], opset_version=17, dynamo=False)
    sys.exit()
labels = torch.zeros(batch * tokens if name == "gpt2" else batch, dtype=torch.long)
model = model.cuda()
forward = torch.compile(model) if mode == "compile" else model


def infer():
    with torch.no_grad():
        first(forward(images.cuda())).cpu()


if precision is None:
    model.eval()
    measure("inference", infer)
model.train()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")


def train():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=sixteen or torch.bfloat16, enabled=sixteen is not None):
        loss = torch.nn.functional.cross_entropy(first(forward(images.cuda())), labels.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    loss.item()


measure("adamw", train)
