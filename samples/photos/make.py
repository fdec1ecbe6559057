#!/usr/bin/env python3
"""Writes model.json, body.npz and pictures for photos.json, into FOLDER.

    make.py [FOLDER]

The model is MobileNetV2 of Keras (alpha 0.35, 96 x 96 pixels), frozen, between
augmentation and a new head. Pictures and weights are stand-ins: drawn surfaces
of three kinds, and random numbers with the names of Keras's weights. Those that
Keras trained on ImageNet are

    base = keras.applications.MobileNetV2(
        input_shape=(96, 96, 3), alpha=0.35, include_top=False)
    numpy.savez("body.npz", **{w.path: w.numpy() for w in base.weights})
"""
import array
import json
import math
import pathlib
import random
import struct
import sys
import zipfile

SIZE, ALPHA, PICTURES = 96, 0.35, 40
KINDS = ("bricks", "grass", "sky")
# Expansion, filters, repeats and strides: Sandler et al. (2018), table 2.
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
          (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def scaled(filters):
    wanted = int(filters * ALPHA)
    rounded = max(8, (wanted + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * wanted else rounded + 8


class Body:
    """A functional model that grows, and its weights by name."""

    def __init__(self):
        self.draw = random.Random(1)
        self.layers, self.weights = [], {}
        self.channels, self.last = 3, "image"
        self.add("InputLayer", "image", [], batch_shape=[None, SIZE, SIZE, 3])

    def add(self, kind, name, inputs=None, **config):
        inputs = [self.last] if inputs is None else inputs
        nodes = [[[each, 0, 0, {}] for each in inputs]] if inputs else []
        self.layers.append({"class_name": kind, "name": name, "config": {
            "name": name, **config}, "inbound_nodes": nodes})
        self.last = name

    def weight(self, name, shape, values):
        self.weights[name] = (shape, array.array("f", values))

    def norm(self, name, relu=None):
        for weight, value in (("gamma", 1), ("beta", 0), ("moving_mean", 0),
                              ("moving_variance", 1)):
            self.weight(f"{name}/{weight}", (self.channels,),
                        [value] * self.channels)
        self.add("BatchNormalization", name, momentum=0.999, epsilon=0.001)
        if relu:
            self.add("ReLU", relu, max_value=6.0)

    def kernel(self, name, shape, inputs):
        count = shape[0] * shape[1] * shape[2] * shape[3]
        gain = 0.5 if name.endswith("project/kernel") else 2  # before a ReLU
        spread = (gain / inputs) ** 0.5
        self.weight(name, shape,
                    [self.draw.gauss(0, spread) for _ in range(count)])

    def conv(self, name, filters, size=1, strides=1):
        self.kernel(f"{name}/kernel", (size, size, self.channels, filters),
                    size * size * self.channels)
        self.channels = filters
        self.add("Conv2D", name, filters=filters, kernel_size=size,
                 strides=strides, padding="same", use_bias=False)

    def depthwise(self, name, strides):
        self.kernel(f"{name}/kernel", (3, 3, self.channels, 1), 9)
        self.add("DepthwiseConv2D", name, kernel_size=3, strides=strides,
                 padding="valid" if strides > 1 else "same", use_bias=False)

    def block(self, name, expansion, filters, strides):
        begin, before = self.last, self.channels
        if expansion > 1:
            self.conv(name + "expand", expansion * before)
            self.norm(name + "expand_BN", name + "expand_relu")
        if strides > 1:
            self.add("ZeroPadding2D", name + "pad", padding=[[0, 1], [0, 1]])
        self.depthwise(name + "depthwise", strides)
        self.norm(name + "depthwise_BN", name + "depthwise_relu")
        self.conv(name + "project", filters)
        self.norm(name + "project_BN")
        if strides == 1 and before == filters:
            self.add("Add", name + "add", [begin, self.last])


def mobilenet_v2():
    body = Body()
    body.conv("Conv1", 16, 3, 2)  # scaled(32), which Keras does not cut first
    body.norm("bn_Conv1", "Conv1_relu")
    number = 0
    for expansion, filters, repeats, strides in BLOCKS:
        for repeat in range(repeats):
            name = f"block_{number}_" if number else "expanded_conv_"
            body.block(name, expansion, scaled(filters),
                       1 if repeat else strides)
            number += 1
    body.conv("Conv_1", 1280)
    body.norm("Conv_1_bn", "out_relu")
    return body


def photos_model(body):
    name = f"mobilenetv2_{ALPHA:.2f}_{SIZE}"
    frozen = {"class_name": "Functional", "config": {
        "name": name, "trainable": False, "layers": body.layers,
        "input_layers": [["image", 0, 0]],
        "output_layers": [[body.last, 0, 0]]}}
    return {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer",
         "config": {"batch_shape": [None, SIZE, SIZE, 3]}},
        {"class_name": "RandomFlip", "config": {"mode": "horizontal"}},
        {"class_name": "RandomRotation", "config": {"factor": 0.05}},
        {"class_name": "RandomContrast",
         "config": {"factor": 0.2, "value_range": [-1, 1]}},
        frozen,
        {"class_name": "GlobalAveragePooling2D"},
        {"class_name": "BatchNormalization",
         "config": {"name": "head_bn", "momentum": 0.9}},
        {"class_name": "Dropout", "config": {"rate": 0.2}},
        {"class_name": "Dense", "config": {"name": "head", "units": len(KINDS)}}]}}


def npy(shape, values):
    header = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }"
              % ", ".join(map(str, shape))).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    if sys.byteorder == "big":
        values = array.array("f", values)
        values.byteswap()
    return (b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header +
            values.tobytes())


def surface(draw, kind):
    """The pixels of a picture, a text of bytes."""
    light, scale = draw.uniform(0.7, 1.2), draw.uniform(0.7, 1.4)
    left, top = draw.uniform(0, 40), draw.uniform(0, 40)
    pixels = bytearray()
    for y in range(SIZE):
        for x in range(SIZE):
            u, v = (x + left) * scale, (y + top) * scale
            noise = draw.uniform(-12, 12)
            if kind == "bricks":
                row = int(v // 12)
                joint = v % 12 < 2 or (u + 12 * (row % 2)) % 24 < 2
                color = (170, 165, 155) if joint else (165, 90, 75)
            elif kind == "grass":
                blade = 40 * math.sin(u * 1.9 + 2 * math.sin(v / 9))
                color = (110 + blade, 140 + blade, 75 + blade / 2)
            else:
                cloud = 50 * math.sin(u / 17) * math.sin(v / 13 + u / 40)
                color = (130 + cloud, 150 + cloud, 190 + cloud / 2)
            pixels += bytes(max(0, min(255, int(light * c + noise)))
                            for c in color)
    return bytes(pixels)


def draw_pictures(folder):
    draw = random.Random(2)
    for kind in KINDS:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for i in range(PICTURES):
            (folder / kind / f"{i:02}.ppm").write_bytes(
                b"P6 %d %d 255\n" % (SIZE, SIZE) + surface(draw, kind))


def main():
    folder = pathlib.Path(*sys.argv[1:2] or [pathlib.Path(__file__).parent])
    draw_pictures(folder / "pictures")
    body = mobilenet_v2()
    (folder / "model.json").write_text(json.dumps(photos_model(body)))
    with zipfile.ZipFile(folder / "body.npz", "w") as archive:
        for name, (shape, values) in body.weights.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy"), npy(shape, values))


main()
