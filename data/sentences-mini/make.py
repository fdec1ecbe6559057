#!/usr/bin/env python3
"""Writes the files beside this one: made-up sentences, as numbers of characters.

The sentences of "sea" and "kitchen" have other words and one grammar. x has
windows of 48 characters, and y the character after each of them. A character is
its place in CHARACTERS.
"""
import gzip
import pathlib
import random
import struct

STEPS = 48
CHARACTERS = "\n ,.abcdefghijklmnopqrstuvwxyz"
WORDS = {
    "sea": {
        "noun": ["captain", "gull", "harbour", "ship", "wave", "sailor",
                 "lighthouse", "storm"],
        "verb": ["watches", "follows", "leaves", "finds", "calls"],
        "word": ["old", "grey", "quiet", "northern", "tall", "salty"],
        "time": ["at dawn", "in winter", "after the rain", "every night"]},
    "kitchen": {
        "noun": ["baker", "oven", "table", "kettle", "loaf", "child", "spoon",
                 "cupboard"],
        "verb": ["warms", "opens", "fills", "turns", "hides"],
        "word": ["small", "golden", "sweet", "broken", "clean", "round"],
        "time": ["on sunday", "before tea", "with a smile", "all morning"]},
}


def thing(draw, words):
    word = draw.choice(words["word"]) + " " if draw.random() < 0.6 else ""
    return "the " + word + draw.choice(words["noun"])


def sentence(draw, words):
    time = draw.choice(words["time"])
    rest = (f"{thing(draw, words)} {draw.choice(words['verb'])} "
            f"{thing(draw, words)}")
    return draw.choice([f"{time}, {rest}.", f"{rest} {time}.", f"{rest}."])


def write(name, rows):
    head = ("{'descr': '|u1', 'fortran_order': False, 'shape': "
            f"({len(rows)}, {STEPS}), }}")
    head += " " * (-(len(head) + 11) % 64) + "\n"
    data = b"".join(bytes(row) for row in rows)
    path = pathlib.Path(__file__).parent / (name + ".npy.gz")
    path.write_bytes(gzip.compress(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
        data, mtime=0))


def main():
    draw = random.Random(7)
    for text, train in (("sea", 640), ("kitchen", 256)):
        for part, count in (("train", train), ("test", 64)):
            numbers = []
            while len(numbers) <= count * STEPS:
                line = sentence(draw, WORDS[text]) + "\n"
                numbers += [CHARACTERS.index(each) for each in line]
            starts = range(0, count * STEPS, STEPS)
            write(f"{text}-{part}-x", [numbers[i:i + STEPS] for i in starts])
            write(f"{text}-{part}-y",
                  [numbers[i + 1:i + STEPS + 1] for i in starts])


main()
