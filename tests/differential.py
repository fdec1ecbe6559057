#!/usr/bin/python3
"""Random models trained by the `ringlet` program and by keras_oracle.py.

    differential.py BUILD [--count N] [--seed S] [--case I] [--jobs J]
                    [--keep DIR] [--torch] [--without FEATURE,...]

    FEATURE: wide, workers, near_one (a rho or beta_2 above 0.999),
    logits_over_activation (from_logits over a softmax or sigmoid)

Each case is a RUN.json of a random Keras model, loss, optimizer, data and batch
geometry. `ringlet train` (with `ringlet launch` for several workers), or
`ringlet evaluate` for a model that is not trained, must give the loss of each
step, metrics, validation and final weights that the oracle gives in float64.

How far float32 may be away is learnt from the oracle itself, run in float32 and
with values disturbed by one rounding each: a difference is allowed KAPPA times
the largest such deviation, and a little on top. Cases in which rounding alone
leads far away are counted, and held to what it allows.

Prints one line for each disagreement, with the command that repeats it, and
exits 1. --keep DIR keeps the files of the cases that disagree (with --case: of
that case). Case I of seed S is the same on every machine.
"""
import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy as np
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import keras_oracle  # noqa: E402

KAPPA = 6  # of the deviations that rounding was seen to cause
BASE = 2e-6  # of the value, or of how far a weight has moved
FAR = 1e-2  # a case whose rounding alone leads further is called chaotic
SECONDS = 120  # of one run of the program


# --- models -------------------------------------------------------------------

class Builder:
    """Layers of Keras's JSON, in an order in which each follows its inputs."""

    def __init__(self, rng, functional, shape):
        self.rng, self.functional = rng, functional
        self.layers, self.shapes, self.count = [], {}, 0
        self.input = self.add("InputLayer", {"batch_shape": [None, *shape]}, [])
        self.shapes[self.input] = tuple(shape)

    def add(self, kind, config, inputs):
        name = f"{kind.lower()}_{self.count}"
        self.count += 1
        config = {"name": name, **config}
        entry = {"class_name": kind, "config": config}
        if self.functional:
            tensors = [{"class_name": "__keras_tensor__", "config": {
                "shape": [None, *self.shapes[each]], "dtype": "float32",
                "keras_history": [each, 0, 0]}} for each in inputs]
            merges = kind in ("Add", "Concatenate")
            entry["name"] = name
            entry["inbound_nodes"] = [] if not inputs else [
                {"args": [tensors] if merges else tensors, "kwargs": {}}]
        if inputs:
            layer = keras_oracle.LAYERS[kind](config)
            self.shapes[name] = tuple(int(size) for size in layer.build(
                [self.shapes[each] for each in inputs]))
        self.layers.append(entry)
        return name

    def freeze(self):
        """Some layers in some of the models."""
        if self.rng.random() < 0.7:
            return
        share = self.rng.random()
        for layer in self.layers[1:]:
            if self.rng.random() < share:
                layer["config"]["trainable"] = False

    def json(self):
        self.freeze()
        config = {"name": "model", "layers": self.layers}
        if self.functional:
            config["input_layers"] = [[self.input, 0, 0]]
            config["output_layers"] = [[self.layers[-1]["config"]["name"], 0, 0]]
        return {"class_name": "Functional" if self.functional else "Sequential",
                "config": config}


def pick(rng, *values):
    return values[rng.integers(len(values))]


def spread(rng, low, high):
    """A number between 10^low and 10^high, of three digits."""
    return float(f"{10 ** rng.uniform(low, high):.3g}")


def regularizer(rng):
    kind = pick(rng, "L1", "L2", "L1L2")
    config = {}
    if kind != "L2":
        config["l1"] = spread(rng, -5, -2.5)
    if kind != "L1":
        config["l2"] = spread(rng, -5, -2)
    return {"class_name": kind, "config": config}


def weighted(rng, config, activation=None):
    config["activation"] = activation or pick(
        rng, "linear", "relu", "relu", "sigmoid", "tanh",
        *(["softmax"] if rng.random() < 0.15 else []))
    if rng.random() < 0.15:
        config["use_bias"] = False
    for weight, share in (("kernel", 0.2), ("bias", 0.08)):
        if rng.random() < share:
            config[weight + "_regularizer"] = regularizer(rng)
    return config


def add_simple(b, x, training):
    """A layer without weights that any shape takes."""
    rng = b.rng
    what = pick(rng, "Activation", "ReLU", "Softmax", "Dropout", "Reshape")
    shape = b.shapes[x]
    if what == "Activation":
        return b.add(what, {"activation": pick(
            rng, "linear", "relu", "sigmoid", "tanh", "softmax")}, [x])
    if what == "Dropout":
        rate = 0.0 if training else float(rng.integers(0, 9)) / 10
        return b.add(what, {"rate": rate}, [x])
    if what == "Reshape":
        flat = math.prod(shape)
        divisors = [d for d in range(1, min(flat, 12) + 1) if flat % d == 0]
        first = int(pick(rng, *divisors))
        target = [first, flat // first]
        if len(shape) == 3:  # images stay images
            target = [shape[1], shape[0], shape[2]]
        elif len(shape) == 1:
            target = list(shape)
        if rng.random() < 0.4:
            target[rng.integers(len(target))] = -1
        return b.add(what, {"target_shape": [int(t) for t in target]}, [x])
    return b.add(what, {}, [x])


def add_image_layer(b, x, training):
    rng = b.rng
    height, width, channels = b.shapes[x]
    what = rng.random()
    if what < 0.2:
        return add_simple(b, x, training)
    padding = pick(rng, "valid", "same")
    size = [int(rng.integers(1, 6)), int(rng.integers(1, 6))]
    if rng.random() < 0.4:
        size = [3, 3]
    strides = [1, 1] if rng.random() < 0.6 else [
        int(rng.integers(1, 4)), int(rng.integers(1, 4))]
    if padding == "valid":
        size = [min(size[0], height), min(size[1], width)]
    if what < 0.45:
        size = [min(s, 3) for s in size]
        kind = pick(rng, "MaxPooling2D", "AveragePooling2D")
        config = {"pool_size": size, "padding": padding}
        if rng.random() < 0.5:
            config["strides"] = strides
        return b.add(kind, config, [x])
    filters = int(rng.integers(1, 9))
    if rng.random() < 0.1:
        filters = int(rng.integers(9, 40))
    return b.add("Conv2D", weighted(rng, {
        "filters": filters, "kernel_size": size, "strides": strides,
        "padding": padding}), [x])


def add_branches(b, x, training):
    """Two or three ways from x that meet again."""
    rng = b.rng
    image = len(b.shapes[x]) == 3
    channels = b.shapes[x][-1]
    adds = rng.random() < 0.5
    if adds and rng.random() < 0.1:
        return b.add("Add", {}, [x, x])
    units = channels if rng.random() < 0.5 else int(rng.integers(1, 9))
    ends = []
    for _ in range(2 if rng.random() < 0.7 else 3):
        width = units if adds else int(rng.integers(1, 9))
        if rng.random() < 0.3 and (not adds or units == channels):
            ends.append(x)
        elif image:
            size = int(rng.integers(1, 4))
            end = b.add("Conv2D", weighted(rng, {
                "filters": width, "kernel_size": [size, size],
                "padding": "same"}), [x])
            if rng.random() < 0.3:
                end = b.add(pick(rng, "MaxPooling2D", "AveragePooling2D"),
                            {"pool_size": [2, 2], "strides": [1, 1],
                             "padding": "same"}, [end])
            ends.append(end)
        else:
            ends.append(b.add("Dense", weighted(rng, {"units": width}), [x]))
    return b.add("Add" if adds else "Concatenate",
                 {} if adds else {"axis": -1}, ends)


def add_head(b, x, loss, classes):
    """The output, of a kind that the loss takes."""
    rng = b.rng
    kind = loss["class_name"]
    logits = loss["config"].get("from_logits", False)
    if kind.endswith("CategoricalCrossentropy"):
        last = "linear" if logits else pick(rng, "softmax", "softmax", "sigmoid")
    elif kind == "BinaryCrossentropy":
        last = "linear" if logits else pick(rng, "sigmoid", "sigmoid", "softmax")
    else:
        last = pick(rng, "linear", "linear", "sigmoid", "tanh", "relu")
    activated = last
    if logits and rng.random() < 0.2:  # Keras goes back to the logits
        activated = "sigmoid" if kind == "BinaryCrossentropy" else "softmax"
    config = {"units": classes}
    separate = rng.random() < 0.2
    weighted(rng, config, "linear" if separate else activated)
    if len(b.shapes[x]) == 3 and rng.random() < 0.5:
        config = {**config, "filters": classes, "kernel_size": [1, 1]}
        del config["units"]
        x = b.add("Conv2D", config, [x])
    else:
        x = b.add("Dense", config, [x])
    if separate and activated != "linear":
        x = b.add("Activation", {"activation": activated}, [x])
    if not logits and rng.random() < 0.1:  # no way back over this one
        b.add("Reshape", {"target_shape": [*b.shapes[x][:-1], -1]}, [x])


def random_model(rng, loss, classes, training):
    """(Keras's JSON, size class)."""
    image = rng.random() < 0.55
    if image:
        shape = [int(rng.integers(3, 13)), int(rng.integers(3, 13)),
                 int(rng.integers(1, 5))]
    elif rng.random() < 0.75:
        shape = [int(rng.integers(1, 41))]
    else:
        shape = [int(rng.integers(1, 7)), int(rng.integers(1, 13))]
    b = Builder(rng, rng.random() < 0.5, shape)
    x = b.input
    for _ in range(rng.integers(0, 4 if image else 3)):
        if b.functional and rng.random() < 0.35:
            x = add_branches(b, x, training)
        elif len(b.shapes[x]) == 3:
            x = add_image_layer(b, x, training)
        elif rng.random() < 0.25:
            x = add_simple(b, x, training)
        else:
            units = int(rng.integers(1, 25))
            x = b.add("Dense", weighted(rng, {"units": units}), [x])
    if len(b.shapes[x]) > 1 and rng.random() < 0.8:
        if len(b.shapes[x]) == 3 and rng.random() < 0.25:
            x = b.add("GlobalAveragePooling2D",
                      {"keepdims": bool(rng.integers(2))}, [x])
        else:
            x = b.add("Flatten", {}, [x])
        if rng.random() < 0.5:
            x = b.add("Dense", weighted(rng, {"units": int(rng.integers(1, 33))}),
                      [x])
    add_head(b, x, loss, classes)
    return b.json()


def wide_model(rng, loss, classes):
    """Dense layers of the tutorials' size."""
    kind = rng.integers(3)
    b = Builder(rng, bool(rng.integers(2)),
                [28, 28] if kind == 1 else [int(rng.integers(784, 1301))]
                if kind == 0 else [14, 14, int(rng.integers(1, 3))])
    x = b.input
    if kind == 2:
        x = b.add("Conv2D", weighted(rng, {
            "filters": int(rng.integers(6, 9)), "kernel_size": [3, 3]}, "relu"),
                  [x])
    if kind != 0:
        x = b.add("Flatten", {}, [x])
    for _ in range(rng.integers(1, 3)):
        units = int(rng.integers(64, 131))
        x = b.add("Dense", weighted(rng, {"units": units},
                                    pick(rng, "relu", "tanh")), [x])
    add_head(b, x, loss, classes)
    return b.json()


# --- what trains them ---------------------------------------------------------

def random_loss(rng):
    kind = pick(rng, "SparseCategoricalCrossentropy",
                "SparseCategoricalCrossentropy", "CategoricalCrossentropy",
                "BinaryCrossentropy", "MeanSquaredError", "MeanAbsoluteError",
                "Huber")
    config = {}
    if kind.endswith("entropy"):
        config["from_logits"] = bool(rng.random() < 0.6)
    if kind in ("CategoricalCrossentropy", "BinaryCrossentropy"):
        if rng.random() < 0.5:
            config["label_smoothing"] = pick(rng, 0.05, 0.1, 0.3, 1.0)
    if kind == "Huber" and rng.random() < 0.7:
        config["delta"] = spread(rng, -1.5, 0.5)
    return {"class_name": kind, "config": config}


def random_rate(rng, rate, steps):
    kind = rng.random()
    if kind < 0.6:
        return rate
    if kind < 0.73:
        return {"class_name": "ExponentialDecay", "config": {
            "initial_learning_rate": rate,
            "decay_steps": int(rng.integers(1, steps + 2)),
            "decay_rate": float(pick(rng, 0.5, 0.9, 0.96, 0.1)),
            "staircase": bool(rng.integers(2))}}
    if kind < 0.87:
        config = {"initial_learning_rate": rate,
                  "decay_steps": int(rng.integers(1, steps + 2)),
                  "alpha": float(pick(rng, 0.0, 0.1, 0.5))}
        if rng.random() < 0.5:
            config["warmup_target"] = spread(rng, math.log10(rate),
                                             math.log10(rate) + 0.5)
            config["warmup_steps"] = int(rng.integers(0, steps + 1))
        return {"class_name": "CosineDecay", "config": config}
    bounds = sorted({int(v) for v in rng.integers(0, steps + 2, 2)})
    return {"class_name": "PiecewiseConstantDecay", "config": {
        "boundaries": bounds,
        "values": [float(f"{rate * pick(rng, 1, 0.5, 0.1):.3g}")
                   for _ in range(len(bounds) + 1)]}}


def random_optimizer(rng, steps):
    kind = pick(rng, "SGD", "SGD", "RMSprop", "Adam", "AdamW", "Adamax")
    rate = spread(rng, -3, -1) if kind == "SGD" else spread(rng, -4, -2.3)
    config = {"learning_rate": random_rate(rng, rate, steps)}
    if kind == "SGD" and rng.random() < 0.6:
        config["momentum"] = float(pick(rng, 0.5, 0.9, 0.95))
        config["nesterov"] = bool(rng.integers(2))
    if kind == "RMSprop":
        config["rho"] = float(pick(rng, 0.9, 0.9, 0.5, 0.99, 0.9999))
        config["centered"] = bool(rng.random() < 0.3)
        if rng.random() < 0.4:
            config["momentum"] = float(pick(rng, 0.5, 0.9))
    if kind in ("Adam", "AdamW", "Adamax"):
        config["beta_1"] = float(pick(rng, 0.9, 0.9, 0.5, 0.0, 0.99))
        config["beta_2"] = float(pick(rng, 0.999, 0.999, 0.9, 0.9999))
        if kind != "Adamax":
            config["amsgrad"] = bool(rng.random() < 0.3)
    if kind != "SGD" and rng.random() < 0.5:
        config["epsilon"] = pick(rng, 1e-7, 1e-3, 1e-8)
    if kind == "AdamW" and rng.random() < 0.5 or (
            kind != "AdamW" and rng.random() < 0.12):
        config["weight_decay"] = spread(rng, -4, -1)
    if rng.random() < 0.35:
        config[pick(rng, "clipnorm", "clipvalue", "global_clipnorm")] = spread(
            rng, -2, 0.5)
    return {"class_name": kind, "config": config}


def random_metrics(rng, loss, classes):
    if rng.random() < 0.2:
        return []
    sparse = loss["class_name"].startswith("Sparse")
    choices = ["accuracy"] if sparse else ["accuracy", "MeanSquaredError",
                                           "MeanAbsoluteError"]
    if sparse:
        choices.append({"class_name": "SparseTopKCategoricalAccuracy",
                        "config": {"k": int(rng.integers(1, classes + 2))}})
    elif classes == 1:
        choices.append({"class_name": "BinaryAccuracy", "config": {
            "threshold": float(pick(rng, 0.3, 0.5))}})
    count = int(rng.integers(1, len(choices) + 1))
    return [choices[i] for i in sorted(rng.permutation(len(choices))[:count])]


def random_fit(rng, wide):
    """(fit, examples, validation examples, workers)."""
    workers = int(pick(rng, 1, 1, 1, 1, 2, 2, 3))
    if wide:
        batch = int(pick(rng, 100, 128, 100, 128, 64, 96))
        rest = int(rng.integers(28, min(97, batch)))
        examples = batch * int(rng.integers(1, 4)) + rest
        workers = int(pick(rng, 1, 1, 2))
        examples *= workers
    else:
        batch = int(pick(rng, 1, 2, 7, 32, 64, 96, 100, 128, 256))
        examples = int(rng.integers(1, 4 * batch * workers + 2))
        if rng.random() < 0.15:  # fewer than a batch
            examples = int(rng.integers(1, batch + 1))
        examples = max(1, min(examples, 600))
    fit = {"batch_size": batch, "verbose": 0,
           "epochs": int(rng.integers(1, 3 if wide else 4)),
           "threads": int(pick(rng, 1, 1, 2)),
           "shuffle": bool(rng.random() < 0.5),
           "seed": int(rng.integers(0, 1000))}
    if rng.random() < 0.25:
        fit["steps_per_epoch"] = int(rng.integers(1, 7))
    validation = 0
    if rng.random() < 0.75:
        validation = int(rng.integers(1, 300))
        if rng.random() < 0.8:
            fit["validation_batch_size"] = int(pick(
                rng, 1, 7, 32, 64, 100, 128, 256, 512))
        if rng.random() < 0.25 and examples > 3:
            fit["validation_split"] = float(pick(rng, 0.1, 0.25, 0.5))
    return fit, examples, validation, workers


def random_data(rng, count, shape, output, sparse, loss):
    """(x as stored, y as stored)."""
    kind = pick(rng, "f4", "f4", "f8", "u1", "i4")
    x = rng.standard_normal((count, *shape)) * pick(rng, 1, 1, 0.3, 2)
    if kind in ("u1", "i4"):
        x = rng.integers(0, 256, (count, *shape))
    x = x.astype(kind)
    rows, classes = output[:-1], output[-1]
    if sparse:
        y = rng.integers(0, classes, (count, *rows))
        return x, y.astype(pick(rng, "u1", "i4", "i8"))
    kind = pick(rng, "f4", "f8")
    if loss["class_name"] == "CategoricalCrossentropy":
        y = np.eye(classes)[rng.integers(0, classes, (count, *rows))]
        if rng.random() < 0.3:  # soft labels
            y = rng.random((count, *output))
            y /= y.sum(-1, keepdims=True)
    elif loss["class_name"] == "BinaryCrossentropy":
        y = rng.integers(0, 2, (count, *output)).astype(float)
        if rng.random() < 0.3:
            y = rng.random((count, *output))
    else:
        y = rng.standard_normal((count, *output))
    return x, y.astype(kind)


class Case:
    """Everything of case `number` of `seed`, from these alone."""

    def __init__(self, seed, number):
        rng = self.rng = np.random.default_rng([seed, number])
        self.seed, self.number = seed, number
        self.wide = number % 8 == 3
        self.trains = self.wide or rng.random() < 0.92
        loss = random_loss(rng)
        sparse = loss["class_name"].startswith("Sparse")
        categorical = "Categorical" in loss["class_name"]
        classes = int(rng.integers(2 if categorical else 1, 11))
        model = (wide_model(rng, loss, classes) if self.wide else
                 random_model(rng, loss, classes, self.trains))
        fit, examples, validation, self.workers = random_fit(rng, self.wide)
        if not self.trains:  # all of the data are evaluated
            self.workers = 1
            fit.pop("validation_split", None)
        steps = fit["epochs"] * (fit.get("steps_per_epoch") or -(
            -examples // (fit["batch_size"] * self.workers)))
        self.run = {"model": model, "compile": {
            "optimizer": random_optimizer(rng, steps), "loss": loss,
            "metrics": random_metrics(rng, loss, classes)}, "fit": fit}
        oracle = keras_oracle.Model(model)
        shape, output = oracle.input_shape, oracle.output_shape
        self.weights = {}
        for path, layer, name in oracle.weights():
            dims = layer.shapes[name]
            limit = math.sqrt(6 / (math.prod(dims[:-1]) + dims[-1]))
            self.weights[path] = (rng.uniform(-limit, limit, dims) if
                                  name == "kernel" else
                                  rng.uniform(-0.2, 0.2, dims)).astype("f4")
        split = fit.get("validation_split", 0)
        if split and not 0 < math.floor(examples * (1 - split)) < examples:
            del fit["validation_split"]
            split = 0
        if split:
            validation = 0
        self.train = random_data(rng, examples, shape, output, sparse, loss)
        self.validation = (random_data(rng, validation, shape, output, sparse,
                                       loss) if validation else None)
        self.scales = []
        data = {}
        for part, (x, _) in self.parts():
            scale, offset = 1.0, 0.0
            if x.dtype.kind in "ui":
                scale = 1 / 255
                offset = float(pick(rng, 0.0, -0.5))
            elif rng.random() < 0.2:
                scale, offset = 0.5, 0.25
            self.scales.append((np.float32(scale), np.float32(offset)))
            data[part] = {"x": f"{part}_x.npy", "y": f"{part}_y.npy",
                          "scale": scale, "offset": offset}
        self.run["data"] = data
        self.run["callbacks"] = [{"class_name": "CSVLogger", "config": {
            "filename": "epochs.csv"}}]
        if self.workers > 1:
            self.run["strategy"] = {"communication": {
                "implementation": pick(rng, "auto", "ring", "tree"),
                "bytes_per_pack": int(pick(rng, 0, 64, 4096))}}
        self.vary(np.random.default_rng([seed, number, 1]), output)

    def vary(self, rng, output):
        """What came later has random numbers of its own, so that the cases
        before it stay what they were."""
        fit = self.run["fit"]
        # Trained, saved, and trained on as it was compiled.
        self.runs = 2 if self.trains and rng.random() < 0.15 else 1
        if rng.random() < 0.15:
            fit["validation_freq"] = pick(rng, 2, [1], [2, 3])
        if rng.random() < 0.15:
            fit["validation_steps"] = int(rng.integers(1, 4))
        self.files = {}  # how a part of the data is stored: "npy" where absent
        for part, (x, y) in self.parts():
            if rng.random() < 0.3 and x.dtype == "u1" and y.dtype == "u1":
                self.files[part] = "idx"
            elif rng.random() < 0.3 and x.ndim == 2 and math.prod(output) == (
                    output[-1] if y.ndim == 1 else 1):
                self.files[part] = "csv"
        for part, kind in self.files.items():
            entry = self.run["data"][part]
            if kind == "idx":
                entry["images"] = entry.pop("x").replace(".npy", ".idx")
                entry["labels"] = entry.pop("y").replace(".npy", ".idx")
                entry["in_memory"] = bool(rng.integers(2))
            else:
                del entry["x"], entry["y"]
                entry.update({"csv": part + ".csv", "label": "label"})

    def parts(self):
        yield "train", self.train
        if self.validation:
            yield "validation", self.validation

    def command(self):
        return (f"make long RUN=differential SEED={self.seed} CASE={self.number}")

    def frozen(self):
        """The names of the layers that are not trained."""
        return {layer["config"]["name"]
                for layer in self.run["model"]["config"]["layers"]
                if not layer["config"].get("trainable", True)}

    def features(self):
        """Names for --without."""
        names = set()
        loss = keras_oracle.Loss(self.run["compile"]["loss"],
                                 keras_oracle.Model(self.run["model"]))
        if self.wide:
            names.add("wide")
        if loss.takes_logits and self.run["compile"]["loss"]["config"].get(
                "from_logits"):
            names.add("logits_over_activation")
        optimizer = self.run["compile"]["optimizer"]["config"]
        if max(optimizer.get("rho", 0), optimizer.get("beta_2", 0)) > 0.999:
            names.add("near_one")
        if self.workers > 1:
            names.add("workers")
        return names

    def about(self):
        kinds = [each["class_name"] for each in
                 self.run["model"]["config"]["layers"][1:]]
        fit = self.run["fit"]
        return (f"{' '.join(kinds)}; {self.run['compile']['loss']['class_name']}"
                f", {self.run['compile']['optimizer']['class_name']}, "
                f"{len(self.train[0])} examples, batch {fit['batch_size']}, "
                f"{self.workers} workers, {fit['threads']} threads")

    # --- the oracle's side

    def seen(self, part, number):
        """A part's data as the model sees them."""
        x, y = part
        scale, offset = self.scales[number]
        x = x.astype("f4") * scale + offset
        return x, y

    def data(self):
        train = self.seen(self.train, 0)
        split = self.run["fit"].get("validation_split", 0)
        if split:
            at = math.floor(len(train[0]) * (1 - split))
            return tuple(t[:at] for t in train), tuple(t[at:] for t in train)
        return train, (self.seen(self.validation, 1) if self.validation else
                       None)

    def oracle(self, dtype=np.float64, noise=None):
        train, validation = self.data()
        fit = keras_oracle.Fit(self.run, self.workers, train, validation,
                               self.weights, dtype, noise, self.runs)
        if self.trains:
            return fit.results()
        values, slack = fit.evaluate(fit.data)
        return {"val": np.array([values]), "val_slack": np.array([slack])}

    # --- ringlet's side

    def write(self, folder):
        (folder / "run.json").write_text(json.dumps(self.run, indent=1) + "\n")
        for part, (x, y) in self.parts():
            kind = self.files.get(part)
            if kind == "idx":
                write_idx(folder / f"{part}_x.idx", x)
                write_idx(folder / f"{part}_y.idx", y)
            elif kind == "csv":
                write_csv(folder / f"{part}.csv", x, y)
            else:
                np.save(folder / f"{part}_x.npy", x)
                np.save(folder / f"{part}_y.npy", y)
        write_safetensors(folder / "init.safetensors", self.weights)
        again = {**self.run, "model": "out.safetensors", "callbacks": [
            {"class_name": "CSVLogger", "config": {"filename": "epochs2.csv"}}]}
        del again["compile"]
        (folder / "again.json").write_text(json.dumps(again, indent=1) + "\n")

    def commands(self, program):
        """One after another, each a list."""
        if not self.trains:
            fit = self.run["fit"]
            return [[program, "evaluate", "run.json", "--init",
                     "init.safetensors", "--data", "run.json", "--part",
                     "train", "--json", "--batch-size", str(fit["batch_size"]),
                     "--threads", str(fit["threads"])]]
        launch = [program, "launch", "-n", str(self.workers), "--"
                  ] if self.workers > 1 else []
        commands = [[*launch, program, "train", "--init", "init.safetensors",
                     "--save", "out.safetensors", "--log-steps", "steps.csv",
                     "run.json"]]
        if self.runs == 2:
            commands.append([*launch, program, "train", "--save",
                             "out2.safetensors", "--log-steps", "steps2.csv",
                             "again.json"])
        return commands

    def ringlet(self, program, folder):
        """The results, or a text that says what went wrong."""
        self.write(folder)
        commands = self.commands(program)
        (folder / "command").write_text("".join(
            " ".join(map(str, command)) + "\n" for command in commands))
        environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        for command in commands:
            try:
                ran = subprocess.run(
                    command, cwd=folder, text=True, timeout=SECONDS,
                    stdin=subprocess.DEVNULL, env=environment,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            except subprocess.TimeoutExpired:
                return f"still ran after {SECONDS} s"
            if ran.returncode != 0:
                return f"exit code {ran.returncode}: {ran.stderr.strip()[-300:]}"
        if self.trains:
            return self.read(folder)
        return {"val": np.array([list(json.loads(ran.stdout).values())], float)}

    def read(self, folder):
        steps = rows_of(folder / "steps.csv")
        epochs = rows_of(folder / "epochs.csv")
        names = list(steps[0])[2:]
        last = "out.safetensors"
        if self.runs == 2:
            steps += rows_of(folder / "steps2.csv")
            epochs += rows_of(folder / "epochs2.csv")
            last = "out2.safetensors"
        result = {
            "steps": np.array([[float(row[name]) for name in names]
                               for row in steps]),
            "epochs": np.array([[float(row["loss"])] for row in epochs]),
            "val": np.array([[float(row["val_" + name]) for name in names]
                             for row in epochs
                             if row.get("val_loss", "NA") != "NA"])}
        for name, value in read_safetensors(folder / last).items():
            if name.startswith("model/"):
                result["weights/" + name[6:]] = value.astype(float)
        return result


def write_idx(path, array):
    path.write_bytes(struct.pack(">HBB", 0, 8, array.ndim) +
                     struct.pack(f">{array.ndim}I", *array.shape) +
                     array.tobytes())


def write_csv(path, x, y):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        columns = [f"c{i}" for i in range(x.shape[1])]
        at = x.shape[1] // 2  # the label stands between them
        writer.writerow([*columns[:at], "label", *columns[at:]])
        for row, label in zip(x, y.reshape(len(y))):
            values = [repr(value) for value in row.tolist()]
            writer.writerow([*values[:at], repr(label.item()), *values[at:]])


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text +
                     b"".join(t.astype("<f4").tobytes()
                              for t in tensors.values()))


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if entry.get("dtype") == "F32":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(
                entry["shape"])
    return tensors


# --- comparison ---------------------------------------------------------------

def allowed(case, name, exact, disturbed):
    """The tolerance of each number of `exact`, and whether it is chaotic."""
    deviation = np.max([np.abs(each - exact) for each in disturbed], 0)
    size = np.abs(exact)
    if name.startswith("weights/"):
        start = case.weights[name.removeprefix("weights/")]
        if name.split("/")[1] in case.frozen():
            return np.zeros_like(exact), False
        moved = np.abs(exact - start).max(initial=0)
        rounding = 2.0 ** -23 * math.sqrt(case.steps) * size.max(initial=0)
        scale = max(moved, 1e-30)
        worst = deviation.max(initial=0)
        return (BASE * moved + rounding + KAPPA * worst,
                KAPPA * worst > FAR * scale)
    # What rounding did in one step it may do in the next; a sum of examples is
    # as exact as the largest of them.
    deviation = np.maximum.accumulate(deviation, 0)
    tolerance = BASE * np.maximum(size, 1e-3) + KAPPA * deviation
    return tolerance, bool((KAPPA * deviation > FAR * np.maximum(size, 1e-3))
                           .any())


def compare(case, got):
    """(what disagrees or "", whether rounding alone leads far)."""
    exact = case.oracle()
    case.steps = len(exact.get("steps", [0]))
    if not all(np.isfinite(value).all() for value in exact.values()):
        return "", True
    disturbed = [case.oracle(np.float32)] + [
        case.oracle(noise=np.random.default_rng([case.number, i]))
        for i in range(3)]
    chaotic = False
    for name, value in exact.items():
        if name.endswith("_slack"):
            continue
        if name not in got or got[name].shape != value.shape:
            shape = got[name].shape if name in got else "nothing"
            return f"{name}: {shape} instead of {value.shape}", False
        tolerance, far = allowed(case, name, value,
                                 [each[name] for each in disturbed])
        tolerance = tolerance + exact.get(name + "_slack", 0)
        chaotic |= far
        error = np.abs(got[name] - value)
        bad = ~(error <= tolerance)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return (f"{name}{list(at)}: {got[name][at]:.9g}, expected "
                    f"{value[at]:.9g} within "
                    f"{np.broadcast_to(tolerance, value.shape)[at]:.2g} "
                    f"({int(bad.sum())} of {bad.size} numbers)"), chaotic
    return "", chaotic


def run_case(build, seed, number, options):
    """A dict of what became of one case."""
    case = Case(seed, number)
    skipped = case.features() & set(options.without)
    if skipped:
        return {"skipped": sorted(skipped)[0]}
    program = pathlib.Path(build).resolve() / "tools/ringlet/ringlet"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ringlet-differential-"))
    try:
        if options.torch:
            import keras_oracle_torch
            problem = keras_oracle_torch.check(case)
            if problem:
                return {"wrong": "the oracle and PyTorch: " + problem,
                        "about": case.about(), "command": case.command()}
        got = case.ringlet(program, folder)
        wrong, chaotic = (got, False) if isinstance(got, str) else compare(
            case, got)
        if options.keep and (wrong or options.case is not None):
            kept = pathlib.Path(options.keep) / f"{seed}-{number}"
            shutil.copytree(folder, kept, dirs_exist_ok=True)
        return {"wrong": wrong, "chaotic": chaotic, "about": case.about(),
                "command": case.command()}
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--without", default="", type=lambda text: text.split(","))
    options = parser.parse_args()
    numbers = range(options.count) if options.case is None else [options.case]
    failed = chaotic = skipped = 0
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(run_case, options.build, options.seed, number,
                            options) for number in numbers]
        for number, run in zip(numbers, runs):
            result = run.result()
            skipped += "skipped" in result
            chaotic += bool(result.get("chaotic"))
            if result.get("wrong"):
                failed += 1
                print(f"case {number}: {result['wrong']}\n"
                      f"  {result['about']}\n  again: {result['command']}",
                      flush=True)
            elif options.case is not None:
                print(f"case {number}: agrees ({result.get('about')})")
    agreed = len(numbers) - failed - skipped
    print(f"{agreed} cases agree, {failed} do not; rounding alone leads far in "
          f"{chaotic}" + (f"; {skipped} left out" if skipped else ""))
    sys.exit(1 if failed or not agreed else 0)


if __name__ == "__main__":
    main()
