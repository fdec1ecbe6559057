#!/usr/bin/env python3
"""Training gives one and the same file on any threads, kernels and workers.

    one_result.py BUILD [--steps N] [--kills N] [--seed S] [--emulator PROGRAM]
        [--only NETWORK]

The tutorials' run, LeNet-5, LeNet-5 of augmented images and ResNet-8 are trained
with 1 to 4 threads and each set of kernels. They run undisturbed, or are killed at random steps and resumed.
Prints the SHA-256 of the saved models of each class of arithmetic. Exits 1 if a
class has two.

Then one to four workers train four replicas of each, with exact sums. They are
connected in a ring or a tree, through shared memory or sockets. They run
undisturbed, or the launcher restarts a killed worker, or all are killed.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from killed_job import Job, rows_of  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 900
REPLICAS = 4
LENET = [
    ("Conv2D", {"filters": 6, "kernel_size": 5, "padding": "same",
                "activation": "tanh"}),
    ("AveragePooling2D", {}),
    ("Conv2D", {"filters": 16, "kernel_size": 5, "activation": "tanh"}),
    ("AveragePooling2D", {}), ("Flatten", {}),
    ("Dense", {"units": 120, "activation": "tanh"}),
    ("Dense", {"units": 84, "activation": "tanh"}), ("Dense", {"units": 10})]

AUGMENTATION = [
    ("RandomFlip", {"mode": "horizontal"}),
    ("RandomTranslation", {"height_factor": 0.1, "width_factor": 0.1}),
    ("RandomRotation", {"factor": 0.1, "fill_mode": "constant"}),
    ("RandomZoom", {"height_factor": 0.2, "fill_mode": "wrap"}),
    ("RandomContrast", {"factor": 0.3, "value_range": [0, 1]}),
    ("RandomBrightness", {"factor": 0.2, "value_range": [0, 1]}),
    ("RandomCrop", {"height": 24, "width": 25}),
    ("Resizing", {"height": 28, "width": 28})]


def layer(name, config):
    return {"class_name": name, "config": config}


def write_images(folder, count):
    """The examples of ResNet-8: IDX files of bytes from a linear generator."""
    state, values = 1, bytearray()
    for _ in range(count * 32 * 32 * 3):
        state = (1103515245 * state + 12345) % 2**31
        values.append(state >> 16 & 255)

    def npy(path, shape, data):
        head = ("{'descr': '|u1', 'fortran_order': False, 'shape': "
                f"{shape}, }}").ljust(117) + "\n"
        path.write_bytes(b"\x93NUMPY\x01\x00v\x00" + head.encode() + data)
    npy(folder / "x.npy", (count, 32, 32, 3), bytes(values))
    npy(folder / "y.npy", (count,), bytes(i * 7 % 10 for i in range(count)))


def run_of(name, folder, steps):
    """RUN.json as a dictionary."""
    run = json.loads((SOURCE / "samples/mnist.json").read_text())
    data = {"images": str(SOURCE / "data/fashion-mnist-mini" /
                          "train-images-idx3-ubyte.gz"),
            "labels": str(SOURCE / "data/fashion-mnist-mini" /
                          "train-labels-idx1-ubyte.gz"), "scale": 1 / 255}
    batch = 64
    if name in ("lenet5", "augmented"):
        shape = [layer("InputLayer", {"batch_shape": [None, 28, 28]}),
                 layer("Reshape", {"target_shape": [28, 28, 1]})]
        run["model"]["config"]["layers"] = shape + [layer(*x) for x in LENET]
        run["compile"]["optimizer"] = "adam"
        if name == "augmented":
            run["model"]["config"]["layers"][2:2] = [
                layer(*x) for x in AUGMENTATION]
    elif name == "resnet8":
        run = json.loads((SOURCE / "samples/tiny/resnet8.json").read_text())
        write_images(folder, 64)
        data = {"x": "x.npy", "y": "y.npy", "scale": 1 / 255}
        batch = 8
    run.pop("$schema", None)
    run["data"] = {"train": data}
    run["fit"] = {"batch_size": batch, "epochs": 2, "verbose": 0,
                  "steps_per_epoch": max(1, steps // 2)}
    run["callbacks"] = [layer("BackupAndRestore", {
        "backup_dir": "backup", "save_freq": 2})]
    return run


def train(command, folder, environment, kills):
    """Steps at which it was killed."""
    log, killed = folder / "s.csv", []
    while True:
        process = subprocess.Popen(command, cwd=folder, env=environment,
                                   stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.STDOUT)
        end = time.monotonic() + SECONDS
        while kills and process.poll() is None:
            assert time.monotonic() < end, "no step was logged"
            if rows_of(log) > kills[0]:
                process.kill()
                killed.append(kills.pop(0))
                break
            time.sleep(0.0005)
        said = process.communicate(timeout=SECONDS)[0]
        if process.returncode == 0:
            return killed
        assert process.returncode == -9, said


def check(name, options, sets):
    models, rng = {}, random.Random(options.seed)
    for kernels in sets:
        for threads in range(1, 5):
            for kills in (0, options.kills):
                with tempfile.TemporaryDirectory() as scratch:
                    folder = pathlib.Path(scratch)
                    run = run_of(name, folder, options.steps)
                    (folder / "run.json").write_text(json.dumps(run))
                    steps = sorted(rng.randrange(1, options.steps)
                                   for _ in range(kills))
                    train([*options.emulator, PROGRAM, "train", "run.json",
                           "--threads", str(threads), "--save", "m",
                           "--log-steps", "s.csv", "--log-digests"], folder,
                          dict(os.environ, RINGLET_KERNELS=kernels), steps)
                    model = (folder / "m").read_bytes()
                    log = (folder / "s.csv").read_bytes()
                key = hashlib.sha256(model).hexdigest(), log
                models.setdefault(sets[kernels], {}).setdefault(
                    key, []).append(f"{kernels}/{threads}/{kills} kills")
    right = True
    for arithmetic, found in models.items():
        for (digest, _), runs in found.items():
            print(f"{name}, {arithmetic}: {digest} of {len(runs)} runs"
                  + ("" if len(found) == 1 else ": " + ", ".join(runs)),
                  flush=True)
        right &= len(found) == 1
    return right


def jobs(options):
    """Yields the workers, their connections, the variables and the kills."""
    for kills in (0, options.kills):
        yield 1, "auto", {}, kills
        for workers in (2, 3, 4):
            for communication in ("ring", "tree"):
                for memory in ({}, {"RINGLET_SHM": "0"}):
                    yield workers, communication, memory, kills


def job_of(name, workers, communication, options, folder):
    """Its command, after run.json is written."""
    run = run_of(name, folder, options.steps)
    run["fit"]["batch_size"] //= REPLICAS  # it is each replica's
    run["strategy"] = {"replicas": REPLICAS, "reduction": "exact",
                       "communication": communication, "timeout": 20}
    (folder / "run.json").write_text(json.dumps(run))
    launch = [PROGRAM, "launch", "-n", str(workers), "--restart", "--backoff",
              "0.01", "--max-restarts", "1000", "--"] if workers > 1 else []
    return [*launch, PROGRAM, "train", "run.json", "--save", "m",
            "--log-steps", "s.csv", "--log-digests"]


def check_workers(name, options):
    rng, found, killed = random.Random(f"{options.seed} {name}"), {}, []
    for workers, communication, variables, kills in jobs(options):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            job = Job(job_of(name, workers, communication, options, folder),
                      folder, folder / "s.csv", dict(os.environ, **variables))
            for row in sorted(rng.randrange(1, options.steps)
                              for _ in range(kills)):
                if job.await_row(row + 1):
                    killed.append(job.kill(rng, workers))
            assert job.end() == 0, (folder / "out").read_text()[-2000:]
            key = (hashlib.sha256((folder / "m").read_bytes()).hexdigest(),
                   (folder / "s.csv").read_bytes())
        found.setdefault(key, []).append(
            f"{workers} {communication} {variables} {kills} kills")
    for (digest, _), runs in found.items():
        print(f"{name}, {REPLICAS} replicas: {digest} of {len(runs)} runs"
              + ("" if len(found) == 1 else ": " + ", ".join(runs)), flush=True)
    whole = killed.count("job")
    print(f"  {len(killed) - whole} workers and {whole} whole jobs were killed",
          flush=True)
    return len(found) == 1


def kernel_sets():
    sets = {}
    said = subprocess.run([*options.emulator, PROGRAM, "--version",
                           "--verbose"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    for name in re.search(r"  of (.*) \(RING", said).group(1).split(", "):
        of_set = subprocess.run(
            [*options.emulator, PROGRAM, "--version", "--verbose"], text=True,
            env=dict(os.environ, RINGLET_KERNELS=name), check=True,
            stdout=subprocess.PIPE).stdout
        sets[name] = ("not fused" if "no fused" in of_set else "fused")
    return sets


parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--kills", type=int, default=2)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--emulator", nargs=1, default=[])
parser.add_argument("--only")
options = parser.parse_args()
PROGRAM = str(options.build.resolve() / "tools/ringlet/ringlet")
networks = [options.only] if options.only else (
    "tutorials", "lenet5", "augmented", "resnet8")
results = [check(name, options, kernel_sets()) for name in networks]
if not options.emulator:
    results += [check_workers(name, options) for name in networks]
sys.exit(0 if all(results) else 1)
