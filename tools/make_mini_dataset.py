#!/usr/bin/env python3
"""Made data/fashion-mnist-mini: the first images of Fashion-MNIST.

    tools/make_mini_dataset.py /usr/share/datasets/fashion-mnist OUT
"""
import gzip
import pathlib
import struct
import sys

COUNTS = {"train": 2000, "t10k": 400}
source, out = map(pathlib.Path, sys.argv[1:3])
out.mkdir(parents=True, exist_ok=True)
for part, count in COUNTS.items():
    for kind, header in (("images-idx3", 16), ("labels-idx1", 8)):
        name = f"{part}-{kind}-ubyte.gz"
        data = gzip.decompress((source / name).read_bytes())
        (total,) = struct.unpack(">I", data[4:8])
        size = (len(data) - header) // total
        mini = (data[:4] + struct.pack(">I", count) + data[8:header] +
                data[header:header + count * size])
        (out / name).write_bytes(gzip.compress(mini, 9, mtime=0))
