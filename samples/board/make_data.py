#!/usr/bin/env python3
"""Writes stand-ins for recorded examples, for the samples of this folder.

    make_data.py [FOLDER]

For each sample two sets are made: the factory's, with which ringlet trains, and
that of the place where the board works, as a C header. These are words, machines
and gestures that the factory did not have. No one spoke or moved.
"""
import array
import math
import pathlib
import random
import struct
import sys

PER_CLASS, TEST = 20, 120  # on the board: for learning, and to test


def bytes_of(values):
    return bytes(max(0, min(255, round(each))) for each in values)


def along(path, part):
    """The place on a path through some points after this part of the time."""
    place = max(0.0, min(0.9999, part)) * (len(path) - 1)
    before = int(place)
    return path[before] + (path[before + 1] - path[before]) * (place - before)


# --- words: 49 steps of 10 features, with two peaks that move -----------------

# The places of both peaks, from the beginning of a word to its end.
WORDS = [([1, 4, 4], [6, 8, 9]), ([4, 1, 4], [9, 6, 8]), ([4, 4, 1], [6, 9, 5]),
         ([1, 1, 4], [9, 8, 5]), ([2, 0, 3], [5, 8, 6]), ([0, 3, 1], [7, 5, 9]),
         ([3, 2, 0], [9, 6, 8]), ([1, 3, 3], [6, 5, 9])]


def word(draw, kind):
    length, loud = draw.uniform(22, 34), draw.uniform(90, 140)
    begin, shift = draw.uniform(1, 48 - length), draw.gauss(0, 0.4)
    values = []
    for step in range(49):
        part = (step - begin) / length
        for band in range(10):
            value = 40 + draw.gauss(0, 18)
            if 0 <= part <= 1:
                for path in WORDS[kind]:
                    distance = band - along(path, part) - shift
                    value += loud * math.exp(-distance * distance)
            values.append(value)
    return bytes_of(values)


# --- gestures: 64 steps of an accelerometer's three axes ----------------------

# The pushes of a gesture: when, and along which direction.
GESTURES = [[(0.2, (1, 0, 0)), (0.7, (-1, 0, 0))],
            [(0.2, (0, 1, 0)), (0.7, (0, -1, 0))],
            [(0.2, (0, 0, 1)), (0.4, (0, 0, -1)), (0.6, (0, 0, 1)), (0.8, (0, 0, -1))],
            [(0.2, (1, 0, 0)), (0.4, (0, 1, 0)), (0.6, (-1, 0, 0)), (0.8, (0, -1, 0))],
            [(0.2, (0, 1, 0)), (0.4, (1, 0, 0)), (0.6, (0, -1, 0)), (0.8, (-1, 0, 0))],
            [(0.3, (0, 0, -1)), (0.5, (0, 0, 1)), (0.7, (1, 0, 0))],
            [(0.2, (-1, 0, 0)), (0.5, (1, 0, 0)), (0.8, (-1, 0, 0))],
            [(0.2, (0, -1, 0)), (0.4, (0, 0, 1)), (0.8, (0, 1, 0))]]


def gesture(draw, kind):
    pace, begin = draw.uniform(0.7, 1), draw.uniform(0, 0.25)
    tilt = [[(i == j) + draw.gauss(0, 0.15) for j in range(3)] for i in range(3)]
    pushes = [(begin + pace * when, draw.uniform(40, 75), direction)
              for when, direction in GESTURES[kind]]
    values = []
    for step in range(64):
        push = [0.0, 0.0, 0.0]
        for when, force, direction in pushes:
            near = math.exp(-((step / 64 - when) / 0.05) ** 2)
            for axis in range(3):
                push[axis] += force * near * direction[axis]
        for axis in range(3):
            down = 32 if axis == 2 else 0  # gravity
            value = sum(tilt[axis][j] * push[j] for j in range(3))
            values.append(128 + down + value + draw.gauss(0, 6))
    return bytes_of(values)


# --- machines: 48 bands of a spectrum -----------------------------------------

def spectrum(draw, pitch, faulty):
    """A hum with overtones; a faulty machine whines, or knocks in all bands."""
    loud, pitch = draw.uniform(150, 190), pitch + draw.gauss(0, 0.05)
    whine, knock = -9.0, 0.0
    if faulty and draw.random() < 0.5:
        whine = draw.uniform(26, 46)
    elif faulty:
        knock = draw.uniform(12, 24)
    values = []
    for band in range(48):
        value = 18 + knock + draw.gauss(0, 4) + 60 * math.exp(-(band - whine) ** 2)
        for overtone in range(1, 6):
            distance = (band - overtone * pitch) / 0.9
            value += loud / overtone * math.exp(-distance * distance)
        values.append(value)
    return bytes_of(values)


# --- files --------------------------------------------------------------------

def write_idx(path, dims, values):
    head = struct.pack(f">HBB{len(dims)}I", 0, 8, len(dims), *dims)
    path.write_bytes(head + bytes(values))


def write_npy(path, shape, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (117 - len(head)) + "\n"
    data = array.array("f", values)
    if sys.byteorder == "big":
        data.byteswap()
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode()
                     + data.tobytes())


def write_header(path, arrays):
    """C arrays of bytes, {name: [bytes of each example]} or {name: [numbers]}."""
    text = "/* Written by make_data.py. */\n"
    for name, rows in arrays.items():
        size = f"[{len(rows[0])}]" if isinstance(rows[0], bytes) else ""
        lines = [f"{{{','.join(map(str, row))}}}" if size else str(row) for row in rows]
        text += (f"static const unsigned char {name}[{len(rows)}]{size} = {{\n"
                 + ",\n".join(lines) + "};\n")
    path.write_text(text)


def write_classes(folder, name, make, shape, seed):
    """Classes 0 to 3 for the factory, and 4 to 7 for the board as 0 to 3."""
    draw = random.Random(seed)
    for part, count in (("train", 600), ("test", 120)):
        kinds = [draw.randrange(4) for _ in range(count)]
        write_idx(folder / f"{name}-{part}-x", (count, *shape),
                  b"".join(make(draw, kind) for kind in kinds))
        write_idx(folder / f"{name}-{part}-y", (count,), kinds)
    arrays = {}
    for part, count in (("train", 4 * PER_CLASS), ("test", TEST)):
        kinds = [i % 4 for i in range(count)]
        arrays[f"{part}_x"] = [make(draw, 4 + kind) for kind in kinds]
        arrays[f"{part}_y"] = kinds
    write_header(folder / f"{name}_examples.h", arrays)


def write_machines(folder):
    draw = random.Random(3)
    for part, count in (("train", 400), ("test", 80)):
        rows = [spectrum(draw, draw.uniform(5, 7), False) for _ in range(count)]
        write_npy(folder / f"machine-{part}.npy", (count, 48),
                  [each / 256 for row in rows for each in row])
    write_header(folder / "machine_examples.h", {
        f"{name}_x": [spectrum(draw, 8.3, name == "faulty") for _ in range(count)]
        for name, count in (("train", 100), ("normal", TEST), ("faulty", TEST))})


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    write_classes(folder, "keyword", word, (49, 10), 1)
    write_classes(folder, "gesture", gesture, (64, 3), 2)
    write_machines(folder)


main()
