#!/usr/bin/python3
"""C files that train have the bits of `ringlet train` on a Cortex-M.

    boards.py BUILD [--count N] [--seed S] [--case I] [--keep DIR]
    boards.py BUILD --samples

Random models are trained in steps of random sizes by `ringlet train`, by the C
file on this machine, and by the same file on qemu's boards: a Cortex-M4F, a
Cortex-M3, and the code for a Cortex-M0+ on the M4. The saved states and the
losses must be equal. samples/board/ has the boards' start file. Case I of seed S
is the same on every machine.

With --samples the commands of samples/board/README.md are run. The programs must
learn what it says within the RAM that it says, also on the emulated M4F where the
tools are there.
"""
import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import random_cases  # noqa: E402
from docs_test import blocks  # noqa: E402
from made_runs import ENVIRONMENT, SOURCE, layer, sequential  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(77)

BOARD = SOURCE / "samples/board"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror", "-O2"]
ARM = ["arm-none-eabi-gcc", "-mthumb", *STRICT, "--specs=rdimon.specs", "-nostartfiles",
       "-T", BOARD / "board.ld", BOARD / "start.c"]
CPUS = {"Cortex-M4F": (["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"],
                       "mps2-an386"),
        "Cortex-M3": (["-mcpu=cortex-m3"], "mps2-an385"),
        "Cortex-M0+": (["-mcpu=cortex-m0plus"], "mps2-an386")}
QEMU = ["qemu-system-arm", "-nographic", "-monitor", "none", "-serial", "none",
        "-semihosting-config", "enable=on,target=native"]
# Reads examples, trains on them for some epochs, and writes losses and state.
MAIN = r"""
#include <stdio.h>
#include "model.h"
static float x[MODEL_IN];
static %(number)s y[MODEL_TARGETS];
static unsigned char state[MODEL_STATE];
int main(void) {
  FILE *data = fopen("examples", "rb"), *to = fopen("result", "wb");
  int epoch, i;
  if (!data || !to) return 1;
  for (epoch = 0; epoch < %(epochs)d; ++epoch) {
    rewind(data);
    for (i = 0; i < %(examples)d; ++i) {
      float loss;
      if (i %% MODEL_BATCH == 0) {
        const int left = %(examples)d - i;
        if (model_begin(left < MODEL_BATCH ? left : MODEL_BATCH)) return 2;
      }
      if (fread(x, sizeof x, 1, data) != 1) return 3;
      if (fread(y, sizeof y, 1, data) != 1) return 4;
      if (model_train(x, y, &loss)) return 5;
      if (fwrite(&loss, sizeof loss, 1, to) != 1) return 6;
    }
  }
  model_save(state);
  if (fwrite(state, sizeof state, 1, to) != 1) return 7;
  return fclose(to) == 0 ? 0 : 8;
}
"""

# The samples, their RAM, and the least numbers that they print, in their order.
SAMPLES = {"keyword": ("64K", [0, 108]), "machine": ("32K", [0, 0, 115, 0]),
           "gesture": ("64K", [0, 105])}


def pick(rng, *values):
    return values[int(rng.integers(len(values)))]


def activation(rng):
    return pick(rng, "linear", "relu", "sigmoid", "tanh", "relu6", "leaky_relu", "elu")


def body(rng):
    """The shape of the input, and layers up to a row of numbers."""
    kind = rng.integers(3)
    if kind == 0:
        return [int(rng.integers(3, 40))], []
    axes = int(kind)
    filters = 2 * int(rng.integers(1, 6))
    layers = [
        layer(f"Conv{axes}D", filters=filters, kernel_size=3, activation=activation(rng),
              padding=pick(rng, "same", "valid"), strides=pick(rng, 1, 2)),
        layer(f"DepthwiseConv{axes}D", kernel_size=3, padding="same"),
        layer(f"{pick(rng, 'Max', 'Average')}Pooling{axes}D", pool_size=2),
        layer("BatchNormalization", trainable=False)]
    layers = [each for each in layers if rng.random() < 0.7]
    layers.append(layer(pick(rng, "Flatten", f"GlobalAveragePooling{axes}D")))
    return ([int(rng.integers(8, 20)), 3] if axes == 1 else [9, 8, 2]), layers


class Case:
    """Model `number` of `seed`, its examples, and its training."""

    def __init__(self, seed, number):
        rng = np.random.default_rng([seed, number, 43])
        shape, layers = body(rng)
        layers += [layer("Dense", units=int(rng.integers(2, 150)), activation=activation(rng),
                         lora_rank=pick(rng, None, None, 3))
                   for _ in range(rng.integers(3))]
        outputs = int(rng.integers(2, 12))
        loss, end, targets = pick(
            rng, ("SparseCategoricalCrossentropy", "softmax", "classes"),
            ("CategoricalCrossentropy", "softmax", "one_hot"),
            ("BinaryCrossentropy", "sigmoid", "bits"),
            ("MeanSquaredError", activation(rng), "numbers"))
        layers.append(layer("Dense", units=outputs, activation=end))
        trains = [each for each in layers if "Dense" in each["class_name"]
                  or "Conv" in each["class_name"]]
        frozen = int(rng.integers(len(trains))) if rng.random() < 0.5 else 0
        for each in trains[:frozen]:
            each["config"]["trainable"] = False
        for i, each in enumerate(layers):
            each["config"]["name"] = f"layer{i}"
        self.trained = ",".join(each["config"]["name"] for each in trains[frozen:])
        self.batch = pick(rng, 1, 4, 7, 32)
        self.examples = int(rng.integers(self.batch, 3 * self.batch + 2))
        self.epochs = 2
        self.x = rng.integers(-2000, 2000, (self.examples, *shape)).astype("f4") / 1000
        self.y = {
            "classes": lambda: rng.integers(0, outputs, self.examples).astype("i4"),
            "one_hot": lambda: np.eye(outputs, dtype="f4")[
                rng.integers(0, outputs, self.examples)],
            "bits": lambda: rng.integers(0, 2, (self.examples, outputs)).astype("f4"),
            "numbers": lambda: rng.integers(-9, 9, (self.examples, outputs)).astype(
                "f4") / 8}[targets]()
        optimizer = pick(
            rng, layer("SGD", learning_rate=0.05),
            layer("SGD", learning_rate=0.05, momentum=0.9, nesterov=pick(rng, False, True)),
            layer("Adam", learning_rate=0.01, amsgrad=pick(rng, False, True)),
            layer("AdamW", learning_rate=0.01, weight_decay=0.1))
        self.run = {
            "model": sequential(layer("InputLayer", batch_shape=[None, *shape]), *layers),
            "compile": {"optimizer": optimizer, "loss": loss},
            "data": {"train": {"x": "x.npy", "y": "y.npy"}},
            "fit": {"batch_size": self.batch, "epochs": self.epochs, "shuffle": False}}

    def __str__(self):
        names = [each["class_name"] for each in self.run["model"]["config"]["layers"]]
        return (f"{' '.join(names)}; {self.run['compile']['loss']}, "
                f"{self.run['compile']['optimizer']['class_name']}, batch {self.batch}, "
                f"{self.examples} examples, trained {self.trained}")

    def write(self, folder):
        np.save(folder / "x.npy", self.x)
        np.save(folder / "y.npy", self.y)
        rows = [part.reshape(self.examples, -1).view("u1") for part in (self.x, self.y)]
        (folder / "examples").write_bytes(np.concatenate(rows, axis=1).tobytes())
        (folder / "run.json").write_text(json.dumps(self.run))
        (folder / "main.c").write_text(MAIN % {
            "number": "int" if self.y.dtype == "i4" else "float",
            "epochs": self.epochs, "examples": self.examples})


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, timeout=600,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout[-2000:]}"
    return done.stdout


def tensors_of(data):
    """{name: bytes} of a safetensors file's weights and optimizer."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]]
            for name, t in header.items() if name.startswith(("model/", "optimizer/"))}


def check(program, case, folder):
    """Raises an AssertionError that says what differs."""
    case.write(folder)
    run(folder, program, "train", "run.json", "--epochs", "1", "--save", "begin")
    run(folder, program, "export", "begin", "--train", case.trained, "--batch",
        str(case.batch), "-o", "model.c")
    run(folder, program, "train", "run.json", "--init", "begin", "--threads", "1",
        "--save", "end")
    expected = tensors_of((folder / "end").read_bytes())
    sources = ["model.c", "main.c", "-o", "program"]
    results = {}
    for cpu, (flags, machine) in {"this machine": ([], None), **CPUS}.items():
        (folder / "result").unlink(missing_ok=True)
        if machine is None:
            run(folder, "gcc", *STRICT, *sources)
            run(folder, folder / "program")
        else:
            run(folder, *ARM, *flags, *sources)
            run(folder, *QEMU, "-M", machine, "-kernel", "program")
        results[cpu] = (folder / "result").read_bytes()
    result = results.pop("this machine")
    for cpu, other in results.items():
        assert other == result, f"{cpu} has another state or loss than this machine"
    state = tensors_of(result[4 * case.examples * case.epochs:])
    for name, numbers in state.items():
        assert numbers == expected[name], f"{name} differs from that of `ringlet train`"
    assert any(name.startswith("model/") for name in state)


def has_board_tools():
    return all(map(shutil.which, (ARM[0], QEMU[0])))


def check_samples(program, folder):
    """Raises an AssertionError that says which sample does what."""
    for name in BOARD.iterdir():
        shutil.copy(name, folder)
    script = "\n".join(text for info, text, _ in blocks(BOARD / "README.md") if info == "sh")
    script = script.replace("mkdir -p board\ncd board\ncp ../samples/board/* .\n", "")
    run(folder, "bash", "-ec", f"PATH={program.parent}:$PATH\n{script}")
    for name, (ram, least) in SAMPLES.items():
        (folder / f"{name}.state").unlink(missing_ok=True)
        printed = run(folder, folder / name)
        print(printed, end="")
        counts = [int(each) for each in re.findall(r"(\d+) of", printed)]
        assert len(counts) == len(least), printed
        assert all(map(int.__ge__, counts, least)), printed
        comment = (folder / f"{name}_model.c").read_text()
        bytes_needed = int(re.search(r"RAM: +(\d+) bytes", comment)[1])
        assert bytes_needed <= 1024 * int(ram[:-1]), f"{name}: {bytes_needed} bytes of RAM"
        if not has_board_tools():
            continue
        (folder / f"{name}.state").unlink(missing_ok=True)
        flags, machine = CPUS["Cortex-M4F"]
        run(folder, *ARM, *flags, f"-Wl,--defsym=RAM={ram}", f"{name}_model.c",
            f"{name}.c", "-o", "program")
        size = run(folder, "arm-none-eabi-size", "program").split("\n")[1].split()
        print(f"{name}: {ram} of RAM; code and constants {size[0]}, RAM by size "
              f"{int(size[1]) + int(size[2])} bytes, by the comment {bytes_needed}")
        on_board = run(folder, *QEMU, "-M", machine, "-kernel", "program")
        assert on_board == printed, f"{name} prints on the board: {on_board}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    random_cases.add_arguments(parser)
    parser.add_argument("--keep", help="keeps the files of failed cases here")
    parser.add_argument("--samples", action="store_true")
    options = parser.parse_args()
    program = pathlib.Path(options.build).resolve() / "tools/ringlet/ringlet"
    if not shutil.which("gcc") or not (options.samples or has_board_tools()):
        print(f"skipped: needs gcc, {ARM[0]} and {QEMU[0]}; see tools/deps.sh boards")
        sys.exit(77)
    if options.samples:
        with tempfile.TemporaryDirectory(prefix="ringlet-board-") as folder:
            return check_samples(program, pathlib.Path(folder))
    passed = failed = 0
    for seed, number in random_cases.cases(options, 4):
        case = Case(seed, number)
        with tempfile.TemporaryDirectory(prefix="ringlet-board-") as folder:
            try:
                check(program, case, pathlib.Path(folder))
                passed += 1
            except AssertionError as error:
                failed += 1
                print(f"case {number} of seed {seed}: {error}\n  {case}", flush=True)
                if options.keep:
                    shutil.copytree(folder, f"{options.keep}/{number}", dirs_exist_ok=True)
    print(f"{passed} of {passed + failed} models have the trainer's bits on "
          f"{', '.join(CPUS)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
