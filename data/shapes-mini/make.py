#!/usr/bin/env python3
"""Writes the folders beside this one: drawn shapes, a folder for each class.

Gray PNG files of 20 to 28 pixels a side, with a circle, a square or a triangle
near the middle, bright on dark, with noise.
"""
import pathlib
import random
import struct
import zlib

COUNT = 40


def inside(kind, x, y):
    """Of the shape with the middle (0, 0) and about the size 1."""
    if kind == "circle":
        return x * x + y * y < 1
    if kind == "square":
        return abs(x) < 0.9 and abs(y) < 0.9
    return -0.8 < y < 0.8 and abs(x) < (y + 0.8) * 0.65


def picture(draw, kind):
    height, width = draw.randint(20, 28), draw.randint(20, 28)
    size = draw.uniform(6, 9)
    top, left = height / 2 + draw.uniform(-2, 2), width / 2 + draw.uniform(-2, 2)
    ground, shape = draw.uniform(30, 90), draw.uniform(150, 220)
    rows = []
    for y in range(height):
        row = []
        for x in range(width):
            here = inside(kind, (x - left) / size, (y - top) / size)
            level = (shape if here else ground) + draw.gauss(0, 6)
            row.append(max(0, min(255, round(level / 8) * 8)))
        rows.append(bytes(row))
    return height, width, rows


def png(height, width, rows):
    def chunk(kind, data):
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    raw = b"".join(b"\0" + row for row in rows)
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def main():
    draw = random.Random(3)
    for kind in ("circle", "square", "triangle"):
        folder = pathlib.Path(__file__).parent / "pictures" / kind
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(COUNT):
            (folder / f"{i:02}.png").write_bytes(png(*picture(draw, kind)))


main()
