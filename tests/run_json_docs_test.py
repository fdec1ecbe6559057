#!/usr/bin/env python3
"""Trains every RUN.json of docs/from-keras.md and quickstart.md, whole or in parts.

In each section with JSON a block ```json that begins with "{" is a whole
RUN.json, and trains two steps. One that begins with a quote is a part: it is
merged into the section's first whole one, which trains one step. Blocks ```sh of ringlet run in the same folder, where run.json
is the last whole one. The data are made here. With a letter more in any of its
keys, each block must be refused.
"""
import gzip
import json
import math
import os
import pathlib
import random
import re
import subprocess
import struct
import sys
import tempfile
import wave
import zipfile

import keras_applications
from made_runs import PROGRAM, SOURCE

PAGES = [SOURCE / "docs" / name for name in ("from-keras.md", "quickstart.md")]


def sections(page):
    """(title, [(language, text, line)]) of the sections with JSON."""
    found, language = [("", [])], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if language is None:
                language, lines, first = line[3:].strip(), [], number + 1
            else:
                found[-1][1].append((language, "\n".join(lines), first))
                language = None
        elif language is not None:
            lines.append(line)
        elif line.startswith("## "):
            found.append((line[3:], []))
    return [(title, blocks) for title, blocks in found
            if any(language == "json" for language, _, _ in blocks)]


def merged(base, part):
    """`part` over `base`; lists, texts and other data replace."""
    if not (isinstance(base, dict) and isinstance(part, dict)):
        return part
    if {"images", "x", "csv", "directory"} & set(part):
        return part
    return {**base, **{key: merged(base.get(key), value)
                       for key, value in part.items()}}


def sequential(*layers):
    return {"class_name": "Sequential", "config": {"layers": list(layers)}}


def layer(kind, **config):
    return {"class_name": kind, "config": config}


def npy(descr, shape, data):
    """The bytes of a NumPy file."""
    header = str({"descr": descr, "fortran_order": False, "shape": shape})
    header = header.ljust(117) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
            + header.encode() + data)


def bytes_of(shape, seed):
    """An array of numbers from 0 to 255."""
    return npy("|u1", shape, random.Random(seed).randbytes(math.prod(shape)))


def classes(count, classes_of):
    """An array of class numbers."""
    return npy("|u1", (count,), bytes(i % classes_of for i in range(count)))


class Folder:
    def __init__(self, path):
        self.path = path
        self.environment = {
            **os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
        self.environment.pop("TF_CONFIG", None)
        self.make_data()

    def run(self, *arguments):
        return subprocess.run(arguments, cwd=self.path, text=True, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=self.environment)

    def write(self, name, value):
        (self.path / name).write_text(json.dumps(value))

    def save(self, name, **arrays):
        """An npz of arrays, each the bytes of a NumPy file."""
        with zipfile.ZipFile(self.path / name, "w") as file:
            for key, data in arrays.items():
                file.writestr(key + ".npy", data)

    def make_data(self):
        for folder in ("fashion-mnist-mini", "weather-mini"):
            for file in (SOURCE / "data" / folder).iterdir():
                if file.suffix == ".gz":
                    (self.path / file.name).symlink_to(file)
        self.save("mnist.npz", x_train=bytes_of((200, 28, 28), 1),
                  y_train=classes(200, 10))
        for seed, name in enumerate("aby"):
            (self.path / f"{name}.npy").write_bytes(
                bytes_of((200, 1 if name == "y" else 4), seed))
        self.save("pictures.npz", x=bytes_of((80, 12, 10, 3), 1),
                  y=classes(80, 4))
        (self.path / "images-idx3-ubyte").write_bytes(
            struct.pack(">I3I", 0x803, 200, 28, 28)
            + random.Random(1).randbytes(200 * 28 * 28))
        (self.path / "numbers.npy").write_bytes(bytes_of((200, 4), 1))
        (self.path / "kinds.npy").write_bytes(classes(200, 3))
        (self.path / "ages.csv").write_text(
            "age\n" + "".join(f"{i % 90}\n" for i in range(200)))
        self.save("photos.npz", x=bytes_of((10, 96, 96, 3), 1),
                  y=classes(10, 5))
        self.write("model.json", sequential(
            layer("InputLayer", batch_shape=[None, 12, 10, 3]),
            layer("Conv2D", filters=4, kernel_size=3, activation="relu"),
            layer("Flatten"),
            layer("Dense", units=4, activation="softmax")))
        for kind in range(4):
            flowers = self.path / f"flowers/{kind}"
            flowers.mkdir(parents=True)
            for i in range(12):
                (flowers / f"{i}.ppm").write_bytes(
                    b"P6 9 7 255\n" + random.Random(i).randbytes(9 * 7 * 3))
            words = self.path / f"words/{kind}"
            words.mkdir(parents=True)
            for i in range(12):
                with wave.open(str(words / f"{i}.wav"), "wb") as file:
                    file.setparams((1, 2, 16000, 0, "NONE", ""))
                    file.writeframes(random.Random(i).randbytes(900))
        self.make_penguins()
        self.make_reviews()
        self.make_tuned()
        self.make_characters()

    def make_noise(self):
        """A folder that is a class where no "background_noise" names it."""
        noise = self.path / "words/_background_noise_"
        noise.mkdir()
        with wave.open(str(noise / "hum.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(random.Random(1).randbytes(9000))

    def make_reviews(self):
        draw = random.Random(1)
        moods = {"good": ["great", "lovely"], "bad": ["dull", "poor"]}
        rows = ["review,mood"]
        for i in range(120):
            mood = draw.choice(list(moods))
            words = draw.choices(["The", "film", "is", "not", "a"], k=i % 14)
            rows.append(f'"{" ".join(words)}, {draw.choice(moods[mood])}!",'
                        f"{mood}")
        (self.path / "reviews.csv").write_text("\n".join(rows) + "\n")

    def make_penguins(self):
        draw = random.Random(1)
        rows = ["id,species,island,bill_length_mm,bill_depth_mm,"
                "flipper_length_mm,body_mass_g,sex"]
        for i in range(120):
            kind = i % 3
            length = "NA" if i % 20 == 7 else round(38 + 5 * kind
                                                    + draw.random(), 1)
            rows.append(
                f"{i},{('Adelie', 'Chinstrap', 'Gentoo')[kind]},"
                f"{draw.choice(('Biscoe', 'Dream', 'Torgersen'))},{length},"
                f"{round(14 + draw.random() * 6, 1)},{190 + 10 * kind},"
                f"{3500 + draw.randrange(20) * 50},"
                f"{draw.choice(('male', 'female'))}")
        (self.path / "penguins.csv").write_text("\n".join(rows) + "\n")

    def make_tuned(self):
        """The model of the page, and the weights that Keras would write of it."""
        base = keras_applications.mobilenet_v2(96, top=False).json()
        base["config"]["trainable"] = False
        for each in base["config"]["layers"]:
            each["config"]["trainable"] = False
        self.write("tuned.json", sequential(
            layer("InputLayer", batch_shape=[None, 96, 96, 3]), base,
            layer("Dense", units=5, activation="softmax")))
        self.write("any.json", {
            "model": "tuned.json",
            "compile": {"loss": "sparse_categorical_crossentropy"},
            "data": {"train": {"x": "photos.npz:x", "y": "photos.npz:y"}},
            "fit": {"steps_per_epoch": 1, "batch_size": 2, "seed": 7}})
        for command in (["train", "any.json", "--save", "any"],
                        ["export", "any", "--out", "weights.npz"]):
            result = self.run(PROGRAM, *command)
            assert result.returncode == 0, result.stdout
        # numpy.savez(…, *model.get_weights()): arrays without names, in order.
        with zipfile.ZipFile(self.path / "weights.npz") as weights:
            self.save("tuned.npz", **{
                f"arr_{i}": weights.read(entry)
                for i, entry in enumerate(weights.infolist())})

    def make_characters(self):
        """The sample's model, and another text."""
        result = self.run(
            PROGRAM, "train", SOURCE / "samples/characters.json", "--epochs",
            "1", "--steps-per-epoch", "1", "--save", "characters.safetensors")
        assert result.returncode == 0, result.stdout
        for part in "xy":
            text = SOURCE / f"data/sentences-mini/kitchen-test-{part}.npy.gz"
            (self.path / f"own-{part}.npy").write_bytes(
                gzip.decompress(text.read_bytes()))

    def train(self, run, steps, *flags):
        self.write("trial.json", run)
        return self.run(PROGRAM, "train", "trial.json", "--no-save", "--epochs",
                        "1", "--steps-per-epoch", str(steps), *flags)


def keys_of(value, path=()):
    """The paths of all keys."""
    inner = (value.items() if isinstance(value, dict) else
             enumerate(value) if isinstance(value, list) else ())
    for key, each in inner:
        if isinstance(value, dict):
            yield (*path, key)
        yield from keys_of(each, (*path, key))


def misspelt(run, path):
    """`run` with one letter more in the last key of `path`."""
    changed = json.loads(json.dumps(run))
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1] + "x"] = inside.pop(path[-1])
    return changed


def check_block(folder, text, base, where):
    """Trains a block; returns the run."""
    whole = text.startswith("{")
    part = json.loads(text if whole else "{" + text + "}")
    run = part if whole else merged(base, part)
    if "background_noise" in text:
        folder.make_noise()
    result = folder.train(run, 2 if whole else 1)
    assert result.returncode == 0, f"{where}:\n{result.stdout}"
    # Every key that the block has is one that is read.
    for path in keys_of(part):
        wrong = folder.train(misspelt(run, path), 1)
        assert wrong.returncode != 0 and path[-1] in wrong.stdout, (
            f"{where}: {path} with an x is not refused:\n{wrong.stdout}")
    return run


def base_of(title):
    """The rest of a RUN.json for a section of parts only; None: the section has it."""
    if title == "Your own data":
        return {"model": sequential(
                    layer("InputLayer", batch_shape=[None, 9]),
                    layer("Dense", units=3, activation="softmax")),
                "compile": {"loss": "sparse_categorical_crossentropy"}}
    if title == "Pictures":
        return {"model": "model.json",
                "compile": {"loss": "sparse_categorical_crossentropy"}}
    if title == "Sound":
        return {"model": sequential(
                    layer("InputLayer", batch_shape=[None, 480]),
                    layer("MFCC"), layer("Flatten"),
                    layer("Dense", units=4, activation="softmax")),
                "compile": {"loss": "sparse_categorical_crossentropy"}}
    if title == "Several inputs and outputs":
        def called(kind, name, *inputs, **config):
            return {**layer(kind, name=name, **config),
                    "inbound_nodes": [[[each, 0, 0] for each in inputs]] if inputs else []}
        return {"model": {"class_name": "Functional", "config": {
            "layers": [
                called("InputLayer", "image", batch_shape=[None, 28, 28]),
                called("InputLayer", "numbers", batch_shape=[None, 4]),
                called("Flatten", "flat", "image"),
                called("Concatenate", "both", "flat", "numbers"),
                called("Dense", "kind", "both", units=3, activation="softmax"),
                called("Dense", "age", "both", units=1)],
            "input_layers": [["image", 0, 0], ["numbers", 0, 0]],
            "output_layers": [["kind", 0, 0], ["age", 0, 0]]}}}
    return None


def main():
    trained = ran = 0
    for page, title, blocks in ((page, *section) for page in PAGES
                                for section in sections(page)):
        with tempfile.TemporaryDirectory() as name:
            folder = Folder(pathlib.Path(name).resolve())
            base = base_of(title)
            for language, text, line in blocks:
                where = f"{page.name}, line {line}"
                if language == "json":
                    run = check_block(folder, text, base, where)
                    if text.startswith("{"):
                        base = base or run
                        folder.write("run.json", run)
                    trained += 1
                elif language == "sh" and text.startswith("ringlet "):
                    # Two steps say as much as 210.
                    short = re.sub(
                        r"ringlet train run\.json",
                        "ringlet train run.json --epochs 1 --steps-per-epoch 2",
                        text)
                    result = folder.run("bash", "-ec", short)
                    assert result.returncode == 0, f"{where}:\n{result.stdout}"
                    ran += 1
        print(f"{title}: done")
    assert trained > 15 and ran > 5, (trained, ran)
    print(f"{trained} blocks of JSON trained, {ran} of commands run")


sys.exit(main())
