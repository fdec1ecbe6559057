#!/usr/bin/python3
"""A RUN.json trained by the `ringlet` program and, step by step, by PyTorch.

    torch_parity.py BUILD RUN.json steps [--steps N] [--workers W] [--batch B]
                                         [--epsilon E] [--rate R]
        Compares the loss of each step from the same weights over the same
        batches, and the final moving statistics; dropout is left out. Exits 1
        if a number is further from PyTorch's in float64 than LIMIT, and than
        twice the error of PyTorch's float32 until then. That error is taken
        from these weights and from ROUNDINGS others that are one rounding off.
        Rounding errors grow from step to step. Adam enlarges them, since it
        scales a gradient of 1e-7 like any other; with --epsilon 0.01 it does
        not. --rate: the learning rate.
    torch_parity.py BUILD RUN.json accuracy [--epochs N] [--seeds S] [--take T]
                                            [--batch B] [--cosine] [--nudged N]
        Compares the validation metric after training on the first T examples,
        from the same weights over the same batches; each program has its own
        dropout. --cosine: the learning rate falls to 0, so that the last steps
        matter little. --nudged: N more runs of ringlet from weights a millionth
        off, whose distance shows the effect of rounding. Exits 1 if the means
        are more than POINTS apart, or a loss more than 5%.
    torch_parity.py BUILD RUN.json time [--steps N] [--threads T] [--batch B]
        Prints the seconds of a step of each program, the smallest of several.

BUILD holds tools/ringlet/ringlet. Needs python3-torch. PyTorch computes with
its own convolutions, its own statistics and its own gradients; the
update of Adam and the moving statistics are Keras's formulas.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: needs python3-torch")
    sys.exit(77)

from write_safetensors import save_file  # noqa: E402 (beside this file)

LIMIT = 1e-4  # of a step's loss, relative to max(1, loss)
ROUNDINGS = 3
POINTS = 0.005  # of the mean accuracy


def pads(size, window, stride, padding):
    if padding != "same":
        return 0, 0
    total = max(0, ((size + stride - 1) // stride - 1) * stride + window - size)
    return total // 2, total - total // 2


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


class Net:
    """Keras's JSON with PyTorch's functions. Images are NCHW inside."""

    def __init__(self, model):
        self.layers, self.inputs = [], []
        self.decay = []  # (weight, l2)
        functional = model["class_name"] != "Sequential"
        for i, layer in enumerate(model["config"]["layers"]):
            config = layer.get("config", {})
            name = config.get("name") or f"layer_{i}"
            config["name"] = name
            layer["config"] = config
            before = [each[0] for each in (layer.get("inbound_nodes") or [[]])[0]]
            if not functional and i:
                before = [self.layers[-1][1]]
            self.layers.append((layer["class_name"], name, config))
            self.inputs.append(before)
        self.shape = self.layers[0][2]["batch_shape"][1:]

    def make_weights(self, random):
        """Draws all weights, in Keras's shapes, as {"layer/kernel": array}."""
        self.weights, self.moving, self.decay = {}, {}, []
        values = {self.layers[0][1]: torch.zeros(2, *self.shape)}
        self.random = random
        self.run(values, training=False, create=True)
        return {**self.weights, **self.moving}

    def weight(self, name, shape, config, kind, scale):
        w = self.random.standard_normal(shape).astype(np.float32) * np.float32(scale)
        self.weights[name] = w
        rule = config.get(kind + "_regularizer")
        if rule:
            self.decay.append((name, rule["config"]["l2"]))
        return torch.tensor(w)

    def get(self, name, create, shape, config, kind, scale):
        if create:
            return self.weight(name, shape, config, kind, scale)
        return self.tensors[name]

    def run(self, values, training, create=False):
        self.batch_statistics = {}
        for (kind, name, config), before in zip(self.layers[1:], self.inputs[1:]):
            xs = [values[each] for each in before]
            values[name] = self.apply(kind, name, config, xs, training, create)
        return values[self.layers[-1][1]]

    def convolve(self, kind, name, config, x, create):
        size, stride = pair(config["kernel_size"]), pair(config.get("strides", 1))
        channels = x.shape[-1]
        depthwise = kind == "DepthwiseConv2D"
        filters = 1 if depthwise else config["filters"]
        fan = size[0] * size[1] * (1 if depthwise else channels)
        prefix = "depthwise" if depthwise else "kernel"
        kernel = self.get(f"{name}/kernel", create, (*size, channels, filters),
                          config, prefix, (2 / fan) ** .5)
        bias = self.get(f"{name}/bias", create, (channels if depthwise else filters,),
                        config, "bias", 0.01)
        top = pads(x.shape[1], size[0], stride[0], config.get("padding"))
        left = pads(x.shape[2], size[1], stride[1], config.get("padding"))
        x = F.pad(x.permute(0, 3, 1, 2), (*left, *top))
        k = kernel.permute(2, 3, 0, 1) if depthwise else kernel.permute(3, 2, 0, 1)
        y = F.conv2d(x.contiguous(), k.contiguous(), bias, stride, groups=channels if depthwise else 1)
        return y.permute(0, 2, 3, 1)

    def normalize(self, name, config, x, training, create):
        channels = (x.shape[-1],)
        gamma = self.get(f"{name}/gamma", create, channels, config, "gamma", 0.1)
        beta = self.get(f"{name}/beta", create, channels, config, "beta", 0.1)
        if create:
            self.weights[f"{name}/gamma"] += 1
            self.moving[f"{name}/moving_mean"] = np.zeros(channels, np.float32)
            self.moving[f"{name}/moving_variance"] = np.ones(channels, np.float32)
        epsilon = config.get("epsilon", 1e-3)
        if training:
            dims = tuple(range(x.dim() - 1))
            mean, variance = x.mean(dims), x.var(dims, unbiased=False)
            self.batch_statistics[f"{name}/moving_mean"] = mean.detach()
            self.batch_statistics[f"{name}/moving_variance"] = variance.detach()
        else:
            state = self.moving if create else self.state
            mean = torch.as_tensor(state[f"{name}/moving_mean"])
            variance = torch.as_tensor(state[f"{name}/moving_variance"])
        return (x - mean) * torch.rsqrt(variance + epsilon) * gamma + beta

    def apply(self, kind, name, config, xs, training, create):
        x = xs[0]
        if kind in ("Conv2D", "DepthwiseConv2D"):
            x = self.convolve(kind, name, config, x, create)
        elif kind == "BatchNormalization":
            return self.normalize(name, config, x, training, create)
        elif kind == "Dense":
            shape = (x.shape[-1], config["units"])
            kernel = self.get(f"{name}/kernel", create, shape, config, "kernel",
                              (2 / shape[0]) ** .5)
            x = x @ kernel + self.get(f"{name}/bias", create, shape[1:], config,
                                      "bias", 0.01)
        elif kind == "Add":
            return torch.stack(xs).sum(0)
        elif kind == "AveragePooling2D":
            size = pair(config["pool_size"])
            return F.avg_pool2d(x.permute(0, 3, 1, 2), size).permute(0, 2, 3, 1)
        elif kind == "Flatten":
            return x.reshape(len(x), -1)
        elif kind == "Dropout":
            return F.dropout(x, config["rate"], training)
        activation = config.get("activation", "linear")
        if activation == "relu":
            return torch.relu(x)
        # A last softmax is left to the loss.
        assert activation in ("linear", "softmax"), activation
        return x


class Training:
    """Keras's Adam, regularizers and moving statistics over a Net."""

    def __init__(self, run, weights, dtype=torch.float32):
        self.net, self.dtype = Net(run["model"]), dtype
        self.net.make_weights(np.random.default_rng(0))
        self.net.tensors = {
            name: torch.tensor(weights[name], dtype=dtype, requires_grad=True)
            for name in self.net.weights}
        self.net.state = {name: torch.tensor(weights[name], dtype=dtype)
                          for name in self.net.moving}
        self.momenta = {name: 0.99 for name in self.net.moving}
        self.classes = run["compile"]["loss"] == "sparse_categorical_crossentropy"
        self.rate = self.rate_of(run)
        self.epsilon = self.adam_of(run).get("epsilon", 1e-7)
        self.step = 0
        self.m = {name: 0. for name in self.net.tensors}
        self.v = {name: 0. for name in self.net.tensors}

    @staticmethod
    def adam_of(run):
        optimizer = run["compile"]["optimizer"]
        return optimizer.get("config", {}) if isinstance(optimizer, dict) else {}

    @staticmethod
    def rate_of(run):
        rate = Training.adam_of(run).get("learning_rate", 0.001)
        return rate if isinstance(rate, dict) else {"class_name": "constant",
                                                    "rate": rate}

    def learning_rate(self):
        if self.rate["class_name"] == "constant":
            return self.rate["rate"]
        config = self.rate["config"]
        if self.rate["class_name"] == "CosineDecay":
            share = min(1., self.step / config["decay_steps"])
            return config["initial_learning_rate"] * (1 + math.cos(math.pi * share)) / 2
        if self.rate["class_name"] == "ExponentialDecay":
            return config["initial_learning_rate"] * config["decay_rate"] ** (
                self.step // config["decay_steps"])
        past = sum(self.step > each for each in config["boundaries"])
        return config["values"][past]

    def example_losses(self, outputs, y):
        if self.classes:
            return F.cross_entropy(outputs, y.long(), reduction="none")
        return ((outputs - y) ** 2).mean(-1)

    def penalty(self):
        return sum((scale * (self.net.tensors[name] ** 2).sum()
                    for name, scale in self.net.decay), torch.zeros(()))

    def train(self, x, y, workers=1):
        """Makes a step over `workers` equal parts of a batch. Returns its loss."""
        x = x.to(self.dtype)
        y = y if self.classes else y.to(self.dtype)
        total, statistics = self.penalty(), []
        for part in range(workers):
            chosen = slice(part * len(x) // workers, (part + 1) * len(x) // workers)
            out = self.net.run({self.net.layers[0][1]: x[chosen]}, training=True)
            total = total + self.example_losses(out, y[chosen]).sum() / len(x)
            statistics.append(self.net.batch_statistics)
        total.backward()
        rate = self.learning_rate()
        self.step += 1
        rate *= (1 - .999 ** self.step) ** .5 / (1 - .9 ** self.step)
        with torch.no_grad():
            for name, w in self.net.tensors.items():
                self.m[name] += (w.grad - self.m[name]) * (1 - .9)
                self.v[name] += (w.grad ** 2 - self.v[name]) * (1 - .999)
                w -= rate * self.m[name] / (torch.sqrt(self.v[name]) + self.epsilon)
                w.grad = None
            for name, momentum in self.momenta.items():
                mean = sum(each[name] for each in statistics) / workers
                self.net.state[name] = (self.net.state[name] * momentum +
                                        mean * (1 - momentum))
        return total.item()

    def evaluate(self, x, y):
        """Accuracy, or the mean loss where there are no classes."""
        total = 0.
        with torch.no_grad():
            for i in range(0, len(x), 200):
                out = self.net.run({self.net.layers[0][1]: tensor(x[i:i + 200])},
                                   training=False)
                part = labels(y[i:i + 200])
                total += ((out.argmax(-1) == part).sum().item() if self.classes
                          else self.example_losses(out, part).sum().item())
        return total / len(x)


def tensor(x):
    return torch.tensor(np.array(x, dtype=np.float32))


def labels(y):
    return torch.tensor(np.array(y))


class Scaled:
    """An array of a file whose examples are scaled when they are read."""

    def __init__(self, x, scale):
        self.x, self.scale = x, scale

    def __len__(self):
        return len(self.x)

    def __getitem__(self, chosen):
        return self.x[chosen].astype(np.float32) * self.scale


class Case:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.run = json.loads(options.run.read_text())
        self.run.pop("$schema", None)
        self.scale = {part: each.get("scale", 1.0)
                      for part, each in self.run["data"].items()}
        for each in self.run["data"].values():
            for key in ("x", "y"):
                each[key] = str((options.data or options.run.parent) / each[key])
        self.run["compile"].setdefault("metrics", [])

    def take(self, count):
        """Both train with the first examples only."""
        where = self.run["data"]["train"]
        for key in ("x", "y") if count else ():
            path = str(self.folder / f"train_{key}.npy")
            np.save(path, np.load(where[key], mmap_mode="r")[:count])
            where[key] = path

    def data(self, part, count=None):
        where = self.run["data"][part]
        x = np.load(where["x"], mmap_mode="r")[:count]
        y = np.load(where["y"], mmap_mode="r")[:count]
        scale = np.float32(self.scale[part])
        return Scaled(x, scale), y

    def weights(self, seed):
        net = Net(self.run["model"])
        return net.make_weights(np.random.default_rng(seed))

    def program(self):
        return str(self.options.build.resolve() / "tools/ringlet/ringlet")

    def ringlet(self, *flags, workers=1, threads=1, weights=None, **fit):
        """Runs it; rows of the log of steps, and what it printed."""
        run = dict(self.run, fit={**self.run["fit"], **fit})
        (self.folder / "run.json").write_text(json.dumps(run))
        program = self.program()
        command = [program, "train", "--log-steps", "steps.csv",
                   "--threads", str(threads), "--save", "out.safetensors", *flags]
        if weights is not None:
            save_file(weights, self.folder / "init.safetensors")
            command += ["--init", "init.safetensors"]
        if workers > 1:
            command = [program, "launch", "-n", str(workers), "--", *command]
        done = subprocess.run([*command, "run.json"], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=3600, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout.decode()[-2000:])
        with open(self.folder / "steps.csv", newline="") as file:
            return list(csv.DictReader(file)), done.stdout.decode()


    def trained(self, order, batch, weights, seed, threads):
        """Trains on the examples in this order; accuracy of validation, or the
        loss."""
        where = self.run["data"]["train"]
        one = where["x"] == where["y"]
        files = {}
        for key in ("x",) if one else ("x", "y"):
            files[key] = str(self.folder / f"ordered_{key}.npy")
            np.save(files[key], np.load(where[key], mmap_mode="r")[order])
        files.setdefault("y", files["x"])
        plain = self.run
        self.run = dict(plain, data={**plain["data"], "train": {**where, **files}})
        self.ringlet("--epochs", "1", "--no-shuffle", "--seed", str(seed),
                     weights=weights, threads=threads, batch_size=batch)
        self.run = plain
        done = subprocess.run(
            [self.program(), "evaluate", "out.safetensors", "--data", "run.json",
             "--json"], cwd=self.folder, stdout=subprocess.PIPE, check=True)
        values = json.loads(done.stdout)
        return values.get("accuracy", values["loss"])


def without_dropout(run):
    for layer in run["model"]["config"]["layers"]:
        if layer["class_name"] == "Dropout":
            layer["config"]["rate"] = 0.0


def set_adam(run, field, value):
    optimizer = run["compile"]["optimizer"]
    if isinstance(optimizer, str):
        optimizer = {"class_name": "Adam", "config": {}}
    if value is not None:
        optimizer["config"][field] = value
    run["compile"]["optimizer"] = optimizer


def read_moving(path):
    """{"layer/moving_mean": array, …} of a model."""
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    values = {}
    for name, each in header.items():
        if "/moving_" in name:
            first, end = (begin + at for at in each["data_offsets"])
            values[name.split("/", 1)[1]] = np.frombuffer(data[first:end], "<f4")
    return values


def furthest(values, exact):
    """The largest difference of two states, of what is more than 1 of it."""
    assert set(values) == set(exact), (sorted(values), sorted(exact))
    return max((np.max(np.abs(np.asarray(values[name]) - np.asarray(right)) /
                       np.maximum(1, np.abs(np.asarray(right))))
                for name, right in exact.items()), default=0.)


def check_steps(case, options):
    without_dropout(case.run)
    set_adam(case.run, "epsilon", options.epsilon)
    set_adam(case.run, "learning_rate", options.rate)
    workers, steps = options.workers, options.steps
    batch = options.batch or case.run["fit"]["batch_size"]
    x, y = case.data("train")
    weights = case.weights(seed=3)
    rows, _ = case.ringlet("--no-shuffle", "--epochs", "1", "--steps-per-epoch",
                           str(steps), workers=workers, weights=weights,
                           batch_size=batch // workers)
    exactly = Training(case.run, weights, torch.float64)
    shorts = [Training(case.run, each) for each in (weights, *(
        nudged(weights, n, 2.0 ** -24) for n in range(ROUNDINGS)))]
    worst, roundings, ok, good = 0., [0.] * len(shorts), len(rows) == steps, 0
    for i, row in enumerate(rows):
        part = np.arange(i * batch, (i + 1) * batch) % len(x)
        exact = exactly.train(tensor(x[part]), labels(y[part]), workers)
        scale = max(1, abs(exact))
        worst = max(worst, abs(float(row["loss"]) - exact) / scale)
        for n, each in enumerate(shorts):
            loss = each.train(tensor(x[part]), labels(y[part]), workers)
            roundings[n] = max(roundings[n], abs(loss - exact) / scale)
        good = i + 1 if worst <= LIMIT else good
        ok = ok and worst <= max(LIMIT, 2 * max(roundings))
    print(f"{options.run.stem}: {len(rows)} steps of {batch} on {workers} workers, "
          f"last loss {exact:.6f}; largest difference from float64: {worst:.1e}, "
          f"PyTorch's in float32 {text_of(roundings)}; within {LIMIT} for {good} "
          "steps")
    exact = exactly.net.state
    moved = furthest(read_moving(case.folder / "out.safetensors"), exact)
    roundings = [furthest(each.net.state, exact) for each in shorts]
    print(f"    moving statistics: {moved:.1e}, PyTorch's in float32 "
          f"{text_of(roundings)}")
    return ok and moved <= max(LIMIT, 2 * max(roundings))


def text_of(roundings):
    return f"{roundings[0]:.1e} (a rounding off {max(roundings[1:]):.1e})"


def fall_to_nothing(run, steps):
    rate = Training.rate_of(run)
    if rate["class_name"] == "constant":
        first = rate["rate"]
    else:
        first = rate["config"].get("initial_learning_rate") or rate["config"]["values"][0]
    set_adam(run, "learning_rate", {"class_name": "CosineDecay", "config": {
        "initial_learning_rate": first, "decay_steps": steps}})


def nudged(weights, seed, share=1e-6):
    random = np.random.default_rng(seed)
    return {name: w * (1 + share * random.standard_normal(w.shape)).astype("f4")
            for name, w in weights.items()}


def check_accuracy(case, options):
    case.take(options.take)
    x, y = case.data("train")
    test_x, test_y = case.data("validation")
    batch = options.batch or case.run["fit"]["batch_size"]
    steps = len(x) // batch
    if options.cosine:
        fall_to_nothing(case.run, steps * options.epochs)
    results = {"ringlet": [], "PyTorch": []}
    for seed in range(1, options.seeds + 1):
        weights, random = case.weights(seed), np.random.default_rng(seed)
        order = np.concatenate([random.permutation(len(x))[:steps * batch]
                                for _ in range(options.epochs)])
        results["ringlet"].append(case.trained(order, batch, weights, seed,
                                               options.threads))
        torch.manual_seed(seed)
        training = Training(case.run, weights)
        for i in range(0, len(order), batch):
            chosen = order[i:i + batch]
            training.train(tensor(x[chosen]), labels(y[chosen]))
        results["PyTorch"].append(training.evaluate(test_x, test_y))
        print(f"{options.run.stem}: seed {seed}:",
              *(f"{who} {values[-1]:.5f}" for who, values in results.items()),
              flush=True)
        for n in range(options.nudged):
            value = case.trained(order, batch, nudged(weights, n), seed,
                                 options.threads)
            print(f"    from weights a millionth off: {value:.5f}", flush=True)
    for who, values in results.items():
        print(f"{options.run.stem}: {who:8} {np.mean(values):.5f}  of",
              " ".join(f"{value:.5f}" for value in values), flush=True)
    own, other = (np.mean(values) for values in results.values())
    return abs(own - other) <= (POINTS if training.classes else 0.05 * other)


def measure_time(case, options):
    batch = options.batch or case.run["fit"]["batch_size"]
    x, y = case.data("train", batch)
    weights = case.weights(seed=3)
    training = Training(case.run, weights)
    best = {"ringlet": [], "PyTorch": []}
    for _ in range(3):
        rows = []
        for steps in (5, 5 + options.steps):
            begin = time.monotonic()
            case.ringlet("--epochs", "1", "--steps-per-epoch", str(steps),
                         threads=options.threads, weights=weights,
                         batch_size=batch, validation_steps=1)
            rows.append(time.monotonic() - begin)
        best["ringlet"].append((rows[1] - rows[0]) / options.steps)
        for _ in range(5 + options.steps):
            if _ == 5:
                begin = time.monotonic()
            training.train(tensor(x), labels(y))
        best["PyTorch"].append((time.monotonic() - begin) / options.steps)
    own, other = min(best["ringlet"]), min(best["PyTorch"])
    print(f"{options.run.stem}: batch {batch}, {options.threads} threads: ringlet "
          f"{own * 1e3:.2f} ms, PyTorch {other * 1e3:.2f} ms a step, "
          f"ratio {other / own:.2f}")
    return True


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("what", choices=("steps", "accuracy", "time"))
    parser.add_argument("--data", type=pathlib.Path)
    for name, value in (("steps", 100), ("workers", 1), ("batch", None),
                        ("epochs", 3), ("seeds", 3), ("take", None),
                        ("threads", 1), ("nudged", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--cosine", action="store_true")
    for name in ("--epsilon", "--rate"):
        parser.add_argument(name, type=float)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    check = {"steps": check_steps, "accuracy": check_accuracy,
             "time": measure_time}[options.what]
    with tempfile.TemporaryDirectory() as folder:
        ok = check(Case(options, pathlib.Path(folder)), options)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
