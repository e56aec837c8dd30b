"""The bytes of the two files: their digest, and JSON without a key that occurs twice."""

import hashlib
import json
import pathlib


def fields(data, at, end):
    """Walk a protobuf message: (field number, begin of the payload, its end)."""
    def varint(at):
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value, at
    while at < end:
        tag, at = varint(at)
        wire, begin = tag & 7, at
        if wire == 0:
            _, at = varint(at)
        elif wire == 2:
            length, begin = varint(at)
            at = begin + length
        else:
            at += {1: 8, 5: 4}[wire]
        yield tag >> 3, begin, at


def digest(data):
    """graph_sha256 (planned-file.md): the file without the elements of the main graph's initializers."""
    hash, last = hashlib.sha256(), 0
    for number, begin, end in fields(data, 0, len(data)):
        for inner, first, past in fields(data, begin, end) if number == 7 else ():  # ModelProto.graph
            for field, from_, to in fields(data, first, past) if inner == 5 else ():  # GraphProto.initializer
                if field in (4, 5, 6, 7, 9, 10, 11):  # the data fields of TensorProto
                    hash.update(data[last:from_])
                    last = to
    hash.update(data[last:])
    return hash.hexdigest()


def once(pairs):
    """Refuse a key that occurs twice (json.md)."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"a key occurs twice: {sorted(k for k, _ in pairs)}")
    return dict(pairs)


def read(file):
    """Read a plan."""
    return json.loads(pathlib.Path(file).read_bytes(), object_pairs_hook=once)
