"""Check the output of onnxmem with onnx.checker and ONNX Runtime.

    make crosscheck                             every model
    make crosscheck ARGS=--subset               a few small ones, for CI
    make crosscheck ARGS='--only gru_lm-dyn'    one

A model goes through the command (optimize, verify, inspect) as a user would
send it. Then onnx.checker must accept the planned file; ONNX Runtime must load
it, give the same bytes as the file that it came from for the same inputs, run
its nodes in the file's order, and make every tensor in the shape and size that
the plan gives it.

The way of a model through the modules:

    cases.py    which models, with which input shapes and symbol values
    workdir.py  the folder where models and weights lie
    apart.py    one model at a time, each in a process of its own
  examine.py  one model
      command.py    onnxmem itself
      probe.py      copies of a model that ONNX Runtime can tell more about
      feeds.py      random inputs that a model accepts
      runtime.py    ONNX Runtime: run, profile
      order.py      executed order against the file's
      shapes.py     the runtime's shapes against the plan's
    table.py    the results as text; pages.py as the tables of docs/results

Training steps (--kind training) are held against torch in float64 and against
central differences:

    networks.py    which networks, made small, with which loss; build.py those of our own
    training.py    one of them
      step.py        the training graph in ONNX Runtime
      torchgraph.py  the inference model in torch; autograd.py its gradients
      kinks.py       data that leave no doubt which gradient is right
      differences.py central differences
    optimizers.py  five steps of each optimizer; torchsteps.py those of torch

Plans that run (--kind run) are held against ONNX Runtime, against themselves
unplanned, and against poison:

    running.py     one model or training step
    learn.py       a loop whose loss falls: examples/train-mnist-like

Torch takes 5.5 GB and is installed when a check needs it; --subset does not.
"""
