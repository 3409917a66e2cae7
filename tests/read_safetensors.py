#!/usr/bin/env python3
"""Reads a model.safetensors with the standard library and numpy alone: proof that the format is open.

Prints every tensor's name, type and shape, then the SHA-256 over the parameters' bytes in name order, as
summary.json gives it. Names in the metadata key "buffers" (comma separated) are not parameters.
"""
import hashlib
import json
import sys

import numpy

TYPES = {"U8": "<u1", "I64": "<i8", "F32": "<f4", "F64": "<f8"}


def read(path):
    """Returns a dictionary of arrays in name order, and the metadata."""
    with open(path, "rb") as file:
        content = file.read()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data = memoryview(content)[8 + length:]
    tensors = {}
    for name, entry in sorted(header.items()):
        begin, end = entry["data_offsets"]
        if end > len(data):
            raise ValueError(f"{name} ends at {end}, the data at {len(data)}")
        flat = numpy.frombuffer(data[begin:end], dtype=TYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, metadata


def write(path, tensors):
    """Writes arrays of float32 and int64 by name, as others' programs do."""
    header, data = {}, bytearray()
    for name, tensor in tensors.items():
        begin = len(data)
        data += numpy.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": "I64" if tensor.dtype == numpy.int64 else "F32", "shape": list(tensor.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: read_safetensors.py MODEL.safetensors")
    tensors, metadata = read(sys.argv[1])
    buffers = set(filter(None, metadata.get("buffers", "").split(",")))
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        print(name, tensor.dtype, list(tensor.shape), *(["buffer"] if name in buffers else []))
        if name not in buffers:
            digest.update(tensor.tobytes())
    print("weights_sha256", digest.hexdigest())


if __name__ == "__main__":
    main()
