#!/usr/bin/env python3
"""docs/reference.md agrees with the code and with the program.

The page is compared with the output of tools/reference/write.py. Then this file
reads it again. It gives the program every field of every class and part:
- with its default: the trained model must be that of a run without the field;
- at its bounds and beyond them, and with each of its choices;
- with null, and with values of other kinds.
The program must refuse fields of other classes, and names that the page lists as
missing. RINGLET_BUILD names the folder of the build.
"""
import concurrent.futures
import copy
import itertools
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import wave

from data_fields import OF_PICTURES, OF_SOUND_ALONE, OF_WINDOWS
from made_runs import PROGRAM, SOURCE, layer

BUILD = pathlib.Path(os.environ["RINGLET_BUILD"]).resolve()
PAGE = SOURCE / "docs/reference.md"
SEED = int(os.environ.get("RINGLET_SEED", "1"))

# Values of fields that have neither a default nor bounds.
EXAMPLES = {
    "units": 3, "filters": 2, "kernel_size": 2, "target_shape": [2, 8],
    "batch_shape": [None, 4, 4], "rate": 0.5, "stddev": 0.5, "activation": "relu",
    "initial_learning_rate": 0.25, "decay_steps": 2, "decay_rate": 0.5,
    "first_decay_steps": 2,
    "boundaries": [1], "values": [0.5, 0.25], "filepath": "m.safetensors",
    "filename": "log.csv", "backup_dir": "backup",
    "key_file": "job.key", "average": "macro",
    "num_classes": 2, "dims": [2, 1], "scale": 0.5, "mean": 0.25,
    "variance": [1, 2, 3, 4], "n": 3, "input_dim": 5, "output_dim": 2,
    "num_heads": 2, "key_dim": 3, "sequence_length": 5,
    "axes": 1, "factor": 0.5, "height_factor": 0.5, "width_factor": 0.5, "height": 3,
    "width": 2,
    "layer": {"class_name": "Dense", "config": {"units": 2}},
}
RECURRENT = {"class_name": "SimpleRNN", "config": {"units": 2}}
MERGES = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum",
          "Concatenate")

# The choices of fields; none is a choice of another field.
WORDS = ["auto", "min", "max", "valid", "same", "full", "causal", "fan_in",
         "fan_out", "fan_avg", "uniform", "normal", "truncated_normal",
         "untruncated_normal", "file", "data", "off", "hint", "wait", "fail",
         "shrink", "ring", "exact", "epoch", "batch", "Same", "AUTO", ""]

failures = []


def check(good, *what):
    if not good:
        failures.append(" ".join(map(str, what)))


def compare_page():
    """Byte for byte."""
    written = subprocess.run([SOURCE / "tools/reference/write.py", BUILD],
                             stdout=subprocess.PIPE, check=True).stdout
    if written != PAGE.read_bytes():
        sys.exit("docs/reference.md is not what the code says; run: make "
                 "reference")


# --- the page ---------------------------------------------------------------

def names_in(cell):
    return re.findall(r"`([^`]*)`", cell)


class Field:
    def __init__(self, takes, default):
        self.takes = re.sub(
            r"2\^(\d+)( - 1)?",
            lambda m: str(2**int(m[1]) - (1 if m[2] else 0)),
            takes.removesuffix(", or null"))
        self.null = takes.endswith(", or null")
        self.ignored = takes.startswith("anything")
        self.only = takes.startswith("only ")
        self.required = default == "required"
        # Markdown's, around JSON.
        text = takes[5:] if self.only else default
        self.default = json.loads(text.strip("`")) \
            if text.strip("`") and not self.required else None


def tables(text):
    """The rows of each table: lists of cells, without the head."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        rows = [line[2:-2].split(" | ") for line in block.splitlines()]
        yield rows[0], rows[2:]


def read_categories(sections):
    """{title: ([[names, {field: Field}, refused]], missing names)}"""
    categories = {}
    for title, text in sections.items():
        missing = re.search(r"^In Keras 3, but not in ringlet: ([^.]*)\.$", text,
                            re.M)
        classes, shared = [], []
        for head, rows in tables(text):
            if head[0] not in ("class", "name"):
                continue
            for row in rows:
                row += [""] * (4 - len(row))  # of activations
                if row[0].startswith("all"):
                    current = {}
                    shared.append((set(names_in(row[0])), current))
                elif row[0]:
                    current = {}
                    classes.append([names_in(row[0]), current,
                                    row[2].startswith("refused")])
                for name in names_in(row[1]) if head[0] == "class" else []:
                    current[name] = Field(row[2], row[3])
        for names, fields, _ in classes:
            for but, common in shared:
                # "accuracy" has only a name.
                if not but & set(names) and names[0] != "accuracy":
                    fields.update(common)
        categories[title] = (classes, names_in(missing[1]) if missing else [])
    return categories


def read_parts(text):
    """{"fit": {field: Field}}"""
    parts = {}
    for part in re.split(r"^### ", text, flags=re.M)[1:]:
        name = re.match(r"[\w.]+", part)[0]
        parts[name] = {field: Field(row[1], row[2])
                       for _, rows in tables(part) for row in rows
                       for field in names_in(row[0])}
    return parts


# --- the program ------------------------------------------------------------

def sequential(*layers):
    first = layer("InputLayer", batch_shape=[None, 4, 4], name="in")
    return layer("Sequential", name="m", layers=[first, *layers])


def functional(*layers, twice=None):
    """Each takes the one before it; number `twice`, or the last, twice. -1: none
    does."""
    chain = [layer("InputLayer", batch_shape=[None, 4, 4], name="in"), *layers]
    twice = twice or len(layers)
    for i, one in enumerate(chain):
        one["config"].setdefault("name", f"l{i}")
        one["name"] = one["config"]["name"]
        before = [[chain[i - 1]["name"], 0, 0, {}]] if i else []
        one["inbound_nodes"] = [before * (2 if i == twice else 1)] \
            if i else []
    return layer("Functional", name="m", layers=chain,
                 input_layers=[["in", 0, 0]],
                 output_layers=[[chain[-1]["name"], 0, 0]])


HEAD = [layer("Flatten", name="flat"), layer("Dense", units=2, name="last")]


def run_json():
    return {
        "model": sequential(*copy.deepcopy(HEAD)),
        "compile": {"optimizer": "sgd", "loss": layer(
            "SparseCategoricalCrossentropy", from_logits=True)},
        "data": {"train": {"x": "x.npy", "y": "y.npy"},
                 "validation": {"x": "x.npy", "y": "y.npy"}},
        "fit": {"batch_size": 4, "epochs": 2, "verbose": 0},
    }


def write_npy(path, code, shape, values):
    head = (f"{{'descr': '<{code}4', 'fortran_order': False, "
            f"'shape': {shape}, }}")
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head))
                     + head.encode()
                     + struct.pack(f"<{len(values)}{code}", *values))


def write_idx(path, shape, values):
    path.write_bytes(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
                     + bytes(values))


class Workshop:
    """Runs of the program, each in a folder of its own beside the data."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.count = itertools.count()
        draw = random.Random(7)
        write_npy(self.folder / "x.npy", "f", (10, 4, 4),
                  [draw.uniform(-1, 1) for _ in range(160)])
        write_npy(self.folder / "y.npy", "i", (10,), [0, 1] * 5)
        write_npy(self.folder / "two.npy", "f", (10, 2), [1, 0, 0, 1] * 5)
        for i in range(10):
            shapes = self.folder / "shapes" / "ab"[i % 2]
            shapes.mkdir(parents=True, exist_ok=True)
            (shapes / f"{i}.pgm").write_bytes(b"P5 4 4 255\n" + bytes([i] * 16))
            words = self.folder / "words" / "ab"[i % 2]
            words.mkdir(parents=True, exist_ok=True)
            with wave.open(str(words / f"{i}.wav"), "wb") as file:
                file.setparams((4, 2, 16000, 4, "NONE", ""))
                file.writeframes(bytes([i, 0] * 16))
        write_idx(self.folder / "images", (10, 4, 4),
                  [draw.randrange(256) for _ in range(160)])
        write_idx(self.folder / "labels", (10,), [0, 1] * 5)
        (self.folder / "d.csv").write_text("a,b,label\n" + "1,2,0\n3,1,1\n" * 5)
        (self.folder / "n.csv").write_text("1,2,0\n3,1,1\n" * 5)
        self.data = [path.name for path in self.folder.iterdir()]
        self.environment = {k: v for k, v in os.environ.items()
                            if k != "TF_CONFIG"}

    def run(self, command, run):
        """(exit code, stderr, what was trained)"""
        number = next(self.count)
        return self.train(run, number) if command == "train" \
            else self.plan(run, number)

    def start(self, folder, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=folder,
                              env=self.environment, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def plan(self, run, number):
        """It writes nothing, so it needs no folder of its own."""
        file = self.folder / f"run{number}.json"
        file.write_text(json.dumps(run))
        done = self.start(self.folder, "plan", file.name)
        file.unlink()
        return (done.returncode,
                done.stderr.decode().replace(file.name, "run.json"), None)

    def train(self, run, number):
        folder = self.folder / f"run{number}"
        folder.mkdir()
        for name in self.data:
            (folder / name).symlink_to(self.folder / name)
        (folder / "run.json").write_text(json.dumps(run))
        done = self.start(folder, "train", "run.json", "--save",
                          "trained.safetensors", "--log-steps", "s.csv")
        trained = folder / "trained.safetensors"
        return (done.returncode, done.stderr.decode(),
                (trained.read_bytes(), (folder / "s.csv").read_bytes())
                if trained.exists() else None)

    def trained(self, run, what):
        code, error, saved = self.run("train", run)
        check(code == 0 and saved, what, "must train:", error)
        return saved

    def accepted(self, run, what):
        code, error, _ = self.run("plan", run)
        check(code == 0, what, "must be accepted:", error)

    def refused(self, run, what, *words):
        code, error, _ = self.run("plan", run)
        check(code == 2, what, "must be refused:", code, error)
        check(error.count("\n") == 1 and error.startswith("error: ") and
              all(word in error for word in words),
              what, "lacks", words, "in:", error)


# --- hosts: RUN.json with an object of a category -----------------------------

def host_model(config):
    run = run_json()
    run["model"] = config
    return run


def host_layer(one):
    run = run_json()
    name = one["class_name"]
    if name == "InputLayer":
        run["model"]["config"]["layers"][0] = one
        return run
    reshape = [layer("Reshape", target_shape=[4, 4, 1], name="image")]
    if name in MERGES:
        units = 1 if name == "Concatenate" else 2
        run["model"] = functional(copy.deepcopy(HEAD[0]),
                                  layer("Dense", units=units, name="d"), one)
    elif name in ("Attention", "AdditiveAttention", "Dot",
                  "MultiHeadAttention"):
        run["model"] = functional(one, *copy.deepcopy(HEAD), twice=1)
    elif (name in ("SimpleRNN", "LSTM", "GRU") or  # perhaps of several tensors
          one["config"].get("merge_mode", "concat") is None):
        run["model"] = functional(one, *copy.deepcopy(HEAD), twice=-1)
    elif "2D" in name or re.match("Random|CenterCrop|Resizing", name):
        run["model"] = sequential(*reshape, one, *copy.deepcopy(HEAD))
    elif name == "PositionEmbedding":  # of one step
        run["model"] = sequential(layer("Reshape", target_shape=[1, -1],
                                        name="step"),
                                  one, *copy.deepcopy(HEAD))
    elif name in SOUND_LAYERS:  # of 3200 samples
        channels = name == "STFTSpectrogram"
        if channels:
            one["config"].setdefault("trainable", False)
        run["model"] = sequential(
            layer("Reshape", target_shape=[16, 1], name="column"),
            layer("UpSampling1D", size=200, name="longer"),
            layer("Reshape", target_shape=[3200, 1][:1 + channels],
                  name="sound"), one, *copy.deepcopy(HEAD))
    elif name == "GroupNormalization":  # of 32 groups, if not given
        run["model"] = sequential(layer("Dense", units=64, name="wide"), one,
                                  *copy.deepcopy(HEAD))
    elif name == "RepeatVector":
        run["model"] = sequential(layer("Flatten", name="row"), one,
                                  *copy.deepcopy(HEAD))
    elif name == "Embedding":
        run["model"] = sequential(layer("Rescaling", scale=0, name="zeros"),
                                  one, *copy.deepcopy(HEAD))
    else:
        run["model"] = sequential(one, *copy.deepcopy(HEAD))
    return run


def host_weights(field):
    def host(one):
        run = run_json()
        run["model"]["config"]["layers"][-1]["config"][field] = one
        return run
    return host


def host_optimizer(one):
    run = run_json()
    run["compile"]["optimizer"] = one
    return run


def host_schedule(one):
    return host_optimizer(layer("SGD", learning_rate=one))


def name_of(one):
    return one if isinstance(one, str) else one["class_name"]


def host_loss(one):
    run = run_json()
    run["compile"]["loss"] = one
    if "parse" not in name_of(one):
        for part in run["data"].values():
            part["y"] = "two.npy"
    return run


def host_metric(one):
    name = name_of(one)
    classes = re.match("(?i)sparse|acc|mean_?io", name)
    if not isinstance(one, str) and "sparse_y_true" in one["config"]:
        classes = one["config"]["sparse_y_true"] is True
    run = host_loss(layer(
        "sparse_categorical_crossentropy" if classes else "mse"))
    run["compile"]["metrics"] = [one]
    return run


def host_callback(one):
    run = run_json()
    run["callbacks"] = [one]
    return run


HOSTS = {
    "Layers": host_layer, "Initializers": host_weights("kernel_initializer"),
    "Regularizers": host_weights("kernel_regularizer"),
    "Activations": host_weights("activation"),
    "Constraints": host_weights("kernel_constraint"),
    "Optimizers": host_optimizer, "Schedules": host_schedule,
    "Losses": host_loss, "Metrics": host_metric, "Callbacks": host_callback,
}


def result_of(title, trained):
    """A metric given by its name alone has that name in the model and the log,
    so of a metric the logged values are compared."""
    return trained[1].split(b"\n", 1)[1] if title == "Metrics" else trained


# --- one field --------------------------------------------------------------

def bounds(takes):
    """(values to accept, values to refuse) of numbers with bounds."""
    whole = re.match(r"(?:one or two whole numbers|a whole number|a number of "
                     r"epochs) from (-?\d+)(?: to (\d+))?", takes)
    if whole:
        low, high = int(whole[1]), whole[2] and int(whole[2])
        good = [low] + ([high] if high else [])
        # Beyond 2^53 JSON's numbers are not whole numbers any more.
        bad = [low - 1, low + 0.5] + ([high + 2] if high else [])
        return good, bad
    share = re.match(r"a number in ([\[(])([^,]+), ([^\])]+)([\])])", takes)
    if share:
        low, high = float(share[2]), float(share[3])
        middle = (low + high) / 2
        return ([middle] + [low] * (share[1] == "[")
                + [high] * (share[4] == "]"),
                [low - 1e-3, high * 1.001] + [low] * (share[1] == "(")
                + [high] * (share[4] == ")"))
    least = re.match(r"a number (>=?) (\S+?)(?:,|$)", takes)
    if least:
        low = float(least[2])
        return [low + 1] + [low] * (least[1] == ">="), \
            [low - 1e-3] + [low] * (least[1] == ">")
    if re.match(r"a number(?:,|$)", takes):
        return [0, -1.5, 1e30], []
    return None


def values_of(field):
    """(to accept, to refuse), beside its default."""
    if field.ignored:
        return [None, "zzz", 5], []
    if field.only:
        value = field.default
        other = {bool: lambda: not value, int: lambda: value + 2,
                 float: lambda: value + 2, str: lambda: "zzz",
                 type(None): lambda: 1}[type(value)]()
        if value == "hann":  # Keras has another window for null
            return [], [other, None]
        return [None], [other]
    good, bad = [], ["zzz\u0007", [[]]]
    limits = bounds(field.takes)
    choices = re.findall(r'"([^"]*)"', field.takes)
    if limits:
        good, more = limits
        bad += more
    elif field.takes == "true or false":
        good, bad = [True, False], bad + [1, "true"]
    elif choices:
        good = list(choices)
        if field.takes.endswith("from 1 on"):
            good, bad = good + [1, 2**20], bad + [0, -1, 1.5]
        elif "0, 1 or 2" in field.takes:
            good, bad = good + [0, 1, 2], bad + [3, -1]
    elif field.takes.startswith("a column's name"):
        low, high = map(int, re.findall(r"-?\d+", field.takes))
        good, bad = [low, high], [low - 1, high + 1, 0.5, [[]], ""]
    elif field.takes.startswith("a file's path"):
        bad = [0.5, [[]], {}, ""]
    elif field.takes.startswith(("a string", "a path", "the path")):
        bad = [1, [[]], {}]
        if field.takes == "a string of one character":
            good, bad = [";", "\t"], bad + ["", "zz"]
    if field.null:
        good.append(None)
    else:
        bad.append(None)
    return good, bad


def check_field(shop, put, name, field, base, what):
    """`put(value)` is a RUN.json with the field, put() one without."""
    if not field.required and not field.ignored:
        saved = shop.trained(put(field.default), f"{what}: its default")
        check(saved == base, what, "is not", field.default, "by default")
    good, bad = values_of(field)
    for value in good:
        if field.ignored or field.only:
            check(shop.trained(put(value), what) == base, what, "of", value,
                  "makes a difference")
        elif value == "mpi" or \
                type(value) in (int, float) and abs(value) > 2000:
            # The request may be too large, or not built in.
            _, error, _ = shop.run("plan", put(value))
            check("must be" not in error, what, "of", value, error)
        else:
            shop.accepted(put(value), f"{what} of {json.dumps(value)}")
    if re.fullmatch(r'"[^"]*"(, "[^"]*")*', field.takes):
        bad += [word for word in WORDS if f'"{word}"' not in field.takes]
    for value in bad:
        shop.refused(put(value), f"{what} of {json.dumps(value)}", name)


# --- classes ----------------------------------------------------------------

def example_of(names, fields):
    of_class = {"layer": RECURRENT} if names[0] == "Bidirectional" else {}
    return {"class_name": names[0], "config": {
        name: copy.deepcopy({**EXAMPLES, **of_class}[name])
        for name, field in fields.items() if field.required}}


def check_normalization(shop, host):
    """Mean and variance are given together, or computed from the data."""
    def put(**config):
        return host(layer("Normalization", name="one", **config))

    adapted = shop.trained(put(), "Normalization")
    for config in ({"adapt": True}, {"mean": None, "variance": None}):
        check(shop.trained(put(**config), config) == adapted, config)
    for mean in (0, -1.5, [1, 2, 3, 4]):
        shop.trained(put(mean=mean, variance=[1, 0, 3, 4]), "Normalization")
    for config in ({"adapt": False}, {"mean": 1}, {"variance": 1},
                   {"mean": 1, "variance": -1}, {"mean": "a", "variance": 1},
                   {"mean": [1, 2], "variance": 1}, {"adapt": "yes"}):
        shop.refused(put(**config), config)


# Numbers of these must fit each other, and the samples.
SOUND_LAYERS = {"MelSpectrogram", "MFCC", "STFTSpectrogram"}
SOUND_NUMBERS = {"sampling_rate", "sequence_stride", "num_mel_bins", "min_freq",
                 "max_freq", "mag_exp", "fft_length", "sequence_length",
                 "num_mfcc", "frame_length", "frame_step"}


def check_sound_numbers(shop, put, fields, base, what):
    for name in sorted(SOUND_NUMBERS & set(fields)):
        default = fields[name].default
        check(shop.trained(put(default, name), what) == base, what, name)
        for value in (-1, "zzz", [[]]):
            shop.refused(put(value, name), f"{what}.{name} of {value}")


def check_class(shop, title, entry, all_fields, draw):
    names, fields, refused = entry
    host = HOSTS[title]
    if refused:
        return shop.refused(host(names[0]), names[0], names[0])
    if title == "Activations" or not fields:
        for name in names:
            shop.trained(host(name), f"{title} {name}")
        return None

    def put(value=None, name=None, class_name=None, without=None):
        one = example_of(names, fields)
        if title == "Layers":
            one["config"]["name"] = "one"
        if class_name:
            one["class_name"] = class_name
        if name:
            one["config"][name] = copy.deepcopy(value)
        rank = fields.get("lora_rank")  # lora_alpha needs it
        if name == "lora_alpha" and value is not None and rank and not rank.only:
            one["config"]["lora_rank"] = 1
        one["config"].pop(without, None)
        return host(one)

    known = set(fields)
    if names[0] == "Normalization":
        check_normalization(shop, host)
        fields = {name: field for name, field in fields.items()
                  if name not in ("mean", "variance", "adapt")}
    base = shop.trained(put(), f"{title} {names[0]}")
    if names[0] in SOUND_LAYERS:
        check_sound_numbers(shop, put, fields, base, names[0])
        fields = {name: field for name, field in fields.items()
                  if name not in SOUND_NUMBERS}
    if names[0] == "STFTSpectrogram":  # host_layer makes it false
        for value in (True, None):
            shop.refused(put(value, "trainable"), names[0], "must be false")
        fields = {name: field for name, field in fields.items()
                  if name != "trainable"}
    for alias in names[1:]:
        check(shop.trained(put(class_name=alias), f"{title} {alias}") == base,
              alias, "is not", names[0])
    # A name alone: of layers and schedules it is none; "l1_l2" has its own
    # defaults.
    if title not in ("Layers", "Schedules") and names[0] != "L1L2" and \
            not any(field.required for field in fields.values()):
        for alias in names:
            alone = shop.trained(host(alias), f"{title} {alias}")
            check(result_of(title, alone) == result_of(title, base),
                  alias, "alone is not", names[0])
    for name, field in fields.items():
        what = f"{names[0]}.{name}"
        if field.required:
            shop.refused(put(without=name), f"{what} left out", name)
        if name == "name" and title == "Layers" or name == "batch_input_shape":
            continue  # of another value than its default in this host
        check_field(shop, lambda value, name=name: put(value, name), name,
                    field, base, what)
    # "output_dim" is "units" in Keras 1, and has another message.
    strangers = sorted(all_fields - known - {"batch_shape", "output_dim"})
    for name in draw.sample(strangers, 6) + ["zzz"]:
        shop.refused(put(1, name), f"{names[0]}.{name}",
                     "unknown field", f"'{name}'")
    return None


# --- models -----------------------------------------------------------------

def check_model(shop, names, fields):
    made = sequential(*copy.deepcopy(HEAD)) if names[0] == "Sequential" else \
        functional(*copy.deepcopy(HEAD[:1]),
                   layer("Dense", units=1, name="d"),
                   layer("Concatenate", name="both"))

    def put(value=None, name=None, without=None):
        one = copy.deepcopy(made)
        if name:
            one["config"][name] = value
        one["config"].pop(without, None)
        return host_model(one)

    base = shop.trained(put(), names[0])
    for name, field in fields.items():
        what = f"{names[0]}.{name}"
        if field.required:
            shop.refused(put(without=name), what, name, "is missing")
        elif name == "build_input_shape":  # read where there is no InputLayer
            for value in (None, [None, 4, 4]):
                check(shop.trained(put(value, name), what) == base, what, value)
            one = put([None, 4, 4], name)
            del one["model"]["config"]["layers"][0]
            check(shop.trained(one, what), what)
            one["model"]["config"]["build_input_shape"] = "zzz"
            shop.refused(one, what, name)
        elif name != "name":
            check_field(shop, lambda value, name=name: put(value, name), name,
                        field, base, what)
    shop.refused(put(1, "zzz"), names[0], "unknown field", "'zzz'")


# --- parts of a RUN.json ----------------------------------------------------

FORMS = {
    "idx": {"images": "images", "labels": "labels"},
    "npy": {"x": "x.npy", "y": "y.npy"},
    "csv": {"csv": "d.csv"},
    "pictures": {"directory": "shapes"},
    "sound": {"audio_directory": "words"},
}


# The fields of pictures of which not every value fits these pictures and this
# model; tests/program/program_pictures_test.cc has them.
NOT_TRIED = ("image", "audio", "image_size", "color_mode", "label_mode", "class_names",
             "subset", "validation_split", *OF_SOUND_ALONE)


# Fields that data.train and data.validation must both have.
OF_BOTH = ("sequence_length", "sampling_rate", "target_offset",
           "target_length", "target_columns")


# Fields of sound that other forms have too.
OF_SOUND = ("label_mode", "class_names", "subset", "validation_split", "seed",
            "damaged", "output_sequence_length", "sampling_rate")


# Fields of rows, which pictures lack.
OF_ROWS = (*OF_WINDOWS, "sequence_length", "sample_weight")


# The fields that "text" needs beside it.
OF_TEXT = ("vocabulary", "max_tokens", "standardize", "split")
NEED_EACH_OTHER = ("text", "output_sequence_length")


def check_data(shop, fields):
    # A field is of all forms, or of one.
    forms = {"images": "idx", "labels": "idx", "x": "npy", "y": "npy",
             "csv": "csv", "header": "csv", "label": "csv", "separator": "csv", "decimal": "csv", "comment": "csv",
             "columns": "csv", "drop": "csv", "categorical": "csv",
             "unknown_categories": "csv", "missing": "csv", "na_values": "csv",
             "text": "csv", "vocabulary": "csv", "max_tokens": "csv",
             "standardize": "csv", "split": "csv",
             "output_sequence_length": "csv",
             "directory": "pictures", "audio_directory": "sound",
             "image": "csv", "audio": "csv",
             **dict.fromkeys(OF_PICTURES, "pictures"),
             **dict.fromkeys(OF_SOUND_ALONE, "sound")}
    for form, files in FORMS.items():
        for part in ("train", "validation"):
            def put(value=None, name=None, without=None):
                run = run_json()
                run["data"] = {"train": dict(files), "validation": dict(files)}
                head = run["model"]["config"]["layers"][0]["config"]
                if form == "csv":
                    head["batch_shape"] = [None, 2]
                if value is not None and name in NEED_EACH_OTHER:
                    run["data"][part].update(text=0, output_sequence_length=4)
                if name in OF_TEXT:
                    head["batch_shape"] = [None, 4]
                    for of_part in run["data"].values():
                        of_part.update(text=0, output_sequence_length=4)
                if name in OF_WINDOWS:  # of one row
                    head["batch_shape"].insert(1, 1)
                    for of_part in run["data"].values():
                        of_part["sequence_length"] = 1
                if name in OF_TEXT:  # validation has them as train
                    run["data"]["train"][name] = value
                if name:
                    for of_part in (run["data"] if name in OF_BOTH else [part]):
                        run["data"][of_part][name] = value
                run["data"][part].pop(without, None)
                return run

            base = shop.trained(put(), f"data of {form}")
            texts = form == "csv" and shop.trained(put(None, "max_tokens"),
                                                   "texts")
            windows = form not in ("pictures", "sound") and shop.trained(
                put(1, "sampling_rate"), f"rows of {form}")
            for name, field in fields.items():
                what = f"data.{part}.{name} of {form}"
                if form == "sound" and name in OF_SOUND:
                    shop.refused(put([[]], name), what)
                elif forms.get(name, form) != form:
                    shop.refused(put("x", name), what)
                elif name in NOT_TRIED or \
                        form in ("pictures", "sound") and name in OF_ROWS:
                    shop.refused(put([[]], name), what)
                elif field.required:
                    shop.refused(put(without=name), what, part)
                    shop.refused(put(None, name), what, name)
                else:
                    check_field(shop, lambda v, n=name: put(v, n), name, field,
                                windows if name in OF_WINDOWS else
                                texts if name in OF_TEXT else base, what)
            shop.refused(put(1, "zzz"), form, "'zzz'")


# The other fields that "strategy" then needs.
SHRINKS = {"mode": "local", "policy": "shrink"}
OF_LOCAL = {"local_steps": {"mode": "local"}, "outer": {"mode": "local"},
            "delta": {"mode": "local"}, "overlap": {"mode": "local"},
            "participation": {"mode": "local"},
            "quorum": SHRINKS, "round_deadline": {**SHRINKS, "quorum": 1}}


def check_part(shop, part, fields):
    def put(value=None, name=None, without=None):
        run = run_json()
        if part == "strategy.outer":
            run["strategy"] = {"mode": "local"}
        elif name in OF_LOCAL:
            run["strategy"] = dict(OF_LOCAL[name])
        if part == "fit":
            run["fit"] = {"verbose": 0}
        if part == "lora":
            run["lora"] = {"rank": 2}
        at = run
        for step in part.split("."):
            at = at.setdefault(step, {})
        if name:
            at[name] = value
        at.pop(without, None)
        return run

    base = shop.trained(put(), part)
    for name, field in fields.items():
        what = f"{part}.{name}"
        if field.required:
            shop.refused(put(without=name), what, name, "is missing")
            shop.refused(put(None, name), what, name)
        elif name == "optimizer":
            check(shop.trained(put(field.default, name), what) ==
                  shop.trained(put(without=name), what) ==
                  shop.trained(put(None, name), what), what)
        elif name == "verbose":  # it is what is printed, not what is trained
            shop.accepted(put("auto", name), what)
        else:
            own = base if name not in OF_LOCAL else shop.trained(
                put(field.default, name), what)
            check_field(shop, lambda value, name=name: put(value, name), name,
                        field, own, what)
    shop.refused(put(1, "zzz"), part, "unknown field", "'zzz'")


def check_schema(parts):
    """docs/run.schema.json has the same fields, with the same defaults."""
    schema = json.loads((SOURCE / "docs/run.schema.json").read_text())
    for part, fields in parts.items():
        at = schema
        for step in part.split("."):
            at = at["anyOf"][1] if "anyOf" in at else at
            at = at["properties"][step]
            if "$ref" in at:
                at = schema["$defs"][at["$ref"].split("/")[-1]]
        at = at["anyOf"][1] if "anyOf" in at else at
        known = at["properties"]
        check(set(known) == set(fields), part, set(known) ^ set(fields))
        for name, field in fields.items():
            if name in known and "default" in known[name] and not (
                    field.ignored or field.required):
                value = known[name]["default"]
                # No metrics are an empty list or none.
                check(value == field.default or name == "metrics", part, name,
                      value, "in the schema, but", field.default)


# --- flags ------------------------------------------------------------------

NO_ARGUMENTS = ("keygen", "top", "doctor")


def check_flags(text, folder):
    command, count = None, 0
    for _, rows in tables(text):
        for row in rows:
            if row[0]:
                command = names_in(row[0])[0].split()[1]
            for flag in names_in(row[1]) if len(row) > 1 else []:
                words = flag.split(", ")[-1].split()
                value = {"N": "3", "FACTOR": "1", "NUMBER": "1",
                         "SECONDS": "1", "MINUTES": "1", "BYTES": "64M", "RATE": "20M", "MS": "1"}
                words[1:] = [value.get(word, "x") for word in words[1:]]
                done = subprocess.run([PROGRAM, command, *words], text=True,
                                      cwd=folder, stderr=subprocess.PIPE)
                # The only error is that the arguments are missing; doctor may
                # warn about this machine.
                check("error: " not in done.stderr
                      if command in NO_ARGUMENTS else
                      done.returncode == 2 and "is missing" in done.stderr,
                      command, words, done.stderr)
                wrong = subprocess.run(
                    [PROGRAM, command, words[0] + "-zzz"], text=True,
                    stderr=subprocess.PIPE)
                check(wrong.returncode == 2 and "unknown flag" in wrong.stderr,
                      command, words, wrong.stderr)
                count += 1
    check(count > 30, "flags:", count)


def main():
    compare_page()
    page = PAGE.read_text()
    sections = {text.split("\n", 1)[0]: text
                for text in re.split(r"^## ", page, flags=re.M)[1:]}
    run_text, flags = sections.pop("RUN.json"), sections.pop("Commands")
    categories, parts = read_categories(sections), read_parts(run_text)
    models, _ = categories.pop("Models")
    assert set(categories) == set(HOSTS), set(categories) ^ set(HOSTS)
    all_fields = {name for classes, _ in categories.values()
                  for _, fields, _ in classes for name in fields}
    assert len(all_fields) > 70 and set(parts) == {
        "compile", "data.train", "fit", "lora", "strategy",
        "strategy.communication", "strategy.outer"}
    check_schema(parts)
    with tempfile.TemporaryDirectory() as folder:
        check_flags(flags, folder)
    jobs = []
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        shop = Workshop(folder)
        for names, fields, _ in models:
            jobs.append(pool.submit(check_model, shop, names, fields))
        for title, (classes, missing) in categories.items():
            for entry in classes:
                draw = random.Random(f"{SEED} {entry[0][0]}")
                jobs.append(pool.submit(check_class, shop, title, entry,
                                        all_fields, draw))
            for name in missing:
                one = layer(name) if title != "Activations" else name
                if title == "Constraints" or [name] in [c[0] for c in classes]:
                    words = ()  # refused in another way
                elif (title, name) == ("Metrics", "Accuracy"):
                    words = ("Keras's class Accuracy",)
                else:
                    words = ("Keras has the ", f"'{name}'")
                jobs.append(pool.submit(shop.refused, HOSTS[title](one),
                                        f"{title}: {name}", *words))
        for part, fields in parts.items():
            jobs.append(pool.submit(check_data, shop, fields)
                        if part == "data.train" else
                        pool.submit(check_part, shop, part, fields))
        for job in jobs:
            job.result()
        runs = next(shop.count)
    for failure in failures:
        print(failure)
    print(f"{len(jobs)} entries of the reference, {runs} runs, "
          f"{len(failures)} wrong")
    sys.exit(1 if failures or runs < 1000 else 0)


main()
