"""Check plans with examples/checker, which was written from docs/formats alone, beside onnxmem verify.

Both must find a plan valid with the same figures, and agree on plans that were tampered with.
"""

import copy
import json
import pathlib
import random
import sys

from . import cases, command

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples/checker"))
import check  # noqa: E402  (the folder is no package)

_SUBSET = ("bert", "resnet18", "tiny_mobilenet")


def find(tool, work, subset):
    """The built-in networks at small settings."""
    names = [n for n in sorted(cases.BUILT_IN) if not subset or n in _SUBSET]
    found = []
    for name in names:
        found.append(work / f"{name}.checker-in.onnx")
        tool.model(name, found[-1], cases.BUILT_IN[name][1])
    return found


def examine(source, tool, work):
    """Plan a model, check the plan twice, and again after each change."""
    name = source.name.split(".")[0]
    result = {"title": f"checker/{name}", "faults": []}
    target = work / f"{name}.checker.onnx"
    try:
        tool.plan(source, target, ["--no-aliases", *(f"--dim={k}={v}" for k, v in cases.BUILT_IN[name][0].items())])
        plan = json.loads(target.with_suffix(".plan.json").read_text(encoding="utf-8"))
        found = check.check(str(target), plan)
        result |= {"nodes": len(found.nodes), "unproven": len(found.unproven)}
        result["faults"] += [f"verify: {text}" for text in tool.verify(target)] + [f"checker: {code}: {text}" for code, text in found.violations]
        for what, changed in _tampered(plan):
            beside = target.with_suffix(".plan.json")
            beside.write_text(json.dumps(changed), encoding="utf-8")
            theirs, ours = tool.verify(target), check.check(str(target), changed).violations
            result["tampered"] = result.get("tampered", 0) + bool(theirs and ours)
            if bool(theirs) != bool(ours):
                result["faults"].append(f"{what}: verify finds {theirs[:1] or 'nothing'}, the checker {ours[:1] or 'nothing'}")
    except (command.Failed, check.NotPlain) as err:
        result["faults"].append(str(err))
    return result


def row(r):
    """The line of a network."""
    told = f"{r.get('nodes', 0)} nodes, {r.get('tampered', 0)} changes found by both, {r.get('unproven', 0)} certificates not proven here"
    return f"{r['title']:32} {told}" + "".join(f"\n    {text}" for text in r["faults"])


def _tampered(plan):
    """Yield changes of a plan. Nearly all of them make it invalid: without views, "no views" changes nothing."""
    rng, align = random.Random(1), plan["alignment"]
    arena = [i for i, b in enumerate(plan["buffers"]) if b["pool"] == "arena" and b["bytes"] > 0]
    chains = [i for i in arena if len(plan["buffers"][i]["tensors"]) > 1]
    meet = [(i, k) for i in arena for k in arena if i < k and plan["buffers"][i]["first"] <= plan["buffers"][k]["last"] and plan["buffers"][k]["first"] <= plan["buffers"][i]["last"]]

    def change(what, edit):
        changed = copy.deepcopy(plan)
        edit(changed)
        return what, changed

    def put(*path, to):
        def edit(p):
            at = p
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = to(at[path[-1]])

        return edit

    def onto(i, k):  # two live buffers at one offset
        return lambda p: p["buffers"][k].update(offset=p["buffers"][i]["offset"])

    def split(i):  # the last tensor of a chain gets a buffer of its own, far above
        def edit(p):
            b = p["buffers"][i]
            p["buffers"].append({**b, "tensors": [b["tensors"].pop()], "offset": p["summary"]["arena_bytes"]})

        return edit

    for key in ("first", "last", "bytes"):
        i = rng.choice(arena)
        yield change(f"{key} of buffer {i}", put("buffers", i, key, to=lambda v: v + (align if key == "bytes" else 1)))
    i, k = rng.choice(meet)
    yield change(f"buffers {i} and {k} overlap", onto(i, k))
    i = rng.choice(arena)
    yield change(f"offset of buffer {i}", put("buffers", i, "offset", to=lambda v: v + 1))
    yield change(f"kind of buffer {i}", put("buffers", i, "kind", to=lambda v: "input" if v != "input" else "output"))
    yield change(f"pool of buffer {i}", put("buffers", i, "pool", to=lambda v: "resident"))
    yield change(f"no buffer {i}", lambda p: p["buffers"].pop(i))
    yield change("a tensor in two buffers", lambda p: p["buffers"][arena[0]]["tensors"].append(p["buffers"][arena[1]]["tensors"][0]))
    yield change("two buffers in one", lambda p: p["buffers"][arena[0]]["tensors"].extend(p["buffers"].pop(arena[1])["tensors"]))
    if chains:
        yield change("a chain in two buffers", split(rng.choice(chains)))
    for key in ("peak_bytes", "arena_bytes", "naive_bytes", "resident_bytes", "program_order_peak_bytes", "peak_step", "nodes"):
        yield change(key, put("summary", key, to=lambda v: v + 1))
    yield change("lower_bound_bytes", put("summary", "lower_bound_bytes", to=lambda v: v + align))
    yield change("a load", put("steps", len(plan["steps"]) // 2, "load_bytes", to=lambda v: v - align))
    yield change("an operator", put("steps", 0, "op", to=lambda v: v + "2"))
    yield change("a load in program order", put("program_order", "load_bytes", 0, to=lambda v: v + align))
    yield change("program order backwards", put("program_order", "steps", to=lambda v: v[::-1]))
    yield change("alignment", put("alignment", to=lambda v: 2 * v))
    yield change("no views", put("sharing", "views", to=lambda v: False))
    yield change("nothing in place", put("sharing", "inplace", to=lambda v: False))
    yield change("the digest", put("model", "graph_sha256", to=lambda v: "0" * 64))
