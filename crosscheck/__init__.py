"""Check the output of onnxmem with onnx.checker and ONNX Runtime.

    make crosscheck                             every model
    make crosscheck ARGS=--subset               a few small ones, for CI
    make crosscheck ARGS='--only gru_lm-dyn'    one

Each model is processed by the command (optimize, verify, inspect) as by a user.
Then onnx.checker must accept the planned file. ONNX Runtime must load it, compute
the same bytes as with the source file from the same inputs, run the nodes in the
file's order, and produce every tensor with the shape and size of the plan.

The modules, in the order in which a model passes through them:

    cases.py    the models, with input shapes and symbol values
    workdir.py  the folder for models and weights
    apart.py    one model at a time, each in its own process
  examine.py  one model
      command.py    onnxmem itself
      probe.py      copies of a model that make ONNX Runtime reveal more
      feeds.py      random inputs that a model accepts
      runtime.py    ONNX Runtime: run, profile
      order.py      compares the executed order with the file's
      shapes.py     compares the runtime's shapes with the plan's
    table.py    the results as text; pages.py: the tables of docs/results

Training steps (--kind training) are compared with torch in float64 and with central
differences:

    networks.py    the networks, reduced in size, with their losses; build.py: our own networks
    training.py    one network
      step.py        the training graph in ONNX Runtime
      torchgraph.py  the inference model in torch; autograd.py: its gradients
      kinks.py       data for which the gradient does not depend on rounding
      differences.py central differences
    optimizers.py  five steps of each optimizer; torchsteps.py: the same steps in torch

Runs of plans (--kind run) are compared with ONNX Runtime and with unplanned runs, and
checked by poisoning dead bytes:

    running.py     one model or training step
    learn.py       a loop whose loss falls: examples/train-mnist-like

Scheduling problems from PyTorch modules (crosscheck/run corpus):

    corpus.py      traces modules and orders the problems
      modules.py     the modules: names and inputs
      storages.py    onnxmem_torch's problem compared with torch's own storages

What onnxmem_torch compiles beside eager PyTorch (crosscheck/run compiled) is in ort/python/torchtests.

Torch takes 5.5 GB and is installed when a check needs it; --subset does not, but uses it where it is.
"""
