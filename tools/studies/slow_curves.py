#!/usr/bin/env python3
"""Draws docs/slow_links_*.svg, of docs/data/*.csv.

    slow_curves.py

The files are those of local_accuracy.py and of slow_study.py's `time` and
`exchange`. What is shown of synchronous training over slow links is computed:
its steps over loopback, and the exchanges that as many take there.
"""
import collections
import csv
import math
import pathlib
import statistics

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DOCS = SOURCE / "docs"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 56, 34, 190, 46
ROUND = 117  # steps between two looks
COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
           "#56b4e9", "#999999", "#8b5a00"]
NAMES = {
    "sync": "synchronous", "sync-2e-3": "synchronous, rate 0.002",
    "local-8": "local, H = 8", "local-30": "local, H = 30",
    "local-30-float32": "local, H = 30, float32",
    "local-117": "local, H = 117",
    "local-117-gentle": "local, H = 117, 0.9/0.7"}


def rows_of(name):
    path = DOCS / "data" / name
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class Chart:
    """Lines over two axes; `x` and `y`: (first, last, step)."""

    def __init__(self, title, x_title, x, y, x_label="{:g}".format):
        self.x, self.y = x, y
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            self.text(LEFT, 20, title, "start", ' font-weight="bold"'),
            self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_title)]
        self.lines = 0
        for value in self.ticks(x):
            at = self.across(value)
            self.parts += [self.line(at, TOP, at, HEIGHT - BOTTOM, "#e4e4e4"),
                           self.text(at, HEIGHT - BOTTOM + 16, x_label(value))]
        for value in self.ticks(y):
            at = self.up(value)
            self.parts += [self.line(LEFT, at, WIDTH - RIGHT, at, "#e4e4e4"),
                           self.text(LEFT - 6, at + 4, f"{value:.2f}", "end")]

    @staticmethod
    def ticks(axis):
        first, last, step = axis
        return [first + step * i
                for i in range(round((last - first) / step) + 1)]

    def across(self, value):
        first, last, _ = self.x
        return LEFT + (value - first) / (last - first) * (WIDTH - RIGHT - LEFT)

    def up(self, value):
        first, last, _ = self.y
        value = max(value, first)  # what is below is at the border
        return HEIGHT - BOTTOM - (value - first) / (last - first) * (
            HEIGHT - BOTTOM - TOP)

    @staticmethod
    def line(x1, y1, x2, y2, colour, more=""):
        return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" '
                f'y2="{y2:.1f}" stroke="{colour}"{more}/>')

    @staticmethod
    def text(x, y, text, anchor="middle", more=""):
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
                f'{more}>{text}</text>')

    def mark(self, value, text):
        at = self.up(value)
        self.parts += [
            self.line(LEFT, at, WIDTH - RIGHT, at, "#777777",
                      ' stroke-dasharray="4 4"'),
            self.text(LEFT + 4, at - 5, text, "start")]

    def draw(self, name, points, ranges=()):
        """A line; `ranges`: (x, least, greatest) of each point."""
        colour = COLOURS[self.lines % len(COLOURS)]
        path = " ".join(f"{self.across(x):.1f},{self.up(y):.1f}"
                        for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" '
                          f'stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            self.parts.append(
                f'<circle cx="{self.across(x):.1f}" cy="{self.up(y):.1f}" '
                f'r="3" fill="{colour}"/>')
        for x, least, most in ranges:
            self.parts.append(self.line(
                self.across(x), self.up(least), self.across(x), self.up(most),
                colour, ' stroke-opacity="0.5"'))
        at = TOP + 12 + 20 * self.lines
        self.parts += [
            self.line(WIDTH - RIGHT + 12, at - 4, WIDTH - RIGHT + 32, at - 4,
                      colour, ' stroke-width="2"'),
            self.text(WIDTH - RIGHT + 38, at, name, "start")]
        self.lines += 1

    def write(self, name):
        (DOCS / name).write_text("\n".join([*self.parts, "</svg>"]) + "\n")
        print(f"docs/{name}")


def epochs(rows, settings, title, y, name):
    """Accuracy after each epoch: means over the seeds, and their range."""
    found = collections.defaultdict(list)
    for row in rows:
        found[row["setting"], int(row["epoch"])].append(
            float(row["val_accuracy"]))
    if not any(setting in settings for setting, _ in found):
        return
    last = max(epoch for _, epoch in found)
    chart = Chart(title, "epoch", (1, last, 1), y)
    for setting in settings:
        values = [(e, found[setting, e]) for e in range(1, last + 1)
                  if found[setting, e]]
        if values:
            chart.draw(NAMES[setting.removeprefix("classes-")],
                       [(e, statistics.mean(v)) for e, v in values],
                       [(e, min(v), max(v)) for e, v in values])
    chart.write(name)


def times(rounds, exchanges, accuracy):
    """Accuracy over seconds, of each setting and link."""
    if not rounds or not exchanges:
        return
    found = collections.defaultdict(list)
    for row in rounds:
        found[row["setting"], link_of(row)].append(
            (float(row["seconds"]), float(row["val_accuracy"])))
    for row in exchanges:
        if row["setting"].startswith("sync") and link_of(row) != (0, 0):
            found[row["setting"], link_of(row)] = [
                (at + ROUND * (i + 1) * float(row["seconds"]), value)
                for i, (at, value) in enumerate(found[row["setting"], (0, 0)])]
    chart = Chart("Test accuracy, four workers on two cores", "seconds",
                  (0, 4, 1), (0.8, 0.9, 0.02),
                  lambda value: f"{10 ** value:,.0f}")
    chart.mark(accuracy, f"{accuracy:.2f}")
    for (setting, link), values in found.items():
        if link in ((0, 0), (20, 20), (5, 100)):
            chart.draw(
                ("sync, " if setting.startswith("sync") else
                 "sparse, " if "sparse" in setting else "int8, ")
                + (f"{link[0]} Mbit/s, {link[1]} ms" if link[0]
                   else "loopback"),
                [(math.log10(at), value) for at, value in values])
    chart.write("slow_links_time.svg")


def link_of(row):
    return int(row["mbits"]), int(row["ms"])


def main():
    rows = rows_of("local_accuracy.csv")
    epochs(rows, ["sync", "local-30", "local-117", "local-117-gentle"],
           "Test accuracy, four replicas", (0.8, 0.92, 0.02),
           "slow_links_accuracy.svg")
    epochs(rows, ["classes-sync", "classes-local-8", "classes-local-30",
                  "classes-local-117"],
           "Test accuracy, three classes a replica", (0.2, 0.9, 0.1),
           "slow_links_classes.svg")
    times(rows_of("time_to_accuracy.csv"), rows_of("exchange.csv"), 0.87)


if __name__ == "__main__":
    main()
