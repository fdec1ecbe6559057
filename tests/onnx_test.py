#!/usr/bin/python3
"""Random models as ONNX files: other programs compute what `ringlet predict` does.

    onnx_test.py BUILD [--count N] [--seed S] [--case I] [--keep DIR]

`ringlet export` writes each model. onnx_numpy.py computes it in float64 on two
examples. So do, if they are installed, OpenCV's dnn module (python3-opencv) and
ONNX Runtime: RINGLET_ONNXRUNTIME names a folder where
`npm install --ignore-scripts onnxruntime-node` was run. onnx.checker
(python3-onnx) only checks the file. Case I of seed S is the same on every
machine.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
try:
    import numpy as np
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import differential  # noqa: E402
import keras_oracle  # noqa: E402
import masked_models  # noqa: E402
import random_cases  # noqa: E402
import onnx_numpy  # noqa: E402
from differential import pick  # noqa: E402
from made_runs import layer, sequential  # noqa: E402

try:
    import onnx
    import onnx.checker
except ImportError:
    onnx = None
try:
    import cv2
except ImportError:
    cv2 = None

NUMPY, RUNTIME, OPENCV = 1e-5, 1e-5, 1e-4  # of the largest number
MOST = 4000  # numbers in an output of a layer
# OpenCV's importer is for images and rows of numbers, and version 4.6 lacks
# these.
NOT_IN_OPENCV = {"Clip", "ReduceMean", "PRelu", "Where"}
# Messages for weights that the file lacks: a BatchNormalization of rows is one
# factor there, and a shared layer's weights may be in two orders.
UNREAD = ("moving_variance", "in an order that PyTorch may not have",
          "in the file only", "orders in another way",
          "one more input, for a mask")


# --- models -------------------------------------------------------------------

def grow(b, x, rng):
    """Adds one or several layers."""
    shape = b.shapes[x]
    image = len(shape) in (2, 3)
    what = rng.random()
    if b.functional and what < 0.2:
        return differential.add_branches(b, x, True)
    if b.functional and what < 0.3:
        return differential.add_twins(b, x)
    if image and what < 0.6:
        return differential.add_convolution(b, x, rng)
    if image and what < 0.75 and math.prod(shape) < MOST:
        return differential.add_moved(b, x, rng)
    if what < 0.85:
        return differential.add_simple(b, x, True)
    if image and what < 0.9:
        kind = pick(rng, "GlobalMaxPooling", "GlobalAveragePooling")
        return b.add(f"{kind}{len(shape) - 1}D", {"keepdims": True}, [x])
    if 0.94 < what < 0.97:
        shared = [k for k in range(1, len(shape) + 1) if rng.random() < 0.6]
        return b.add("PReLU", {"shared_axes": shared or None}, [x])
    if 0.97 < what and len(shape) > 1:
        first = int(rng.integers(1, len(shape) + 1))
        last = int(rng.integers(first, len(shape) + 1))
        axes = list(range(first, last + 1))
        return b.add("Softmax", {"axis": axes[0] if first == last else axes}, [x])
    if what < 0.94 and len(shape) > 1:
        return b.add("Flatten", {}, [x])
    return b.add("Dense", differential.weighted(
        rng, {"units": int(rng.integers(1, 17))}), [x])


def random_model(rng):
    axes = int(pick(rng, 0, 1, 1, 2, 2, 2))
    shape = [int(n) for n in rng.integers(1, 14, axes)]
    b = differential.Builder(rng, rng.random() < 0.6,
                             [*shape, int(rng.integers(1, 8))], rng)
    x = b.input
    for _ in range(rng.integers(1, 13)):
        x = grow(b, x, rng)
    if len(b.shapes[x]) > 1 and rng.random() < 0.5:
        x = b.add("Flatten", {}, [x])
        x = b.add("Dense", {"units": 5}, [x])
    if x == b.input or "#" in x or b.layers[-1]["config"]["name"] != x:
        b.add("Activation", {"activation": "tanh"}, [x])
    return b.json()


class Case:
    """Model `number` of `seed`, from these alone."""

    def __init__(self, seed, number, model=None):
        rng = np.random.default_rng([seed, number, 17])
        if model:
            self.model = model
        elif number % 4 == 0:
            self.model = differential.Case(seed, number).run["model"]
        elif number % 16 == 11:
            self.model = differential.resized_model(rng)
        elif number % 8 == 1:
            make = (masked_models.dot_model if number % 32 == 17 else
                    masked_models.masked_model)
            self.model = make(rng)
        elif number % 32 == 19:
            self.model = differential.stateful_model(rng)
        elif number % 8 in (5, 6) or number % 32 == 3:
            made = (differential.states_model if number % 32 == 3 else
                    differential.sequence_model if number % 8 == 5 else
                    differential.late_model if number % 16 == 6 else
                    differential.newest_model)
            self.model = made(
                rng, {"class_name": "MeanSquaredError", "config": {}}, 3)
        else:
            self.model = random_model(rng)
            differential.normalize(rng, self.model)
            differential.vary_layers(rng, self.model)
        differential.drop_refused_masks(self.model)
        oracle = keras_oracle.Model(self.model)
        self.shape = oracle.input_shape
        self.ranks = {len(self.shape), *map(len, oracle.shapes.values())}
        # True if inputs of one layer differ in shape.
        self.broadcasts = any(
            isinstance(layer, keras_oracle.Merge) and
            len({oracle.shapes[each] for each in inputs}) > 1
            for layer, inputs in zip(oracle.layers, oracle.inputs))
        # The file has no scale of an Attention, a PositionEmbedding's rows only
        # for the steps, and another input of an LSTM that keeps its carry under a mask.
        self.lacks = any(isinstance(layer, keras_oracle.PositionEmbedding)
                         or "scale" in layer.shapes for layer in oracle.layers
                         ) or '"return_state": true' in json.dumps(self.model)
        self.weights = {}
        for path, layer, name in oracle.weights():
            dims = layer.shapes[name]
            low, high = -0.3, 0.3
            if name in ("gamma", "moving_variance"):
                low, high = 0.5, 1.5
            elif name.endswith("kernel"):
                high = math.sqrt(3 / max(1, math.prod(dims[:-1])))
                low = -high
            self.weights[path] = rng.uniform(low, high, dims).astype("f4")
        rows = differential.rows_of_embedding(self.model)
        self.x = (rng.integers(0, rows, (2, *self.shape)) if rows else
                  rng.standard_normal((2, *self.shape))).astype("f4")
        masked_models.hide_steps(rng, self.model, self.x)
        # The examples of the further inputs.
        self.more = {name: rng.standard_normal((2, *oracle.shapes[name])).astype(
            "f4") for name in oracle.input_names[1:]}
        # The test's own sums of squares may not hide a difference: numbers of
        # all magnitudes are compared with the largest.
        self.command = f"tests/onnx_test.py BUILD --seed {seed} --case {number}"

    def layers(self, layers=None):
        for layer in layers or self.model["config"]["layers"]:
            yield layer
            if "layers" in layer["config"]:
                yield from self.layers(layer["config"]["layers"])

    def ends(self):
        """Keras's names of the inputs and the outputs."""
        config = self.model["config"]
        layers = config["layers"]
        outputs = config.get("output_layers",
                             [[layers[-1]["config"]["name"], 0, 0]])
        several = {each["config"]["name"] for each in layers
                   if each["config"].get("return_state")}
        return (layers[0]["config"]["name"], *self.more,
                *[name + (f"_output_{tensor}" if name in several else "")
                  for name, _, tensor in outputs])

    def ports(self):
        """How many inputs, and outputs."""
        inputs = 1 + len(self.more)
        return inputs, len(self.ends()) - inputs

    def write(self, folder):
        files = ["x.npy", *(f"x{i}.npy" for i in range(len(self.more)))]
        (folder / "run.json").write_text(json.dumps({
            "model": self.model, "compile": {"optimizer": "sgd", "loss": "mse"},
            "data": {"train": {"x": files if self.more else "x.npy", "y": "x.npy"}},
            "fit": {}}))
        differential.write_safetensors(folder / "w.safetensors", self.weights)
        xs = [self.x, *self.more.values()]
        for name, x in zip(files, xs):
            np.save(folder / name, x)
        (folder / "x.raw").write_bytes(
            b"".join(x.astype("<f4").tobytes() for x in xs))


def run(folder, *command):
    ran = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True)
    if ran.returncode != 0:
        raise AssertionError(" ".join(map(str, command)) + ": " + ran.stdout)


def differs(got, y, limit, rounding):
    """Returns the difference, or None. `rounding`: the error of y."""
    if got.shape != y.shape:
        return f"shape {got.shape} instead of {y.shape}"
    error = np.abs(got - y).max()
    allowed = limit * max(1, np.abs(y).max()) + 4 * rounding
    return None if error <= allowed else f"{error:.3g} off, {allowed:.3g} allowed"


def of_opencv(case, model, path, x):
    """None where its importer has not what it takes."""
    if case.broadcasts or not case.ranks <= {1, 3} or (
            set(model.operators()) & NOT_IN_OPENCV):
        return None
    net = cv2.dnn.readNetFromONNX(str(path))
    net.enableFusion(False)  # which loses a layer of one model in 300
    rows = []
    for row in x:  # one at a time: it has no open batch
        net.setInput(row[None])
        rows.append(net.forward())
    return np.concatenate(rows)


class Checker:
    def __init__(self, build, seed):
        self.program = pathlib.Path(build).resolve() / "tools/ringlet/ringlet"
        self.seed = seed
        self.seen = collections.Counter()
        self.kinds = collections.Counter()
        self.runtime = []  # what ONNX Runtime is to compute
        self.failed = 0

    def wrong(self, case, what):
        self.failed += 1
        kinds = [each["class_name"] for each in case.layers()]
        print(f"{what}\n  {' '.join(kinds)}\n  again: {case.command}",
              flush=True)

    def check(self, number, folder):
        case = Case(self.seed, number)
        case.write(folder)
        model_of = ("run.json", "--init", "w.safetensors")
        try:
            run(folder, self.program, "export", *model_of, "-o", "m.onnx")
            run(folder, self.program, "predict", *model_of, "--data",
                "run.json", "--part", "train", "-o", "y.npz")
        except AssertionError as error:
            return self.wrong(case, str(error))
        self.kinds.update(each["class_name"] for each in case.layers())
        self.come_back(case, folder)
        with np.load(folder / "y.npz") as arrays:
            ys = [arrays[name] for name in arrays]
        path = folder / "m.onnx"
        model = onnx_numpy.Model(path)
        ends = [name for name, _ in (*model.inputs, *model.outputs)]
        if tuple(ends) != case.ends():
            self.wrong(case, f"names {ends} instead of {case.ends()}")
        if model.inputs[0][1] != ["batch", *case.shape]:
            self.wrong(case, f"input {model.inputs[0][1]}")
        if (model.ir_version, model.opset) != (7, 13):
            self.wrong(case, f"IR {model.ir_version}, opset {model.opset}")
        with np.errstate(all="ignore"):
            exacts = model(case.x, *case.more.values())
        if not all(np.isfinite(y).all() for y in ys) or any(
                np.abs(exact).max() > 1e6 for exact in exacts):
            self.seen["overflow"] += 1
            return None
        for exact, y in zip(exacts, ys):
            problem = differs(exact, y, NUMPY, 0)
            if problem:
                self.wrong(case, "NumPy: " + problem)
        self.seen["NumPy"] += 1
        rounding = max(np.abs(exact - y).max() for exact, y in zip(exacts, ys))
        self.elsewhere(case, model, path, ys, rounding)
        self.runtime.append((case, folder, ys, rounding))
        return None

    def come_back(self, case, folder):
        """The file's weights are the model's, to the bit, or are refused."""
        ran = subprocess.run(
            [self.program, "export", "run.json", "--init", "m.onnx", "-o",
             "again.onnx"], cwd=folder, stderr=subprocess.PIPE, text=True)
        if ran.returncode == 0:
            self.seen["its own reader"] += 1
            if ((folder / "again.onnx").read_bytes() !=
                    (folder / "m.onnx").read_bytes()):
                self.wrong(case, "its own reader takes other weights")
        elif case.weights and not any(
                why in ran.stderr for why in
                (*UNREAD, *["missing in the file", "differing"] * case.lacks)):
            self.wrong(case, "its own reader: " + ran.stderr)

    def elsewhere(self, case, model, path, ys, rounding):
        if onnx:
            try:
                onnx.checker.check_model(str(path), full_check=True)
                self.seen["onnx.checker"] += 1
            except Exception as error:  # of several kinds
                self.wrong(case, f"onnx.checker: {error}")
        if cv2 and case.ports() == (1, 1):
            y = ys[0]
            try:
                got = of_opencv(case, model, path, case.x)
                problem = None if got is None else differs(
                    got.reshape(y.shape), y, OPENCV, rounding)
                self.seen["OpenCV"] += got is not None
            except (cv2.error, ValueError) as error:
                problem = str(error)
            if problem:
                self.wrong(case, "OpenCV: " + problem)

    def run_runtime(self, folder):
        jobs = "".join(json.dumps({
            "model": str(where / "m.onnx"), "x": str(where / "x.raw"),
            "y": str(where / "y.raw"), "dims": [
                list(x.shape) for x in (case.x, *case.more.values())]}) + "\n"
            for case, where, _, _ in self.runtime)
        script = pathlib.Path(__file__).resolve().parent / "onnx_runtime.js"
        subprocess.run(["node", script, folder], input=jobs, text=True,
                       check=True)
        for case, where, ys, rounding in self.runtime:
            y = np.concatenate([each.reshape(-1) for each in ys])
            error = where / "y.raw.error"
            if error.exists():
                self.wrong(case, "ONNX Runtime: " + error.read_text())
                continue
            got = np.fromfile(where / "y.raw", "<f4")
            problem = ("another number of them" if got.size != y.size else
                       differs(got.reshape(y.shape), y, RUNTIME, rounding))
            if problem:
                self.wrong(case, "ONNX Runtime: " + problem)
            self.seen["ONNX Runtime"] += 1


def long_padding(checker, folder):
    """The states of masked steps at the end would grow beyond any number."""
    steps = 1100
    doubling = layer("SimpleRNN", units=1, activation="relu", use_bias=False,
                     kernel_initializer="ones",
                     recurrent_initializer=layer("Constant", value=2.0))
    model = sequential(layer("InputLayer", batch_shape=[None, steps, 1]),
                       layer("Masking"), doubling)
    run = {"model": model,
           "compile": {"optimizer": layer("SGD", learning_rate=0.0),
                       "loss": "mse"},
           "data": {"train": {"x": "x.npy", "y": "y.npy"}},
           "fit": {"epochs": 1, "verbose": 0}}
    x = np.zeros((2, steps, 1), np.float32)
    x[0, 0] = x[1, 0] = x[1, 5] = 1
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", np.zeros((2, 1), np.float32))
    (folder / "run.json").write_text(json.dumps(run))
    for command in (["train", "run.json", "--save", "m.safetensors"],
                    ["export", "m.safetensors", "-o", "m.onnx"]):
        subprocess.run([checker.program, *command], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
    with np.errstate(all="ignore"):
        y = onnx_numpy.Model(folder / "m.onnx")(x)[0]
    if y.reshape(-1).tolist() != [1, 3]:
        print(f"long padding: {y.tolist()}")
        checker.failed += 1


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    random_cases.add_arguments(parser)
    return parser


def numbers_of(options, share):
    return (number for _, number in random_cases.cases(options, share))


def main():
    parser = arguments()
    parser.add_argument("--keep")
    options = parser.parse_args()
    checker = Checker(options.build, options.seed)
    root = pathlib.Path(tempfile.mkdtemp(prefix="ringlet-onnx-"))
    try:
        long_padding(checker, root)
        for number in numbers_of(options, 2):
            folder = root / str(number)
            folder.mkdir()
            checker.check(number, folder)
        runtime = os.environ.get("RINGLET_ONNXRUNTIME")
        if runtime:
            checker.run_runtime(runtime)
        if options.keep:
            shutil.copytree(root, options.keep, dirs_exist_ok=True)
    finally:
        shutil.rmtree(root)
    print(", ".join(f"{kind} {count}" for kind, count in
                    sorted(checker.kinds.items())))
    print(", ".join(f"{count} by {what}" for what, count in
                    checker.seen.items()) + f"; {checker.failed} wrong")
    sys.exit(1 if checker.failed or not checker.seen["NumPy"] else 0)


if __name__ == "__main__":
    main()
