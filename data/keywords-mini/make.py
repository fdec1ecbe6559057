#!/usr/bin/env python3
"""Writes the files beside this one: made-up features of spoken keywords.

A word has 32 steps of 30 ms, each with the strength of 8 bands of the sound,
from 0 to 31. A class is a path of two peaks through the bands, such as rising and
then falling ones. A word begins somewhere, has its own pace and loudness, and
there is noise. No one spoke.
"""
import gzip
import math
import pathlib
import random
import struct

STEPS, BANDS = 32, 8
# The places of both peaks, from the beginning of a word to its end.
PATHS = [([1, 3, 3], [4, 6, 7]), ([3, 1, 3], [7, 4, 6]),
         ([3, 3, 1], [4, 7, 4]), ([1, 1, 3], [7, 6, 4])]


def at(path, part):
    """The place of a peak after this part of the word."""
    place = part * (len(path) - 1)
    before = min(int(place), len(path) - 2)
    return path[before] + (path[before + 1] - path[before]) * (place - before)


def word(draw, kind):
    length, loud = draw.uniform(14, 24), draw.uniform(14, 21)
    begin, shift = draw.uniform(1, STEPS - length - 1), draw.gauss(0, 0.5)
    for step in range(STEPS):
        part = (step - begin) / length
        for band in range(BANDS):
            value = 4 + draw.gauss(0, 2)
            if 0 <= part <= 1:
                for path in PATHS[kind]:
                    distance = band - at(path, part) - shift
                    value += loud * math.exp(-distance * distance)
            yield max(0, min(31, round(value)))


def write(name, dims, values):
    head = struct.pack(f">HBB{len(dims)}I", 0, 8, len(dims), *dims)
    path = pathlib.Path(__file__).parent / (name + "-ubyte.gz")
    path.write_bytes(gzip.compress(head + bytes(values), mtime=0))


def main():
    draw = random.Random(7)
    for part, count in (("train", 320), ("test", 100)):
        kinds = [draw.randrange(4) for _ in range(count)]
        features = [value for kind in kinds for value in word(draw, kind)]
        write(part + "-features-idx3", (count, STEPS, BANDS), features)
        write(part + "-labels-idx1", (count,), kinds)


main()
