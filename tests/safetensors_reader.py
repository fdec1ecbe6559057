#!/usr/bin/env python3
"""Reads a ringlet checkpoint without ringlet, by json, struct and numpy.

Checks the CRC32C of each tensor and prints it as `name dtype shape sum`. The sum
is that of 1 * the first element, 2 * the second and so on. Prints `ok` last.
Exits 1 at the first error.
"""
import json
import struct
import sys

import numpy

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def values(dtype, raw):
    if dtype == "BF16":
        wide = numpy.frombuffer(raw, "<u2").astype("<u4") << 16
        return wide.view("<f4")
    return numpy.frombuffer(raw, {"F32": "<f4", "F64": "<f8", "I32": "<i4",
                                  "I64": "<i8", "U8": "u1", "F16": "<f2"}[dtype])


def main(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    assert header.pop("__metadata__")["format"] == "ringlet"
    begin = 8 + length
    assert begin % 64 == 0, "the data are not aligned"
    raw = {name: data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]]
           for name, t in header.items()}
    footer = raw.pop("ringlet.footer")
    magic, size, header_crc = struct.unpack("<8sQI", footer[:20])
    assert magic == b"rgltftr1" and size == len(data)
    assert header_crc == crc32c(data[:begin])
    crcs = struct.unpack(f"<{len(raw)}I", footer[20:])
    for (name, content), crc in zip(raw.items(), crcs):
        assert crc == crc32c(content), name
        t = header[name]
        array = values(t["dtype"], content).reshape(t["shape"]).ravel()
        total = sum(i * float(value) for i, value in enumerate(array, 1))
        print(name, t["dtype"], tuple(t["shape"]), f"{total:.12g}")
    print("ok")


main(sys.argv[1])
