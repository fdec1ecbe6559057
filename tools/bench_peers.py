"""The peers that `make bench` measures beside ringlet, as processes."""
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = int(os.environ.get("RINGLET_BENCH_ROUNDS", "15"))

TORCH = r"""
import math, sys, time
import torch
def trainer():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(21632, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=.001)
    x, y = torch.rand(64, 1, 28, 28), torch.arange(64) % 10
    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        return (time.perf_counter() - begin) * 1e3
    return step
step = trainer()
for line in sys.stdin:
    torch.set_num_threads(int(line.split()[1]))
    for _ in range(3):  # as ringlet: caches filled, processors awake
        step()
    print(step(), flush=True)
"""

# The networks of tests/support/bench_networks.h, as PyTorch's modules. Answers
# with the milliseconds of a step, and those of its thread's processor time.
TORCH_NETWORKS = r"""
import sys, time
import torch
from torch import nn
class Residual(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.body = nn.Sequential(*conv(inputs, filters, 3, stride), nn.ReLU(),
                                  *conv(filters, filters, 3, 1))
        self.short = (nn.Conv2d(inputs, filters, 1, stride) if stride > 1
                      else nn.Identity())
    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))
def conv(inputs, filters, size, stride, groups=1):
    return [nn.Conv2d(inputs, filters, size, stride, size // 2, groups=groups),
            nn.BatchNorm2d(filters)]
def separable():
    return [*conv(64, 64, 3, 1, 64), nn.ReLU(), *conv(64, 64, 1, 1), nn.ReLU()]
NETWORKS = {
    "mlp": ((1, 28, 28), lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))),
    "lenet5": ((1, 28, 28), lambda: nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10))),
    "resnet8": ((3, 32, 32), lambda: nn.Sequential(
        *conv(3, 16, 3, 1), nn.ReLU(), Residual(16, 16, 1),
        Residual(16, 32, 2), Residual(32, 64, 2), nn.AvgPool2d(8),
        nn.Flatten(), nn.Linear(64, 10))),
    "ds_cnn": ((1, 49, 10), lambda: nn.Sequential(
        nn.ZeroPad2d((1, 1, 4, 5)), nn.Conv2d(1, 64, (10, 4), 2),
        nn.BatchNorm2d(64), nn.ReLU(), nn.Dropout(.2),
        *separable(), *separable(), *separable(), *separable(),
        nn.Dropout(.4), nn.AvgPool2d((25, 5)), nn.Flatten(),
        nn.Linear(64, 10)))}
class LastState(nn.Module):
    def __init__(self, cells, *embedding):
        super().__init__()
        self.body, self.cells = nn.Sequential(*embedding), cells
        self.out = nn.Linear(64, 10)
    def forward(self, x):
        return self.out(self.cells(self.body(x))[0][:, -1])
def two_convs(inputs, filters):
    return nn.Sequential(
        nn.Conv2d(inputs, filters, 3, padding=1), nn.ReLU(),
        nn.Conv2d(filters, filters, 3, padding=1), nn.ReLU())
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.middle = two_convs(3, 16), two_convs(16, 32)
        self.deep, self.pool = two_convs(32, 64), nn.MaxPool2d(2)
        self.up, self.up2 = (nn.ConvTranspose2d(n, n // 2, 2, 2)
                             for n in (64, 32))
        self.narrow, self.last = two_convs(64, 32), two_convs(32, 16)
        self.out = nn.Conv2d(16, 10, 1)
    def forward(self, x):
        wide = self.wide(x)
        middle = self.middle(self.pool(wide))
        x = self.up(self.deep(self.pool(middle)))
        x = self.up2(self.narrow(torch.cat([x, middle], 1)))
        return self.out(self.last(torch.cat([x, wide], 1)))
class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.characters = nn.Embedding(128, 64)
        self.positions = nn.Parameter(torch.rand(64, 64))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, 512, 0., batch_first=True)
            for _ in range(2))
        self.out = nn.Linear(64, 128)
        self.later = torch.ones(64, 64).triu(1).bool()
    def forward(self, x):
        x = self.characters(x) + self.positions
        for block in self.blocks:
            x = block(x, self.later)
        return self.out(x).transpose(1, 2)
def numbers(end, steps):
    return lambda batch: torch.randint(end, (batch, steps))
NETWORKS.update({
    "lstm": ((100, 9), lambda: LastState(nn.LSTM(9, 64, batch_first=True))),
    "gru": ((100, 9), lambda: LastState(nn.GRU(9, 64, batch_first=True))),
    "embedding": (numbers(10000, 100), lambda: LastState(
        nn.GRU(64, 64, batch_first=True), nn.Embedding(10000, 64))),
    "unet": ((3, 32, 32), UNet),
    "transformer": (numbers(128, 64), Transformer)})
LABELS = {"unet": (32, 32), "transformer": (64,)}
trainers = {}
def trainer(name, batch):
    shape, make = NETWORKS[name]
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=.0003)
    x = torch.rand(batch, *shape) if type(shape) is tuple else shape(batch)
    y = torch.randint(10, (batch, *LABELS.get(name, ())))
    def step():
        begin, used = time.perf_counter(), time.thread_time()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        return ((time.perf_counter() - begin) * 1e3,
                (time.thread_time() - used) * 1e3)
    for _ in range(5):
        step()
    return step
def predictor(name, batch):
    shape, make = NETWORKS[name]
    model = make().eval()
    x = torch.rand(batch, *shape)
    def step():
        begin, used = time.perf_counter(), time.thread_time()
        with torch.no_grad():
            model(x)
        return ((time.perf_counter() - begin) * 1e3,
                (time.thread_time() - used) * 1e3)
    return step
for line in sys.stdin:
    kind, name, batch, threads = line.split()
    torch.set_num_threads(int(threads))
    key = kind, name, batch
    if key not in trainers:
        make = trainer if kind == "train" else predictor
        trainers[key] = make(name, int(batch))
    step = trainers[key]
    for _ in range(3):
        step()
    print(*step(), flush=True)
"""


# Files of data, which it writes first, read by pandas and NumPy. Answers with
# milliseconds.
READERS = r"""
import gzip, json, sys, time
import numpy, pandas
def write(folder):
    random = numpy.random.RandomState(1)
    table = numpy.column_stack([random.rand(100000, 20),
                                numpy.arange(100000) % 10])
    names = [f"c{i}" for i in range(20)] + ["label"]
    numpy.savetxt(f"{folder}/table.csv", table, "%.6g", ",",
                  header=",".join(names), comments="")
    numpy.save(f"{folder}/images.npy",
               random.rand(60000, 784).astype(numpy.float32))
    pixels = random.randint(0, 256, (60000, 784)).astype(numpy.uint8)
    pixels[random.rand(60000, 784) < .5] = 0  # about as compressible as clothes
    with gzip.open(f"{folder}/images-idx3-ubyte.gz", "wb", 6) as file:
        file.write(numpy.array([0x803, 60000, 28, 28], ">u4").tobytes())
        file.write(pixels.tobytes())
    return {"csv": f"{folder}/table.csv", "npy": f"{folder}/images.npy",
            "idx": f"{folder}/images-idx3-ubyte.gz"}
def idx(path):
    return numpy.frombuffer(gzip.open(path).read(), numpy.uint8, -1, 16)
READ = {"csv": pandas.read_csv, "npy": numpy.load, "idx": idx}
for line in sys.stdin:
    words = line.split()
    if words[0] == "write":
        print(json.dumps(write(words[1])), flush=True)
        continue
    begin = time.perf_counter()
    READ[words[1]](words[2])
    print((time.perf_counter() - begin) * 1e3, flush=True)
"""

# A model of ONNX in ONNX Runtime; its folder has node_modules.
ONNX_RUNTIME = r"""
const path = require("path");
const ort = require(path.resolve(process.argv[1],
                                 "node_modules", "onnxruntime-node"));
const folder = process.argv[2];
const dims = JSON.parse(process.argv[3]);
const sessions = {};
async function answer(line) {
  const [, name, batch, threads] = line.split(" ");
  const key = name + " " + threads;
  sessions[key] ??= await ort.InferenceSession.create(
      path.join(folder, name + ".onnx"),
      {intraOpNumThreads: Number(threads), logSeverityLevel: 3});
  const shape = [Number(batch), ...dims[name]];
  const x = new ort.Tensor("float32", new Float32Array(
      shape.reduce((a, b) => a * b)).fill(0.5), shape);
  const given = {[sessions[key].inputNames[0]]: x};
  for (let i = 0; i < 3; ++i) await sessions[key].run(given);
  const begin = process.hrtime.bigint();
  await sessions[key].run(given);
  console.log(Number(process.hrtime.bigint() - begin) / 1e6);
}
let last = Promise.resolve();
require("readline").createInterface({input: process.stdin}).on(
    "line", (line) => { last = last.then(() => answer(line)); });
"""

# The exported C file of a model: predictions one after another.
C_MAIN = r"""
#include <stdio.h>
#include <time.h>
#include "NAME.h"
static float x[INPUTS], y[4096];
int main(void) {
  char line[256];
  while (fgets(line, sizeof line, stdin)) {
    int batch = 0;
    struct timespec a, b;
    if (sscanf(line, "%*s %*s %d", &batch) != 1) return 1;
    for (int i = 0; i < 3; ++i) model_predict(x, y);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < batch; ++i) model_predict(x, y);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.4f\n", (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) * 1e-6);
    fflush(stdout);
  }
  return 0;
}
"""


# A whole run as lenet5_json's.
TORCH_LENET5 = r"""
import gzip, sys, time
import numpy, torch
from torch import nn
folder, epochs, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
def read(name, header):
    data = gzip.open(f"{folder}/{name}-ubyte.gz").read()
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, -1, header)
                            .copy())
x = read("train-images-idx3", 16).view(-1, 1, 28, 28)
y = read("train-labels-idx1", 8).long()
model = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
    nn.Linear(84, 10))
for layer in model:  # as Keras
    if hasattr(layer, "weight"):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-7)
begin = time.perf_counter()
for _ in range(epochs):
    for part in torch.randperm(len(x)).split(128):
        optimizer.zero_grad()
        logits = model(x[part].float() / 255)
        nn.functional.cross_entropy(logits, y[part]).backward()
        optimizer.step()
seconds = time.perf_counter() - begin
x = read("t10k-images-idx3", 16).view(-1, 1, 28, 28).float() / 255
y = read("t10k-labels-idx1", 8).long()
with torch.no_grad():
    print(seconds, (model(x).argmax(1) == y).float().mean().item())
"""


class Contestant:
    """A process that answers one line with one line."""

    def __init__(self, *command, **variables):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, **variables))

    def ask(self, line):
        self.tell(line)
        return self.answer(line)

    def tell(self, line):
        time.sleep(.03)  # the one before may still spin on a core
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self, line):
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"bench: '{line}' got no answer")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def has_module(name):
    return subprocess.run(["/usr/bin/python3", "-c", f"import {name}"],
                          stderr=subprocess.DEVNULL).returncode == 0


def has_torch():
    return has_module("torch")
