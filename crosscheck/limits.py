"""Compare plans below a limit, which recompute or swap tensors, with plans without: ONNX Runtime and onnxmem run must return the same bits."""

import time

import numpy as np
import onnx

from . import command, networks, step

_DIMS = {"batch": 4}
_SMALL = {"size": "64", "classes": "10"}

# Networks whose activations need more memory than any single node; the limit as a fraction of the peak; the host's link.
_NETWORKS = {
    "efficientnet_b0": (_SMALL | {"width": "0.5"}, "75%", None),
    "mobilenet_v2": (_SMALL | {"width": "0.5"}, "60%", None),
    "resnet50": (_SMALL | {"width": "0.25", "size": "96"}, "80%", None),
    "vit_b_16": (_SMALL | {"layers": "6", "hidden": "64", "heads": "4", "ff": "128"}, "70%", None),
    "resnet18": (_SMALL | {"width": "0.5", "size": "192"}, "70%", "12GB/s"),
    "gpt2": (None, "60%", None),  # of the zoo, where its files are
}
_GPT2 = networks.Network("gpt2", "zoo/gpt2-dyn", {"input_ids": (2, 64)}, {50257: 300, 1024: 64})


def find(tool, work, data):
    """Small networks."""
    found = []
    for name, (settings, _, _) in _NETWORKS.items():
        path = work / f"{name}.limit.onnx"
        if settings is not None:
            tool.model(name, path, settings)
        elif (data / "zoo/expected.csv").exists():
            networks.write(_GPT2, path, tool, data)
        else:
            continue
        found.append(path)
    return found


def examine(path, tool, work):
    """Make a training step with and without a limit, run both, and compare."""
    began = time.process_time()
    name = path.name.split(".")[0]
    settings, limit, link = _NETWORKS[name]
    result = {"title": f"limit/{name}", "limit": limit, "faults": []}
    paths = [work / f"{name}.{kind}.onnx" for kind in ("plain", "limited")]
    flags = [f"--dim={k}={v}" for k, v in _DIMS.items()] if settings else []
    try:
        tool.train(path, paths[0], flags)
        host = [f"--host-link={link}"] if link else []
        tool.train(path, paths[1], [*flags, f"--limit={result['limit']}", *host])
        result["faults"] += [f"verify: {text}" for text in tool.verify(paths[1])]
        onnx.checker.check_model(str(paths[1]), full_check=True)
        outcomes = [_outcome(tool, p) for p in paths]
    except (command.Failed, onnx.checker.ValidationError) as err:
        result["faults"].append(str(err))
        return result
    nodes = onnx.load(paths[1]).graph.node
    result["again"] = sum("/again" in n.name for n in nodes)
    result["left"] = sum(n.op_type == "SwapOut" for n in nodes)
    if not result["again"]:
        result["faults"].append("nothing runs again")
    if bool(result["left"]) != bool(link):
        result["faults"].append(f"{result['left']} tensors leave, with a link of {link}")
    for where, plain, limited in zip(("ONNX Runtime", "onnxmem run"), *outcomes):
        wrong = [k for k in plain if k not in limited or plain[k].tobytes() != limited[k].tobytes()]
        if wrong:
            result["faults"].append(f"{where}: {len(wrong)} of {len(plain)} outputs differ, {wrong[0]} first")
    result["seconds"] = round(time.process_time() - began, 1)
    return result


def _outcome(tool, path):
    """Return all outputs of one step, by ONNX Runtime without optimizations and by onnxmem."""
    made = step.Step(path)
    given = {**made.values, **made.data(made.classes()), step.RATE: np.array(0.01, np.float32)}
    session = made.session()
    names = [o.name for o in session.get_outputs()]
    theirs = dict(zip(names, session.run(names, given)))
    _, ours = tool.run(path, given, ["--check", "--poison"], 600)
    return theirs, ours


def row(result):
    """Return one line of text."""
    return f"{result['title']:34} {result.get('again', 0)} nodes run again, {result.get('left', 0)} tensors leave at {result['limit']}, the same bits: {'NO' if result['faults'] else 'yes'}, {result.get('seconds', 0)} s"
