#!/usr/bin/env python3
"""Writes the files beside this one: made-up reviews, each good or bad.

A review is a few sentences. Some of their words say what its writer thinks, and
"not" turns them round.
"""
import csv
import gzip
import io
import pathlib
import random

THINGS = ["film", "plot", "music", "end", "cast", "picture", "dialogue"]
WORDS = {"good": ["lovely", "clever", "moving", "fresh", "funny", "great"],
         "bad": ["dull", "slow", "silly", "weak", "loud", "poor"]}
SENTENCES = ["The {thing} was {word}.", "I found the {thing} {word}!",
             "A {word} {thing}, from beginning to end.",
             "We talked about the {thing}; it is {word}."]


def sentence(draw, mood):
    other = {"good": "bad", "bad": "good"}[mood]
    turned = draw.random() < 0.2
    word = draw.choice(WORDS[other if turned else mood])
    return draw.choice(SENTENCES).format(
        thing=draw.choice(THINGS), word=("not " if turned else "") + word)


def main():
    draw = random.Random(7)
    for part, count in (("train", 600), ("test", 200)):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["review", "mood"])
        for _ in range(count):
            mood = draw.choice(["good", "bad"])
            writer.writerow([" ".join(sentence(draw, mood) for _ in
                                      range(draw.randint(1, 4))), mood])
        path = pathlib.Path(__file__).parent / (part + ".csv.gz")
        path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


main()
