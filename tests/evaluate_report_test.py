#!/usr/bin/python3
"""The page of `ringlet evaluate --report`.

Its figures must be those that NumPy computes of predictions. RINGLET_BUILD
names the folder of the build.
"""
import base64
import csv
import gzip
import json
import pathlib
import struct
import sys
import zlib

import report_page
from made_runs import fashion_mnist, layer, sequential
from report_page import EVIL, run

try:
    import numpy
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(77)


def write_run(folder, loss, layers, targets, metrics=(), names=None):
    """Trains on made-up rows of a CSV; returns the labels."""
    draw = numpy.random.default_rng(6)
    x = draw.normal(size=(230, 4))
    score = x[:, 0] + 0.6 * x[:, 1] + draw.normal(size=230) * 0.7
    if targets == "number":
        y = [repr(float(value)) for value in score]
    elif targets == 2:
        y = [str(int(value > 0)) for value in score]
    else:
        y = [str(int(value)) for value in numpy.clip(numpy.floor(score + 1.5), 0, 2)]
    if names is not None:
        y = [names[int(value)] for value in y]
    with open(folder / "table.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "d", "y"])
        writer.writerows([*map(repr, map(float, row)), label] for row, label in zip(x, y))
    run_json = {
        "model": sequential(layer("InputLayer", batch_shape=[None, 4]), *layers),
        "compile": {"optimizer": {"class_name": "Adam", "config": {"learning_rate": 0.05}},
                    "loss": loss, "metrics": list(metrics)},
        "data": {"train": {"csv": "table.csv", "label": "y"}},
        "fit": {"batch_size": 32, "epochs": 3, "validation_split": 0.43}}
    (folder / "run.json").write_text(json.dumps(run_json))
    run(folder, "train", "run.json", "--save", "m.safetensors")
    return y


def evaluate(folder, *arguments):
    """The page, the outputs that `predict` writes, and the number of the first example."""
    done = run(folder, "evaluate", "m.safetensors", "--data", "run.json", "--report", "e.html",
               "--json", *arguments)
    logs = json.loads(done.stdout)
    page = report_page.check((folder / "e.html").read_text())
    run(folder, "predict", "m.safetensors", "--data", "run.json", "-o", "p.npy")
    outputs = numpy.load(folder / "p.npy").astype(numpy.float64)
    return page, outputs, logs


def check_classifier(page, p, labels, first, names):
    """All figures of a page against NumPy; p are probabilities."""
    classes = p.shape[1]
    predicted = p.argmax(axis=1)
    confidence = p.max(axis=1)
    matrix = numpy.zeros((classes, classes), int)
    numpy.add.at(matrix, (labels, predicted), 1)
    shown = report_page.tables(report_page.section(page, "Confusion matrix"))[0]
    assert shown[0][1:] == names and [row[0] for row in shown[1:]] == names
    assert [[int(cell) for cell in row[1:]] for row in shown[1:]] == matrix.tolist()

    true = numpy.diag(matrix)
    with numpy.errstate(invalid="ignore"):
        precision = true / matrix.sum(axis=0)
        recall = true / matrix.sum(axis=1)
        f1 = 2 * true / (matrix.sum(axis=0) + matrix.sum(axis=1))
    table = report_page.tables(report_page.section(page, "Classes"))[0]
    near = lambda cell, value: (cell == "–") if numpy.isnan(value) else (
        abs(float(cell) - value) <= 5.1e-5)
    for c in range(classes):
        row = table[1 + c]
        assert int(row[1]) == matrix[c].sum() and int(row[2]) == matrix[:, c].sum()
        assert near(row[3], precision[c]) and near(row[4], recall[c]) and near(row[5], f1[c])
    used = matrix.sum(axis=0) + matrix.sum(axis=1) > 0
    for cell, values in zip(table[-1][3:], (precision, recall, f1)):
        assert near(cell, numpy.nan_to_num(values[used]).mean()), (cell, values)

    bins = numpy.minimum((confidence * 10).astype(int), 9)
    error = 0.0
    table = report_page.tables(report_page.section(page, "Calibration"))[0]
    for b in range(10):
        inside = bins == b
        right = (predicted == labels)[inside]
        row = table[1 + b]
        assert int(row[1]) == inside.sum()
        if inside.any():
            assert near(row[2], confidence[inside].mean()) and near(row[3], right.mean())
            error += abs(right.mean() - confidence[inside].mean()) * inside.mean()
    ece = [e for e in report_page.section(page, "Calibration") if e.find("b") is not None][0]
    assert near(ece.find("b").text, error)

    of_label = p[numpy.arange(len(labels)), labels]
    order = numpy.argsort(of_label, kind="stable")[:10]
    cards = [card for element in report_page.section(page, "The worst predictions")
             for card in element.iter("div") if card.get("class") == "card"]
    assert len(cards) == min(10, len(labels))
    for card, i in zip(cards, order):
        text = report_page.text_of(card)
        assert f"example {first + i}true: {names[labels[i]]} (" in text, (text, first + i)
        assert f"predicted: {names[predicted[i]]} ({confidence[i]:.4f})" in text, text


def softmax(logits):
    e = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def dense(units, activation="linear"):
    return layer("Dense", units=units, activation=activation)


def crossentropy(name, from_logits=False):
    return layer(name, from_logits=from_logits)


def test_classes_from_logits_and_probabilities(folder):
    names = ["a <b>", "b & " + EVIL, "c"]
    for logits in (True, False):
        labels = write_run(folder, crossentropy("SparseCategoricalCrossentropy", logits),
                           [dense(3, "linear" if logits else "softmax")], 3,
                           ["accuracy"], names=names)
        page, outputs, logs = evaluate(folder)
        p = softmax(outputs) if logits else outputs
        first = 230 - len(p)
        assert 0 < first and len(p) % 32 != 0, "a short last batch"
        numbers = numpy.array([names.index(y) for y in labels[first:]])
        check_classifier(page, p, numbers, first, names)
        assert abs((p.argmax(axis=1) == numbers).mean() - logs["accuracy"]) < 1e-6


def test_two_classes_of_one_output(folder):
    for logits in (True, False):
        labels = write_run(folder, crossentropy("BinaryCrossentropy", logits),
                           [dense(1, "linear" if logits else "sigmoid")], 2, names=["no", "yes"])
        for batch in ("1", "100"):
            page, outputs, _ = evaluate(folder, "--batch-size", batch)
            one = 1 / (1 + numpy.exp(-outputs[:, 0])) if logits else outputs[:, 0]
            first = 230 - len(one)
            numbers = numpy.array([int(y == "yes") for y in labels[first:]])
            check_classifier(page, numpy.stack([1 - one, one], axis=1), numbers, first,
                             ["no", "yes"])


def test_pictures_are_shown(folder):
    part = fashion_mnist("t10k")
    (folder / "run.json").write_text(json.dumps({
        "model": sequential(layer("InputLayer", batch_shape=[None, 28, 28]), layer("Flatten"),
                            dense(10, "softmax")),
        "compile": {"optimizer": "adam", "loss": "sparse_categorical_crossentropy"},
        "data": {"train": part, "validation": part}, "fit": {"epochs": 1}}))
    run(folder, "train", "run.json", "--save", "m.safetensors")
    page, _, _ = evaluate(folder)
    pixels = gzip.decompress(pathlib.Path(part["images"]).read_bytes())[16:]
    cards = [card for element in report_page.section(page, "The worst predictions")
             for card in element.iter("div") if card.get("class") == "card"]
    assert len(cards) == 10
    for card in cards:
        index = int(report_page.text_of(card.find("b")).split()[1])
        png = base64.b64decode(card.find("img").get("src").split(",")[1])
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        chunks, at = {}, 8
        while at < len(png):
            size, kind = struct.unpack(">I4s", png[at:at + 8])
            body = png[at + 8:at + 8 + size]
            assert zlib.crc32(kind + body) == struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0]
            chunks[kind], at = body, at + 12 + size
        assert struct.unpack(">II5B", chunks[b"IHDR"]) == (28, 28, 8, 0, 0, 0, 0)
        rows = zlib.decompress(chunks[b"IDAT"])
        shown = b"".join(rows[29 * r + 1:29 * r + 29] for r in range(28))
        assert shown == pixels[784 * index:784 * index + 784], index


def test_numbers_against_numpy(folder):
    labels = write_run(folder, "mse", [dense(1)], "number", ["mae"])
    page, outputs, logs = evaluate(folder)
    predicted = outputs[:, 0]
    true = numpy.array([numpy.float32(y) for y in labels[-len(predicted):]], numpy.float64)
    error = predicted - true
    tiles = [[report_page.text_of(part) for part in tile]
             for tile in page.iter("div") if tile.get("class") == "tile"]
    found = {tile[0]: tile[1] for tile in tiles}
    r2 = 1 - (error ** 2).sum() / ((true - true.mean()) ** 2).sum()
    for name, value in (("mean absolute error", abs(error).mean()), ("R²", r2),
                        ("root mean squared error", numpy.sqrt((error ** 2).mean())),
                        ("mean of predicted − true", error.mean()), ("mae", logs["mae"])):
        assert abs(float(found[name]) - value) <= 6e-4 * abs(value), (name, found[name], value)
    worst = report_page.tables(report_page.section(page, "The largest errors"))[0]
    order = numpy.argsort(-abs(error), kind="stable")[:10] + len(labels) - len(error)
    assert [int(row[0]) for row in worst[1:]] == order.tolist()
    bars = [t.text.split("\n") for e in report_page.section(page, "Values")
            for f in e.iter("figure") if f.find("figcaption").text.strip() == "Residuals"
            for t in f.iter("title")]
    assert [int(float(bar[1])) for bar in bars] == numpy.histogram(error, 40)[0].tolist()


def write_arrays(folder, classes, loss, layers, targets, lengths=None):
    """Steps beyond their example's length are zeros."""
    draw = numpy.random.default_rng(7)
    x = draw.normal(size=(70, 3, 4)).astype(numpy.float32)
    if lengths is not None:
        x[numpy.arange(3) >= lengths[:, None]] = 0
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "y.npy", targets(draw, classes))
    config = {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [None, 3, 4]}}, *layers]}}
    (folder / "run.json").write_text(json.dumps({
        "model": config, "compile": {"optimizer": "adam", "loss": loss},
        "data": {part: {"x": "x.npy", "y": "y.npy"} for part in ("train", "validation")},
        "fit": {"epochs": 1}}))
    run(folder, "train", "run.json", "--save", "m.safetensors")
    return numpy.load(folder / "y.npy")


def test_rows_of_examples_and_many_classes(folder):
    """Each row of an example is a prediction; 40 classes have no matrix."""
    def classes_of_rows(draw, classes):
        return draw.integers(0, classes, size=(70, 3)).astype(numpy.int32)
    y = write_arrays(folder, 40, crossentropy("SparseCategoricalCrossentropy", True),
                     [dense(40)], classes_of_rows)
    page, outputs, _ = evaluate(folder)
    p = softmax(outputs.reshape(-1, 40))
    predicted, labels = p.argmax(axis=1), y.reshape(-1)
    assert outputs.shape == (70, 3, 40)
    counts = {}
    for pair in zip(labels.tolist(), predicted.tolist()):
        if pair[0] != pair[1]:
            counts[pair] = counts.get(pair, 0) + 1
    table = report_page.tables(report_page.section(page, "Confusion matrix"))[0]
    assert [int(row[2]) for row in table[1:]] == sorted(counts.values(), reverse=True)[:30]
    for row in table[1:]:
        assert counts[int(row[0]), int(row[1])] == int(row[2])
    worst = numpy.argsort(p[numpy.arange(210), labels], kind="stable")[:10]
    cards = [report_page.text_of(card) for e in report_page.section(page, "The worst predictions")
             for card in e.iter("div") if card.get("class") == "card"]
    for card, i in zip(cards, worst):
        assert card.startswith(f"example {i // 3}, row {i % 3}true: {labels[i]} ("), (card, i)


def test_masked_steps_are_left_out(folder):
    """As the loss leaves them out: they are no examples of a class."""
    lengths = 1 + numpy.arange(70) % 3
    kept = (numpy.arange(3) < lengths[:, None]).reshape(-1)
    masking = {"class_name": "Masking", "config": {"mask_value": 0.0}}
    y = write_arrays(
        folder, 5, crossentropy("SparseCategoricalCrossentropy", True), [masking, dense(5)],
        lambda draw, classes: draw.integers(0, classes, size=(70, 3)).astype(numpy.int32), lengths)
    page, outputs, _ = evaluate(folder, "--batch-size", "32")
    matrix = numpy.zeros((5, 5), int)
    predicted = outputs.reshape(-1, 5).argmax(axis=1)
    numpy.add.at(matrix, (y.reshape(-1)[kept], predicted[kept]), 1)
    shown = report_page.tables(report_page.section(page, "Confusion matrix"))[0]
    assert [[int(cell) for cell in row[1:]] for row in shown[1:]] == matrix.tolist(), shown

    y = write_arrays(folder, 1, "mse", [masking, dense(1)],
                     lambda draw, _: draw.normal(size=(70, 3, 1)).astype(numpy.float32), lengths)
    page, outputs, _ = evaluate(folder, "--batch-size", "32")
    error = abs(outputs - y).reshape(-1)
    error[~kept] = 0
    worst = report_page.tables(report_page.section(page, "The largest errors"))[0]
    order = numpy.argsort(-error, kind="stable")[:10]
    assert [(int(row[0]), int(row[1])) for row in worst[1:]] == [(i // 3, i % 3) for i in order]


def test_several_numbers_of_an_example(folder):
    def numbers(draw, width):
        return draw.normal(size=(70, width)).astype(numpy.float32)
    y = write_arrays(folder, 2, "huber", [{"class_name": "Flatten", "config": {}}, dense(2)],
                     numbers)
    page, outputs, _ = evaluate(folder, "--batch-size", "100")
    error = (outputs - y).reshape(-1)
    worst = report_page.tables(report_page.section(page, "The largest errors"))[0]
    order = numpy.argsort(-abs(error), kind="stable")[:10]
    assert [(int(row[0]), int(row[1])) for row in worst[1:]] == [(i // 2, i % 2) for i in order]
    for row, i in zip(worst[1:], order):
        assert float(row[2]) == y.reshape(-1)[i] and float(row[3]) == outputs.reshape(-1)[i]


def test_independent_classes_are_refused(folder):
    def labels(draw, classes):
        return draw.integers(0, 2, size=(70, classes)).astype(numpy.float32)
    write_arrays(folder, 3, crossentropy("BinaryCrossentropy"),
                 [{"class_name": "Flatten", "config": {}}, dense(3, "sigmoid")], labels)
    done = run(folder, "evaluate", "m.safetensors", "--data", "run.json", "--report", "e.html",
               code=2)
    assert b"classes that exclude each other" in done.stderr, done.stderr
    assert not (folder / "e.html").exists()


def test_one_hot_targets(folder):
    def labels(draw, classes):
        return numpy.eye(classes, dtype=numpy.float32)[draw.integers(0, classes, size=70)]
    y = write_arrays(folder, 3, crossentropy("CategoricalCrossentropy"),
                     [{"class_name": "Flatten", "config": {}}, dense(3, "softmax")], labels)
    page, outputs, _ = evaluate(folder)
    p = outputs / outputs.sum(axis=1, keepdims=True)
    check_classifier(page, p, y.argmax(axis=1), 0, ["0", "1", "2"])


def test_evaluate_refuses_what_it_cannot_show(folder):
    write_run(folder, "mse", [dense(1)], "number")
    before = (folder / "table.csv").read_bytes()
    done = run(folder, "evaluate", "m.safetensors", "--data", "run.json", "--report", "table.csv",
               code=2)
    assert b"--report" in done.stderr and (folder / "table.csv").read_bytes() == before
    run(folder, "evaluate", "m.safetensors", "--data", "run.json", "--report", "no/e.html", code=2)


if __name__ == "__main__":
    report_page.run_tests(globals())
