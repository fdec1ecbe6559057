#!/usr/bin/python3
"""Known architectures load, train, and follow NumPy.

    architectures_test.py BUILD [--only NAME] [--keep DIR]

tests/architectures.json has them as rows that keras_writers.py explains, each
with where it comes "of". "inputs" are their shapes; "below" has, for an input of
whole numbers, their number; "padded" are inputs with steps of zeros, and
"targets" is the input that is also the target.
keras_writers.py makes of each the JSON of Keras 3, Keras 2 and TensorFlow.js,
where these have its layers.

Without noise, 12 steps of SGD must have the losses and weights of
keras_oracle.py in float64, within LIMIT. So must the outputs of the trained
model, exported to ONNX and computed by onnx_numpy.py. With noise, the three texts
must train to the same weights. An architecture with "lacks" is refused by the
name of this class.
With less than 5 RINGLET_TEST_SECONDS a third of them is run.
"""
import argparse
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zlib

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy as np
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(77)

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))
import differential  # noqa: E402
import keras_oracle  # noqa: E402
import keras_writers  # noqa: E402
import onnx_numpy  # noqa: E402

LIMIT = 1e-5
EXAMPLES, BATCH, EPOCHS = 28, 8, 3  # 12 steps; the last batch is short
NOISE = ("rate", "stddev", "dropout", "recurrent_dropout", "factor",
         "height_factor", "width_factor")
WRITERS = (keras_writers.Keras3(), keras_writers.Keras2(),
           keras_writers.TensorFlowJs())


def without_noise(value):
    """The text without its noise."""
    if isinstance(value, list):
        return [without_noise(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("class_name") == "RandomFlip":  # has no setting that is none
        return {**value, "class_name": "RandomRotation", "config": {
            "name": value["config"]["name"], "factor": 0.0}}
    return {key: 0.0 if key in NOISE else without_noise(each)
            for key, each in value.items()}


def object_of(entry):
    """A class by its name, or with a config."""
    if isinstance(entry, str):
        return {"class_name": entry, "config": {}}
    (kind, config), = entry.items()
    return {"class_name": kind, "config": config}


def rows(arrays):
    arrays = list(arrays)
    return keras_oracle.Rows(arrays) if len(arrays) > 1 else arrays[0]


class Architecture:
    def __init__(self, entry):
        self.entry, self.name = entry, entry["name"]
        self.graph = keras_writers.Graph(entry["layers"], entry["inputs"])
        tags = entry.get("outputs")
        if tags:
            self.graph.outputs = [self.graph.tags[tag] for tag in tags]
        self.rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        losses = entry["loss"]
        self.losses = [object_of(each) for each in
                       (losses if isinstance(losses, list) else [losses])]

    def texts(self):
        return {type(writer).__name__: writer.model(self.name, self.graph)
                for writer in WRITERS if writer.knows(self.graph)}

    def fill(self, oracle):
        """Draws weights and data."""
        rng, self.weights = self.rng, {}
        for path, layer, name in oracle.weights():
            dims = layer.shapes[name]
            if name in ("gamma", "moving_variance"):
                value = rng.uniform(0.5, 1.5, dims)
            elif name.endswith("kernel"):
                fans = np.prod(dims[:-2]) * sum(dims[-2:])
                value = rng.uniform(-1, 1, dims) * np.sqrt(6 / fans)
            else:
                value = rng.uniform(-0.2, 0.2, dims)
            self.weights[path] = value.astype("f4")
        below = self.entry.get("below", {})
        self.xs = {tag: rng.integers(0, below[tag], (EXAMPLES, *shape)).astype("f4")
                   if tag in below else
                   rng.standard_normal((EXAMPLES, *shape)).astype("f4")
                   for tag, shape in self.entry["inputs"].items()}
        for tag in self.entry.get("padded", []):  # not only at the end
            self.xs[tag][rng.random(self.xs[tag].shape[:2]) < 0.3] = 0
        if "targets" in self.entry:
            self.ys = [self.xs[self.entry["targets"]]]
        else:
            self.ys = [self.target(loss, head.output_shape)
                       for loss, head in zip(self.losses, oracle.heads)]

    def target(self, loss, shape):
        kind, rng = loss["class_name"], self.rng
        if kind.startswith("Sparse"):
            return rng.integers(0, shape[-1], (EXAMPLES, *shape[:-1])).astype("i4")
        if kind.startswith("Categorical"):
            rows = rng.integers(0, shape[-1], (EXAMPLES, *shape[:-1]))
            return np.eye(shape[-1])[rows].astype("f4")
        if kind.startswith("Binary"):
            return rng.integers(0, 2, (EXAMPLES, *shape)).astype("f4")
        return rng.standard_normal((EXAMPLES, *shape)).astype("f4")

    def run(self, model):
        several = len(self.losses) > 1
        xs = [f"x_{tag}.npy" for tag in self.xs]
        ys = [f"y_{i}.npy" for i in range(len(self.ys))]
        return {"model": model, "compile": {
            "optimizer": {"class_name": "SGD", "config": {"learning_rate": 0.05}},
            "loss": self.losses if several else self.losses[0]},
                "data": {"train": {"x": xs if len(xs) > 1 else xs[0],
                                   "y": ys if several else ys[0]}},
                "fit": {"batch_size": BATCH, "epochs": EPOCHS, "verbose": 0,
                        "shuffle": True, "seed": 3}}

    def oracle(self, model):
        run = copy.deepcopy(self.run(model))
        data = (rows(self.xs.values()), rows(self.ys), np.ones(EXAMPLES))
        return keras_oracle.Fit(run, 1, data, None, self.weights).results()

    def write(self, folder):
        for tag, x in self.xs.items():
            np.save(folder / f"x_{tag}.npy", x)
        for i, y in enumerate(self.ys):
            np.save(folder / f"y_{i}.npy", y)
        differential.write_safetensors(folder / "init.safetensors", self.weights)


def train(program, folder, run):
    (folder / "run.json").write_text(json.dumps(run))
    return call(folder, program, "train", "--init", "init.safetensors", "--save",
                "out.safetensors", "--log-steps", "steps.csv", "run.json")


def call(folder, *command):
    """Returns the text of an error, or ""."""
    ran = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, timeout=300,
                         stderr=subprocess.PIPE, text=True)
    return "" if ran.returncode == 0 else (
        f"exit code {ran.returncode}: "
        f"{ran.stderr[ran.stderr.find('error:'):][:300].strip()}")


def weights_of(folder):
    return {name.removeprefix("model/"): value for name, value in
            differential.read_safetensors(folder / "out.safetensors").items()
            if name.startswith("model/")}


def compare(folder, expected):
    """What is further from NumPy than LIMIT, and the greatest difference."""
    steps = differential.rows_of(folder / "steps.csv")
    pairs = [("loss", np.array([float(row["loss"]) for row in steps]),
              expected["steps"][:, 0])]
    got = weights_of(folder)
    for name, value in expected.items():
        if name.startswith("weights/"):
            path = name.removeprefix("weights/")
            pairs.append((path, got.get(path, np.array([])), value))
    worst = 0.0
    for name, own, exact in pairs:
        if own.shape != exact.shape:
            return f"{name}: {own.shape} instead of {exact.shape}", worst
        error = np.abs(own - exact) / np.maximum(1, np.abs(exact))
        worst = max(worst, float(error.max(initial=0)))
        if not error.max(initial=0) <= LIMIT:
            return f"{name}: off by {error.max():.2g}", worst
    return "", worst


def export(program, architecture, model, folder):
    """What is wrong with the trained model as an ONNX file, or ""."""
    problem = call(folder, program, "export", "out.safetensors", "-o", "m.onnx")
    if problem:
        return problem
    oracle, weights = keras_oracle.Model(model), weights_of(folder)
    for path, layer, name in oracle.weights():
        layer.weights[name] = weights[path].astype(float)
    xs = list(architecture.xs.values())
    exact = oracle.forward(rows(x.astype(float) for x in xs))
    exact = exact.arrays if isinstance(exact, keras_oracle.Rows) else [exact]
    for got, y in zip(onnx_numpy.Model(folder / "m.onnx")(*xs), exact):
        error = np.abs(got - y).max() / max(1, np.abs(y).max())
        if not error <= LIMIT:
            return f"ONNX: off by {error:.2g}"
    return ""


def check(program, entry, folder):
    """(what is wrong or "", the greatest difference, the writers)."""
    if "lacks" in entry:
        return check_refusal(program, entry, folder), 0.0, []
    architecture = Architecture(entry)
    texts = architecture.texts()
    model = without_noise(texts["Keras3"])
    architecture.fill(keras_oracle.Model(model))
    architecture.write(folder)
    problem = train(program, folder, architecture.run(model))
    if problem:
        return problem, 0.0, []
    wrong, worst = compare(folder, architecture.oracle(model))
    wrong = wrong or export(program, architecture, model, folder)
    if wrong:
        return wrong, worst, []
    first = None
    for writer, text in texts.items():
        problem = train(program, folder, architecture.run(text))
        if problem:
            return f"{writer}: {problem}", worst, []
        trained = weights_of(folder)
        first = first or trained
        if any(not np.array_equal(trained[path], value)
               for path, value in first.items()):
            return f"{writer}: trains to other weights than Keras3", worst, []
    return "", worst, list(texts)


def check_refusal(program, entry, folder):
    """The JSON of a layer that ringlet lacks must give an error with its name."""
    model = keras_writers.lone_layer(entry)
    run = {"model": model, "compile": {"optimizer": "SGD", "loss": "mse"},
           "data": {"train": {"x": "x.npy", "y": "y.npy"}}}
    problem = train(program, folder, run)
    return "" if "exit code 2" in problem and entry["lacks"] in problem else (
        f"is not refused by the name {entry['lacks']}: {problem}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only")
    parser.add_argument("--keep")
    options = parser.parse_args()
    program = pathlib.Path(options.build).resolve() / "tools/ringlet/ringlet"
    entries = json.loads((TESTS / "architectures.json").read_text())
    if options.only:
        entries = [each for each in entries if each["name"] == options.only]
    elif float(os.environ.get("RINGLET_TEST_SECONDS", "5")) < 5:
        entries = entries[::3]
    failed = trained = texts = refused = 0
    furthest = 0.0
    for entry in entries:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ringlet-architecture-"))
        try:
            wrong, worst, writers = check(program, entry, folder)
            if options.keep:
                shutil.copytree(folder, options.keep, dirs_exist_ok=True)
        finally:
            shutil.rmtree(folder)
        if wrong:
            failed += 1
            print(f"{entry['name']}: {wrong}", flush=True)
        refused += "lacks" in entry
        trained += "lacks" not in entry and not wrong
        texts += len(writers)
        furthest = max(furthest, worst)
    print(f"{trained} architectures train as in NumPy, at most {furthest:.1g} "
          f"from it, of {texts} texts; {refused} lack a layer; {failed} failed")
    sys.exit(1 if failed or not entries else 0)


if __name__ == "__main__":
    main()
