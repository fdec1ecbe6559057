#!/usr/bin/env python3
"""Resized pictures in float64, by NumPy, for tests/io/pictures/resize_test.cc.

    resize_oracle.py FOLDER

For each case of FOLDER/cases.txt, a line "HEIGHT WIDTH CHANNELS NEW_HEIGHT
NEW_WIDTH METHOD CROP FILE", prints the values, as many as the new picture has.
The conventions are those of tf.image.resize with antialias=False.
"""
import pathlib
import sys

import numpy as np


def weights(size, new, method):
    """A matrix (new, size): each row has the weights of a new pixel."""
    matrix = np.zeros((new, size))
    scale = size / new
    for i in range(new):
        if method == "nearest":
            matrix[i, min(int((2 * i + 1) * size // (2 * new)), size - 1)] = 1
        elif method == "bilinear":
            at = (i + 0.5) * scale - 0.5
            low = int(np.floor(at))
            for pixel, weight in ((low, 1 - (at - low)), (low + 1, at - low)):
                matrix[i, min(max(pixel, 0), size - 1)] += weight
        else:
            for pixel in range(size):
                shared = min((i + 1) * scale, pixel + 1) - max(i * scale, pixel)
                matrix[i, pixel] = max(0, shared) / scale
    return matrix


def cropped(image, height, width):
    """As Keras's smart_resize."""
    rows, columns = image.shape[:2]
    crop_rows = max(min(rows, int(columns * height / width)), 1)
    crop_columns = max(min(columns, int(rows * width / height)), 1)
    top = int((rows - crop_rows) / 2)
    left = int((columns - crop_columns) / 2)
    return image[top:top + crop_rows, left:left + crop_columns]


folder = pathlib.Path(sys.argv[1])
for line in (folder / "cases.txt").read_text().splitlines():
    *sizes, method, crop, name = line.split()
    rows, columns, channels, height, width = map(int, sizes)
    image = np.fromfile(folder / name, dtype=np.uint8)
    image = image.reshape(rows, columns, channels).astype(np.float64)
    if crop == "1":
        image = cropped(image, height, width)
    down = weights(image.shape[0], height, method)
    across = weights(image.shape[1], width, method)
    new = np.einsum("hr,rck,wc->hwk", down, image, across)
    print(" ".join(repr(float(value)) for value in new.ravel()))
