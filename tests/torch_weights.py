#!/usr/bin/env python3
"""Writes weights of PyTorch models, inputs and outputs, without ringlet.

  torch_weights.py FOLDER

For each model: NAME.npz by numpy.savez, NAME.z.npz by savez_compressed and
NAME.safetensors of its state_dict, NAME.x.npy (images as height, width,
channels) and NAME.y.npy. Prints "skip" where PyTorch is not installed.
"""
import json
import struct
import sys

import numpy

try:
    import torch
    from torch import nn
except ImportError:
    print("skip")
    sys.exit()


def save_file(tensors, path):
    """As the library of that name does: sorted by name."""
    header, data = {}, b""
    for name, tensor in sorted(tensors.items()):
        raw = tensor.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


class Cnn(nn.Module):
    """Modules whose order by name is not the order of the layers."""

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(2, 3, (3, 2), stride=(2, 1))
        self.more = nn.Conv2d(3, 6, 1, bias=False)
        self.classifier = nn.Linear(6 * 2 * 3, 5)
        self.last = nn.Linear(5, 4)

    def forward(self, x):
        y = torch.relu(self.more(torch.relu(self.features(x))))
        y = nn.functional.max_pool2d(y, 2)
        return self.last(torch.tanh(self.classifier(y.flatten(1))))


class Twins(nn.Module):
    """Layers of one shape; "a" comes last."""

    def __init__(self):
        super().__init__()
        self.b = nn.Linear(4, 4)
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return self.a(torch.relu(self.b(x)))


def numbered():
    layers = [nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)]
    layers += [nn.Identity()] * 7 + [nn.Tanh(), nn.Linear(3, 3)]
    return nn.Sequential(*layers)


def write(folder, name, model, x):
    path = f"{folder}/{name}"
    weights = {k: v.numpy() for k, v in model.state_dict().items()}
    numpy.savez(path + ".npz", **weights)
    numpy.savez_compressed(path + ".z.npz", **weights)
    save_file(weights, path + ".safetensors")
    with torch.no_grad():
        y = model(x).numpy()
    x = x.permute(0, 2, 3, 1) if x.dim() == 4 else x
    numpy.save(path + ".x.npy", numpy.ascontiguousarray(x.numpy()))
    numpy.save(path + ".y.npy", y)


def main(folder):
    torch.manual_seed(1)
    write(folder, "cnn", Cnn(), torch.randn(7, 2, 10, 7))
    write(folder, "twins", Twins(), torch.randn(7, 4))
    write(folder, "numbered", numbered(), torch.randn(7, 3))


main(sys.argv[1])
