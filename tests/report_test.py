#!/usr/bin/env python3
"""The page of `ringlet report`.

Its figures must be those of the logs, read here by Python. RINGLET_BUILD
names the folder of the build.
"""
import csv
import json
import math
import random
import re
import subprocess

import report_page
import report_samples
from made_runs import LOGITS_LOSS, PROGRAM, fashion_mnist, layer, sequential
from report_page import EVIL, run


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
    part = fashion_mnist("train")
    config = {"model": sequential(layer("InputLayer", batch_shape=[None, 28, 28]),
                                  layer("Flatten"), layer("Dense", units=10)),
              "data": {"train": part, "validation": part},
              "compile": {"optimizer": "adam", "loss": LOGITS_LOSS},
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


def test_job_started_again_soon_has_its_views(folder):
    """Each process counts its views from 1; all three starts are within two minutes."""
    for worker in "012":
        lines = []
        for start in (0, 3, 9):
            # Worker 2 has lost the log of its first process.
            if (worker, start) == ("2", 0):
                continue
            for second, event in ((start, {"event": "start"}),
                                  (start + 1, {"event": "view", "view": 1,
                                               "members": ["0", "1", "2"]}),
                                  (start + 1, {"event": "view",
                                               "replicas": {"0": 1, "1": 1, "2": 1}}),
                                  (start + 2, {"event": "loss", "view": 1, "lost": ["2"]})):
                time = f"2026-11-29T22:00:{second:02}.{worker}00Z"
                lines.append(json.dumps({"time": time, "worker": worker, **event}))
        (folder / f"{worker}.events").write_text("\n".join(lines))
    rows = report_page.tables(report_page.section(report(folder, "."), "What happened"))[0]
    for kind in ("view", "loss"):
        assert [row[-1] for row in rows if row[2] == kind] == ["2", "3", "3"], rows


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


def test_worker_that_was_away_lends_no_curves(folder):
    """Worker 0 missed the best epoch; both recorded the last one."""
    losses = [4.0, 3.0, 0.5, 2.0]
    for worker, missed in (("0", [2]), ("1", [])):
        lines = [{"time": f"2026-11-29T22:00:0{epoch}.000Z", "worker": worker, "event": "epoch",
                  "epoch": epoch, "logs": {"loss": loss}}
                 for epoch, loss in enumerate(losses) if epoch not in missed]
        (folder / f"{worker}.events").write_text("\n".join(map(json.dumps, lines)))
    elements = report_page.section(report(folder, "."), "Epochs")
    check_figures({"loss": list(enumerate(losses))}, report_page.tables(elements)[0])


def test_epochs_of_all_workers_are_joined(folder):
    """Worker 0 ends early, worker 1 joins late, worker 2 has an older run only."""
    losses = {epoch: 9.0 - epoch for epoch in range(8)}

    def write(worker, epochs, second, source):
        lines = [{"event": "fit", "source": source}] + [
            {"event": "epoch", "epoch": epoch, "logs": {"loss": loss}}
            for epoch, loss in epochs]
        return [json.dumps({"time": f"2026-11-29T22:00:{second + i:02}.000Z",
                            "worker": worker, **line}) for i, line in enumerate(lines)]
    late = [(epoch, losses[epoch]) for epoch in (3, 4, 6, 7)]
    (folder / "0.events").write_text("\n".join(
        write("0", [(epoch, 50.0) for epoch in range(12)], 0, "start") +
        write("0", [(epoch, losses[epoch]) for epoch in range(6)], 20, "start")))
    (folder / "1.events").write_text("\n".join(write("1", late, 30, "memory")))
    (folder / "2.events").write_text("\n".join(
        write("2", [(epoch, 60.0) for epoch in range(12)], 1, "start")))
    elements = report_page.section(report(folder, "."), "Epochs")
    check_figures({"loss": sorted((float(x), y) for x, y in losses.items())},
                  report_page.tables(elements)[0])


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
        return json.dumps({"time": f"2026-11-29T20:00:{i % 60:02}.500Z", **fields})
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
    assert "6 lines of the event logs are not events" in text, text[-900:]
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
    assert "table.csv: is not a log of CSVLogger" in report_page.text_of(root)
    text = report_page.text_of(report(folder, "."))
    assert "read: log.csv" in text, "others of a folder are left alone"
    assert not any(name in text for name in ("table.csv", "epochs.csv", "examples.csv"))


if __name__ == "__main__":
    report_page.run_tests(globals())
