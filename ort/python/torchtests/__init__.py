"""Tests of onnxmem_torch's compiled steps, which need PyTorch, torchvision, timm and transformers: `crosscheck/run compiled`."""
