#!/usr/bin/python3
"""The tutorials' CNN on Fashion-MNIST at every batch size, against PyTorch.

    fashion_matrix.py BUILD [--batch N,...] [--validation N,...] [--workers N,...]
                      [--steps 100] [--threads 1] [--whole]

For each batch size (of a worker), validation batch size (0: the same) and
number of workers: the loss of each step must be PyTorch's within 1e-4, from
equal weights and equal batches, the last of each epoch short; and validation
after the last step within 1e-5 of PyTorch's on the weights that ringlet saved.
Where a step has more than 256 examples a validation batch of another size gets
a fifth of the steps; with --whole all of them.
Needs python3-torch and Debian's dataset-fashion-mnist. Exits 77 without them.
"""
import argparse
import gzip
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: needs python3-numpy and python3-torch")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from differential import (read_safetensors, rows_of,  # noqa: E402
                          write_safetensors)

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCHES = [1, 7, 32, 64, 96, 100, 128, 500, 1000]
VALIDATIONS = [0, 1, 64, 256, 1000]
VALIDATION_EXAMPLES = 1300  # a short last batch of all but 1
# The tutorials'. At 0.01 a unit whose sum is 0 but for rounding (2e-6 in a sum
# of 21,632 terms) may fall on the other side of ReLU, and the runs part.
RATE = 0.001
SECONDS = 1800  # of one run

LAYERS = [("InputLayer", {"batch_shape": [None, 28, 28]}),
          ("Reshape", {"target_shape": [28, 28, 1]}),
          ("Conv2D", {"filters": 32, "kernel_size": 3, "activation": "relu"}),
          ("Flatten", {}),
          ("Dense", {"units": 128, "activation": "relu"}),
          ("Dense", {"units": 10})]
SHAPES = {"conv2d/kernel": (3, 3, 1, 32), "conv2d/bias": (32,),
          "dense/kernel": (26 * 26 * 32, 128), "dense/bias": (128,),
          "dense_1/kernel": (128, 10), "dense_1/bias": (10,)}


def read_idx(name):
    data = gzip.open(DATA / name).read()
    size = data[3]
    shape = np.frombuffer(data, ">u4", size, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * size).reshape(shape)


def initial_weights():
    rng = np.random.default_rng(11)
    weights = {}
    for path, shape in SHAPES.items():
        field = int(np.prod(shape[:-2]))
        limit = (6 / (field * (shape[-2] + shape[-1]))) ** 0.5 if len(
            shape) > 1 else 0
        weights[path] = rng.uniform(-limit, limit, shape).astype("f4")
    return weights


class Plan:
    """How 100 steps are cut into epochs, the last batch of each short."""

    def __init__(self, batch, workers, steps, most):
        self.batch, self.workers = batch, workers
        self.size = batch * workers
        self.per_epoch = next(n for n in (50, 25, 20, 10, 5, 4, 2, 1)
                              if n <= most // self.size and steps % n == 0)
        self.epochs = steps // self.per_epoch
        self.examples = (self.size * (self.per_epoch - 1) +
                         max(1, self.size * 3 // 5))


# --- PyTorch ------------------------------------------------------------------

def forward(w, x):
    x = torch.tensor(x, dtype=torch.float32)[:, None] / 255
    h = F.conv2d(x, w["conv2d/kernel"].permute(3, 2, 0, 1), w["conv2d/bias"])
    h = h.relu().permute(0, 2, 3, 1).flatten(1)
    h = (h @ w["dense/kernel"] + w["dense/bias"]).relu()
    return h @ w["dense_1/kernel"] + w["dense_1/bias"]


def torch_losses(plan, x, y, weights):
    w = {k: torch.tensor(v, requires_grad=True) for k, v in weights.items()}
    optimizer = torch.optim.SGD(w.values(), RATE)
    losses = []
    for _ in range(plan.epochs):
        for i in range(0, plan.examples, plan.size):
            end = min(i + plan.size, plan.examples)
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(w, x[i:end]),
                                   torch.tensor(y[i:end], dtype=torch.long))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return np.array(losses)


def torch_validation(weights, x, y):
    w = {k: torch.tensor(v) for k, v in weights.items()}
    with torch.no_grad():
        logits = torch.cat([forward(w, x[i:i + 250])
                            for i in range(0, len(x), 250)]).double()
        return F.cross_entropy(logits, torch.tensor(y, dtype=torch.long)).item()


# --- ringlet ------------------------------------------------------------------

def write_data(folder, name, x, y):
    np.save(folder / f"{name}_x.npy", x)
    np.save(folder / f"{name}_y.npy", y)
    return {"x": f"{name}_x.npy", "y": f"{name}_y.npy", "scale": 1 / 255}


def ringlet(program, folder, plan, validation, threads):
    """(losses of the steps, last validation loss, weights), or a text."""
    run = {"model": {"class_name": "Sequential", "config": {"layers": [
               {"class_name": kind, "config": config}
               for kind, config in LAYERS]}},
           "compile": {"optimizer": {"class_name": "SGD",
                                     "config": {"learning_rate": RATE}},
                       "loss": {"class_name": "SparseCategoricalCrossentropy",
                                "config": {"from_logits": True}}},
           "data": json.loads((folder / "data.json").read_text()),
           "fit": {"batch_size": plan.batch, "epochs": plan.epochs,
                   "shuffle": False, "threads": threads, "verbose": 0,
                   "validation_freq": max(1, plan.epochs // 2)},
           "callbacks": [{"class_name": "CSVLogger",
                          "config": {"filename": "epochs.csv"}}]}
    if validation:
        run["fit"]["validation_batch_size"] = validation
    (folder / "run.json").write_text(json.dumps(run))
    command = [program, "train", "--init", "init.safetensors", "--save",
               "out.safetensors", "--log-steps", "steps.csv", "run.json"]
    if plan.workers > 1:
        command = [program, "launch", "-n", str(plan.workers), "--", *command]
    try:
        ran = subprocess.run(command, cwd=folder, text=True, timeout=SECONDS,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return f"still ran after {SECONDS} s"
    if ran.returncode != 0:
        return f"exit code {ran.returncode}: {ran.stdout.strip()[-200:]}"
    weights = {name[6:]: value.copy() for name, value in
               read_safetensors(folder / "out.safetensors").items()
               if name.startswith("model/")}
    losses = np.array([float(row["loss"]) for row in
                       rows_of(folder / "steps.csv")])
    return losses, float(rows_of(folder / "epochs.csv")[-1]["val_loss"]), weights


def check(program, folder, plan, validation, threads, expected, held_out):
    """(whether all is well, a text)."""
    got = ringlet(program, folder, plan, validation, threads)
    if isinstance(got, str):
        return False, got
    losses, value, weights = got
    if losses.shape != expected.shape:
        return False, f"{len(losses)} steps instead of {len(expected)}"
    off = np.abs(losses - expected) / expected
    right = torch_validation(weights, *held_out)
    far = abs(value - right) / right
    good = bool((off <= 1e-4).all() and far <= 1e-5)
    text = f"steps within {off.max():.1e}, validation within {far:.1e}"
    if not good:
        bad = np.argwhere(~(off <= 1e-4))
        text += (f"; step {bad[0][0]}: {losses[bad[0][0]]:.7g} instead of "
                 f"{expected[bad[0][0]]:.7g}" if len(bad) else "") + (
                     f"; validation {value:.7g} instead of {right:.7g}")
    return good, text


def numbers(text):
    return [int(each) for each in text.split(",")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--batch", type=numbers, default=BATCHES)
    parser.add_argument("--validation", type=numbers, default=VALIDATIONS)
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    if not DATA.exists():
        print(f"skipped: no {DATA}; install dataset-fashion-mnist")
        sys.exit(77)
    torch.set_num_threads(os.cpu_count() or 1)
    program = pathlib.Path(options.build).resolve() / "tools/ringlet/ringlet"
    x = read_idx("train-images-idx3-ubyte.gz")
    y = read_idx("train-labels-idx1-ubyte.gz")
    held_out = tuple(read_idx(f"t10k-{name}.gz")[:VALIDATION_EXAMPLES] for name
                     in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    weights = initial_weights()
    begin, passed, failed = time.monotonic(), 0, 0
    for batch, workers in itertools.product(options.batch, options.workers):
        expected = {}  # by the number of steps
        for validation in options.validation:
            steps = options.steps
            if validation and batch * workers > 256 and not options.whole:
                steps //= 5
            plan = Plan(batch, workers, steps, len(x))
            if steps not in expected:
                expected[steps] = torch_losses(plan, x, y, weights)
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                write_safetensors(folder / "init.safetensors", weights)
                data = {"train": write_data(folder, "train", x[:plan.examples],
                                            y[:plan.examples]),
                        "validation": write_data(folder, "validation",
                                                 *held_out)}
                (folder / "data.json").write_text(json.dumps(data))
                good, text = check(program, folder, plan, validation,
                                   options.threads, expected[steps], held_out)
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok    ' if good else 'FAILED'} batch {batch}, validation "
                  f"{validation or 'the same'}, {workers} "
                  f"worker{'s' if workers > 1 else ''}, {steps} steps: {text}",
                  flush=True)
    print(f"{time.monotonic() - begin:.0f} s")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
