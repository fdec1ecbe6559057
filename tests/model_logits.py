#!/usr/bin/env python3
"""Computes the tutorials' CNN from a file that ringlet saved, without ringlet.

  model_logits.py MODEL.safetensors IMAGES.f32

IMAGES are 28x28 float32 one after another. Prints a line of logits for each,
by PyTorch, or by numpy where that is not installed.
"""
import json
import struct
import sys

import numpy

try:
    import torch
except ImportError:
    torch = None


def read_weights(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    weights = {}
    for name, t in header.items():
        if not name.startswith("model/"):
            continue
        begin, end = (8 + length + offset for offset in t["data_offsets"])
        assert t["dtype"] == "F32"
        weights[name[6:]] = numpy.frombuffer(
            data[begin:end], "<f4").astype("f4").reshape(t["shape"])
    return header["__metadata__"], weights


def with_torch(w, x):
    # NHWC and HWIO to PyTorch's NCHW and OIHW, and back before Flatten.
    kernel = torch.tensor(w["conv2d/kernel"]).permute(3, 2, 0, 1)
    y = torch.nn.functional.conv2d(torch.tensor(x)[:, None], kernel,
                                   torch.tensor(w["conv2d/bias"])).relu()
    y = y.permute(0, 2, 3, 1).reshape(len(x), -1)
    y = (y @ torch.tensor(w["dense/kernel"]) +
         torch.tensor(w["dense/bias"])).relu()
    return (y @ torch.tensor(w["dense_1/kernel"]) +
            torch.tensor(w["dense_1/bias"])).numpy()


def with_numpy(w, x):
    y = numpy.zeros((len(x), 26, 26, 32), "f4")
    for i in range(3):
        for j in range(3):
            y += x[:, i:i + 26, j:j + 26, None] * w["conv2d/kernel"][i, j, 0]
    y = numpy.maximum(y + w["conv2d/bias"], 0).reshape(len(x), -1)
    y = numpy.maximum(y @ w["dense/kernel"] + w["dense/bias"], 0)
    return y @ w["dense_1/kernel"] + w["dense_1/bias"]


def main(model, images):
    metadata, weights = read_weights(model)
    layers = json.loads(metadata["model"])["config"]["layers"]
    assert [layer["class_name"] for layer in layers] == [
        "InputLayer", "Reshape", "Conv2D", "Flatten", "Dense", "Dense"]
    x = numpy.fromfile(images, "<f4").reshape(-1, 28, 28)
    logits = (with_numpy if torch is None else with_torch)(weights, x)
    for row in logits:
        print(*(repr(float(value)) for value in row))


main(*sys.argv[1:])
