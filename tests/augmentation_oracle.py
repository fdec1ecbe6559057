#!/usr/bin/env python3
"""Augmented images in float64, by NumPy, for tests/core/layers/augmentation_test.cc.

    augmentation_oracle.py FOLDER

Each line of FOLDER/cases.txt is a JSON object: the class and the config of a layer as
Keras has them, the shape of the images, the four numbers in [0, 1) of each image, and
the files of the images, the layer's outputs, a gradient of the outputs, and the
gradient of the images that follows. Written from the definitions of Keras 3
(affine_transform, resize and the layers), it shares no code with ringlet. Prints the
largest error of each class.
"""
import json
import pathlib
import sys

import numpy as np


def drawn(bounds, unit):
    return bounds[0] + (bounds[1] - bounds[0]) * unit


# --- pixels -------------------------------------------------------------------

def outside(i, n, mode):
    """The pixel of n at place i, and whether it is one of the image."""
    if mode == "constant":
        return np.clip(i, 0, n - 1), (i >= 0) & (i < n)
    if mode == "nearest":
        i = np.clip(i, 0, n - 1)
    elif mode == "wrap":
        i = np.mod(i, n)
    else:
        i = np.mod(i, 2 * n)
        i = np.where(i < n, i, 2 * n - 1 - i)
    return i, np.ones(i.shape, bool)


def sampled(shape, row, column, mode, interpolation):
    """A matrix (places, pixels), and the fill value's share of each place."""
    h, w, _ = shape
    row, column = row.ravel(), column.ravel()
    if interpolation == "nearest":
        def away(t):
            return np.where(t < 0, -np.floor(-t + 0.5), np.floor(t + 0.5))
        parts = [(away(row), away(column), np.ones(row.shape))]
    else:
        top, left = np.floor(row), np.floor(column)
        down, right = row - top, column - left
        parts = [(top, left, (1 - down) * (1 - right)),
                 (top, left + 1, (1 - down) * right),
                 (top + 1, left, down * (1 - right)),
                 (top + 1, left + 1, down * right)]
    matrix = np.zeros((row.size, h * w))
    filled = np.zeros(row.size)
    for i, j, weight in parts:
        i, is_row = outside(i.astype(int), h, mode)
        j, is_column = outside(j.astype(int), w, mode)
        inside = is_row & is_column
        np.add.at(matrix, (np.arange(row.size), i * w + j), weight * inside)
        filled += weight * ~inside
    return matrix, filled


def affine(shape, transform, config):
    """As ImageProjectiveTransform: the output's pixels to the input's places."""
    a0, a1, a2, b0, b1, b2 = transform
    y, x = np.mgrid[:shape[0], :shape[1]].astype(float)
    return sampled(shape, b0 * x + b1 * y + b2, a0 * x + a1 * y + a2,
                   config["fill_mode"], config["interpolation"])


def resized(shape, box, size, interpolation):
    """A box of the image, which may reach over its border, to a size."""
    top, left, rows, columns = box
    places = []
    for begin, n, new in (top, rows, size[0]), (left, columns, size[1]):
        at = (np.arange(new) + 0.5) * n / new
        if interpolation == "nearest":
            at = np.array([(2 * i + 1) * n // (2 * new) for i in range(new)],
                          float)
        else:
            at = np.clip(at - 0.5, 0, n - 1)
        places.append(at + begin)
    row, column = np.meshgrid(*places, indexing="ij")
    return sampled(shape, row, column, "constant", interpolation)


# --- layers -------------------------------------------------------------------

def flip(shape, config, u):
    if u[0] > 0.5:
        return 1, 0, 0, 0, 1, 0
    across = config["mode"] != "vertical"
    down = config["mode"] != "horizontal"
    return (-1 if across else 1, 0, (shape[1] - 1) * across,
            0, -1 if down else 1, (shape[0] - 1) * down)


def translation(shape, config, u):
    return (1, 0, -drawn(config["width_factor"], u[1]) * shape[1],
            0, 1, -drawn(config["height_factor"], u[0]) * shape[0])


def rotation(shape, config, u):
    angle = 2 * np.pi * drawn(config["factor"], u[0])
    c, s = np.cos(angle), np.sin(angle)
    h, w = shape[0] - 1, shape[1] - 1
    return (c, -s, (w - (c * w - s * h)) / 2, s, c, (h - (s * w + c * h)) / 2)


def zoom(shape, config, u):
    down = 1 + drawn(config["height_factor"], u[0])
    across = (down if config["width_factor"] is None else
              1 + drawn(config["width_factor"], u[1]))
    return (across, 0, (shape[1] - 1) / 2 * (1 - across),
            0, down, (shape[0] - 1) / 2 * (1 - down))


WARPS = {"RandomFlip": flip, "RandomTranslation": translation,
         "RandomRotation": rotation, "RandomZoom": zoom}


def largest_part(shape, size):
    """Keras's smart_resize: the box that it cuts out."""
    (h, w), (new_h, new_w) = shape[:2], size
    rows = max(min(h, int(float(w * new_h) / new_w)), 1)
    columns = max(min(w, int(float(h * new_w) / new_h)), 1)
    return int((h - rows) / 2), int((w - columns) / 2), rows, columns


def box_of(kind, config, shape, u, training):
    size = config["height"], config["width"]
    (h, w), (new_h, new_w) = shape[:2], size
    fits = h >= new_h and w >= new_w
    if kind == "RandomCrop" and training and fits:
        return int(u[0] * (h - new_h + 1)), int(u[1] * (w - new_w + 1)), *size
    if kind == "CenterCrop" and fits:
        return (h - new_h) // 2, (w - new_w) // 2, *size
    if kind == "Resizing" and config["pad_to_aspect_ratio"]:
        top = int((max(h, int(float(w * new_h) / new_w)) - h) / 2)
        left = int((max(w, int(float(h * new_w) / new_h)) - w) / 2)
        return -top, -left, h + 2 * top, w + 2 * left
    if kind == "Resizing" and not config["crop_to_aspect_ratio"]:
        return 0, 0, h, w
    return largest_part(shape, size)


def geometry(kind, config, shape, u, training):
    if kind in WARPS:
        if not training:
            return np.eye(shape[0] * shape[1]), 0.0
        fields = {"fill_mode": "nearest", "interpolation": "nearest", **config}
        return affine(shape, WARPS[kind](shape, config, u), fields)
    return resized(shape, box_of(kind, config, shape, u, training),
                   (config["height"], config["width"]),
                   config.get("interpolation", "bilinear"))


def changed_colors(kind, config, x, u, dy):
    """(output, gradient of x) of one image (pixels, channels)."""
    low, high = config["value_range"]
    if kind == "RandomBrightness":
        times, mean = 1.0, 0 * x[:1]
        y = x + drawn(config["factor"], u[0]) * (high - low)
    else:
        lower, upper = config["factor"]
        times = drawn((1 - lower, 1 + upper), u[0])
        mean = x.mean(0, keepdims=True)
        y = (x - mean) * times + mean
    dy = np.where((y >= low) & (y <= high), dy, 0)
    near = np.minimum(np.abs(y - low), np.abs(y - high)) < 1e-4 * (high - low)
    dx = times * dy + (1 - times) * dy.mean(0, keepdims=True)
    if near.any():  # its rounding decides
        dx = None
    return np.clip(y, low, high), dx


def unsteady(kind, config, shape, u):
    """True if a place is so close to a border between nearest pixels that the
    rounding of float64 decides."""
    if kind not in WARPS or kind == "RandomFlip":
        return False
    if config["interpolation"] != "nearest":
        return False
    a0, a1, a2, b0, b1, b2 = WARPS[kind](shape, config, u)
    y, x = np.mgrid[:shape[0], :shape[1]].astype(float)
    for at in a0 * x + a1 * y + a2, b0 * x + b1 * y + b2:
        if (np.abs(at - np.floor(at) - 0.5) < 1e-9).any():
            return True
    return False


def check(folder, case):
    """(images compared, largest error)"""
    kind, config, shape = case["class"], case["config"], case["shape"]
    units, training = case["units"], case["training"]
    read = {name: np.fromfile(folder / case[name], "f4").astype(float)
            .reshape(len(units), -1, shape[2]) for name in ("x", "y", "dy", "dx")}
    worst, count = 0.0, 0
    for i, u in enumerate(units):
        x, y, dy, dx = (read[name][i] for name in ("x", "y", "dy", "dx"))
        if kind in ("RandomContrast", "RandomBrightness"):
            expected, gradient = (changed_colors(kind, config, x, u, dy)
                                  if training else (x, dy))
        elif unsteady(kind, config, shape, u):
            continue
        else:
            matrix, filled = geometry(kind, config, shape, u, training)
            fill = config.get("fill_value", 0.0)
            expected = matrix @ x + np.reshape(filled * fill, (-1, 1))
            gradient = matrix.T @ dy
        scale = max(np.abs(expected).max(), 1)
        errors = [np.abs(y - expected).max() / scale]
        if training and gradient is not None:
            errors.append(np.abs(dx - gradient).max() /
                          max(np.abs(gradient).max(), 1))
        assert max(errors) < 4e-6, (case, i, errors)
        worst, count = max(worst, *errors), count + 1
    return count, worst


def main():
    folder = pathlib.Path(sys.argv[1])
    result = {}
    for line in (folder / "cases.txt").read_text().splitlines():
        case = json.loads(line)
        count, worst = check(folder, case)
        before = result.get(case["class"], (0, 0.0))
        result[case["class"]] = before[0] + count, max(before[1], worst)
    for kind, (count, worst) in sorted(result.items()):
        print(kind, count, f"{worst:.3g}")


if __name__ == "__main__":
    main()
