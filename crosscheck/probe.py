"""Make copies of a model that make ONNX Runtime reveal more. They lie in the model's folder, so that external data is found."""

import onnx


def load(path):
    """Return the model without its external data."""
    return onnx.load(str(path), load_external_data=False)


def nodes_of(model):
    """Yield all nodes of the main graph, of bodies and of functions; bodies follow their node."""

    def walk(nodes):
        for node in nodes:
            yield node
            for attribute in node.attribute:
                for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                    yield from walk(body.node)

    yield from walk(model.graph.node)
    for function in model.functions:
        yield from walk(function.node)


def tells_nodes_apart(model):
    """Report whether every node has a unique name: the profile identifies nodes only by name."""
    names = [n.name for n in nodes_of(model)]
    return all(names) and len(set(names)) == len(names)


def rename(model):
    """Give every node a unique name."""
    for i, node in enumerate(nodes_of(model)):
        node.name = f"node{i}"


def expose(model, names):
    """Append the named tensors to the graph outputs."""
    there = {v.name for v in model.graph.output}
    for name in names:
        if name not in there:
            model.graph.output.append(onnx.ValueInfoProto(name=name))


def constants(model):
    """Map the results of the main graph's Constant nodes to (type, shape): the runtime does not run these nodes."""
    found = {}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            for attribute in node.attribute:
                value = _constant(attribute)
                if value is not None:
                    found[node.output[0]] = value
    return found


def _constant(attribute):
    if attribute.name in ("value", "sparse_value"):
        tensor = attribute.t if attribute.name == "value" else attribute.sparse_tensor
        elem = tensor.data_type if attribute.name == "value" else tensor.values.data_type
        return type_name(elem), tuple(tensor.dims)
    kind, _, plural = attribute.name.removeprefix("value_").partition("s")
    elem = {"float": "float32", "int": "int64"}.get(kind)
    if elem is None:
        return None
    count = len(attribute.floats) or len(attribute.ints)
    return elem, (count,) if attribute.name.endswith("s") else ()


def type_name(elem):
    """Return an element type as onnxmem writes it: float32, int64, …"""
    name = onnx.TensorProto.DataType.Name(elem).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)
