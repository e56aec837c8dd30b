"""Check the PyTorch memory snapshot of a plan: load it as the viewer does, and replay it."""

import pickle


class _Plain(pickle.Unpickler):
    """An unpickler that loads only builtin values, as the viewer does."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}: expected plain values")


def load(path):
    with open(path, "rb") as f:
        return _Plain(f).load()


def faults(snapshot, plan):
    """Return the faults of a snapshot, compared with its plan."""
    return [*_segments(snapshot, plan), *_trace(snapshot, plan)]


def _segments(snapshot, plan):
    sizes = [s["total_size"] for s in snapshot["segments"]]
    want = [p["bytes"] for p in plan["pools"] if p["bytes"]]
    if sizes != want:
        yield f"segments of {sizes} bytes, the pools have {want}"
    for s in snapshot["segments"]:
        for key in ("device", "address", "stream", "segment_type", "allocated_size", "active_size", "frames"):
            if key not in s:
                yield f"a segment lacks {key}"
        at = s["address"]
        for b in s["blocks"]:
            if b["address"] != at or b["state"] not in ("active_allocated", "inactive") or "frames" not in b:
                yield f"a block at {b['address']}, expected at {at}: {b}"
            at += b["size"]
        if at != s["address"] + s["total_size"]:
            yield f"the blocks of the segment at {s['address']} end at {at}"


def _trace(snapshot, plan):
    if len(snapshot["device_traces"]) != 1:
        yield f"{len(snapshot['device_traces'])} devices"
        return
    live, load, loads = {}, 0, {}
    arena = plan["summary"]["arena_bytes"]
    for e in snapshot["device_traces"][0]:
        place, size = e["addr"], e["size"]
        inside = size if place < arena else 0  # the host's buffers do not count as load
        if e["action"] == "alloc":
            if any(place < other + bytes_ and other < place + size for other, bytes_ in live.items()):
                yield f"step {e['time_us']}: two allocations at {place}"
            live[place] = size
            load += inside
        elif e["action"] == "free_completed":
            if live.pop(place, None) != size:
                yield f"step {e['time_us']}: {size} bytes are freed at {place}, others are there"
            load -= inside
        elif e["action"] != "free_requested":
            yield f"action {e['action']}"
        if not all(k in f for f in e["frames"] for k in ("filename", "line", "name")) or not e["frames"]:
            yield f"frames {e['frames']}"
        loads[e["time_us"]] = load
    last = 0
    for i, step in enumerate(plan["steps"]):
        last = loads.get(i, last)
        if last != step["load_bytes"]:
            yield f"step {i}: load {last}, the plan says {step['load_bytes']}"
            return
    kept = {b["address"]: b["size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
    if not live.items() <= kept.items():
        yield "what is allocated at the end is not what the blocks hold"
