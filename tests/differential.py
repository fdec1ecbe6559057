#!/usr/bin/python3
"""Random models trained by the `ringlet` program and by keras_oracle.py.

    differential.py BUILD [--count N] [--seed S] [--case I] [--jobs J]
                    [--keep DIR] [--torch] [--without FEATURE,...]

    FEATURE: wide, workers, replicas, near_one (a rho or beta_2 above 0.999),
    logits_over_activation (from_logits over a softmax or sigmoid)

Each case is a RUN.json of a random Keras model, loss, optimizer, data and batch
geometry. `ringlet train` (with `ringlet launch` for several workers), or
`ringlet evaluate` for a model that is not trained, computes it. The loss of each
step, the metrics, the validation and the final weights must be those of the
oracle in float64.

The allowed difference comes from the oracle. It also runs in float32, and with
values disturbed by one rounding each. A difference may be KAPPA times the largest
such deviation, and a little more. Cases in which rounding alone leads far are
counted, with this allowance.

Prints one line for each disagreement, with the command that repeats it, and
exits 1. --keep DIR keeps the files of the cases that disagree (with --case: of
that case). Case I of seed S is the same on every machine.
"""
import argparse
import collections
import concurrent.futures
import copy
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
import keras_activations  # noqa: E402
import keras_oracle  # noqa: E402
import random_cases  # noqa: E402
import recurrent_oracle  # noqa: E402

KAPPA = keras_oracle.Fit.FURTHER  # times the deviations that rounding was seen to cause
BASE = 2e-6  # relative to the value, or to the way that a weight has moved
FAR = 1e-2  # a case whose rounding alone leads further is called chaotic
TURN = 0.1  # a metric that rounding may change by more proves nothing
UNSURE = 0.03  # the largest part of losses and metrics that may be unsure
FIRST, MOST = 4, 24  # disturbed runs of the oracle: at first, and if needed
CLOSER = 0.01  # of the cases may need them
SECONDS = 120  # of one run of the program


# --- models -------------------------------------------------------------------

class Builder:
    """Layers of Keras's JSON, in an order in which each follows its inputs."""

    def __init__(self, rng, functional, shape, later=None):
        self.rng, self.functional = rng, functional
        # For later additions, so that earlier models stay the same.
        self.later = later or np.random.default_rng(0)
        self.layers, self.shapes, self.count = [], {}, 0
        self.input = self.add("InputLayer", {"batch_shape": [None, *shape]}, [])
        self.shapes[self.input] = tuple(shape)

    def add(self, kind, config, inputs, **arguments):
        name = f"{kind.lower()}_{self.count}"
        self.count += 1
        config = {"name": name, **config}
        if kind == "Dense" and self.rng.random() < 0.08:
            config["lora_rank"] = int(self.rng.integers(1, 5))
            if self.rng.random() < 0.5:
                config["lora_alpha"] = int(self.rng.integers(1, 9))
        entry = {"class_name": kind, "config": config}
        if self.functional:
            tensors = [self.tensor(each) for each in inputs]
            merges = kind in keras_oracle.LISTS
            entry["name"] = name
            entry["inbound_nodes"] = [] if not inputs else [
                {"args": [tensors] if merges else tensors,
                 "kwargs": arguments}]
        if inputs:
            layer = keras_oracle.LAYERS[kind](config)
            self.shapes[name] = tuple(int(size) for size in layer.build(
                [self.shapes[each] for each in inputs]))
            if config.get("merge_mode", "") is None:
                self.shapes[f"{name}:1"] = self.shapes[name]
            for state in self.states(name, kind, config):
                self.shapes[state] = (config.get("layer", entry)["config"]["units"],)
        self.layers.append(entry)
        return name

    def states(self, name, kind, config):
        """The names of the last states that a layer gives."""
        both = kind == "Bidirectional"
        first = 2 if both and config.get("merge_mode", "") is None else 1
        if both:
            kind, config = config["layer"]["class_name"], config["layer"]["config"]
        count = (2 if kind == "LSTM" else 1) * (2 if both else 1)
        return [f"{name}:{k}" for k in range(first, first + count)
                if config.get("return_state")]

    def tensor(self, name):
        output, _, tensor = name.partition(":")
        layer, _, number = output.partition("#")
        return {"class_name": "__keras_tensor__", "config": {
            "shape": [None, *self.shapes[name]], "dtype": "float32",
            "keras_history": [layer, int(number or 0), int(tensor or 0)]}}

    def again(self, x):
        """A layer that was called with an input like x, called with x; x where
        there is none."""
        like = [layer for layer in self.layers[1:]
                if layer["class_name"] not in (*keras_oracle.LISTS,
                                               "MultiHeadAttention") and
                layer["inbound_nodes"][0]["args"][0]["config"]["shape"][1:] ==
                list(self.shapes[x])]
        if not like:
            return x
        return self.call(pick(self.rng, *like)["name"], x)

    def call(self, name, x):
        calls = next(layer["inbound_nodes"] for layer in self.layers
                     if layer["name"] == name)
        output = f"{name}#{len(calls)}"
        calls.append({"args": [self.tensor(x)], "kwargs": {}})
        self.shapes[output] = self.shapes[name]
        return output

    def nest(self):
        """Some layers in a row become a model."""
        count = len(self.layers) - 1
        first = int(self.rng.integers(1, count + 1))
        end = int(self.rng.integers(first, count + 1)) + 1
        inner = self.layers[first:end]
        before = self.layers[first - 1]["config"]["name"]
        name = f"nest_{self.count}"
        self.count += 1
        self.shapes[name] = self.shapes[inner[-1]["config"]["name"]]
        config = {"name": name, "layers": [
            {"class_name": "InputLayer", "config": {
                "name": "given", "batch_shape": [None, *self.shapes[before]]}},
            *inner]}
        if self.rng.random() < 0.2:
            config["trainable"] = False
        self.layers[first:end] = [{"class_name": "Sequential", "config": config}]

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
        if not self.functional and self.rng.random() < 0.3:
            for _ in range(self.rng.integers(1, 3)):
                self.nest()
        elif self.functional and self.rng.random() < 0.3:
            return self.within()
        config = {"name": "model", "layers": self.layers}
        if self.functional:
            config["input_layers"] = [[self.input, 0, 0]]
            config["output_layers"] = [[self.layers[-1]["config"]["name"], 0, 0]]
        return {"class_name": "Functional" if self.functional else "Sequential",
                "config": config}


    def within(self):
        """A model that calls this one, or its layers up to the last, twice."""
        last = self.layers[-1]["config"]["name"]
        inner = {"class_name": "Functional", "name": "inner", "config": {
            "name": "inner", "layers": self.layers,
            "input_layers": [[self.input, 0, 0]],
            "output_layers": [[last, 0, 0]]}}
        outer = Builder(self.rng, True, self.shapes[self.input])
        outer.shapes["inner"] = outer.shapes["inner#1"] = self.shapes[last]
        x = outer.input
        inner["inbound_nodes"] = [{"args": [outer.tensor(x)], "kwargs": {}}]
        outer.layers.append(inner)
        if (self.shapes[last] == self.shapes[self.input] and
                not rows_of_embedding(inner)):
            inner["inbound_nodes"].append(
                {"args": [outer.tensor("inner#1")], "kwargs": {}})
        number = len(inner["inbound_nodes"])
        return {"class_name": "Functional", "config": {
            "name": "model", "layers": outer.layers,
            "input_layers": [[x, 0, 0]],
            "output_layers": [["inner", number, 0]]}}


def rows_of_embedding(model):
    """The input_dim of an Embedding in the model, or 0."""
    return max(rows_of_embedding(entry)
               if entry["class_name"] in keras_oracle.MODELS else
               entry["config"].get("input_dim", 0)
               for entry in model["config"]["layers"])


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


def random_window(rng, shape, paddings):
    """The fields of a convolution over (axes ..., channels)."""
    axes = len(shape) - 1
    padding = pick(rng, *paddings)
    config = {"padding": padding}
    rates = [1] * axes
    if rng.random() < 0.3:
        rates = [int(r) for r in rng.integers(1, 4, axes)]
        config["dilation_rate"] = rates if rng.random() < 0.5 else rates[0]
        if isinstance(config["dilation_rate"], int):
            rates = [rates[0]] * axes
    elif rng.random() < 0.5:
        config["strides"] = [int(s) for s in rng.integers(1, 5, axes)]
    config["kernel_size"] = [
        int(rng.integers(1, 1 + min(5, (n - 1) // rate + 1
                                    if padding == "valid" else 5)))
        for n, rate in zip(shape, rates)]
    return config


def depthwise(rng, config, filters):
    if rng.random() < 0.4:
        config["depth_multiplier"] = int(rng.integers(2, 4))
    config = weighted(rng, config)
    own = config.pop("kernel_regularizer", None)
    for part in ["depthwise"] + (["pointwise"] if filters else []):
        if own and rng.random() < 0.8:
            config[part + "_regularizer"] = own
    if filters:
        config["filters"] = filters
    return config


def add_convolution(b, x, rng):
    """Adds a convolution of one or two axes: in groups, dilated, depthwise, separable."""
    shape = b.shapes[x]
    axes = len(shape) - 1
    kind = pick(rng, "Conv", "DepthwiseConv", "DepthwiseConv", "SeparableConv")
    causal = ["causal"] if axes == 1 and kind == "Conv" else []
    config = random_window(rng, shape, ["valid", "same", *causal])
    filters = int(rng.integers(1, 13))
    if kind == "Conv":
        groups = int(pick(rng, *[g for g in range(1, shape[-1] + 1)
                                 if shape[-1] % g == 0]))
        filters = groups * int(rng.integers(1, 5))
        config = weighted(rng, {**config, "filters": filters,
                                "groups": groups})
    else:
        config = depthwise(rng, config,
                           filters if kind == "SeparableConv" else 0)
    return b.add(f"{kind}{axes}D", config, [x])


def add_moved(b, x, rng):
    """Pixels padded, cut off, repeated, moved, pooled or resized."""
    shape = b.shapes[x]
    axes = len(shape) - 1
    kind = pick(rng, "ZeroPadding", "Cropping", "UpSampling", "Permute",
                "MaxPooling", "AveragePooling",
                *(["CenterCrop", "Resizing"] if axes == 2 else []))
    small = math.prod(shape) < 1500
    if kind in ("UpSampling", "ZeroPadding") and not small:
        kind = "Permute"
    if kind in ("CenterCrop", "Resizing"):
        return add_resized(b, x, rng, kind)
    if kind == "Permute":
        return b.add(kind, {"dims": [int(d) for d in
                                     1 + rng.permutation(axes + 1)]}, [x])
    if kind == "UpSampling":
        size = [int(s) for s in rng.integers(1, 4, axes)]
        return b.add(f"{kind}{axes}D", {"size": size if axes == 2 else size[0]},
                     [x])
    if kind.endswith("Pooling"):
        size = [int(rng.integers(1, min(4, n + 1))) for n in shape[:-1]]
        config = {"pool_size": size, "padding": pick(rng, "valid", "same")}
        if rng.random() < 0.5:
            config["strides"] = [int(s) for s in rng.integers(1, 4, axes)]
        return b.add(f"{kind}{axes}D", config, [x])
    ends = [[int(e) for e in rng.integers(0, 3, 2)] for _ in range(axes)]
    if kind == "Cropping":  # something is left
        ends = [e if sum(e) < n else [0, n - 1]
                for e, n in zip(ends, shape)]
    return b.add(f"{kind}{axes}D", {
        "padding" if kind == "ZeroPadding" else "cropping":
            ends if axes == 2 else ends[0]}, [x])


def add_resized(b, x, rng, kind):
    config = {name: int(rng.integers(1, 10)) for name in ("height", "width")}
    if kind == "Resizing":
        config["interpolation"] = pick(rng, "bilinear", "nearest")
        form = pick(rng, "crop", "pad", None)
        if form:
            config[f"{form}_to_aspect_ratio"] = True
        if form == "pad":
            config["fill_value"] = pick(rng, 0.0, 0.5)
    return b.add(kind, config, [x])


def resized_model(rng):
    """Images of several sizes, and layers that do nothing but in training."""
    b = Builder(rng, False, [int(n) for n in rng.integers(1, 12, 2)] +
                [int(rng.integers(1, 5))], rng)
    x = b.input
    for _ in range(int(rng.integers(1, 4))):
        x = add_resized(b, x, rng, pick(rng, "Resizing", "Resizing",
                                        "CenterCrop", "RandomCrop"))
        if rng.random() < 0.3:
            x = b.add("RandomFlip", {}, [x])
    x = b.add("Flatten", {}, [x])
    b.add("Dense", {"units": 5}, [x])
    return b.json()


def add_excitation(b, x):
    """Each channel times a number that the image gives, or merged so."""
    rng = b.later
    kind = pick(rng, "Multiply", "Multiply", "Add", "Maximum", "Average")
    flat = rng.random() < 0.3
    squeezed = b.add("GlobalAveragePooling2D", {"keepdims": not flat}, [x])
    if rng.random() < 0.7:
        squeezed = b.add("Dense", {"units": int(b.shapes[x][-1]),
                                   "activation": pick(
                                       rng, "sigmoid", "hard_sigmoid")},
                         [squeezed])
    return b.add(kind, {}, [x, squeezed] if rng.random() < 0.7 else
                 [squeezed, x])


def add_branches(b, x, training):
    """Two or three ways from x that meet again."""
    rng = b.rng
    image = len(b.shapes[x]) == 3
    if image and b.later.random() < 0.4:
        x = add_excitation(b, x)
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


def add_twins(b, x):
    """Adds one layer called on x and on a tensor like x."""
    rng = b.rng
    other = b.add("Activation", {"activation": "tanh"}, [x])
    units = int(rng.integers(1, 9))
    if len(b.shapes[x]) == 3:
        one = b.add("Conv2D", weighted(rng, {
            "filters": units, "kernel_size": [2, 2], "padding": "same"}), [x])
    else:
        one = b.add("Dense", weighted(rng, {"units": units}), [x])
    ends = [one, b.call(one, other)]
    if b.shapes[one] == b.shapes[x]:
        ends.append(b.call(one, ends[-1]))
    return b.add("Add", {}, ends)


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
    if not logits and rng.random() < 0.1:  # so the softmax or sigmoid is not last
        b.add("Reshape", {"target_shape": [*b.shapes[x][:-1], -1]}, [x])


def random_model(rng, later, loss, classes, training):
    """Keras's JSON. `later`: random numbers of what came later."""
    windows = later.random() < 0.5  # layers over windows, of two axes or one
    image = rng.random() < 0.55
    if image:
        shape = [int(rng.integers(3, 13)), int(rng.integers(3, 13)),
                 int(rng.integers(1, 5))]
    elif rng.random() < 0.75:
        shape = [int(rng.integers(1, 41))]
    else:
        shape = [int(rng.integers(1, 7)), int(rng.integers(1, 13))]
    b = Builder(rng, rng.random() < 0.5, shape, later)
    x = b.input
    for _ in range(rng.integers(0, 4 if image else 3)):
        if b.functional and rng.random() < 0.35:
            x = add_branches(b, x, training)
        elif (windows and len(b.shapes[x]) in (2, 3) and
              later.random() < 0.8):
            add = add_convolution if later.random() < 0.6 else add_moved
            x = add(b, x, later)
        elif b.functional and rng.random() < 0.25:
            x = b.again(x) if rng.random() < 0.5 else add_twins(b, x)
        elif len(b.shapes[x]) == 3:
            x = add_image_layer(b, x, training)
        elif rng.random() < 0.25:
            x = add_simple(b, x, training)
        else:
            units = int(rng.integers(1, 25))
            x = b.add("Dense", weighted(rng, {"units": units}), [x])
    if len(b.shapes[x]) > 1 and rng.random() < 0.8:
        if windows and len(b.shapes[x]) in (2, 3) and later.random() < 0.5:
            kind = pick(later, "GlobalMaxPooling", "GlobalAveragePooling")
            x = b.add(f"{kind}{len(b.shapes[x]) - 1}D",
                      {"keepdims": bool(later.integers(2))}, [x])
        elif len(b.shapes[x]) == 3 and rng.random() < 0.25:
            x = b.add("GlobalAveragePooling2D",
                      {"keepdims": bool(rng.integers(2))}, [x])
        else:
            x = b.add("Flatten", {}, [x])
        if rng.random() < 0.5:
            x = b.add("Dense", weighted(rng, {"units": int(rng.integers(1, 33))}),
                      [x])
    add_head(b, x, loss, classes)
    return b.json()


def random_recurrence(rng, all_steps):
    """The kind and the config of a recurrent layer."""
    kind = pick(rng, *recurrent_oracle.GATES)
    config = {"units": int(pick(rng, 1, 7, int(rng.integers(1, 20)))),
              "activation": pick(rng, "tanh", "tanh", *GATE_ACTIVATIONS),
              "return_sequences": all_steps}
    if kind != "SimpleRNN":
        config["recurrent_activation"] = pick(
            rng, "sigmoid", "sigmoid", "hard_sigmoid", "hard_sigmoid_keras2")
    if kind == "GRU":
        config["reset_after"] = bool(rng.random() < 0.5)
    if rng.random() < 0.3:
        config["go_backwards"] = True
    if rng.random() < 0.3:
        config["zero_output_for_mask"] = True
    if rng.random() < 0.15:
        config["use_bias"] = False
    for weight in ("kernel", "recurrent", "bias"):
        if rng.random() < 0.1:
            config[weight + "_regularizer"] = regularizer(rng)
    return kind, config


def add_recurrent(b, x, rng, all_steps):
    kind, config = random_recurrence(rng, all_steps)
    if config.get("go_backwards") or rng.random() < 0.6:
        return b.add(kind, config, [x])
    inner = {"class_name": kind, "config": {"name": kind.lower(), **config}}
    return b.add("Bidirectional", {"layer": inner, "merge_mode": pick(
        rng, "concat", "sum", "mul", "ave")}, [x])


def add_distributed(b, x, rng):
    inner = {"class_name": "Dense", "config": {"name": "dense", **weighted(
        rng, {"units": int(rng.integers(1, 9))})}}
    return b.add("TimeDistributed", {"layer": inner}, [x])


def sequence_model(rng, loss, classes):
    """Recurrent layers, and what stands around them."""
    steps = int(pick(rng, 1, 2, int(rng.integers(3, 15))))
    b = Builder(rng, rng.random() < 0.5, [steps, int(rng.integers(1, 7))], rng)
    x = b.input
    if rng.random() < 0.4:
        x = add_convolution(b, x, rng)
    for _ in range(int(rng.integers(0, 3))):
        x = add_recurrent(b, x, rng, True)
        if rng.random() < 0.2:
            x = add_distributed(b, x, rng)
    if rng.random() < 0.15:
        x = add_recurrent(b, x, rng, False)
        x = b.add("RepeatVector", {"n": int(rng.integers(1, 5))}, [x])
    if rng.random() < 0.8:
        x = add_recurrent(b, x, rng, False)
    elif rng.random() < 0.7:
        x = b.add("Flatten", {}, [x])
    if rng.random() < 0.3:
        x = b.add("Dense", weighted(rng, {"units": int(rng.integers(1, 9))}),
                  [x])
    add_head(b, x, loss, classes)
    return b.json()


def states_model(rng, loss, classes):
    """An encoder, and a decoder that begins with its states."""
    steps = int(pick(rng, 1, 7, int(rng.integers(2, 15))))
    b = Builder(rng, True, [steps, int(rng.integers(1, 7))], rng)
    kind, config = random_recurrence(rng, bool(rng.integers(2)))
    config["return_state"] = True
    units = config["units"]
    if rng.random() < 0.4 and not config.get("go_backwards"):
        both = {"layer": {"class_name": kind, "config": {
            "name": kind.lower(), **config}},
                "merge_mode": pick(rng, "concat", "sum", "mul", "ave", None)}
        encoder = b.add("Bidirectional", both, [b.input])
        states = b.states(encoder, "Bidirectional", both)
        half = len(states) // 2
        if both["merge_mode"] is None and rng.random() < 0.8:
            encoder = b.add("Add", {}, [encoder, f"{encoder}:1"])
        if rng.random() < 0.4:  # which begin another of its kind
            again = {**both, "layer": {"class_name": kind, "config": {
                **both["layer"]["config"], "return_sequences": False}}}
            last = b.add("Bidirectional", again, [b.input], initial_state=[
                b.tensor(each) for each in states])
            states = b.states(last, "Bidirectional", again)
        states = [b.add("Concatenate", {}, pair)
                  for pair in zip(states[:half], states[half:])]
        units *= 2
    else:
        encoder = b.add(kind, config, [b.input])
        states = b.states(encoder, kind, config)
    if rng.random() < 0.3:
        states = [b.add("Dense", weighted(rng, {"units": units}), [each])
                  for each in states]
    x = encoder if config["return_sequences"] else b.input
    while True:
        kind, config = random_recurrence(rng, bool(rng.integers(2)))
        if (kind == "LSTM") == (len(states) == 2):
            break
    config.update(units=units, return_state=bool(rng.random() < 0.6))
    decoder = x = b.add(kind, config, [x], initial_state=[
        b.tensor(each) for each in states])
    if config["return_sequences"]:
        x = b.add(pick(rng, "Flatten", "GlobalMaxPooling1D"), {}, [x])
    last = b.states(decoder, kind, config)
    if last and rng.random() < 0.8:
        taken = last if rng.random() < 0.5 else last[-1:]
        x = b.add("Concatenate", {}, [x, *taken])
    add_head(b, x, loss, classes)
    return b.json()


def stateful_model(rng):
    """A decoder for one call after another: its states are inputs and outputs."""
    steps = int(pick(rng, 1, 1, 7))
    b = Builder(rng, True, [steps, int(rng.integers(1, 7))], rng)
    kind, config = random_recurrence(rng, bool(rng.integers(2)))
    config["return_state"] = True
    before = []
    for _ in b.states("", kind, config):
        shape = (config["units"],)
        state = b.add("InputLayer", {"batch_shape": [None, *shape]}, [])
        b.shapes[state] = shape
        before.append(state)
    decoder = b.add(kind, config, [b.input], initial_state=[
        b.tensor(each) for each in before])
    outputs = [decoder, *b.states(decoder, kind, config)]
    rng.shuffle(outputs)
    return {"class_name": "Functional", "config": {
        "name": "model", "layers": b.layers,
        "input_layers": [[each, 0, 0] for each in (b.input, *before)],
        "output_layers": [b.tensor(each)["config"]["keras_history"]
                          for each in outputs]}}


def add_transposed(b, x, rng):
    axes = len(b.shapes[x]) - 1
    config = {"filters": int(pick(rng, 1, 3, int(rng.integers(1, 20)))),
              "kernel_size": [int(n) for n in rng.integers(1, 6, axes)],
              "padding": pick(rng, "valid", "same")}
    if rng.random() < 0.25:
        config["dilation_rate"] = [int(n) for n in rng.integers(1, 4, axes)]
    elif rng.random() < 0.8:
        strides = config["strides"] = [int(n) for n in rng.integers(1, 4, axes)]
        odd = all(n % 2 for n in config["kernel_size"])
        if rng.random() < 0.4 and (odd or config["padding"] == "valid"):
            config["output_padding"] = [int(rng.integers(n)) for n in strides]
    return b.add(f"Conv{axes}DTranspose", weighted(rng, config), [x])


def transposed_model(rng, loss, classes):
    axes = int(pick(rng, 1, 2))
    b = Builder(rng, rng.random() < 0.5, [
        *(int(n) for n in rng.integers(1, 7, axes)), int(rng.integers(1, 9))],
                rng)
    x = b.input
    if rng.random() < 0.6:
        x = add_convolution(b, x, rng)
    for _ in range(int(rng.integers(1, 3))):
        x = add_transposed(b, x, rng)
    if rng.random() < 0.4:
        x = add_convolution(b, x, rng)
    if rng.random() < 0.8:
        x = b.add("Flatten" if math.prod(b.shapes[x]) < 400 else
                  f"GlobalAveragePooling{axes}D", {}, [x])
    add_head(b, x, loss, classes)
    return b.json()


def add_attention(b, x, rng):
    """Of x to itself, or to other steps of other sizes."""
    value, key = x, None
    if rng.random() < 0.5:
        value = b.add("Conv1D", {
            "filters": int(rng.integers(1, 9)), "kernel_size": [int(
                rng.integers(1, b.shapes[x][0] + 1))]}, [x])
    is_plain = rng.random() < 0.3
    if is_plain or rng.random() < 0.4:
        key = b.add("Dense", {"units": int(
            b.shapes[x][1] if is_plain else rng.integers(1, 9))}, [value])
    causal = {"use_causal_mask": True} if rng.random() < 0.5 else {}
    if is_plain:
        return b.add(pick(rng, "Attention", "AdditiveAttention"),
                     {"use_scale": bool(rng.integers(2))},
                     [x, value, key], **causal)
    config = {"num_heads": int(rng.integers(1, 5)),
              "key_dim": int(rng.integers(1, 9))}
    if rng.random() < 0.4:
        config["value_dim"] = int(rng.integers(1, 9))
    if rng.random() < 0.2:
        config["use_bias"] = False
    for weight in ("kernel", "bias"):
        if rng.random() < 0.15:
            config[weight + "_regularizer"] = regularizer(rng)
    return b.add("MultiHeadAttention", config,
                 [x, value] + ([key] if key else []), **causal)


def attention_model(rng, loss, classes):
    steps = int(pick(rng, 1, 2, int(rng.integers(3, 13)),
                     int(rng.integers(60, 80))))
    b = Builder(rng, True, [steps, int(rng.integers(1, 9))], rng)
    x = b.input
    if rng.random() < 0.5:
        place = b.add("PositionEmbedding", {
            "sequence_length": steps + int(rng.integers(0, 3))}, [x])
        x = b.add("Add", {}, [x, place])
    for _ in range(int(rng.integers(1, 3))):
        y = add_attention(b, x, rng)
        if b.shapes[x] == b.shapes[y] and rng.random() < 0.6:
            y = b.add("Add", {}, [x, y])
        x = y
        if rng.random() < 0.5:
            x = b.add("Dense", weighted(rng, {"units": int(
                rng.integers(1, 9))}), [x])
    if rng.random() < 0.8:
        x = b.add(pick(rng, "Flatten", "GlobalAveragePooling1D"), {}, [x])
    add_head(b, x, loss, classes)
    return b.json()


def late_model(rng, loss, classes):
    return pick(rng, transposed_model, attention_model)(rng, loss, classes)


def embedding_model(rng, loss, classes):
    """Over whole numbers, each of which chooses a row."""
    steps = int(pick(rng, 1, 2, int(rng.integers(3, 13))))
    b = Builder(rng, rng.random() < 0.6, [steps], rng)
    config = {"input_dim": int(pick(rng, 1, 5, int(rng.integers(2, 60)))),
              "output_dim": int(rng.integers(1, 13))}
    if rng.random() < 0.3:
        config["embeddings_regularizer"] = regularizer(rng)
    kind = rng.random()
    attends = 0.5 <= kind < 0.7 and b.functional
    config["mask_zero"] = bool(rng.random() < 0.5)
    x = b.add("Embedding", config, [b.input])
    if b.functional and rng.random() < 0.4:
        place = b.add("PositionEmbedding", {"sequence_length": steps}, [x])
        x = b.add("Add", {}, [x, place])
    if kind < 0.3:
        x = add_recurrent(b, x, rng, bool(rng.integers(2)))
    elif kind < 0.5:
        x = add_convolution(b, x, rng)
    elif attends:
        x = add_attention(b, x, rng)
    if len(b.shapes[x]) == 2 and rng.random() < 0.8:
        x = b.add(pick(rng, "Flatten", "GlobalAveragePooling1D",
                       "GlobalMaxPooling1D"), {}, [x])
    add_head(b, x, loss, classes)
    return b.json()


def add_step_layer(b, x, rng):
    """One layer of an image, or of a line, at each step."""
    shape = b.shapes[x][1:]
    inner = Builder(rng, False, shape, rng)
    what = rng.random()
    if what < 0.5:
        add_convolution(inner, inner.input, rng)
    elif what < 0.7:
        add_moved(inner, inner.input, rng)
    elif what < 0.8 and len(shape) == 2:
        add_recurrent(inner, inner.input, rng, True)
    else:
        inner.add("Dense", weighted(rng, {"units": int(rng.integers(1, 9))}),
                  [inner.input])
    layer = inner.layers[-1]
    if layer["class_name"] == "Bidirectional":  # which is not one layer
        layer = layer["config"]["layer"]
    return b.add("TimeDistributed", {"layer": layer}, [x])


def frames_model(rng, loss, classes):
    """Layers at each step, and then over the steps."""
    axes = int(pick(rng, 1, 2))
    b = Builder(rng, rng.random() < 0.5, [
        int(rng.integers(1, 6)), *(int(n) for n in rng.integers(2, 7, axes)),
        int(rng.integers(1, 4))], rng)
    x = b.input
    for _ in range(int(rng.integers(1, 3))):
        if len(b.shapes[x]) == axes + 2:
            x = add_step_layer(b, x, rng)
    if len(b.shapes[x]) > 2:
        x = b.add("TimeDistributed", {"layer": {
            "class_name": "Flatten", "config": {"name": "flat"}}}, [x])
    x = add_recurrent(b, x, rng, bool(rng.integers(2)))
    add_head(b, x, loss, classes)
    return b.json()


def newest_model(rng, loss, classes):
    return pick(rng, embedding_model, embedding_model, frames_model)(
        rng, loss, classes)


def constraint(rng, rank):
    kind = pick(rng, "MaxNorm", "NonNeg", "UnitNorm", "MinMaxNorm")
    config = {}
    if kind != "NonNeg" and rng.random() < 0.6:
        first = int(rng.integers(rank))
        last = int(rng.integers(first, rank))
        config["axis"] = (first if first == last and rng.random() < 0.5 else
                          list(range(first, last + 1)))
    if kind in ("MaxNorm", "MinMaxNorm"):
        config["max_value"] = spread(rng, -1, 0.5)
    if kind == "MinMaxNorm":
        config["min_value"] = float(pick(rng, 0.0, config["max_value"] / 2))
        config["rate"] = float(pick(rng, 1.0, 0.5, 0.125))
    return {"class_name": kind, "config": config}


def constrain(rng, model):
    """Puts constraints of weights into some of the layers."""
    if rng.random() < 0.75:
        return
    oracle = keras_oracle.Model(model)

    def visit(entries, path):
        for entry in entries:
            config = entry["config"]
            if entry["class_name"] in keras_oracle.MODELS:
                visit(config["layers"], path + config["name"] + "/")
            layer = oracle.firsts.get(path + config.get("name", ""))
            if layer is None or entry["class_name"] in (
                    "Attention", "AdditiveAttention", "PositionEmbedding"):
                continue
            ranks = {}
            for weight in layer.shapes:
                if weight not in layer.state and "lora_" not in weight:
                    name = layer.place(weight)[1]
                    ranks[name] = min(ranks.get(name, 9),
                                      len(layer.shapes[weight]))
            for name, rank in ranks.items():
                if rng.random() < 0.4:
                    config.get("layer", entry)["config"][
                        name + "_constraint"] = constraint(rng, rank)

    visit(model["config"]["layers"][1:], "")


def line_model(rng, loss, classes):
    """Layers over one axis."""
    b = Builder(rng, False, [int(rng.integers(4, 21)), int(rng.integers(1, 5))],
                rng)
    x = b.input
    for _ in range(int(rng.integers(1, 5))):
        add = add_convolution if rng.random() < 0.6 else add_moved
        x = add(b, x, rng)
    if rng.random() < 0.4:
        kind = pick(rng, "GlobalMaxPooling1D", "GlobalAveragePooling1D")
        x = b.add(kind, {"keepdims": bool(rng.integers(2))}, [x])
    elif rng.random() < 0.8:
        x = b.add("Flatten", {}, [x])
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


def normalization(rng, shape, name):
    """A normalizing layer over what has this shape."""
    what = pick(rng, "BatchNormalization", "BatchNormalization",
                "BatchNormalization", "LayerNormalization",
                "GroupNormalization", "Rescaling", "Normalization")
    config, width = {"name": name}, shape[-1]

    def each(low, high):
        count = width if rng.random() < 0.5 else None
        return np.round(rng.uniform(low, high, count), 3).tolist()

    if what == "Rescaling":
        config.update(scale=each(0.3, 2), offset=each(-1, 1))
    elif what == "Normalization":
        wide = rng.random() < 0.5
        for key, low in (("mean", -1), ("variance", 0.3)):
            config[key] = (np.round(rng.uniform(low, 1.5, width if wide else
                                                None), 3).tolist())
        config["invert"] = bool(rng.random() < 0.3)
    else:
        for flag in ("center", "scale"):
            config[flag] = bool(rng.random() < 0.8)
        if rng.random() < 0.5:
            config["epsilon"] = pick(rng, 1e-2, 1e-3, 1e-5)
        for weight in ("gamma", "beta"):
            if rng.random() < 0.1:
                config[weight + "_regularizer"] = regularizer(rng)
        if what == "BatchNormalization":
            config["momentum"] = float(pick(rng, 0.99, 0.9, 0.5, 0.0))
        elif what == "GroupNormalization":
            config["groups"] = int(pick(rng, *(
                n for n in range(1, width + 1) if width % n == 0)))
        elif len(shape) > 1 and rng.random() < 0.5:
            config["axis"] = pick(rng, [-2, -1], [len(shape) - 1, len(shape)])
        if rng.random() < 0.15:
            config["trainable"] = False
    return {"class_name": what, "config": config}


def curve(rng, _, name):
    """A layer of one number each, with its own settings."""
    what, fields = pick(rng, *CURVES.items())
    config = {key: float(pick(rng, *values)) for key, values in fields.items()
              if rng.random() < 0.5}
    return {"class_name": what, "config": {"name": name, **config}}


CURVES = {"ReLU": {"max_value": (1.0, 6.0), "negative_slope": (0.125, 0.3),
                   "threshold": (0.25, 1.0)},
          "LeakyReLU": {"negative_slope": (0.0, 0.125, 0.5)},
          "ELU": {"alpha": (0.5, 2.0)}}


def normalize(rng, model, first=0):
    """Puts some of them behind layers of the model, but for the last."""
    if rng.random() >= 0.6:
        insert(rng, model, normalization, "normalize", int(rng.integers(1, 4)),
               first)


def insert(rng, model, make, prefix, times, first=0):
    """Behind layers from number `first` on."""
    layers = model["config"]["layers"]
    oracle = keras_oracle.Model(model)
    shapes, calls = {oracle.input_names[0]: oracle.input_shape}, {}
    for layer, output in zip(oracle.layers, oracle.outputs):
        shapes[layer.name] = oracle.shapes[output]
        calls[layer.name] = calls.get(layer.name, 0) + 1
    for count in range(times):
        if len(layers) - 1 <= first:
            return
        at = int(rng.integers(first, len(layers) - 1))
        behind = layers[at]["config"]["name"]
        if behind not in shapes or calls.get(behind, 1) > 1:
            continue  # a model, or called twice
        if layers[at]["config"].get("return_state"):
            continue  # several tensors
        name = f"{prefix}_{count}"
        shapes[name] = shapes[behind]
        new = make(rng, shapes[name], name)
        if model["class_name"] == "Functional":
            link = '"keras_history": ["%s"'
            taken = [(entry, json.dumps(entry["inbound_nodes"]))
                     for entry in layers[at + 1:]]
            taken = [(entry, text) for entry, text in taken
                     if link % behind in text]
            if not taken:
                continue  # the output of a branch: no layer takes it
            for entry, text in taken:
                entry["inbound_nodes"] = json.loads(
                    text.replace(link % behind, link % name))
            new["name"] = name
            new["inbound_nodes"] = [{"args": [
                {"class_name": "__keras_tensor__", "config": {
                    "shape": [None, *shapes[name]], "dtype": "float32",
                    "keras_history": [behind, 0, 0]}}], "kwargs": {}}]
        layers.insert(at + 1, new)


# Layers that refuse an input with a mask.
WITHOUT_MASKS = ("Softmax",)


def drop_refused_masks(model):
    """Of a model in which a layer may refuse its mask."""
    text = json.dumps(model)
    if any(f'"{name}"' in text for name in WITHOUT_MASKS):
        for layer in model["config"]["layers"]:
            layer["config"].pop("mask_zero", None)


# --- what other layers and activations stand in their place ------------------

ACTIVATIONS = [name for name in [*keras_activations.OF_ONE_NUMBER,
                                 *keras_activations.OF_ROWS]
               # "exponential" overflows, the next two are in the models
               # already, and the last one comes with vary_more.
               if name not in ("exponential", "linear", "softmax",
                               "hard_sigmoid_keras2")]
# Those of recurrent layers have gradients that follow from their outputs, and
# no state grows with them.
GATE_ACTIVATIONS = ["tanh", "sigmoid", "softsign", "hard_sigmoid"]


def vary_layers(rng, model):
    """Puts layers in the place of those that take and give the same shapes."""
    if rng.random() < 0.4:
        return
    for entry in model["config"]["layers"][1:-1]:
        config = entry["config"]
        if rng.random() < 0.5:
            continue
        if entry["class_name"] == "ReLU":
            entry["class_name"] = kind = pick(rng, "ReLU", "LeakyReLU", "ELU")
            choices = {"ReLU": {"max_value": 6.0, "negative_slope": 0.125,
                                "threshold": 0.25},
                       "LeakyReLU": {"negative_slope": 0.125},
                       "ELU": {"alpha": 0.5}}[kind]
            config.update({key: value for key, value in choices.items()
                           if rng.random() < 0.5})
        if entry["class_name"] == "Add":
            two = all(len(keras_oracle.calls_in(node["args"])) == 2
                      for node in entry["inbound_nodes"])
            entry["class_name"] = pick(rng, *[
                each for each in keras_oracle.MERGES
                if two or each != "Subtract"])
        if config.get("activation", "softmax") != "softmax":
            recurs = entry["class_name"] in recurrent_oracle.GATES
            config["activation"] = pick(
                rng, *(GATE_ACTIVATIONS if recurs else ACTIVATIONS))


def vary_more(rng, model, training):
    """The same with what came later still."""
    oracle = keras_oracle.Model(model)
    shapes = {layer.name: oracle.shapes[inputs[0]]
              for layer, inputs in zip(oracle.layers, oracle.inputs)}
    for entry in model["config"]["layers"][1:-1]:
        kind, config = entry["class_name"], entry["config"]
        shape = shapes.get(config["name"])
        if shape is None or rng.random() < 0.4:
            continue
        axes = range(1, len(shape) + 1)
        if kind in ("Activation", "Normalization", "Rescaling"):
            entry["class_name"] = kind = pick(rng, kind, "ReLU", "Softmax",
                                              "Dropout")
            for key in ("activation", "mean", "variance", "invert", "scale",
                        "offset") if kind in ("ReLU", "Softmax", "Dropout") else ():
                config.pop(key, None)
            if kind == "Dropout":
                config["rate"] = 0.0 if training else 0.3
        if kind == "BatchNormalization":
            config["synchronized"] = True
        elif kind == "LayerNormalization" and rng.random() < 0.4:
            entry["class_name"] = "UnitNormalization"
            for key in set(config) - {"name", "axis", "trainable"}:
                del config[key]
        elif kind in ("ReLU", "LeakyReLU", "ELU"):
            entry["class_name"] = "PReLU"
            for key in ("max_value", "negative_slope", "threshold", "alpha"):
                config.pop(key, None)
            shared = [axis for axis in axes if rng.random() < 0.4]
            config["shared_axes"] = shared or None
            if rng.random() < 0.2:
                config["alpha_regularizer"] = regularizer(rng)
        elif kind == "Softmax":
            first = int(rng.integers(1, len(shape) + 1))
            last = int(rng.integers(first, len(shape) + 1))
            config["axis"] = (list(range(first, last + 1)) if first < last else
                              first if rng.random() < 0.5 else [first])
        elif kind == "Dropout":
            spatial = [f"SpatialDropout{len(shape) - 1}D"
                       ] if len(shape) in (2, 3) else []
            kind = pick(rng, "GaussianNoise", "GaussianDropout",
                        "AlphaDropout", *spatial)
            entry["class_name"] = kind
            if kind == "GaussianNoise":
                config["stddev"] = config.pop("rate")
        elif config.get("activation") in ("hard_sigmoid", "sigmoid"):
            config["activation"] = "hard_sigmoid_keras2"


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


def other_loss(rng, was, config, last):
    """For the same kind of targets."""
    config = {key: value for key, value in config.items()
              if key in ("from_logits", "label_smoothing")}
    positive = last in ("sigmoid", "softmax", "relu")
    if was == "CategoricalCrossentropy":
        kind = pick(rng, "CategoricalFocalCrossentropy", "CategoricalHinge",
                    "CosineSimilarity", *["KLDivergence"] * positive)
    elif was == "BinaryCrossentropy":
        kind = pick(rng, "BinaryFocalCrossentropy", "Hinge", "SquaredHinge",
                    *["KLDivergence"] * positive)
    else:
        kind = pick(rng, "CosineSimilarity", "LogCosh",
                    "MeanAbsolutePercentageError",
                    "MeanSquaredLogarithmicError", *["Poisson"] * positive)
    if "Focal" not in kind:
        return {"class_name": kind, "config": {}}
    if rng.random() < 0.6:
        config["gamma"] = float(pick(rng, 0.0, 1.0, 1.5, 2.0, 3.0))
    if rng.random() < 0.5:
        config["alpha"] = float(pick(rng, 0.25, 0.5, 0.9))
    if kind.startswith("Binary"):
        config["apply_class_balancing"] = bool(rng.integers(2))
    return {"class_name": kind, "config": config}


def other_metrics(rng, sparse, was, output):
    classes = output[-1]
    average = pick(rng, "micro", "macro", "weighted")
    threshold = pick(rng, None, 0.5, 0.3)
    auc = ("AUC", {"curve": pick(rng, "ROC", "PR"),
                   "num_thresholds": int(pick(rng, 2, 3, 20, 200)),
                   "summation_method": pick(rng, "interpolation", "minoring",
                                            "majoring")})
    if sparse:
        choices = [("MeanIoU", {"num_classes": max(2, classes + int(
            rng.integers(2))),
                                "sparse_y_pred": False}),
                   ("SparseCategoricalCrossentropy", {})]
    elif was in ("CategoricalCrossentropy", "BinaryCrossentropy"):
        choices = [auc, ("Precision", {"thresholds": threshold}),
                   ("Recall", {"top_k": int(rng.integers(1, classes + 1))}),
                   ("Precision", {"class_id": int(rng.integers(classes)),
                                  "name": "of_one"}),
                   (pick(rng, "TruePositives", "FalsePositives",
                         "TrueNegatives", "FalseNegatives"), {}),
                   ("CategoricalHinge", {}), ("Hinge", {}),
                   ("OneHotMeanIoU", {"num_classes": max(2, classes)})]
        if len(output) == 1:
            choices += [("F1Score", {"average": average,
                                     "threshold": threshold}),
                        ("FBetaScore", {"average": average, "beta": 2.0,
                                        "threshold": threshold})]
    else:
        choices = [("RootMeanSquaredError", {}), ("LogCoshError", {}),
                   ("CosineSimilarity", {}),
                   ("MeanAbsolutePercentageError", {}),
                   ("MeanSquaredLogarithmicError", {})]
        if len(output) == 1:
            choices.append(("R2Score", {"class_aggregation": pick(
                rng, "uniform_average", "variance_weighted_average")}))
    chosen = rng.permutation(len(choices))[:rng.integers(0, 4)]
    return [{"class_name": kind, "config": config}
            for kind, config in (choices[i] for i in sorted(chosen))
            if kind != "OneHotMeanIoU" or classes > 1]


def more_metrics(rng, loss, output, last):
    """Returns some of the metrics that other_metrics leaves out."""
    smoothing = {"label_smoothing": float(pick(rng, 0.0, 0.1))}
    logits = {"from_logits": last not in ("softmax", "sigmoid")}
    if loss.startswith("Sparse"):
        choices = [("SparseCategoricalAccuracy", {"name": "of_classes"})]
    else:
        choices = [("TopKCategoricalAccuracy",
                    {"k": int(rng.integers(1, output[-1] + 2))}),
                   ("SquaredHinge", {})]
        if output[-1] > 1:
            choices += [("CategoricalAccuracy", {"name": "of_classes"})]
        if "Crossentropy" in loss:
            choices += [("BinaryCrossentropy", {**smoothing, **logits})]
        if loss.startswith("Categorical") and output[-1] > 1:
            choices += [("CategoricalCrossentropy", {**smoothing, **logits})]
        if last in ("softmax", "sigmoid", "relu"):
            choices += [("KLDivergence", {}), ("Poisson", {})]
    chosen = rng.permutation(len(choices))[:rng.integers(0, 3)]
    return [{"class_name": kind, "config": config}
            for kind, config in (choices[i] for i in sorted(chosen))
            if rng.random() < 0.6]


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


def vary_rate(rng, rate):
    """Another schedule in the place of some, of the same rate and length."""
    config = rate["config"]
    initial = config["initial_learning_rate"]
    length = config["decay_steps"]
    kind = pick(rng, rate["class_name"], "PolynomialDecay", "InverseTimeDecay",
                "CosineDecayRestarts")
    if kind == rate["class_name"]:
        return rate
    if kind == "CosineDecayRestarts":
        return {"class_name": kind, "config": {
            "initial_learning_rate": initial, "first_decay_steps": length,
            "t_mul": float(pick(rng, 1.0, 1.5, 2.0)),
            "m_mul": float(pick(rng, 1.0, 0.5)),
            "alpha": float(pick(rng, 0.0, 0.1))}}
    made = {"initial_learning_rate": initial, "decay_steps": length}
    if kind == "InverseTimeDecay":
        made.update(decay_rate=float(pick(rng, 0.5, 1.0, 2.0)),
                    staircase=bool(rng.integers(2)))
    else:
        made.update(end_learning_rate=float(f"{initial / 10:.3g}"),
                    power=float(pick(rng, 1.0, 2.0, 0.5)),
                    cycle=bool(rng.integers(2)))
    if rng.random() < 0.4:
        made.update(warmup_target=initial, warmup_steps=int(
            rng.integers(0, length + 1)), initial_learning_rate=0.0)
    return {"class_name": kind, "config": made}


def vary_optimizer(rng, optimizer):
    """Another in the place of some."""
    kinds = {"Adamax": ("Nadam", "Adamax"), "Adam": ("Nadam", "Adam"),
             "RMSprop": ("Adagrad", "Adadelta", "RMSprop")}
    kind = pick(rng, *kinds.get(optimizer["class_name"], (
        optimizer["class_name"],)))
    names = {*keras_oracle.Optimizer.DEFAULTS[kind], "weight_decay", "clipnorm",
             "clipvalue", "global_clipnorm"}
    optimizer["class_name"] = kind
    optimizer["config"] = {name: value for name, value in
                           optimizer["config"].items() if name in names}
    rate = optimizer["config"]["learning_rate"]
    if isinstance(rate, dict) and "decay_steps" in rate["config"]:
        optimizer["config"]["learning_rate"] = vary_rate(rng, rate)
    if rng.random() < 0.15:
        optimizer["config"].update(
            use_ema=True, ema_momentum=float(pick(rng, 0.5, 0.9, 0.99)),
            ema_overwrite_frequency=pick(rng, None, None, 1, 3))


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
        later = np.random.default_rng([seed, number, 2])
        loss = random_loss(rng)
        sparse = loss["class_name"].startswith("Sparse")
        categorical = "Categorical" in loss["class_name"]
        classes = int(rng.integers(2 if categorical else 1, 11))
        # For the last addition, so that most earlier cases stay the same.
        last = np.random.default_rng([seed, number, 4])
        sequences = np.random.default_rng([seed, number, 8])
        late = np.random.default_rng([seed, number, 9])
        newest = np.random.default_rng([seed, number, 10])
        states = np.random.default_rng([seed, number, 11])
        model = (wide_model(rng, loss, classes) if self.wide else
                 states_model(states, loss, classes)
                 if states.random() < 0.06 else
                 newest_model(newest, loss, classes)
                 if newest.random() < 0.12 else
                 late_model(late, loss, classes) if late.random() < 0.12 else
                 sequence_model(sequences, loss, classes)
                 if sequences.random() < 0.12 else
                 line_model(last, loss, classes) if last.random() < 0.12 else
                 random_model(rng, later, loss, classes, self.trains))
        # The number of rows that the input chooses from, or 0.
        self.rows = rows_of_embedding(model)
        normalize(np.random.default_rng([seed, number, 3]), model,
                  first=bool(self.rows))
        # With something trained before it, which its gradient reaches.
        deep = np.random.default_rng([seed, number, 6])
        if deep.random() < 0.25:
            insert(deep, model, normalization, "deep", 1, first=1)
        vary_layers(later, model)
        if last.random() < 0.15:
            insert(last, model, curve, "curve", int(last.integers(1, 3)),
                   first=bool(self.rows))
        vary_more(np.random.default_rng([seed, number, 4]), model, self.trains)
        constrain(newest, model)
        drop_refused_masks(model)
        fit, examples, validation, self.workers = random_fit(rng, self.wide)
        if not self.trains:  # all of the data are evaluated
            self.workers = 1
            fit.pop("validation_split", None)
        steps = fit["epochs"] * (fit.get("steps_per_epoch") or -(
            -examples // (fit["batch_size"] * self.workers)))
        self.run = {"model": model, "compile": {
            "optimizer": random_optimizer(rng, steps), "loss": loss,
            "metrics": random_metrics(rng, loss, classes)}, "fit": fit}
        vary_optimizer(later, self.run["compile"]["optimizer"])
        oracle = keras_oracle.Model(model)
        shape, output = oracle.input_shape, oracle.output_shape
        self.weights = {}
        for path, layer, name in oracle.weights():
            dims = layer.shapes[name]
            limit = math.sqrt(6 / (math.prod(dims[:-1]) + (dims or [1])[-1]))
            if name in ("gamma", "moving_variance"):
                self.weights[path] = rng.uniform(0.5, 1.5, dims).astype("f4")
                continue
            self.weights[path] = (rng.uniform(-limit, limit, dims) if
                                  name in ("kernel", "query_kernel",
                                           "key_kernel") else
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
        if self.rows:
            self.choose_rows(newest)
        self.scales = []
        data = {}
        for part, (x, _) in self.parts():
            scale, offset = 1.0, 0.0
            if x.dtype.kind in "ui":
                scale = 1 / 255
                offset = float(pick(rng, 0.0, -0.5))
            elif rng.random() < 0.2:
                scale, offset = 0.5, 0.25
            if self.rows:
                scale, offset = 1.0, 0.0
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
        self.replicate(np.random.default_rng([seed, number, 7]))
        self.vary(np.random.default_rng([seed, number, 1]), output)
        self.vary_more(last, output)
        self.names = None  # where the outputs' settings go by name
        self.branch(np.random.default_rng([seed, number, 5]))
        self.ignore(np.random.default_rng([seed, number, 10]), output)
        self.weigh_rows(np.random.default_rng([seed, number, 11]), output)

    def weigh_rows(self, rng, output):
        """A weight for each step of the targets, or pixel."""
        if (output[-1] == math.prod(output) or rng.random() < 0.6 or
                isinstance(self.run["compile"]["loss"], list) or
                "class_weight" in self.run["fit"]):
            return
        for part, (x, _) in self.parts():
            if part == "train" or rng.random() < 0.7:
                self.weigh(rng, part, (len(x), *output[:-1]))

    def ignore(self, rng, output):
        """Some targets of a class that the loss ignores."""
        compile_ = self.run["compile"]
        loss = compile_["loss"]
        if (isinstance(loss, list) or rng.random() < 0.6 or
                not loss["class_name"].startswith("Sparse")):
            return
        among = int(rng.integers(output[-1]))
        number = among if "idx" in self.files.values() else int(pick(
            rng, -1, 255, among))
        loss["config"]["ignore_class"] = number
        for metric in compile_["metrics"]:
            if isinstance(metric, dict) and metric["class_name"] in (
                    "SparseCategoricalCrossentropy", "MeanIoU"):
                metric["config"]["ignore_class"] = number
        share = pick(rng, 0.1, 0.5, 0.9)

        def cut(x, y):
            ignored = np.where(rng.random(y.shape) < share, number, y)
            return x, ignored.astype(y.dtype if number >= 0 else "i4")
        self.train = cut(*self.train)
        if self.validation:
            self.validation = cut(*self.validation)

    def choose_rows(self, rng):
        """Makes the inputs whole numbers below self.rows."""
        for part, (x, y) in list(self.parts()):
            x = rng.integers(0, self.rows, x.shape).astype(x.dtype)
            setattr(self, part, (x, y))

    def replicate(self, rng):
        """Uses more replicas than workers; only training has replicas."""
        self.replicas = self.workers
        if (not self.trains or rng.random() < 0.75 or
                '"synchronized": true' in json.dumps(self.run["model"])):
            return
        self.replicas += int(rng.integers(1, 4))
        self.run.setdefault("strategy", {})["replicas"] = self.replicas

    def branch(self, rng):
        """More inputs and outputs."""
        config = self.run["model"]["config"]
        layers = config["layers"]
        if (self.run["model"]["class_name"] != "Functional" or self.files or
                "class_weight" in self.run["fit"] or rng.random() < 0.4 or
                any(each["class_name"] in keras_oracle.MODELS
                    for each in layers)):
            return
        oracle = keras_oracle.Model(self.run["model"])
        compile_ = self.run["compile"]
        calls, tensors = {}, [(layers[0]["config"]["name"], 0,
                               oracle.input_shape)]
        for layer, output in zip(oracle.layers, oracle.outputs):
            if isinstance(layer, keras_oracle.RecurrentState):
                continue
            number = calls[layer.name] = calls.get(layer.name, -1) + 1
            tensors.append((layer.name, number, oracle.shapes[output]))
        if keras_oracle.Loss(compile_["loss"], oracle.heads[0]).takes_logits:
            tensors.pop()
        tensors = [each for each in tensors[bool(self.rows):]
                   if math.prod(each[2]) <= 400]
        if not tensors:
            return

        def add(kind, name, settings, inputs):
            """Returns the tensor."""
            given = [{"class_name": "__keras_tensor__", "config": {
                "shape": [None, *shape], "dtype": "float32",
                "keras_history": [of, number, 0]}}
                     for of, number, shape in inputs]
            settings = {"name": name, **settings}
            layers.append({"class_name": kind, "config": settings, "name": name,
                           "inbound_nodes": [{"args": [given] if
                                              kind == "Concatenate" else given,
                                              "kwargs": {}}]})
            shape = keras_oracle.LAYERS[kind](settings).build(
                [each[2] for each in inputs])
            return name, 0, tuple(int(size) for size in shape)

        more = [(f"more_{i}", 0, (int(rng.integers(1, 9)),))
                for i in range(rng.integers(0, 3))]
        for i, (name, _, shape) in enumerate(more, 1):
            layers.insert(i, {"class_name": "InputLayer", "name": name,
                              "config": {"name": name,
                                         "batch_shape": [None, *shape]},
                              "inbound_nodes": []})
        count = int(rng.integers(1, 3))
        losses, metrics = [compile_["loss"]], [compile_["metrics"]]
        ends = [config["output_layers"][0]]
        for k in range(count):
            parts = [tensors[rng.integers(len(tensors))]]
            if len(parts[0][2]) > 1:
                parts = [add("Flatten", f"flat_{k}", {}, parts)]
            for i, each in enumerate(more):
                if i % count == k or rng.random() < 0.3:
                    parts.append(add("Dense", f"from_{i}_{k}", weighted(
                        rng, {"units": int(rng.integers(1, 9))}), [each]))
            x = parts[0] if len(parts) == 1 else add(
                "Concatenate", f"join_{k}", {"axis": -1}, parts)
            loss = random_loss(rng)
            classes = int(rng.integers(
                2 if "Categorical" in loss["class_name"] else 1, 7))
            head = {"SparseCategoricalCrossentropy": "softmax",
                    "CategoricalCrossentropy": "softmax",
                    "BinaryCrossentropy": "sigmoid"}.get(loss["class_name"])
            if head and rng.random() < 0.5:
                head, loss["config"]["from_logits"] = "linear", True
            elif head:
                loss["config"]["from_logits"] = False
            ends.append([add("Dense", f"end_{k}", weighted(
                rng, {"units": classes}, head or "linear"), [x])[0], 0, 0])
            losses.append(loss)
            metrics.append(random_metrics(rng, loss, classes))
        weighted_ = [compile_.get("weighted_metrics", [])] + [[]] * count
        order = [int(k) for k in rng.permutation(len(ends))]
        config["input_layers"] = [[layers[0]["config"]["name"], 0, 0],
                                  *([name, 0, 0] for name, _, _ in more)]
        config["output_layers"] = [ends[k] for k in order]
        compile_.update({"loss": [losses[k] for k in order],
                         "metrics": [metrics[k] for k in order],
                         "weighted_metrics": [weighted_[k] for k in order]})
        if rng.random() < 0.7:
            compile_["loss_weights"] = [pick(rng, 0.25, 0.5, 1.0, 2.0)
                                        for _ in order]
        self.branch_data(rng, more, losses, order)
        if rng.random() < 0.5:
            self.names = ([each[0] for each in config["input_layers"]],
                          [each[0] for each in config["output_layers"]])

    def branch_data(self, rng, more, losses, order):
        oracle = keras_oracle.Model(self.run["model"])
        for path, layer, name in oracle.weights():
            if path not in self.weights:
                dims = layer.shapes[name]
                self.weights[path] = rng.uniform(-0.5, 0.5, dims).astype("f4")
        for part, (x, y) in self.parts():
            xs = [x] + [rng.standard_normal((len(x), *shape)).astype("f4")
                        for _, _, shape in more]
            ys = [y]
            for k, loss in enumerate(losses[1:], 1):
                output = oracle.heads[order.index(k)].output_shape
                ys.append(random_data(
                    rng, len(x), (1,), output,
                    loss["class_name"].startswith("Sparse"), loss)[1])
            entry = self.run["data"][part]
            scaled = {key: entry.pop(key) for key in ("scale", "offset")}
            entry["x"] = [{"file": f"{part}_x0.npy", **scaled},
                          *(f"{part}_x{i}.npy" for i in range(1, len(xs)))]
            entry["y"] = [f"{part}_y{k}.npy" for k in order]
            made = (keras_oracle.Rows(xs),
                    keras_oracle.Rows([ys[k] for k in order]))
            setattr(self, part, made)

    def named(self):
        """The run as it is written."""
        if not self.names:
            return self.run
        run = copy.deepcopy(self.run)
        inputs, outputs = self.names
        for key in ("loss", "metrics", "weighted_metrics", "loss_weights"):
            if key in run["compile"]:
                run["compile"][key] = dict(zip(outputs, run["compile"][key]))
        for entry in run["data"].values():
            entry["x"] = dict(list(zip(inputs, entry["x"]))[::-1])
            entry["y"] = dict(list(zip(outputs, entry["y"]))[::-1])
        return run

    def vary(self, rng, output):
        """Draws the later additions from a generator of their own, so that the
        earlier cases stay the same."""
        fit = self.run["fit"]
        # Trained, saved, and trained further as compiled.
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
        self.vary_loss(np.random.default_rng([self.seed, self.number, 2]),
                       output)

    def vary_loss(self, rng, output):
        """Other losses and metrics on the same data, and weights of them."""
        compile_ = self.run["compile"]
        was = compile_["loss"]["class_name"]
        sparse = was.startswith("Sparse")
        config = compile_["loss"]["config"]
        last = keras_oracle.Model(self.run["model"]).layers[-1].activation
        if not sparse and rng.random() < 0.6:
            compile_["loss"] = other_loss(rng, was, config, last)
        if rng.random() < 0.08:
            compile_["loss"]["config"]["reduction"] = "sum"
        self.example_weights = {}
        one_class = (len(output) == 1 if not sparse else
                     math.prod(output) == output[-1])
        if rng.random() < 0.3:
            for part, (x, _) in self.parts():
                if part == "train" or rng.random() < 0.7:
                    self.weigh(rng, part, len(x))
        elif self.trains and one_class and rng.random() < 0.25:
            self.run["fit"]["class_weight"] = {
                str(i): pick(rng, 0.25, 0.5, 2, 3.0)
                for i in range(output[-1] + 1) if rng.random() < 0.7}
        extra = other_metrics(rng, sparse, was, output)
        for metric in extra:
            compile_["metrics"].append(metric)
        if rng.random() < 0.4:
            compile_["weighted_metrics"] = [
                {"class_name": "MeanIoU", "config": {
                    "num_classes": max(2, output[-1]),
                    "sparse_y_pred": False,
                    "name": "weighted"}} if sparse and rng.random() < 0.5 else
                {"class_name": "SparseTopKCategoricalAccuracy" if sparse else
                 pick(rng, "MeanSquaredError", "AUC", "Precision"),
                 "config": {"name": "weighted"}}]

    def vary_more(self, rng, output):
        compile_ = self.run["compile"]
        optimizer = compile_["optimizer"]
        config = optimizer["config"]
        # If a normalization makes a gradient 0, only rounding decides its sign.
        if optimizer["class_name"] in ("Adam", "Nadam") and (
                rng.random() < 0.3 and
                "Normalization" not in json.dumps(self.run["model"])):
            optimizer["class_name"] = "Lion"
            for name in ("epsilon", "amsgrad"):
                config.pop(name, None)
        if optimizer["class_name"] == "Adagrad" and rng.random() < 0.5:
            config["initial_accumulator_value"] = float(pick(rng, 0.01, 1.0))
        if "use_ema" not in config and rng.random() < 0.12:
            config["gradient_accumulation_steps"] = int(rng.integers(2, 5))
        self.recomputes = self.trains and rng.random() < 0.2
        compile_["metrics"] += more_metrics(
            rng, compile_["loss"]["class_name"], output,
            keras_oracle.Model(self.run["model"]).layers[-1].activation)

    def weigh(self, rng, part, shape):
        """Weights that float32 has exactly, so that sums agree."""
        weights = rng.integers(0, 9, shape) / 4
        self.example_weights[part] = weights.astype(pick(rng, "f4", "f8"))
        entry = self.run["data"][part]
        entry["sample_weight"] = ("weight" if self.files.get(part) == "csv"
                                  else part + "_w.npy")

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
        asked = self.run["compile"]["loss"]
        asked = asked if isinstance(asked, list) else [asked]
        losses = [keras_oracle.Loss(each, head) for each, head in
                  zip(asked, keras_oracle.Model(self.run["model"]).heads)]
        if self.wide:
            names.add("wide")
        if len(losses) > 1:
            names.add("outputs")
        if any(loss.takes_logits and each["config"].get("from_logits")
               for loss, each in zip(losses, asked)):
            names.add("logits_over_activation")
        optimizer = self.run["compile"]["optimizer"]["config"]
        if max(optimizer.get("rho", 0), optimizer.get("beta_2", 0)) > 0.999:
            names.add("near_one")
        if self.workers > 1:
            names.add("workers")
        if self.replicas > self.workers:
            names.add("replicas")
        return names

    def about(self):
        kinds = [each["class_name"] for each in
                 self.run["model"]["config"]["layers"][1:]]
        fit = self.run["fit"]
        loss = self.run["compile"]["loss"]
        losses = [each["class_name"] for each in
                  (loss if isinstance(loss, list) else [loss])]
        return (f"{' '.join(kinds)}; {' '.join(losses)}, {self.run['compile']['optimizer']['class_name']}, "
                f"{len(self.train[0])} examples, batch {fit['batch_size']}, "
                f"{self.replicas} replicas, {self.workers} workers, "
                f"{fit['threads']} threads")

    # --- the oracle's side

    def seen(self, part, number):
        """A part's data as the model sees them, and the examples' weights."""
        x, y = part
        w = self.example_weights.get("train" if number == 0 else "validation")
        w = np.ones(len(x)) if w is None else w.astype(float)
        scale, offset = self.scales[number]
        if isinstance(x, keras_oracle.Rows):
            first = x.arrays[0].astype("f4") * scale + offset
            return keras_oracle.Rows([first, *x.arrays[1:]]), y, w
        x = x.astype("f4") * scale + offset
        return x, y, w

    def data(self):
        train = self.seen(self.train, 0)
        split = self.run["fit"].get("validation_split", 0)
        if split:
            at = math.floor(len(train[0]) * (1 - split))
            return tuple(t[:at] for t in train), tuple(t[at:] for t in train)
        return train, (self.seen(self.validation, 1) if self.validation else
                       None)

    def oracle(self, dtype=np.float64, noise=None, others=()):
        """The results, and the outputs that were measured."""
        train, validation = self.data()
        fit = keras_oracle.Fit(self.run, self.replicas, train, validation,
                               self.weights, dtype, noise, self.runs, others)
        if self.trains:
            return fit.results(), fit.seen
        values, slack = fit.evaluate(fit.data, self.run["fit"]["batch_size"])
        return {"val": np.array([values]),
                "val_slack": np.array([slack])}, fit.seen

    # --- ringlet's side

    def write(self, folder):
        run = self.named()
        (folder / "run.json").write_text(json.dumps(run, indent=1) + "\n")
        for part, (x, y) in self.parts():
            kind = self.files.get(part)
            weights = self.example_weights.get(part)
            if weights is not None and kind != "csv":
                np.save(folder / f"{part}_w.npy", weights)
            if kind == "idx":
                write_idx(folder / f"{part}_x.idx", x)
                write_idx(folder / f"{part}_y.idx", y)
            elif kind == "csv":
                write_csv(folder / f"{part}.csv", x, y, weights)
            elif isinstance(x, keras_oracle.Rows):
                for key, rows in ("x", x), ("y", y):
                    for file, array in zip(self.run["data"][part][key],
                                           rows.arrays):
                        np.save(folder / (file["file"] if isinstance(file, dict)
                                          else file), array)
            else:
                np.save(folder / f"{part}_x.npy", x)
                np.save(folder / f"{part}_y.npy", y)
        write_safetensors(folder / "init.safetensors", self.weights)
        again = {**run, "model": "out.safetensors", "callbacks": [
            {"class_name": "CSVLogger", "config": {"filename": "epochs2.csv"}}]}
        del again["compile"]
        (folder / "again.json").write_text(json.dumps(again, indent=1) + "\n")

    def commands(self, program):
        """Returns the commands to run one after another, each a list."""
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
                     *["--recompute"] * self.recomputes, "run.json"]]
        if self.runs == 2:
            commands.append([*launch, program, "train", "--save",
                             "out2.safetensors", "--log-steps", "steps2.csv",
                             "again.json"])
        return commands

    def ringlet(self, program, folder):
        """Returns the results, or the text of an error."""
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


def write_csv(path, x, y, weights):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        columns = [f"c{i}" for i in range(x.shape[1])]
        at = x.shape[1] // 2  # the label stands between them
        more = [] if weights is None else ["weight"]
        writer.writerow([*columns[:at], "label", *columns[at:], *more])
        for i, (row, label) in enumerate(zip(x, y.reshape(len(y)))):
            values = [repr(value) for value in row.tolist()]
            more = [] if weights is None else [repr(weights[i].item())]
            writer.writerow([*values[:at], repr(label.item()), *values[at:],
                             *more])


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
        worst = deviation.max(initial=0)
        # A weight that has not moved is off by its own rounding only.
        far = KAPPA * worst > FAR * moved and (
            worst > 2.0 ** -21 * size.max(initial=0))
        return BASE * moved + rounding + KAPPA * worst, bool(far)
    # A deviation of one step may occur in the next one. A sum over examples is
    # as exact as its largest term.
    deviation = np.maximum.accumulate(deviation, 0)
    tolerance = BASE * np.maximum(size, 1e-3) + KAPPA * deviation
    return tolerance, bool((KAPPA * deviation > FAR * np.maximum(size, 1e-3))
                           .any())


def compare(case, got):
    """Compares the results of a case with the oracle's. Returns: the disagreement
    or ""; whether rounding alone leads far; how many numbers of metrics rounding
    may change, of how many; and whether more disturbed runs were needed. A ReLU
    whose input rounds to the other side of zero changes much, and few runs may
    have none."""
    runs = []
    for count in FIRST, MOST:
        for i in range(len(runs), count):
            runs.append(case.oracle(np.float32) if i == 0 else case.oracle(
                noise=np.random.default_rng([case.number, i - 1])))
        wrong, chaotic, unsure, numbers = compare_with(case, got, runs)
        if not wrong:
            break
    return {"wrong": wrong, "chaotic": chaotic, "unsure": unsure,
            "numbers": numbers, "closer": not wrong and len(runs) > FIRST}


def compare_with(case, got, runs):
    """The first four of these."""
    disturbed, seen = zip(*runs)
    exact, _ = case.oracle(others=seen)
    case.steps = len(exact.get("steps", [0]))
    if not all(np.isfinite(value).all() for name, value in exact.items()
               if not name.endswith("_slack")):
        return "", True, 0, 0
    chaotic, unsure, numbers = False, 0, 0
    for name, value in exact.items():
        if name.endswith("_slack"):
            continue
        if name not in got or got[name].shape != value.shape:
            shape = got[name].shape if name in got else "nothing"
            return f"{name}: {shape} instead of {value.shape}", False, 0, 0
        tolerance, far = allowed(case, name, value,
                                 [each[name] for each in disturbed])
        slack = exact.get(name + "_slack")
        if slack is not None and value.size:
            tolerance = tolerance + slack
            unsure += int((slack > TURN * np.abs(value)).sum())
            numbers += value.size
        chaotic |= far
        error = np.abs(got[name] - value)
        bad = ~((error <= tolerance) | np.isinf(tolerance))
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return (f"{name}{list(at)}: {got[name][at]:.9g}, expected "
                    f"{value[at]:.9g} within "
                    f"{np.broadcast_to(tolerance, value.shape)[at]:.2g} "
                    f"({int(bad.sum())} of {bad.size} numbers)"
                    ), chaotic, unsure, numbers
    return "", chaotic, unsure, numbers


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
            problem = ("" if keras_oracle_torch.unknown(case) else
                       keras_oracle_torch.check(case))
            if problem:
                return {"wrong": "the oracle and PyTorch: " + problem,
                        "about": case.about(), "command": case.command()}
        got = case.ringlet(program, folder)
        result = {"wrong": got} if isinstance(got, str) else compare(case, got)
        if options.keep and (result["wrong"] or options.case is not None):
            kept = pathlib.Path(options.keep) / f"{seed}-{number}"
            shutil.copytree(folder, kept, dirs_exist_ok=True)
        return {**result, "about": case.about(), "command": case.command()}
    finally:
        shutil.rmtree(folder)


# Cases with a cause that was fixed: (seed, number).
FAILED_ONCE = [*((20261123, number) for number in (24, 72, 234, 1066)),
               (5238, 2)]


def results(pool, options):
    """Yields (seed, number, result) of each case, in their order. The queue of
    the pool has twice as many cases as run at the same time."""
    waiting = collections.deque()
    cases = random_cases.cases(options, 2, FAILED_ONCE)
    while True:
        while len(waiting) < 2 * options.jobs and (case := next(cases, None)):
            waiting.append((*case, pool.submit(run_case, options.build, *case,
                                               options)))
        if not waiting:
            return
        seed, number, run = waiting.popleft()
        yield seed, number, run.result()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    random_cases.add_arguments(parser)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--without", default="", type=lambda text: text.split(","))
    options = parser.parse_args()
    played = failed = chaotic = skipped = unsure = measured = closer = 0
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for seed, number, result in results(pool, options):
            played += 1
            skipped += "skipped" in result
            chaotic += bool(result.get("chaotic"))
            unsure += result.get("unsure", 0)
            measured += result.get("numbers", 0)
            closer += result.get("closer", False)
            if result.get("wrong"):
                failed += 1
                print(f"case {number} of seed {seed}: {result['wrong']}\n"
                      f"  {result['about']}\n  again: {result['command']}",
                      flush=True)
            elif options.case is not None:
                print(f"case {number}: agrees ({result.get('about')})")
    agreed = played - failed - skipped
    print(f"{agreed} cases agree, {failed} do not; rounding alone leads far in "
          f"{chaotic}, and in {closer} only some of it; {unsure} of {measured} "
          "metrics may turn"
          + (f"; {skipped} left out" if skipped else ""))
    if played >= 50 and unsure > UNSURE * measured:
        print(f"more than {UNSURE:.0%} of the metrics may turn: too much is not held")
        failed += 1
    if closer > max(2, CLOSER * played):
        print("too many cases agree with a part of the disturbed runs only")
        failed += 1
    sys.exit(1 if failed or not agreed else 0)


if __name__ == "__main__":
    main()
