"""ONNX Runtime's memory in one packed arena.

    import onnxmem_ort

    session = onnxmem_ort.InferenceSession("model.onnx")
    session.run(None, {"x": x})
    session.memory["arena_bytes"]

``InferenceSession`` is ONNX Runtime's class with another allocator. The first run with
each combination of input shapes records what it allocates; from then on, every block
has its place in an arena, which the command ``onnxmem`` packs where that saves enough.
Other shapes use the plan of larger ones, and idle memory is given back. Results are the
same, bit for bit. With ``arena="plan"``, a model that ``onnxmem optimize --runtime
onnxruntime-arena`` has planned runs in its plan. ``report()`` draws what a session has
taken, and ``session.notes`` says what was decided and why. ``install()`` gives ONNX
Runtime's own class what this one has.

Sizes are bytes. docs/onnxruntime.md of the project describes what is recorded and what
happens when a run deviates.
"""

from ._session import InferenceSession, Memory, install, report, uninstall

__all__ = ["InferenceSession", "Memory", "install", "report", "uninstall"]
