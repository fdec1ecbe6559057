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

RATE, SAMPLES = 8000, 1536


def hum(draw, fault):
    """A motor: harmonics of its speed, and noise. A fault adds a whine or
    knocks."""
    speed, out = draw.uniform(118, 122), []
    phases = [draw.uniform(0, 2 * math.pi) for _ in range(8)]
    whine = draw.uniform(1900, 2600)
    for t in range(SAMPLES):
        s = sum(0.2 / k * math.sin(2 * math.pi * k * speed * t / RATE + phase)
                for k, phase in enumerate(phases, 1)) + draw.gauss(0, 0.02)
        if fault == "whine":
            s += 0.1 * math.sin(2 * math.pi * whine * t / RATE)
        elif fault == "knock" and t % 400 < 40:
            s += draw.gauss(0, 0.3)
        out.append(min(max(round(128 + 127 * s), 0), 255))
    return bytes(out)


root = pathlib.Path(sys.argv[1])
for table, faults in (("normal", ["none"] * 48),
                      ("test", ["none", "whine", "knock"] * 4)):
    (root / table).mkdir(parents=True, exist_ok=True)
    rows = ["file,score"]
    for i, fault in enumerate(faults):
        name = f"{table}/{i:02}_{fault}.wav"
        rows.append(f"{name},0")
        with wave.open(str(root / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(1)
            file.setframerate(RATE)
            file.writeframes(hum(random.Random(name), fault))
    (root / f"{table}.csv").write_text("\n".join(rows) + "\n")
