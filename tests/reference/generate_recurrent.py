#!/usr/bin/env python3
"""Writes the reference cases recurrent_*.safetensors beside this file, computed with
../recurrent_oracle.py (float64, stored as float32). As the layer cases of generate.py they have x,
kernel, recurrent_kernel, bias, y, dy, and the gradients dx, d_kernel, d_recurrent_kernel, d_bias of
sum(y * dy); the JSON of "case" is the layer's configuration in Keras.

Run: /usr/bin/python3 generate_recurrent.py      (needs Debian's python3-numpy; the outputs are committed)
"""
import json
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from recurrent_oracle import Recurrence, weight_shapes  # noqa: E402


def save(name, tensors, case):
    header = {"__metadata__": {"case": json.dumps(case, sort_keys=True)}}
    data = b""
    for key, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor.astype("<f4")).tobytes()
        header[key] = {"dtype": "F32", "shape": list(tensor.shape),
                       "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(HERE, name + ".safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def case(kind, number, batch, steps, features, units, **settings):
    config = {"units": units, "activation": "tanh",
              "recurrent_activation": "sigmoid", **settings}
    rng = np.random.default_rng([steps, units, number])

    def draw(*shape):
        return rng.uniform(-1, 1, shape).astype("f4").astype(float)

    x = draw(batch, steps, features)
    weights = {name: draw(*shape) / 2 for name, shape in
               weight_shapes(config, kind, features).items()}
    layer = Recurrence(kind, config, weights)
    y = layer.forward(x)
    dy = draw(*y.shape)
    dx = layer.backward(dy)
    save(f"recurrent_{kind.lower()}_{number}",
         {"x": x, **weights, "y": y, "dy": dy, "dx": dx,
          **{"d_" + name: d for name, d in layer.gradients.items()}},
         {"layer": kind, **config})


def main():
    for kind in ("SimpleRNN", "LSTM", "GRU"):
        case(kind, 1, 5, 28, 3, 7)
        case(kind, 2, 4, 6, 5, 7, return_sequences=True)
        case(kind, 3, 3, 5, 4, 6, go_backwards=True, return_sequences=True,
             use_bias=False)
        case(kind, 4, 33, 1, 2, 1)
        case(kind, 5, 1, 128, 1, 2, go_backwards=True)
        case(kind, 6, 2, 2, 3, 5, activation="relu",
             recurrent_activation="hard_sigmoid")
        case(kind, 7, 3, 4, 2, 4, activation="softsign",
             recurrent_activation="hard_sigmoid_keras2", return_sequences=True)
    for number, settings in enumerate(
            ({}, {"return_sequences": True}, {"use_bias": False}), 8):
        case("GRU", number, 4, 6, 3, 7, reset_after=False, **settings)


main()
