"""Train a network in PyTorch on CUDA, by its own allocator and from packed arenas.

    torch_arena.py            both, each in a process of its own: a line of JSON for each
    torch_arena.py own|arena  one of them

A line has the losses, which must be the same, the time of the fastest iteration, the bytes
of the device that the process has beyond its first context, and what onnxmem_torch says of
its memory. PYTHONPATH must have python/src and ort/python/src, ONNXMEM_ORT_LIBRARY name the C
library, and ONNXMEM_COMMAND the command.
"""

import contextlib
import json
import subprocess
import sys
import time

BATCH, STEPS = 32, 80  # a plan is made after some twenty


def train(how: str) -> None:
    """Print the line of one allocator."""
    import torch

    iteration = contextlib.nullcontext
    if how == "arena":
        import onnxmem_torch

        onnxmem_torch.install()
        iteration = onnxmem_torch.iteration
    import torchvision

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    torch.zeros(1).cuda()
    before = torch.cuda.mem_get_info()[0]
    net = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    losses, best = [], float("inf")
    for _ in range(STEPS):
        x, y = torch.randn(BATCH, 3, 224, 224).cuda(), torch.randint(0, 1000, (BATCH,)).cuda()
        with iteration():
            loss, took = step(torch, net, optimizer, x, y)
        losses.append(loss)
        best = min(best, took)
    taken = before - torch.cuda.mem_get_info()[0]
    said = onnxmem_torch.memory() if how == "arena" else {"max_reserved": torch.cuda.max_memory_reserved(), "max_allocated": torch.cuda.max_memory_allocated()}
    print(json.dumps({"allocator": how, "losses": losses, "seconds": best, "taken_bytes": taken, "memory": said}), flush=True)


def step(torch, net, optimizer, x, y):
    """Train one batch and return the loss and the seconds."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    value = loss.item()
    return value, time.perf_counter() - began


if sys.argv[1:]:
    train(sys.argv[1])
else:
    for allocator in ("own", "arena"):
        subprocess.run([sys.executable, __file__, allocator], check=True)
