#!/usr/bin/env python3
"""Writes the files beside this one: made-up windows of an accelerometer.

A window has 64 steps of 1/32 s, each with three axes, as bytes: 128 is 0, and
32 is the acceleration of gravity. The classes are 0 still, 1 walking, 2 running
and 3 stairs: waves of 1.7 to 2.1, 2.5 to 3.1 and 1.1 to 1.5 steps a second, with
other heights and overtones, in any position of the sensor, with noise.
"""
import gzip
import math
import pathlib
import random
import struct

STEPS, RATE, GRAVITY = 64, 32, 32
WAVES = [  # steps a second, height, the part of the overtone
    (0, 0, 0, 0), (1.7, 2.1, 9, 0.4), (2.5, 3.1, 26, 0.6), (1.1, 1.5, 11, 0.9)]


def position(draw):
    """Any direction, as a vector of length 1."""
    vector = [draw.gauss(0, 1) for _ in range(3)]
    length = math.sqrt(sum(each * each for each in vector))
    return [each / length for each in vector]


def window(draw, kind):
    low, high, height, overtone = WAVES[kind]
    pace, height = draw.uniform(low, high), height * draw.uniform(0.8, 1.2)
    phase, down, sway = draw.random(), position(draw), position(draw)
    for step in range(STEPS):
        turn = 2 * math.pi * (pace * step / RATE + phase)
        up = height * (math.sin(turn) + overtone * math.sin(2 * turn + 1))
        aside = 0.4 * height * math.sin(turn / 2)
        for d, s in zip(down, sway):
            value = (GRAVITY + up) * d + aside * s + draw.gauss(0, 2)
            yield max(0, min(255, 128 + round(value)))


def write(name, dims, values):
    head = struct.pack(f">HBB{len(dims)}I", 0, 8, len(dims), *dims)
    path = pathlib.Path(__file__).parent / (name + "-ubyte.gz")
    path.write_bytes(gzip.compress(head + bytes(values), mtime=0))


def main():
    draw = random.Random(7)
    for part, count in (("train", 480), ("test", 120)):
        kinds = [draw.randrange(4) for _ in range(count)]
        windows = [value for kind in kinds for value in window(draw, kind)]
        write(part + "-windows-idx3", (count, STEPS, 3), windows)
        write(part + "-labels-idx1", (count,), kinds)


main()
