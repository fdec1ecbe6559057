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
    """Writes a file as the safetensors library does: sorted by name."""
    header, data = {}, b""
    for name, tensor in sorted(tensors.items()):
        of_floats = tensor.dtype == numpy.float32
        raw = tensor.astype("<f4" if of_floats else "<i8").tobytes()
        header[name] = {"dtype": "F32" if of_floats else "I64",
                        "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


class Cnn(nn.Module):
    """Modules whose order by name differs from the order of the layers."""

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


class Normalized(nn.Module):
    """Norms of images, of a flattened image and of features."""

    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm((2, 6, 4), eps=1e-3)
        self.conv = nn.Conv2d(2, 3, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(3, eps=1e-3)
        self.bn2 = nn.BatchNorm1d(3 * 4 * 2, eps=1e-3)
        self.ln2 = nn.LayerNorm(3 * 4 * 2, eps=1e-3)
        self.fc = nn.Linear(3 * 4 * 2, 5)
        self.bn3 = nn.BatchNorm1d(5, affine=False)
        for ln in (self.ln1, self.ln2):
            nn.init.normal_(ln.weight)
            nn.init.normal_(ln.bias)
        for bn in (self.bn1, self.bn2, self.bn3):
            bn.running_mean.normal_()
            bn.running_var.uniform_(0.5, 2)
            if bn.affine:
                nn.init.normal_(bn.weight)
                nn.init.normal_(bn.bias)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv(self.ln1(x))))
        return self.bn3(self.fc(self.ln2(self.bn2(y.flatten(1)))))
class Depthwise(nn.Module):
    """Convolutions in groups."""

    def __init__(self):
        super().__init__()
        self.depth = nn.Conv2d(4, 8, (3, 2), stride=2, groups=4)
        self.groups = nn.Conv2d(8, 6, (1, 2), groups=2, dilation=2)
        self.fc = nn.Linear(6 * 4 * 3, 3)

    def forward(self, x):
        y = self.groups(torch.relu(self.depth(x)))
        return self.fc(torch.tanh(y).flatten(1))


class Separable(nn.Module):
    """The first is two modules of the second's shapes."""

    def __init__(self):
        super().__init__()
        self.s = nn.Module()
        self.s.depthwise = nn.Conv2d(3, 6, 3, groups=3, bias=False)
        self.s.pointwise = nn.Conv2d(6, 5, 1)
        self.last = nn.Conv2d(5, 2, 1)

    def forward(self, x):
        y = torch.relu(self.s.pointwise(self.s.depthwise(x)))
        return self.last(y).amax((2, 3))


class Line(nn.Module):
    """A model of one-dimensional layers, such as Conv1d."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 3, dilation=2)
        self.depth = nn.Conv1d(6, 12, 4, groups=6)
        self.fc = nn.Linear(12 * 4, 5)

    def forward(self, x):
        y = nn.functional.pad(torch.relu(self.conv(x)), (2, 0))
        y = nn.functional.max_pool1d(self.depth(y), 2)
        return self.fc(y.flatten(1))


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
    x = x.permute(0, *range(2, x.dim()), 1) if x.dim() > 2 else x
    numpy.save(path + ".x.npy", numpy.ascontiguousarray(x.numpy()))
    numpy.save(path + ".y.npy", y)


def main(folder):
    torch.manual_seed(1)
    write(folder, "cnn", Cnn(), torch.randn(7, 2, 10, 7))
    write(folder, "twins", Twins(), torch.randn(7, 4))
    write(folder, "normalized", Normalized().eval(), torch.randn(7, 2, 6, 4))
    write(folder, "numbered", numbered(), torch.randn(7, 3))
    write(folder, "depthwise", Depthwise(), torch.randn(7, 4, 10, 11))
    write(folder, "separable", Separable(), torch.randn(7, 3, 6, 5))
    write(folder, "line", Line(), torch.randn(7, 3, 13))


main(sys.argv[1])
