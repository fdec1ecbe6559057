#!/usr/bin/env python3
"""Writes the file beside this one: made-up weather of four stations.

A row is an hour of a station: temperature in degrees, pressure in hPa, and the
relative humidity in percent. Fronts pass: the pressure is a slow random walk,
and the temperature follows it some hours later, over the course of the day.
"""
import gzip
import math
import pathlib
import random

HOURS = 480
STATIONS = {"coast": (14, 3), "forest": (11, 5), "hill": (7, 4), "town": (13, 6)}


def hours(draw, mean, swing):
    front, walk = [0.0] * 12, 0.0
    for hour in range(HOURS):
        walk = 0.97 * walk + draw.gauss(0, 0.5)
        front.append(walk)
        day = math.sin(2 * math.pi * (hour - 9) / 24)
        temperature = mean + swing * day + 2 * front[-9] + draw.gauss(0, 0.3)
        humidity = 70 - 3 * (temperature - mean) + draw.gauss(0, 3)
        yield (round(temperature, 1), round(1015 - 4 * walk, 1),
               round(max(20, min(100, humidity))))


def main():
    draw = random.Random(7)
    lines = ["station,temperature,pressure,humidity"]
    for name, (mean, swing) in STATIONS.items():
        lines += [f"{name},{t},{p},{h}" for t, p, h in hours(draw, mean, swing)]
    text = "\n".join(lines) + "\n"
    path = pathlib.Path(__file__).parent / "hours.csv.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


main()
