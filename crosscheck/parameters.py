"""Compare what onnxmem trains with what a module's author calls its parameters.

    crosscheck/run parameters                      # export all modules, and check them
    crosscheck/run parameters --files FOLDER lstm  # keep what is exported, or check what was

Each module is exported twice: as it is made (weights of ones, biases of zeros, which
exporters merge) and with other values of all parameters. An initializer holds parameters if
and only if the two files differ there: that needs no names, and covers what an exporter
transposed, joined, split or computed from parameters. It must then be trained, in both
files, and nothing else may be. --table writes the rows of docs/results/parameters.md.
"""

import argparse
import collections
import contextlib
import gc
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import traceback
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

from . import parameter_reasons

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_EXPORTERS = {  # title: which modules; how
    "dynamo": ("all", {"dynamo": True}),
    "dynamo, opset 23": ("some", {"dynamo": True, "opset_version": 23}),
    "TorchScript": ("all", {"dynamo": False}),
    "TorchScript, opset 11": ("plain", {"dynamo": False, "opset_version": 11}),
    "TorchScript, for training": ("plain", {"dynamo": False, "do_constant_folding": False, "training": "TRAINING"}),
}
_NEWER = ("batch_norm", "group_norm", "layer_norm", "rms_norm", "attention", "encoder_layer", "lstm", "rotary", "activations", "transformers/LlamaForCausalLM")  # with operators that opset 23 changes
_FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="default: all")
    parser.add_argument("--files", type=pathlib.Path, help="where the exported files are kept")
    parser.add_argument("--binary", help="the command (default: it is built)")
    parser.add_argument("--table", type=pathlib.Path, help="write the table, in Markdown")
    parser.add_argument("--exported", action="store_true", help="check what was exported, export nothing")
    parser.add_argument("--only", metavar="EXPORTER", help="one exporter, by its title")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        files = args.files or work
        files.mkdir(parents=True, exist_ok=True)
        binary = args.binary or build(work)
        rows = []
        for name, exporter, write in _cases():
            if args.modules and name not in args.modules or args.only and exporter != args.only:
                continue
            base = files / re.sub(r"[^\w.-]", "_", f"{name}.{exporter}")
            if args.exported and not _paths(base)[2].exists():
                if exporter != _STRIPPED or not (files / re.sub(r"[^\w.-]", "_", f"{name}.dynamo.json")).exists():
                    continue
            try:
                record = _exported(base, write)
            except Exception as err:  # an exporter may refuse a module
                record = {"refused": f"{type(err).__name__}: {next(iter(str(err).strip().splitlines()), '')}"[:160]}
                _paths(base)[2].write_text(json.dumps(record))
            row = _check(name, exporter, base, record, binary, work)
            rows.append(row)
            print(_line(row), flush=True)
        faults = [r for r in rows if r["faults"]]
        count = collections.Counter(r["kind"] for r in rows)
        modules = {r["name"] for r in rows if r["kind"] not in ("not exported", "refused")}
        print(f"{len(modules)} modules, {len(rows)} files: " + ", ".join(f"{n} {k}" for k, n in count.most_common()) + f"; {len(faults)} faults")
        if args.table:
            args.table.write_text(_table(rows))
        return 1 if faults else 0


def build(work):
    """Build the command into a folder, and return its path."""
    binary = work / "onnxmem"
    subprocess.run(["go", "build", "-o", binary, "./cmd/onnxmem"], cwd=_ROOT, check=True)
    return binary


def _cases():
    """Yield the name of each module, the exporter, and a function that writes its files and returns its record."""
    from . import parameter_modules, parameter_others

    for name, build in parameter_modules.MODULES.items():
        for exporter, (which, options) in _EXPORTERS.items():
            if name in {"all": parameter_modules.MODULES, "plain": parameter_modules.PLAIN, "some": _NEWER}[which]:
                yield name, exporter, lambda base, build=build, options=options: _torch(base, build, options)
        yield name, _STRIPPED, _stripped
    for name, exporter, write in parameter_others.cases():
        yield name, exporter, write


_STRIPPED = "dynamo, without metadata"  # as other tools leave the file, and as older releases wrote it


def _stripped(base):
    source = base.with_name(base.name.removesuffix(re.sub(r"[^\w.-]", "_", _STRIPPED)) + "dynamo")
    record = json.loads(_paths(source)[2].read_text())
    if "refused" not in record:
        for have, want in zip(_paths(source)[:2], _paths(base)[:2]):
            model = onnx.load(have)
            del model.graph.metadata_props[:]
            for v in model.graph.value_info:
                del v.metadata_props[:]
            onnx.save(model, want)
    return record


def _paths(base):
    return base.with_name(base.name + ".fresh.onnx"), base.with_name(base.name + ".onnx"), base.with_name(base.name + ".json")


def _exported(base, write):
    _, _, record = _paths(base)
    if not record.exists():
        found = write(base)
        record.write_text(json.dumps(found))
        gc.collect()
    return json.loads(record.read_text())


def _torch(base, build, options):
    import logging

    import torch

    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    fresh, other, _ = _paths(base)
    torch.manual_seed(0)
    module, given = build()
    module = module.eval()
    options = dict(options)
    if options.pop("training", None):
        module = module.train()
        for part in module.modules():  # one that drops or draws is not compared
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
            if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                part.momentum = 0.0  # tracing would move the running statistics, by other weights in each file
        options["training"] = torch.onnx.TrainingMode.TRAINING
    if options["dynamo"]:
        options |= {"verbose": False, "external_data": False}
    parameters = {n: p for n, p in module.named_parameters()}
    buffers = {n: b.clone() for n, b in module.named_buffers()}
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet:
        torch.onnx.export(module, given, str(fresh), **options)
    out = module(*given)
    out = out[0] if isinstance(out, (tuple, list)) else out
    used = [n for n, p in parameters.items() if p.requires_grad]
    grads = torch.autograd.grad(out.float().square().sum(), [parameters[n] for n in used], allow_unused=True)
    reached = {n for n, g in zip(used, grads) if g is not None}
    with torch.no_grad():
        for name, p in parameters.items():
            if p.requires_grad:
                p.add_(0.02 * torch.randn_like(p))
        for name, b in module.named_buffers():  # running statistics move
            b.copy_(buffers[name])
    with quiet:
        torch.onnx.export(module, given, str(other), **options)
    return {"parameters": {n: list(p.shape) for n, p in parameters.items() if n in reached}}


def _check(name, exporter, base, record, binary, work):
    row = {"name": name, "exporter": exporter, "faults": [], "said": [], "kind": "the same", "parameters": 0, "elements": 0, "trained": 0, "trained_elements": 0}
    if "refused" in record:
        return row | {"kind": "not exported", "said": [record["refused"]]}
    fresh, other, _ = _paths(base)
    row["parameters"], row["elements"] = len(record["parameters"]), sum(int(np.prod(s)) for s in record["parameters"].values())
    first, second = Weights(fresh), Weights(other)
    there = first.places(second)
    held = {n for n in second.values if not first.same(there.get(n, n), n, second)}
    found = {}
    for title, weights in (("fresh", first), ("changed", second)):
        trained, error = _trained(binary, weights.path, work, record.get("flags", ()))
        if error:
            known = parameter_reasons.refused(name, exporter)
            return row | {"kind": "refused", "said": [known or error], "faults": [] if known else [error]}
        trained = {weights.root(n) for n in trained}
        wanted = {weights.root(there.get(n, n) if weights is first else n) for n in held}
        wanted &= weights.values.keys()
        found[title] = (trained, wanted)
        reached = weights.reached()
        for n in sorted(trained - wanted):
            row["faults"].append((title, "constant trained", n, weights.values[n].shape if n in weights.values else "?"))
        for n in sorted((wanted & reached) - trained):
            row["faults"].append((title, "parameter not trained", n, weights.values[n].shape))
    trained, _ = found["changed"]
    row["trained"], row["trained_elements"] = len(trained), sum(second.values[n].size for n in trained if n in second.values)
    row["faults"], row["said"] = parameter_reasons.explained(name, exporter, row["faults"])
    if row["faults"]:
        row["kind"] = "different"
    elif row["said"]:
        row["kind"] = "different for a reason"
    elif row["trained_elements"] != row["elements"]:
        row["kind"] = "the same, in another form"
    return row


class Weights:
    """The floating-point initializers and constants of a file, also in bodies, and what Identity nodes make of them."""

    def __init__(self, path):
        self.path = path
        self.values, self.passed = {}, {}
        self.model = onnx.load(path)
        self._read(self.model.graph)

    def _read(self, graph):
        for t in graph.initializer:
            if t.data_type in _FLOATS:
                self.values[t.name] = numpy_helper.to_array(t)
        for n in graph.node:
            if n.op_type == "Identity" and n.domain == "":
                self.passed[n.output[0]] = n.input[0]
            for a in n.attribute:
                if n.op_type == "Constant" and a.name == "value" and a.t.data_type in _FLOATS:
                    self.values[n.output[0]] = numpy_helper.to_array(a.t)
                if a.HasField("g"):
                    self._read(a.g)

    def root(self, name):
        while name in self.passed:
            name = self.passed[name]
        return name

    def places(self, other):
        """Return where each weight of another file stands in this one, if the two have the same nodes: exporters merge."""
        mine, theirs = ([n for n in w.model.graph.node if n.op_type not in ("Identity", "Constant")] for w in (self, other))
        if [n.op_type for n in mine] != [n.op_type for n in theirs]:
            return {}
        return {other.root(b): self.root(a) for m, t in zip(mine, theirs) for a, b in zip(_reads(m), _reads(t))}

    def same(self, here, name, other):
        """Report whether another file has the same values there."""
        mine, theirs = self.values.get(self.root(here)), other.values[name]
        return mine is not None and mine.shape == theirs.shape and np.array_equal(mine, theirs, equal_nan=True)

    def reached(self):
        """Return what the first output depends on."""
        nodes = list(self.model.graph.node)
        needed = {self.model.graph.output[0].name}
        for n in reversed(nodes):
            if needed & set(n.output):
                needed |= set(_reads(n))
        return {self.root(n) for n in needed}


def _reads(node):
    yield from node.input
    for a in node.attribute:
        if a.HasField("g"):
            for n in a.g.node:
                yield from _reads(n)


def _trained(binary, path, work, flags):
    """Return the names of what is trained, or why the file is refused."""
    out = work / "step.onnx"
    done = subprocess.run([binary, "optimize", "--train", "--loss=mse", "--effort=fast", "--schedule=program", *flags, path, out], capture_output=True, text=True)
    if done.returncode:
        return None, next((l for l in done.stderr.splitlines() if str(path) in l), done.stderr.strip()[-200:]).replace(str(path) + ": ", "")
    props = {p.key: p.value for p in onnx.load(out, load_external_data=False).metadata_props}
    copies = {c["name"]: c["of"] for c in json.loads(props.get("onnxmem.copies", "[]"))}
    return {copies.get(n, n) for n in json.loads(props["onnxmem.trainable"])}, None


def _line(row):
    text = f"{row['name']:34} {row['exporter']:26} {row['kind']:26} {row['parameters']:4} {row['elements']:8} {row['trained']:4} {row['trained_elements']:8}"
    return "\n".join([text, *(f"    {f}" for f in row["faults"]), *(f"    {s}" for s in row["said"])])


def _table(rows):
    """Return the table in Markdown: a line for each module and result, with the exporters that give it."""
    lines = {}
    for r in rows:
        if r["kind"] != "not exported":
            what = "; ".join(dict.fromkeys(r["said"])) or ("" if r["kind"] == "the same" else "**different**" if r["faults"] else r["kind"].removeprefix("the same, "))
            result = (r["name"], f"{r['parameters']} | {r['elements']:,} | {r['trained']} | {r['trained_elements']:,} | {what} |")
            lines.setdefault(result, []).append(r["exporter"])
    head = ["| module | exporter | parameters | elements | trained | elements | |", "| --- | --- | ---: | ---: | ---: | ---: | --- |"]
    return "\n".join(head + [f"| {name} | {_exporters(of)} | {rest}" for (name, rest), of in lines.items()]) + "\n"


def _exporters(titles):
    """Join titles that begin alike: TorchScript, TorchScript of opset 11."""
    groups = {}
    for t in titles:
        first, _, rest = t.partition(", ")
        groups.setdefault(first, []).append(rest)
    return "; ".join(first + "".join(f", {r}" for r in rest if r) if "" in rest else ", ".join(f"{first}, {r}" for r in rest) for first, rest in groups.items())


if __name__ == "__main__":
    sys.exit(main())
