#!/usr/bin/env python3
"""Reads TensorBoard event files by their format alone, for the tests.

    read_events.py FILE...

A line a value: tag, step and the float32, or the histogram's fields; `version`
for the first event. Exits 1 at a wrong checksum, length or field.
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import protobuf  # noqa: E402


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        (crc,) = struct.unpack_from("<I", data, at + 8)
        assert crc == masked(data[at:at + 8]), f"length's checksum at {at}"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, f"damaged record at {at}"
        (crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert crc == masked(body), f"data's checksum at {at}"
        yield body
        at += 16 + length


def message(data):
    """Field number -> value."""
    found = protobuf.fields(data)
    assert all(len(values) == 1 for values in found.values()), "field twice"
    return {number: value for number, (value,) in found.items()}


def doubles(data):
    return struct.unpack(f"<{len(data) // 8}d", data)


def show(event):
    known = {1, 2, 3, 5}
    assert event.keys() <= known, event.keys()
    if 3 in event:
        print("version", event[3].decode())
        return
    step = event.get(2, 0)
    value = message(message(event[5])[1])
    tag = value[1].decode()
    if 2 in value:
        (number,) = struct.unpack("<f", value[2])
        print(tag, step, "%.9g" % number)
    else:
        histo = message(value[5])
        zero = struct.pack("<d", 0)
        fields = [doubles(histo.get(i, zero))[0] for i in range(1, 6)]
        print(tag, step, *("%.9g" % f for f in fields),
              "limits", *("%.9g" % d for d in doubles(histo.get(6, b""))),
              "counts", *("%.9g" % d for d in doubles(histo.get(7, b""))))


for path in sys.argv[1:]:
    with open(path, "rb") as file:
        for number, record in enumerate(records(file.read())):
            event = message(record)
            assert (3 in event) == (number == 0), "version is first, and once"
            assert struct.unpack("<d", event[1])[0] > 0, "wall time"
            show(event)
