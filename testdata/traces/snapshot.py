"""Writes the pickles of this folder: a memory snapshot as torch.cuda.memory._dump_snapshot
writes it, with the fields that PyTorch's viewer reads, in several protocols,
and one that would run code.

    python snapshot.py
"""

import gzip
import os
import pickle

HERE = os.path.dirname(os.path.abspath(__file__))


def snapshot(iterations=5):
    frames = [{"filename": "train.py", "line": line, "name": "step"} for line in (10, 11, 12)]
    events, time = [], 0
    base, stream = 0x7F00_0000_0000, 0

    def event(action, addr, size, stream=stream):
        nonlocal time
        time += 7
        events.append({"action": action, "addr": addr, "size": size, "stream": stream, "time_us": time, "frames": frames[: 1 + time % 3], "compile_context": "N/A", "user_metadata": ""})

    def free(addr, size, stream=stream):
        event("free_requested", addr, size, stream)
        event("free_completed", addr, size, stream)

    free(base - 4096, 2048)  # from before the recording
    event("segment_alloc", base, 20 << 20)
    event("alloc", base, 6 << 20)  # the parameters
    for _ in range(iterations):
        event("alloc", base + (6 << 20), 3 << 20)
        event("alloc", base + (9 << 20), 5 << 20)
        event("alloc", base + (14 << 20), 1000, 140)
        free(base + (6 << 20), 3 << 20)
        event("alloc", base + (6 << 20), 2 << 20)
        free(base + (14 << 20), 1000, 140)
        free(base + (9 << 20), 5 << 20)
        free(base + (6 << 20), 2 << 20)
    event("snapshot", 0, 0)
    return {
        "segments": [{"device": 0, "address": base, "total_size": 20 << 20, "stream": 0, "segment_type": "large", "blocks": []}],
        "device_traces": [[], events],
        "allocator_settings": {"max_split_size": -1, "garbage_collection_threshold": 0.8, "expandable_segments": False},
        "external_annotations": [],
    }


class Code:
    def __reduce__(self):
        return os.system, ("touch was-run",)


for protocol in (2, 4, 5):
    with gzip.GzipFile(os.path.join(HERE, f"snapshot.{protocol}.pickle.gz"), "wb", mtime=0) as f:
        pickle.dump(snapshot(), f, protocol)
with open(os.path.join(HERE, "code.pickle"), "wb") as f:
    pickle.dump({"device_traces": [Code()]}, f, 4)
