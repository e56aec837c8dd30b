"""Check a plan of onnxmem against its planned file, by the rules of docs/formats alone.

    python check.py out.onnx [out.plan.json]

The script was written from those pages, to show that they suffice. It needs onnx, numpy
and, where ONNX's inference does not know all shapes, onnxruntime. It takes plain plans: of
inference, for one length of each dimension, without bodies, local functions, aliases,
slices, limits, several pools and data-dependent shapes. It prints a line for each
violation and for each certificate that it cannot prove; the exit status is 1 if there is a
violation.
"""

import collections
import itertools
import json
import math
import pathlib
import sys

import onnx

import bounds
import files
import operators
import shapes

Storage = collections.namedtuple("Storage", "bytes maker tensors readers resident")
Counted = collections.namedtuple("Counted", "bytes maker readers output")


class NotPlain(Exception):
    """The plan has something that this script does not know."""


class Checker:
    """The file, its plan, and what is found about them."""

    def __init__(self, file, plan):
        self.file, self.plan = file, plan
        self.raw = pathlib.Path(file).read_bytes()
        self.model = onnx.load_from_string(self.raw)
        self.nodes = self.model.graph.node
        self.last = max(len(self.nodes) - 1, 0)
        self.violations, self.unproven, self.figures = [], [], {}

    def fault(self, code, text):
        self.violations.append((code, text))

    def equal(self, code, what, want, found):
        if want != found:
            self.fault(code, f"{what}: expected {want}, found {found}")

    def run(self):
        self.plain()
        self.infer()
        self.share()
        if not self.violations:  # the order is topological
            self.lay()
            self.overlap()
            self.loads()
            self.program()
            self.prove()
        self.annotations()
        self.equal("bytes", "model.bytes", len(self.raw), self.plan["model"]["bytes"])
        self.equal("sha256", "model.graph_sha256", files.digest(self.raw), self.plan["model"]["graph_sha256"])
        return self

    def plain(self):
        """Refuse what this script does not know (plan.md)."""
        plan, local = self.plan, {(f.domain, f.name) for f in self.model.functions}
        parts = [key for key in ("ranges", "kv", "slices", "traversal", "workspaces", "spans", "values", "dynamic", "subgraphs") if plan.get(key)]
        parts += [key for key in ("aliases", "runtime") if key in plan["sharing"]]
        parts += [p["name"] for p in plan["pools"] if p["name"] not in ("arena", "resident")]
        parts += ["limit"] * ("limit_bytes" in plan["summary"]) + ["training"] * (plan["mode"] != "inference")
        parts += ["states"] * any(p.key == "onnxmem.states" for p in self.model.metadata_props)
        parts += ["bounded sizes"] * any(b["bounded"] for b in plan["buffers"])
        parts += ["functions"] * any((n.domain, n.op_type) in local for n in self.nodes)
        parts += ["bodies"] * any(a.HasField("g") or a.graphs for n in self.nodes for a in n.attribute)
        if plan["format"] != "onnxmem/plan" or plan["version"] != 1 or parts:
            raise NotPlain(", ".join(dict.fromkeys(parts)) or "another version")

    def infer(self):
        """Find the types and sizes of all tensors (storage.md, Tensors)."""
        types = shapes.types(self.file, self.model, self.plan["dims"])
        unknown = [t for n in self.nodes for t in n.output if t and types.get(t, (0,))[0] not in operators.BITS]
        if unknown:
            raise NotPlain(f"tensors of unknown type: {unknown}")
        self.bytes = {t: (math.prod(shape) * operators.BITS[elem] + 7) // 8 for t, (elem, shape) in types.items()}
        for t in self.model.graph.sparse_initializer:
            self.bytes[t.values.name] = sum((math.prod(x.dims) * operators.BITS[x.data_type] + 7) // 8 for x in (t.values, t.indices))
        self.sharing = operators.Sharing(types, shapes.constants(self.model), self.bytes)

    def share(self):
        """Make the storages and the in-place pairs (storage.md, Storages)."""
        graph = self.model.graph
        self.storages, self.of, self.made = [], {}, {}
        base = {}  # of each tensor: itself, or the tensor of which it is a view
        held = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
        for t in held + [v.name for v in graph.input if v.name not in held]:
            self.add(t, -1, 0, t in held)
            base[t] = t
        for step, n in enumerate(self.nodes):
            for x in n.input:
                if x and x not in self.of:
                    return self.fault("order", f"step {step} reads {x} before a node makes it")
                if x:
                    self.storages[self.of[x]].readers.append(step)
            for k, y in ((k, y) for k, y in enumerate(n.output) if y):
                view = self.sharing.view(n, k)
                base[y] = base[n.input[0]] if view else y
                if view and self.plan["sharing"]["views"]:
                    self.of[y], self.made[y] = self.of[n.input[0]], (step, k)
                    self.storages[self.of[y]].tensors.append(y)
                else:
                    self.add(y, step, k, operators.name(n) == "Constant")
        self.outputs = {self.of[v.name] for v in graph.output}
        self.pairs = [self.permitted(n, base) for n in self.nodes]
        self.figures |= {"nodes": len(self.nodes), "tensors": len(set(self.made) - set(held)), "dynamic": 0}

    def add(self, tensor, step, k, resident):
        align = self.plan["alignment"]
        self.of[tensor], self.made[tensor] = len(self.storages), (step, k)
        self.storages.append(Storage(-(-self.bytes[tensor] // align) * align, step, [tensor], [], resident))

    def permitted(self, n, base):
        """The in-place pairs of a node as storages: the result is the first tensor of its own."""
        pairs = [(self.of[y], self.of[x]) for y, x in self.sharing.pairs(n, base) if self.bytes[x] == self.bytes[y]]
        return list(dict.fromkeys((r, o) for r, o in pairs if self.storages[r].tensors[0] in n.output))

    def lifetime(self, i, at=lambda step: step):
        """The first and the last step of a storage, if node n runs at step at(n)."""
        s = self.storages[i]
        if s.resident:
            return 0, self.last
        first = at(s.maker) if s.maker >= 0 else 0
        return first, self.last if i in self.outputs else max([first, *map(at, s.readers)])

    def lay(self):
        """Check the buffers (storage.md, Buffers)."""
        lies = {}
        for k, b in enumerate(self.plan["buffers"]):
            label = f"buffer {k}"
            for t in b["tensors"]:
                if t not in self.of:
                    self.fault("unknown-tensor", f"{label}: {t}")
                elif t in lies:
                    self.fault("duplicate-tensor", f"{label}: {t}")
                else:
                    lies[t] = k
            mine = [t for t in b["tensors"] if lies.get(t) == k]
            if mine != sorted(mine, key=self.made.get):
                self.fault("tensor-order", f"{label}: {mine}")
            if mine:
                self.buffer(label, b, sorted({self.of[t] for t in mine}, key=lambda i: self.made[self.storages[i].tensors[0]]))
            else:
                self.fault("kind", f"{label}: no tensors")
            if b["offset"] < 0 or b["offset"] % self.plan["alignment"]:
                self.fault("alignment", f"{label}: offset {b['offset']}")
        for t, i in self.of.items():
            if t not in lies:
                self.fault("missing-tensor", t)
            elif lies[t] != lies.get(self.storages[i].tensors[0], lies[t]):
                self.fault("view", f"{t} lies apart from {self.storages[i].tensors[0]}")

    def buffer(self, label, b, chain):
        """Check a buffer that holds a chain of storages."""
        for over, result in itertools.pairwise(chain):
            s, old = self.storages[result], self.storages[over]
            if s.maker < 0 or (result, over) not in self.pairs[s.maker] or not self.plan["sharing"]["inplace"]:
                self.fault("inplace", f"{label}: {s.tensors[0]} is no result over {old.tensors[0]}")
            elif old.resident or over in self.outputs or max(old.readers) > s.maker:
                self.fault("inplace", f"{label}: {old.tensors[0]} is needed after {s.tensors[0]} is written over it")
        lives = [self.lifetime(i) for i in chain]
        resident = any(self.storages[i].resident for i in chain)
        kind = "output" if self.outputs & set(chain) else "input" if self.storages[chain[0]].maker < 0 else "activation"
        self.equal("lifetime", label, (min(f for f, _ in lives), max(e for _, e in lives)), (b["first"], b["last"]))
        self.equal("size", label, max(self.storages[i].bytes for i in chain), b["bytes"])
        self.equal("pool", label, "resident" if resident else "arena", b["pool"])
        self.equal("kind", label, "constant" if resident else kind, b["kind"])

    def overlap(self):
        """No two buffers share a byte at a step (storage.md, Overlaps)."""
        for pool in ("arena", "resident"):
            live = []
            for b in sorted((b for b in self.plan["buffers"] if b["pool"] == pool and b["bytes"]), key=lambda b: b["first"]):
                live = [x for x in live if x["last"] >= b["first"]]
                for x in live:
                    if x["offset"] < b["offset"] + b["bytes"] and b["offset"] < x["offset"] + x["bytes"]:
                        self.fault("overlap", f"{x['tensors']} and {b['tensors']} at step {b['first']}")
                live.append(b)

    def loads(self):
        """Compute loads and sizes (storage.md, Loads and Overlaps)."""
        arena = [b for b in self.plan["buffers"] if b["pool"] == "arena"]
        loads = self.sums((b["bytes"], b["first"], b["last"]) for b in arena)
        self.equal("order", "steps", [(n.name, operators.name(n)) for n in self.nodes], [(s["name"], s["op"]) for s in self.plan["steps"]])
        self.equal("load", "load_bytes", loads, [s["load_bytes"] for s in self.plan["steps"]])
        resident = sum(b["bytes"] for b in self.plan["buffers"] if b["pool"] == "resident")
        naive, end = sum(b["bytes"] for b in arena), max((b["offset"] + b["bytes"] for b in arena if b["bytes"]), default=0)
        peak = max(loads, default=naive)
        self.figures |= {"resident_bytes": resident, "naive_bytes": naive, "peak_bytes": peak}
        self.figures |= {"arena_bytes": end, "total_bytes": end + resident, "peak_step": loads.index(peak) if loads else 0}
        self.equal("pool", "pools", [("arena", end), ("resident", resident)], sorted((p["name"], p["bytes"]) for p in self.plan["pools"]))
        if any(b["offset"] + b["bytes"] > resident for b in self.plan["buffers"] if b["pool"] == "resident"):
            self.fault("pool", "a buffer ends behind pool resident")

    def sums(self, lives):
        """The loads of (bytes, first, last)."""
        change = [0] * (len(self.nodes) + 1)
        for bytes, first, last in lives:
            change[first] += bytes
            change[min(last + 1, len(self.nodes))] -= bytes
        return list(itertools.accumulate(change))[: len(self.nodes)]

    def saves(self, step):
        """The in-place pairs of a node that save bytes where they are possible."""
        counts = lambda i: not self.storages[i].resident and self.storages[i].bytes
        return [(r, o) for r, o in self.pairs[step] if self.plan["sharing"]["inplace"] and counts(r) and counts(o) and o not in self.outputs]

    def program(self):
        """Compute the loads of program_order (storage.md, Loads)."""
        order = self.plan["program_order"]["steps"]
        if sorted(order) != list(range(len(self.nodes))):
            return self.fault("program-order", "expected each step once")
        at = {step: i for i, step in enumerate(order)}
        if any(s.maker >= 0 and at[s.maker] > at[r] for s in self.storages for r in s.readers):
            return self.fault("program-order", "expected a topological order")
        lives, sizes = [self.lifetime(i, at.get) for i in range(len(self.storages))], [s.bytes for s in self.storages]
        loads = self.sums((s.bytes, *live) for s, live in zip(self.storages, lives) if not s.resident)
        for i, step in enumerate(order):
            loads[i] -= bounds.matching([(r, o) for r, o in self.saves(step) if lives[o][1] == i], sizes)
        self.equal("program-order", "load_bytes", loads, self.plan["program_order"]["load_bytes"])
        self.figures["program_order_peak_bytes"] = max(loads, default=self.figures["naive_bytes"])

    def prove(self):
        """Prove the certificates (bounds.md), and compare the summary."""
        counted = {i: Counted(s.bytes, s.maker, set(s.readers), i in self.outputs) for i, s in enumerate(self.storages) if not s.resident}
        before = [sorted({self.made[x][0] for x in n.input if x} - {-1}) for n in self.nodes]
        prover = bounds.Bounds(counted, before, [self.saves(step) for step in range(len(self.nodes))])
        proven = claimed = 0 if self.nodes else self.figures["peak_bytes"]
        for c in self.plan["certificates"]:
            steps = c.get("steps", [])
            self.equal("certificate", "nodes", [self.nodes[s].name for s in steps], c["nodes"])
            if c["kind"] != "search" and prover.certificate(c["kind"], steps) >= c["value_bytes"]:
                proven = max(proven, c["value_bytes"])
            else:
                self.unproven.append(c)
                claimed = max(claimed, c["value_bytes"])
        summary = self.plan["summary"]
        for key, want in self.figures.items():
            self.equal("summary", key, want, summary[key])
        peak, bound = self.figures["peak_bytes"], summary["lower_bound_bytes"]
        if bound > min(peak, max(proven, claimed)):
            self.fault("certificate", f"lower_bound_bytes: expected at most {min(peak, max(proven, claimed))}, found {bound}")
        self.equal("summary", "schedule_optimal", bound == peak <= proven or claimed == peak, summary["schedule_optimal"])
        if self.figures["arena_bytes"] == peak:
            self.equal("summary", "placement_optimal", True, summary["placement_optimal"])

    def annotations(self):
        """Compare the metadata of the file (planned-file.md, Annotations)."""
        props, summary = {p.key: p.value for p in self.model.metadata_props}, self.plan["summary"]
        for key in ("arena_bytes", "peak_bytes", "lower_bound_bytes"):
            self.equal("annotation", key, str(summary[key]), props.get(f"onnxmem.{key}"))
        self.equal("annotation", "dims", json.dumps(self.plan["dims"], sort_keys=False, separators=(",", ":")), props.get("onnxmem.dims"))
        lies = {t: b for b in self.plan["buffers"] for t in b["tensors"]}
        for step, n in enumerate(self.nodes):
            places = [f"{t}={lies[t]['pool']}:{lies[t]['offset']}:{lies[t]['bytes']}" for t in n.output if t in lies]
            found = [p.value for p in n.metadata_props if p.key == "onnxmem.offset"]
            self.equal("annotation", f"step {step}", [" ".join(places)] if places else [], found)


def check(file, plan):
    """Check a plan, a dict, against its planned file, and return the Checker."""
    return Checker(file, plan).run()


def main(file, plan=None):
    plan = plan or file.removesuffix(".onnx") + ".plan.json"
    try:
        found = check(file, files.read(plan))
    except NotPlain as what:
        sys.exit(f"{plan}: not a plain plan: {what}")
    for code, text in found.violations[:100]:
        print(f"{code}: {text[:300]}")
    for c in found.unproven:
        print(f"not proven: no order is below {c['value_bytes']} bytes ({c['kind']} of {c['nodes'][:3]})")
    print("not valid" if found.violations else f"valid: {len(found.nodes)} nodes, peak {found.figures['peak_bytes']}, arena {found.figures['arena_bytes']}")
    return bool(found.violations)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
