#!/usr/bin/python3
"""Makes the sound of this folder, with Python's standard library alone.

    make.py OUT

The same command writes the same bytes.
"""
import math
import pathlib
import random
import sys
import wave

RATE, SAMPLES, FILES = 8000, 4000, 24


def tone(out, begin, seconds, first, last, loudness):
    """Adds a tone from one frequency to another, with three harmonics."""
    count, phase = int(seconds * RATE), 0.0
    for i in range(count):
        at = begin + i
        phase += 2 * math.pi * (first + (last - first) * i / count) / RATE
        if 0 <= at < SAMPLES:
            rise = math.sin(math.pi * i / count) ** 0.5
            out[at] += loudness * rise * sum(
                math.sin(k * phase) / k for k in (1, 2, 3))


def word(name, draw):
    out = [draw.gauss(0, 0.01) for _ in range(SAMPLES)]
    pitch, begin = draw.uniform(300, 600), draw.randrange(1200)
    loud = draw.uniform(0.15, 0.45)
    if name == "up":
        tone(out, begin, 0.3, pitch, 2 * pitch, loud)
    elif name == "down":
        tone(out, begin, 0.3, 2 * pitch, pitch, loud)
    else:
        for at in (0, 1300):
            tone(out, begin + at, 0.08, pitch, pitch, loud)
    return bytes(min(max(round(128 + 127 * s), 0), 255) for s in out)


for name in ("down", "twice", "up"):
    folder = pathlib.Path(sys.argv[1], name)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(FILES):
        with wave.open(str(folder / f"{i:02}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(1)
            file.setframerate(RATE)
            file.writeframes(word(name, random.Random(f"{name} {i}")))
