#!/usr/bin/env python3
"""What local updates cost in accuracy, by setting and seed.

    local_accuracy.py BUILD [--data FOLDER] [--csv FILE] [--seeds 1,2,3,4,5]
                      [--epochs 5] [--jobs 1] [SETTING...]

Trains the tutorials' model with Adam, four replicas of a batch of 64, in one
process: who computes a replica changes no bit, so this is the accuracy of four
workers. Settings: sync (one batch of 256, exact sums), local-30 and so on
(rounds of 30 steps), with -gentle an outer step of 0.9 and 0.7 in place of 0.7
and 0.9, with -float32 changes that are not rounded to 8 bits, with -sparse the
largest of them alone, with -overlap rounds that overlap, with -fedavg 1 and 0;
sync-2e-3, of twice Adam's learning rate. With classes- before it each
replica holds examples of three classes alone.

The validation accuracy of each epoch is appended to the CSV file (a run that
is in it is not made again), and its mean and range over the seeds are printed.
--data: a folder with Fashion-MNIST's four files; without it Debian's
(dataset-fashion-mnist), or the small one of the repository.
"""
import argparse
import collections
import concurrent.futures
import csv
import gzip
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FULL = pathlib.Path("/usr/share/datasets/fashion-mnist")
MINI = SOURCE / "data/fashion-mnist-mini"
REPLICAS, BATCH = 4, 64
SETTINGS = ["sync", "sync-2e-3", "local-30", "local-30-float32", "local-117",
            "local-117-gentle", "classes-sync", "classes-local-8",
            "classes-local-30", "classes-local-117"]
FIELDS = ["setting", "seed", "epoch", "val_accuracy", "val_loss"]


def layer(name, **config):
    return {"class_name": name, "config": config}


def part(data, name):
    return {"images": str(data / f"{name}-images-idx3-ubyte.gz"),
            "labels": str(data / f"{name}-labels-idx1-ubyte.gz"),
            "scale": 1 / 255}


def strategy_of(setting):
    """`strategy` of RUN.json, of a setting without classes-."""
    words = setting.split("-")
    if words[0] == "sync":
        return {"mode": "sync", "replicas": REPLICAS,
                "reduction": "ring" if "ring" in words else "exact"}
    out = {"mode": "local", "replicas": REPLICAS, "local_steps": int(words[1])}
    for word in words[2:]:
        out.update({"gentle": {"outer": {"learning_rate": 0.9,
                                         "momentum": 0.7}},
                    "fedavg": {"outer": {"learning_rate": 1, "momentum": 0,
                                         "nesterov": False}},
                    "float32": {"delta": "float32"},
                    "sparse": {"delta": "sparse"},
                    "overlap": {"overlap": True}}[word])
    return out


def run_of(setting, data, train, epochs, seed):
    """RUN.json; `train`: the part to train on, and the steps of an epoch."""
    rate = 0.002 if setting.endswith("sync-2e-3") else 0.001
    fit = {"batch_size": BATCH, "epochs": epochs, "verbose": 2, "seed": seed}
    if train:
        fit.update(shuffle=False, steps_per_epoch=train[1])
    return {
        "model": layer("Sequential", layers=[
            layer("InputLayer", batch_shape=[None, 28, 28]),
            layer("Reshape", target_shape=[28, 28, 1]),
            layer("Conv2D", filters=32, kernel_size=3, activation="relu"),
            layer("Flatten"), layer("Dense", units=128, activation="relu"),
            layer("Dense", units=10)]),
        "compile": {"optimizer": layer("Adam", learning_rate=rate),
                    "loss": layer("SparseCategoricalCrossentropy",
                                  from_logits=True),
                    "metrics": ["accuracy"]},
        "data": {"train": train[0] if train else part(data, "train"),
                 "validation": part(data, "t10k")},
        "fit": fit,
        "strategy": strategy_of(setting.removeprefix("classes-"))}


def shards(labels):
    """The examples of each replica: those of classes 3 r, 3 r + 1, 3 r + 2.

    Four replicas times three classes are 12: the first two classes are
    divided between the replicas 0 and 3.
    """
    of_class = collections.defaultdict(list)
    for i, label in enumerate(labels):
        of_class[label].append(i)
    owners = collections.defaultdict(list)
    for r in range(REPLICAS):
        for k in range(3):
            owners[(3 * r + k) % 10].append(r)
    out = [[] for _ in range(REPLICAS)]
    for label, having in owners.items():
        for n, r in enumerate(having):
            out[r] += of_class[label][n::len(having)]
    return out


def write_classes(data, folder, epochs, seed):
    """A file in whose order each replica meets its own examples alone.

    A batch of 256 is cut into four, replica by replica, so batch after batch
    has 64 of each shard, which is shuffled anew when all of it was used.
    """
    images, labels = (
        gzip.decompress((data / f"train-{name}-ubyte.gz").read_bytes())
        for name in ("images-idx3", "labels-idx1"))
    size = len(labels) - 8
    steps = size // (REPLICAS * BATCH)
    rng = random.Random(seed)

    def stream(shard):
        while True:
            rng.shuffle(shard)
            yield from shard
    streams = [stream(shard) for shard in shards(labels[8:])]
    order = [next(s) for _ in range(epochs * steps) for s in streams
             for _ in range(BATCH)]
    count = len(order).to_bytes(4, "big")
    (folder / "images").write_bytes(
        images[:4] + count + images[8:16] + b"".join(
            images[16 + 784 * i:16 + 784 * (i + 1)] for i in order))
    (folder / "labels").write_bytes(
        labels[:4] + count + bytes(labels[8 + i] for i in order))
    return {"images": str(folder / "images"), "labels": str(folder / "labels"),
            "scale": 1 / 255, "in_memory": False}, steps


def train(program, data, setting, epochs, seed):
    """The rows of a run."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        own = (write_classes(data, folder, epochs, seed)
               if setting.startswith("classes-") else None)
        path = folder / "run.json"
        path.write_text(json.dumps(run_of(setting, data, own, epochs, seed)))
        said = subprocess.run([program, "train", "--no-save", str(path)],
                              capture_output=True, text=True, cwd=folder)
    assert said.returncode == 0, said.stderr
    found = re.findall(r"val_accuracy: ([\d.]+) - val_loss: ([\d.]+)",
                       said.stdout)
    assert len(found) == epochs, said.stdout
    return [dict(zip(FIELDS, [setting, seed, epoch + 1, *values]))
            for epoch, values in enumerate(found)]


def read(path):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def report(rows, settings, epochs):
    """The last epoch's accuracy of each setting."""
    for setting in settings:
        last = [float(row["val_accuracy"]) for row in rows
                if row["setting"] == setting and int(row["epoch"]) == epochs]
        if last:
            print(f"{setting}: {statistics.mean(last):.4f}, "
                  f"{min(last):.4f} to {max(last):.4f} of {len(last)} seeds")


def options():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--data", type=pathlib.Path,
                        default=FULL if FULL.is_dir() else MINI)
    parser.add_argument("--csv", type=pathlib.Path,
                        default=pathlib.Path("local_accuracy.csv"))
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_intermixed_args()
    asked.data = asked.data.resolve()
    return asked


def main():
    asked = options()
    program = str(pathlib.Path(asked.build).resolve() /
                  "tools/ringlet/ringlet")
    settings = asked.settings or SETTINGS
    lock, known = threading.Lock(), read(asked.csv)
    made = {(row["setting"], int(row["seed"])) for row in known}

    def one(work):
        rows = train(program, asked.data, work[0], asked.epochs, work[1])
        with lock, asked.csv.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)
            print(*work, rows[-1]["val_accuracy"], flush=True)

    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for _ in pool.map(one, [
                (setting, seed) for seed in map(int, asked.seeds.split(","))
                for setting in settings if (setting, seed) not in made]):
            pass
    report(read(asked.csv), settings, asked.epochs)


if __name__ == "__main__":
    sys.exit(main())
