#!/usr/bin/env python3
"""A program without features (meson's -Dfeatures) trains the tutorials' model,
and refuses what it lacks by name.

    small_program_test.py RINGLET [WHOLE]

WHOLE, a program with all features, must end with the same bytes.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from made_runs import SOURCE, layer, sequential

RINGLET = os.path.abspath(sys.argv[1])


def run_json(folder, *layers):
    """A RUN.json of a model with these layers, over (8, 4): a file for each."""
    path = pathlib.Path(folder, layers[0]["class_name"] + ".json")
    path.write_text(json.dumps({
        "model": sequential(layer("InputLayer", batch_shape=[None, 8, 4]),
                            *layers),
        "compile": {"optimizer": "sgd", "loss": "mse"},
        "data": {"train": {"x": "x.npy", "y": "y.npy"}},
        "fit": {"epochs": 1}}))
    return str(path)


def run(program, *arguments, expected=0):
    result = subprocess.run([program, *arguments], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == expected, (arguments, result)
    return result.stdout


def check_refused(feature, what, *arguments):
    said = run(RINGLET, *arguments, expected=2)
    assert f'the feature "{feature}"' in said and what in said, said
    assert said.count("\n") == 1, said


def check_tutorial(folder, whole):
    saved = [f"{folder}/{name}.safetensors" for name in ("small", "whole")]
    mnist = str(SOURCE / "samples/mnist.json")
    said = run(RINGLET, "train", mnist, "--save", saved[0])
    assert "Epoch 3/3" in said, said
    said = run(RINGLET, "evaluate", saved[0], "--data", mnist)
    assert "accuracy" in said, said
    if whole:
        run(whole, "train", mnist, "--save", saved[1])
        assert (pathlib.Path(saved[0]).read_bytes()
                == pathlib.Path(saved[1]).read_bytes())
    return saved[0]


def check_features(folder, model, without):
    table = f"{folder}/table.csv"
    pathlib.Path(table).write_text("a,b,label\n1,2,0\n3,4,1\n")
    picture = pathlib.Path(folder, "pictures/class/gray.pgm")
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"P5 2 2 255\n1234")
    sound = pathlib.Path(folder, "words/class/a.wav")
    sound.parent.mkdir(parents=True)
    sound.write_bytes(b"RIFF")
    for feature, what, arguments in [
            ("recurrent", "LSTM", ["train", run_json(
                folder, layer("LSTM", units=3))]),
            ("export", "model.onnx", [
                "export", model, "--out", f"{folder}/model.onnx"]),
            ("export", "model.c", [
                "export", model, "--out", f"{folder}/model.c"]),
            ("tables", "init", ["init", table]),
            ("pictures", "gray.pgm", [
                "predict", model, "--images", str(picture)]),
            ("pictures", "pictures", [
                "evaluate", model, "--images", f"{folder}/pictures"]),
            ("pictures", "RandomFlip", ["train", run_json(
                folder, layer("RandomFlip"))]),
            ("pictures", "Resizing", ["train", run_json(
                folder, layer("Resizing", height=2, width=2))]),
            ("sound", "MFCC", ["train", run_json(folder, layer("MFCC"))]),
            ("sound", "words", [
                "evaluate", model, "--audio", f"{folder}/words"]),
            ("inspection", "inspect", ["inspect", model]),
            ("workers", "launch", ["launch", "-n", "2", "--", RINGLET])]:
        if feature in without:
            check_refused(feature, what, *arguments)


with tempfile.TemporaryDirectory() as temporary:
    words = run(RINGLET, "--version").split("without: ")
    absent = words[1].split(" (")[0].split(", ") if len(words) > 1 else []
    trained = check_tutorial(temporary, sys.argv[2] if sys.argv[2:] else None)
    check_features(temporary, trained, absent)
print(f"small program: without {', '.join(absent) or 'no feature'}: ok")
