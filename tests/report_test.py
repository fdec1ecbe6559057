#!/usr/bin/python3
"""The pages of `ringlet report` and `ringlet evaluate --report`.

Their figures must be those of the logs, read here by Python, and of predictions,
computed here by NumPy. RINGLET_SOURCE and RINGLET_BUILD name the folders.
"""
import csv
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import numpy

import report_page
import report_samples

SOURCE = pathlib.Path(os.environ["RINGLET_SOURCE"]).resolve()
PROGRAM = pathlib.Path(os.environ["RINGLET_BUILD"]).resolve() / "tools/ringlet/ringlet"
EVIL = "<script>alert(1)</script>&\"'"


def run(folder, *arguments, code=0):
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, timeout=300)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done


def report(folder, *arguments, code=0):
    """The page's root."""
    run(folder, "report", *arguments, "-o", "page.html", code=code)
    return report_page.check((folder / "page.html").read_text())


def check_figures(rows, table):
    """A table of figures against columns of values."""
    for row in table[1:]:
        name, values, missing, first, last, low, low_at, high, high_at = row
        column = rows[name]
        known = [(x, y) for x, y in column if math.isfinite(y)]
        assert (int(values), int(missing)) == (len(known), len(column) - len(known)), row
        if not known:
            assert first == "–"
            continue
        assert float(first) == known[0][1] and float(last) == known[-1][1], row
        assert (float(low_at), float(low)) == min(known, key=lambda p: p[1]), row
        assert (float(high_at), float(high)) == max(known, key=lambda p: p[1]), row
    assert sorted(rows) == sorted(row[0] for row in table[1:])


def test_epochs_figures_equal_the_logs(folder):
    draw = random.Random(4)
    names = ["accuracy", "learning_rate", "loss", "val_loss"]
    rows = {name: [] for name in names}
    with open(folder / "log.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", *names])
        for epoch in range(57):
            fields = []
            for name in names:
                value = draw.uniform(-1, 1) * 10 ** draw.randint(-12, 9)
                text = repr(value)
                if name == "val_loss" and epoch % 3:
                    value, text = math.nan, "NA"
                if draw.random() < 0.05:
                    value, text = draw.choice([(math.nan, "nan"), (math.inf, "inf")])
                rows[name].append((float(epoch), value))
                fields.append(text)
            writer.writerow([epoch, *fields])
    elements = report_page.section(report(folder, "log.csv"), "Epochs: log.csv")
    figures, all_rows = report_page.tables(elements)
    check_figures(rows, figures)
    with open(folder / "log.csv", newline="") as file:
        written = list(csv.reader(file))
    assert all_rows == written, "every row is shown as it is"
    # A column for each epoch, with all digits.
    for (x, to), values in report_page.titles(elements, "loss").items():
        assert x == to
        for name, (low, high) in values.items():
            assert low == high == rows[name][int(x)][1]
    known = {x for name in ("loss", "val_loss") for x, y in rows[name] if math.isfinite(y)}
    assert {x for x, _ in report_page.titles(elements, "loss")} == known


def test_steps_of_many_rows_keep_their_peaks(folder):
    values = report_samples.write_steps(folder / "steps.csv", 7, 30001)
    values[12345] = 77.0
    lines = (folder / "steps.csv").read_text().splitlines(keepends=True)
    lines[12346] = ",".join(lines[12346].split(",")[:2] + ["77.0", "0.5"]) + "\n"
    (folder / "steps.csv").write_text("".join(lines))
    root = report(folder, "steps.csv")
    elements = report_page.section(root, "Steps: steps.csv")
    loss = [row for row in report_page.tables(elements)[0] if row[0] == "loss"]
    check_figures({"loss": list(enumerate(values))}, [[]] + loss)
    seen = 0
    for (x, to), found in report_page.titles(elements, "loss").items():
        part = values[int(x):int(to) + 1]
        assert found["loss"] == (min(part), max(part)), (x, to)
        seen += len(part)
    assert seen == len(values), "each step belongs to a column"
    assert "least and the largest value of 256 rows" in report_page.text_of(root)
    assert (folder / "page.html").stat().st_size < 2_000_000


def test_rows_that_do_not_fit_are_counted(folder):
    (folder / "log.csv").write_text(
        "epoch;loss\r\n0;1.5\r\n1;\r\n2;0.5;7\r\nepoch;loss\r\n3;0.25\r\n4;0.1")
    root = report(folder, "log.csv")
    elements = report_page.section(root, "Epochs")
    check_figures({"loss": [(0, 1.5), (1, math.nan), (3, 0.25), (4, 0.1)]},
                  report_page.tables(elements)[0])
    assert "2 rows that do not fit the header" in report_page.text_of(root)


def test_appended_fit_counts_on(folder):
    (folder / "log.csv").write_text("epoch,loss\n0,3\n1,2\n0,5\n1,4\n")
    elements = report_page.section(report(folder, "log.csv"), "Epochs")
    check_figures({"loss": [(0, 3), (1, 2), (2, 5), (3, 4)]}, report_page.tables(elements)[0])
    (folder / "steps.csv").write_text("epoch,step,loss\n0,0,3\n0,1,2\n1,0,5\n1,1,4\n2,0,1\n")
    elements = report_page.section(report(folder, "steps.csv"), "Steps")
    check_figures({"loss": [(0, 3), (1, 2), (2, 5), (3, 4), (4, 1)]},
                  report_page.tables(elements)[0])


def test_trained_run_has_its_curves(folder):
    """The log that training writes, a second fit, and the plan of its memory."""
    data = SOURCE / "data/fashion-mnist-mini"
    part = {"images": str(data / "train-images-idx3-ubyte.gz"),
            "labels": str(data / "train-labels-idx1-ubyte.gz"), "scale": 1 / 255}
    model = {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [None, 28, 28]}},
        {"class_name": "Flatten"}, {"class_name": "Dense", "config": {"units": 10}}]}}
    config = {"model": model, "data": {"train": part, "validation": part},
              "compile": {"optimizer": "adam", "loss": {
                  "class_name": "SparseCategoricalCrossentropy",
                  "config": {"from_logits": True}}},
              "fit": {"batch_size": 100, "epochs": 3, "steps_per_epoch": 5},
              "callbacks": [{"class_name": "CSVLogger",
                             "config": {"filename": "log.csv", "append": True}}]}
    (folder / "run.json").write_text(json.dumps(config))
    for _ in range(2):
        run(folder, "train", "run.json", "--save", "m.safetensors")
    (folder / "other.csv").write_text("a,b\n1,2\n")
    root = report(folder, ".")
    with open(folder / "log.csv", newline="") as file:
        logged = list(csv.DictReader(file))
    assert len(logged) == 6
    rows = {name: [(float(i), float(row[name])) for i, row in enumerate(logged)]
            for name in logged[0] if name != "epoch"}
    check_figures(rows, report_page.tables(report_page.section(root, "Epochs"))[0])
    plan = json.loads(run(folder, "plan", "run.json", "--json").stdout)["bytes"]
    memory = report_page.tables(report_page.section(root, "Memory"))[0]
    found = {row[0]: int(row[1].replace("−", "-")) for row in memory[1:]}
    assert found["total"] == plan["total"] and found["weights"] == plan["weights"]
    assert sum(n for name, n in found.items() if name != "total") == plan["total"]
    text = report_page.text_of(root)
    assert "Total params: 7,850" in text and "Model: m.safetensors" in text
    assert "other.csv" not in text


def read_events(folder):
    return [json.loads(line) for path in sorted(folder.glob("*.events"))
            for line in path.read_text().splitlines()]


def test_events_figures_equal_the_logs(folder):
    report_samples.write_all(folder)
    root = report(folder, ".")
    events = read_events(folder)
    table = report_page.tables(report_page.section(root, "Time of the steps"))[0]
    assert [row[0] for row in table[1:]] == ["0", "1", "2"]
    for row in table[1:]:
        steps = [e for e in events if e["event"] == "steps" and e["worker"] == row[0]]
        assert int(row[1]) == sum(e["count"] for e in steps)
        for cell, name in zip(row[2:7], ("compute", "wait", "transfer", "read", "save")):
            total = sum(e[name] for e in steps)
            assert abs(float(cell) - total) <= 6e-4 * total, (row, name)
        assert abs(float(row[8]) - max(e["max"] for e in steps)) < 1e-3
    waits = report_page.tables(report_page.section(root, "Which worker waited"))[0]
    assert waits[1:] == [["0", "2", "1", "2.4", "2.4"], ["1", "2", "1", "2.3", "2.3"]]
    happened = report_page.tables(report_page.section(root, "What happened"))[0]
    lost = [row for row in happened if row[2] == "loss"]
    assert len(lost) == 1 and lost[0][4] == "2", "two workers recorded one loss"
    assert lost[0][3] == "worker 2 was lost in step 996: silent for 2.16 s"
    views = [row[3] for row in happened if row[2] == "view"]
    assert views == ["view 1 of workers 0, 1, 2", "view 2 of workers 0, 1",
                     "view 3 of workers 0, 1, 2"]
    assert [row[4] for row in happened if row[2] == "view"] == ["3", "2", "3"]
    assert [row[2] for row in happened].count("rollback") == 1
    memory = report_page.tables(report_page.section(root, "Memory"))[0]
    assert memory[1][:4] == ["0", "1.8 MiB", "14.0 MiB", "12.2 MiB"], memory[1]
    text = report_page.text_of(root)
    assert "model cnn of 6 layers and 34826 parameters (34826 trainable)" in text
    members = report_page.section(root, "Members")
    path = [p.get("d") for e in members for p in e.iter("path") if p.get("class") == "ln s0"]
    heights = [float(y) for y in re.findall(r"[MV](?:\S+ )?([\d.]+)", path[0])]
    kept = [y for i, y in enumerate(heights) if i == 0 or heights[i - 1] != y]
    assert len(kept) == 3 and kept[0] == kept[2] < kept[1], "three, two, three members"


def test_events_alone_have_the_curves_of_the_epochs(folder):
    """The epochs of the event log, with a second run in it and a rotated file."""
    report_samples.write_events(folder, report_samples.losses())
    whole = folder / "model.worker-0.events"
    lines = whole.read_text().splitlines(keepends=True)
    (folder / "model.worker-0.events.1").write_text("".join(lines[:40]))
    whole.write_text("".join(lines[40:]))
    logs = [e for e in map(json.loads, lines) if e["event"] == "epoch"]
    rows = {name: [(float(e["epoch"]), e["logs"][name]) for e in logs] for name in logs[0]["logs"]}
    rows["learning_rate"] = [(float(e["epoch"]), e["learning_rate"]) for e in logs]
    for arguments in (["."], [whole.name, whole.name + ".1"]):
        elements = report_page.section(report(folder, *arguments), "Epochs")
        check_figures(rows, report_page.tables(elements)[0])


def test_hostile_names_are_escaped(folder):
    name = EVIL + "<img src=x onerror=alert(2)>"
    with open(folder / "log.csv", "w", newline="") as file:
        csv.writer(file).writerows([["epoch", name, "\x01\u202e"], [0, 1, 2], [1, 2, 3]])
    event = {"time": "2026-11-29T20:00:00.000Z", "worker": EVIL}
    lines = [dict(event, event="start", address=EVIL, run=EVIL),
             dict(event, event="view", view=1, members=[EVIL, "2"]),
             dict(event, event="view", replicas={EVIL: 1}),
             dict(event, event="loss", view=1, lost=[EVIL], reason=EVIL),
             dict(event, event="steps", count=3, p50=1, compute=2),
             dict(event, event="waited", waited_seconds=2, **{"for": EVIL}),
             dict(event, event="save", file=EVIL, error=EVIL),
             dict(event, event="epoch", epoch=0, logs={EVIL: 1}),
             dict(event, event="fit", model={"name": EVIL}, planned_memory_bytes=1),
             dict(event, event="warning", text=EVIL), dict(event, event="end", reason=EVIL)]
    (folder / f"{EVIL.replace('/', '')}.events").write_text("\n".join(map(json.dumps, lines)))
    root = report(folder, ".")
    text = report_page.text_of(root)
    assert EVIL in text and "onerror" in text, "as text"
    assert not list(root.iter("img"))


def test_damaged_logs_make_a_page_or_an_error(folder):
    report_samples.write_all(folder)
    draw = random.Random(5)
    files = [folder / "log.csv", folder / "model.worker-0.events"]
    whole = {path: path.read_bytes()[:20000] for path in files}
    tokens = [b"{", b"[" * 50, b'"', b"\\u0000", b"\xff", b"\0", b"1e999", b"-1e400", b"null",
              b"\n", b",", b"-", b"9" * 400, b'"a":' * 9, b"\xe2\x80\xae", b"A" * 5000]
    for path in files:
        for _ in range(60):
            data = bytearray(whole[path])
            for _ in range(draw.randint(1, 30)):
                at = draw.randrange(len(data))
                if draw.random() < 0.5:
                    data[at] = draw.randrange(256)
                else:
                    data[at:at + draw.randint(0, 5)] = draw.choice(tokens)
            path.write_bytes(data[:draw.choice([len(data), draw.randrange(1, len(data))])])
            done = subprocess.run([PROGRAM, "report", path.name, "-o", "d.html"], cwd=folder,
                                  capture_output=True, timeout=60)
            assert done.returncode in (0, 1, 2), (done.returncode, path)
            if done.returncode < 2:
                report_page.check((folder / "d.html").read_text())
            else:
                assert done.stderr.startswith(b"error: "), done.stderr
        path.write_bytes(whole[path])


def test_bounds_of_an_event_log(folder):
    """Many workers, views, pairs and names, and lines that are too long or too deep."""
    def line(i, **fields):
        return json.dumps({"time": f"2026-11-29T20:00:{i % 60:02}.5Z", **fields})
    lines = [line(0, worker="0", event="start")]
    lines += [line(i, worker=str(i), event="steps", count=1, p50=1e308, compute=1e308)
              for i in range(1500)]
    lines += [line(i, worker="0", event="view", view=i, members=["0"] * 700) for i in range(5000)]
    lines += [line(i, worker="1", event="waited", waited_seconds=-1, **{"for": str(i)})
              for i in range(6000)]
    lines += [line(i, worker="2", event="epoch", epoch=i, logs={f"m{i}": 1e308, "n": -1e308})
              for i in range(100)]
    lines += [line(1, worker="3", event="warning", text="x" * 5000),
              line(1, worker="3", event="warning", text=[[[[[[1]]]]]]), "[]", "1", "{", "\x00"]
    (folder / "big.events").write_text("\n".join(lines))
    root = report(folder, "big.events")
    text = report_page.text_of(root)
    assert "6 lines of the event logs are no events" in text, text[-900:]
    assert "events were left out" in text
    assert (folder / "page.html").stat().st_size < 2_000_000


def test_command_line(folder):
    (folder / "log.csv").write_text("epoch,loss\n0,1\n")
    (folder / "table.csv").write_text("a,b\n1,2\n")
    (folder / "text.txt").write_text("hello\n")
    (folder / "epochs.csv").write_text("epochs,loss\n0,1\n")
    (folder / "examples.csv").write_text("epoch,step,replica,pass,used,size,examples\n")
    (folder / "empty").mkdir()
    for arguments, words in ((["none.csv"], "none.csv"), (["empty"], "empty: has no log"),
                             (["text.txt"], "text.txt: is neither a log"),
                             (["log.csv", "-o", "log.csv"], "log.csv"),
                             (["log.csv", "-o", "no/page.html"], "no")):
        done = run(folder, "report", *arguments, code=2)
        assert done.stderr.startswith(b"error: ") and words.encode() in done.stderr, done.stderr
    assert (folder / "log.csv").read_text() == "epoch,loss\n0,1\n"
    done = run(folder, "report", "log.csv", "table.csv", code=1)
    assert b"table.csv" in done.stderr and b"wrote report.html" in done.stdout
    root = report_page.check((folder / "report.html").read_text())
    assert "table.csv: is no log of CSVLogger" in report_page.text_of(root)
    text = report_page.text_of(report(folder, "."))
    assert "read: log.csv" in text, "others of a folder are left alone"
    assert not any(name in text for name in ("table.csv", "epochs.csv", "examples.csv"))


# --- evaluate ----------------------------------------------------------------


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
        "model": {"class_name": "Sequential", "config": {"layers": [
            {"class_name": "InputLayer", "config": {"batch_shape": [None, 4]}}, *layers]}},
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
    return {"class_name": "Dense", "config": {"units": units, "activation": activation}}


def crossentropy(name, from_logits=False):
    return {"class_name": name, "config": {"from_logits": from_logits}}


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
    data = SOURCE / "data/fashion-mnist-mini"
    part = {"images": str(data / "t10k-images-idx3-ubyte.gz"),
            "labels": str(data / "t10k-labels-idx1-ubyte.gz"), "scale": 1 / 255}
    (folder / "run.json").write_text(json.dumps({
        "model": {"class_name": "Sequential", "config": {"layers": [
            {"class_name": "InputLayer", "config": {"batch_shape": [None, 28, 28]}},
            {"class_name": "Flatten"}, dense(10, "softmax")]}},
        "compile": {"optimizer": "adam", "loss": "sparse_categorical_crossentropy"},
        "data": {"train": part, "validation": part}, "fit": {"epochs": 1}}))
    run(folder, "train", "run.json", "--save", "m.safetensors")
    page, _, _ = evaluate(folder)
    import base64
    import gzip
    import struct
    import zlib
    pixels = gzip.decompress((data / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
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


def write_arrays(folder, classes, loss, layers, targets):
    draw = numpy.random.default_rng(7)
    numpy.save(folder / "x.npy", draw.normal(size=(70, 3, 4)).astype(numpy.float32))
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


def main():
    tests = [(name, test) for name, test in sorted(globals().items()) if name.startswith("test_")]
    chosen = sys.argv[1:]
    for name, test in tests:
        if chosen and name not in chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
        print("ok", name, flush=True)


if __name__ == "__main__":
    main()
