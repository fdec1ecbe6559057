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
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tools"))
from chart import Chart  # noqa: E402

DOCS = SOURCE / "docs"
ROUND = 117  # steps between two looks
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
    chart.write(DOCS / name)


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
    chart.write(DOCS / "slow_links_time.svg")


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
