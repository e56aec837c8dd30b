"""Write ops/signatures.txt: the numbers of inputs and outputs of each operator, and which
of their element types must agree, and the types of its attributes, as the onnx package and
ONNX Runtime define them.

    crosscheck/run signatures
"""

import collections
import pathlib
import sys

import onnx.defs
import onnxruntime.capi.onnxruntime_pybind11_state as runtime

FILE = pathlib.Path(__file__).parent.parent / "ops" / "signatures.txt"

HEAD = """\
# Signatures of operators: how many inputs and outputs each version has, and which
# element types agree. Written by "crosscheck/run signatures"; do not edit.
#
#   domain operator
#     version inputs > outputs           a form, from this version of the domain on
#     SYMBOL dtype ...                   the types that a symbol stands for
#     : name=type ...                    the types of attributes; "|" between those of
#                                        different versions
#
# A type is permitted in all versions that have the symbol; behind "@", from that version
# of the domain on ("int8@14"), or from one to another ("int8@9-12").
#
# An input or output is a symbol, a dtype, or "any" for what is no tensor; behind it "?"
# says that it may be left out, "*" that any number follow of one type, "~" of any
# types. The domain ai.onnx is spelled "ai.onnx" here and "" in models.
"""

DTYPES = {"float": "float32", "double": "float64"}


def dtype(text):
    """Return the dtype of a type such as tensor(float); None if it is not a tensor."""
    if not text.startswith("tensor("):
        return None
    name = text.removeprefix("tensor(").removesuffix(")")
    return DTYPES.get(name, name)


def parameter(since, name, option, homogeneous, types, symbols):
    """Return the text of one input or output: its symbol if it is a tensor, and how often it may occur."""
    if name in types:
        allowed = [dtype(t) for t in types[name]]
        text = name
        if None in allowed:
            text = "any"
        else:
            symbols[name][since] = set(allowed)
    else:
        text = dtype(name) or "any"
    option = str(option).rsplit(".", maxsplit=1)[-1].split(":")[0].rstrip(">")
    if option == "Variadic":
        return text + ("*" if homogeneous else "~")
    return text + ("?" if option == "Optional" else "")


def versions(allowed):
    """Return the dtypes of a symbol with their versions; allowed has those of each version."""
    order = sorted(allowed)
    words = []
    for dtype in sorted(set().union(*allowed.values())):
        runs = []  # of consecutive versions that allow it: the first one, and the one that ends it
        for since in order:
            if dtype not in allowed[since]:
                if runs and runs[-1][1] is None:
                    runs[-1][1] = since
            elif not runs or runs[-1][1] is not None:
                runs.append([since, None])
        for first, end in runs:
            if first == order[0] and end is None:
                words.append(dtype)
            else:
                words.append(f"{dtype}@{first}" + (f"-{end - 1}" if end else ""))
    return words


def official(schema):
    return (
        [(p.type_str, p.option, p.is_homogeneous) for p in schema.inputs],
        [(p.type_str, p.option, p.is_homogeneous) for p in schema.outputs],
    )


def contributed(schema):
    return (
        [(p.typeStr, p.option, p.isHomogeneous) for p in schema.inputs],
        [(p.typeStr, p.option, p.isHomogeneous) for p in schema.outputs],
    )


def main():
    forms = collections.defaultdict(dict)
    symbols = collections.defaultdict(lambda: collections.defaultdict(dict))
    attributes = collections.defaultdict(lambda: collections.defaultdict(set))
    schemas = [(s, official(s)) for s in onnx.defs.get_all_schemas_with_history()]
    known = {(s.domain, s.name) for s, _ in schemas}
    schemas += [
        (s, contributed(s))
        for s in runtime.get_all_operator_schema()
        if s.domain in ("", "com.microsoft", "com.microsoft.nchwc") and (s.domain, s.name) not in known
    ]
    for schema, (inputs, outputs) in schemas:
        if schema.deprecated:
            continue
        key = (schema.domain or "ai.onnx", schema.name)
        types = {t.type_param_str: t.allowed_type_strs for t in schema.type_constraints}
        sides = [" ".join(parameter(schema.since_version, *p, types, symbols[key]) for p in side) for side in (inputs, outputs)]
        for name, attribute in schema.attributes.items():
            attributes[key][name].add(str(attribute.type).rsplit(".", maxsplit=1)[-1].lower())
        forms[key][schema.since_version] = f"{sides[0]} > {sides[1]}".strip()
    lines = [HEAD]
    for key in sorted(forms):
        lines.append(" ".join(key) + "\n")
        last = None
        for since in sorted(forms[key]):
            if forms[key][since] != last:
                last = forms[key][since]
                lines.append(f"  {since} {last}\n")
        for symbol in sorted(symbols[key]):
            lines.append(f"  {symbol} {' '.join(versions(symbols[key][symbol]))}\n")
        if attributes[key]:
            lines.append("  : " + " ".join(f"{name}={'|'.join(sorted(attributes[key][name]))}" for name in sorted(attributes[key])) + "\n")
    FILE.write_text("".join(lines))
    print(f"{FILE}: {len(forms)} operators", file=sys.stderr)


if __name__ == "__main__":
    main()
