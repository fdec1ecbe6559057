#!/usr/bin/env python3
"""Writes the ONNX files of onnx_sequences_test.cc with PyTorch's exporter.

  write_onnx_sequences.py FOLDER

Prints the outputs for an example. The weights follow from their place alone.
"""
import pathlib
import sys

import torch
from torch import nn


class Recurrent(nn.Module):
    """Two layers of LSTMs in both directions, a GRU and an RNN of one shape."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 2, num_layers=2, bidirectional=True,
                            batch_first=True)
        self.gru = nn.GRU(4, 2, batch_first=True)
        self.plain = nn.RNN(2, 2, batch_first=True, bias=False)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        y, _ = self.lstm(x)
        y, _ = self.gru(y)
        _, h = self.plain(y)
        return self.fc(torch.cat([h[0], y[:, -1]], 1))


class Transformer(nn.Module):
    """An attention over tokens and their places, which is then flattened."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(7, 4)
        self.pos = nn.Embedding(3, 4)
        self.att = nn.MultiheadAttention(4, 2, batch_first=True)
        self.fc = nn.Linear(4, 5)
        self.cross = nn.MultiheadAttention(5, 1, kdim=4, vdim=4,
                                           batch_first=True)
        self.last = nn.Linear(15, 2)

    def forward(self, tokens):
        x = self.emb(tokens.long()) + self.pos(torch.arange(3))
        y = self.att(x, x, x, need_weights=False)[0]
        z = self.fc(x + y)
        z = self.cross(z, x, x, need_weights=False)[0]
        return self.last(z.flatten(1))


def main():
    folder = pathlib.Path(sys.argv[1])
    steps = torch.tensor([[[0.5, -1, 0], [1, 0.25, -0.5], [-0.75, 0, 1]]])
    for net, x in ((Recurrent(), steps),
                   (Transformer(), torch.tensor([[4.0, 0.0, 6.0]]))):
        with torch.no_grad():
            for i, weight in enumerate(net.parameters()):
                at = torch.arange(weight.numel(), dtype=torch.float64)
                weight.copy_(torch.sin(at * 1.7 + i).view(weight.shape) / 2)
        net.eval()
        name = f"torch_{type(net).__name__.lower()}.onnx"
        torch.onnx.export(net, x, folder / name,
                          training=torch.onnx.TrainingMode.PRESERVE)
        print(name, net(x).tolist())


if __name__ == "__main__":
    main()
