"""Measure PyTorch's own networks on the GPU: a line of JSON for each measurement.

    networks_torch.py BATCH STEPS MODE NETWORK

MODE is eager or compile. The batch is copied from the host at every step, as onnxmem does. Times are the fastest of STEPS steps, in seconds, of inference and
of a training step with AdamW; float32, TF32 off; bytes are what PyTorch's allocator reserves.
"""

import json
import sys
import time

import torch

batch, steps, mode, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def network():
    """The network with random weights, and an input."""
    if name == "bert":
        import transformers

        model = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa"))
        return model, torch.randint(0, 30000, (batch, 128))
    import torchvision

    known = {"mnasnet": "mnasnet1_0"}
    more = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    if name == "r3d_18":
        model, shape = torchvision.models.video.r3d_18(), (3, 16, 112, 112)
    else:
        model, shape = getattr(torchvision.models, known.get(name, name))(**more), (3, 224, 224)
    return model, torch.randn(batch, *shape)


def first(y):
    return y.pooler_output if hasattr(y, "pooler_output") else y


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
labels = torch.zeros(batch, dtype=torch.long)
model = model.cuda()
forward = torch.compile(model) if mode == "compile" else model


def infer():
    with torch.no_grad():
        first(forward(images.cuda())).cpu()


model.eval()
measure("inference", infer)
model.train()
optimizer = torch.optim.AdamW(model.parameters())


def train():
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(first(forward(images.cuda())), labels.cuda())
    loss.backward()
    optimizer.step()
    loss.item()


measure("adamw", train)
