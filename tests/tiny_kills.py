#!/usr/bin/env python3
"""The networks of MLPerf Tiny, killed at random steps.

    tiny_kills.py BUILD [--kills N] [--seed S] [--steps N] [--jobs WORKERS,...]
                        [--networks NAME,...]

Each network of samples/tiny trains on random examples, alone and as the given
numbers of workers, with dropout and BackupAndRestore. Its twin is killed by
SIGKILL at N random moments: all of its processes, or one worker of those that
the launcher starts again. The twin must end with the same bytes of weights,
slots and moving statistics, and with the same rows in the log of steps.

Prints a line for each network and number of workers; exits 1 where one differs.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from killed_job import SECONDS, Job, rows_of  # noqa: E402

SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "samples/tiny"
EXAMPLES, BATCH = 64, 4
NETWORKS = {  # name -> data, shape, classes
    "autoencoder": ("hum", (640,), 0),
    "ds_cnn": ("words", (49, 10, 1), 12),
    "mobilenet": ("images96", (96, 96, 3), 2),
    "resnet8": ("images32", (32, 32, 3), 10)}


def write_run(folder, name, steps, workers):
    """steps: of the job."""
    data, shape, classes = NETWORKS[name]
    rng = np.random.default_rng(1)
    (folder / "data").mkdir()
    for part in ("train", "test"):
        x = rng.integers(0, 256, (EXAMPLES, *shape), np.uint8)
        stem = str(folder / "data" / f"{data}_{part}")
        if not classes:
            np.save(stem + ".npy", x.astype(np.float32) / 128 - 1)
            continue
        np.save(stem + "_x.npy", x)
        np.save(stem + "_y.npy", rng.integers(0, classes, EXAMPLES).astype("u1"))
    run = json.loads((SAMPLES / f"{name}.json").read_text())
    del run["$schema"]
    an_epoch = EXAMPLES // (BATCH * workers)
    run["fit"] = {"batch_size": BATCH, "epochs": -(-steps // an_epoch),
                  "verbose": 0, "validation_freq": 3}
    run["callbacks"] = [{"class_name": "BackupAndRestore", "config": {
        "backup_dir": "backup", "save_freq": 3}}]
    run["strategy"] = {"timeout": 20}
    (folder / "run.json").write_text(json.dumps(run))


def command(program, workers, name):
    train = [program, "train", "run.json", "--save", name + ".safetensors",
             "--log-steps", name + ".csv"]
    if workers == 1:
        return train
    return [program, "launch", "-n", str(workers), "--restart", "--backoff",
            "0.01", "--max-restarts", "1000", "--", *train]


def check(program, name, workers, options):
    rng = random.Random(f"{options.seed} {name} {workers}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_run(folder, name, options.steps, workers)
        whole = subprocess.run(command(program, workers, "whole"), cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=SECONDS, check=False)
        assert whole.returncode == 0, whole.stdout.decode()[-2000:]
        steps = rows_of(folder / "whole.csv") - 1
        killed = []
        job = Job(command(program, workers, "twin"), folder, folder / "twin.csv")
        for row in sorted(rng.randrange(1, steps) for _ in range(options.kills)):
            if not job.await_row(row + 1):
                break
            time.sleep(rng.random() * 0.02)
            killed.append(f"{job.kill(rng, workers)} at {row}")
        code = job.end()
        same = [(folder / f"whole.{kind}").read_bytes() ==
                (folder / f"twin.{kind}").read_bytes() if code == 0 else False
                for kind in ("safetensors", "csv")]
        ok = all(same) and killed
        print(f"{name}, {workers} workers: {steps} steps, killed: "
              f"{', '.join(killed) or 'never'}; " +
              ("the same bytes" if ok else
               f"exit code {code}, same model and log: {same}"), flush=True)
        if not ok:
            print((folder / "out").read_text()[-2000:])
        return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--jobs", default="1,2,4")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    options = parser.parse_args()
    program = str(options.build.resolve() / "tools/ringlet/ringlet")
    results = [check(program, name, int(workers), options)
               for name in options.networks.split(",")
               for workers in options.jobs.split(",")]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
