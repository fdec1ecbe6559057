#!/usr/bin/env python3
"""Writes a plain safetensors file of float32, with nothing of ringlet.

  write_safetensors.py OUT PREFIX NAME=SHAPE ...      dense/kernel=2x16

Element i of each tensor is i / 8. By the library of that name where it is
installed.
"""
import json
import math
import struct
import sys

import numpy


def save_file(tensors, path):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


try:
    from safetensors.numpy import save_file  # noqa: F811
except ImportError:
    pass


def main(path, prefix, *described):
    tensors = {}
    for text in described:
        name, shape = text.split("=")
        shape = [int(dim) for dim in shape.split("x")]
        values = numpy.arange(math.prod(shape), dtype="f4") / 8
        tensors[prefix + name] = values.reshape(shape)
    save_file(tensors, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
