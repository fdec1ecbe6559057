"""Logs of a made-up run, for the pages of `ringlet report`.

    report_samples.py FOLDER    writes them

A job of three workers trains twelve epochs. Worker 2 is lost and returns, and
worker 1 is slow. All numbers come from one seed.
"""
import csv
import datetime
import json
import math
import pathlib
import random
import sys

BEGIN = datetime.datetime(2026, 11, 29, 20, 0, 0)
EPOCHS, STEPS = 12, 200
KEYS = ["accuracy", "learning_rate", "loss", "val_accuracy", "val_loss"]


def losses():
    """Of each epoch, by the names of CSVLogger."""
    draw = random.Random(1)
    rows = []
    for epoch in range(EPOCHS):
        loss = 2.1 * math.exp(-epoch / 2.2) + 0.09 + draw.uniform(0, 0.02)
        val = 2.0 * math.exp(-epoch / 2.0) + 0.17 + 0.006 * epoch + draw.uniform(0, 0.03)
        rows.append({"accuracy": 1 - loss / 3.1, "learning_rate": 0.002 * 0.8 ** epoch,
                     "loss": loss, "val_accuracy": 1 - val / 3.0, "val_loss": val})
    return rows


def write_epochs(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", *KEYS])
        for epoch, row in enumerate(rows):
            writer.writerow([epoch, *(repr(row[key]) for key in KEYS)])


def write_steps(path, epochs, steps):
    """A log of StepLogger; returns the losses."""
    draw = random.Random(2)
    values = []
    with open(path, "w") as file:
        file.write("epoch,step,loss,accuracy\n")
        for i in range(epochs * steps):
            loss = 2.3 * math.exp(-5 * i / (epochs * steps)) + draw.random() * 0.2
            values.append(loss)
            file.write(f"{i // steps},{i % steps},{loss!r},{1 - loss / 3!r}\n")
    return values


class Log:
    """The event log of one worker."""

    def __init__(self, path, worker):
        self.path, self.worker, self.lines = path, worker, []

    def write(self, seconds, event, **fields):
        time = BEGIN + datetime.timedelta(seconds=seconds)
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03}Z",
                "seconds": round(seconds, 3), "worker": self.worker, "event": event, **fields}
        self.lines.append((seconds, json.dumps(line) + "\n"))

    def close(self):
        self.lines.sort(key=lambda line: line[0])
        self.path.write_text("".join(text for _, text in self.lines))


def write_events(folder, rows, minutes=20):
    logs = [Log(folder / f"model.worker-{i}.events", str(i)) for i in range(3)]
    draw = random.Random(3)
    everyone, two = ["0", "1", "2"], ["0", "1"]
    end = minutes * 60
    for i, log in enumerate(logs):
        log.write(0.2 * i, "start", version="0.1.0", run="run.json", pid=100 + i, index=i,
                  workers=3, address=f"10.0.0.{i + 1}:2222")
        log.write(1.5, "view", view=1, rank=i, members=everyone, step=0)
        log.write(1.6, "fit", epochs=EPOCHS, steps_per_epoch=STEPS, batch_size=32, replicas=4,
                  threads=2, examples=6400, planned_memory_bytes=1843200 + 4096 * i, epoch=0, step=0,
                  source="start", model={"name": "cnn", "layers": 6, "parameters": 34826,
                         "trainable_parameters": 34826})
        log.write(1.7, "view", replicas={"0": 2, "1": 1, "2": 1})
    for second in range(10, end, 10):
        lost = 500 <= second < 640
        for i, log in enumerate(logs):
            if lost and i == 2:
                continue
            compute = (0.30, 0.44, 0.31)[i] * (1.5 if lost else 1) + draw.uniform(-.01, .02)
            whole = 0.50 * (1.4 if lost else 1)
            read = 0.012 + draw.uniform(0, .004)
            transfer = 0.03
            wait = max(0.0, whole - compute - read - transfer)
            count = int(10 / whole)
            step = second * 2
            log.write(second, "steps", epoch=step // STEPS, first_step=step - count + 1,
                      last_step=step, count=count, p50=round(whole, 4),
                      p90=round(whole * 1.1, 4), p99=round(whole * 1.3 + draw.random() * .2, 4),
                      max=round(whole * 1.6 + draw.random(), 4), compute=round(compute * count, 3),
                      wait=round(wait * count, 3), transfer=round(transfer * count, 3),
                      read=round(read * count, 3), save=round(0.002 * count, 3))
    for epoch, row in enumerate(rows):
        step = (epoch + 1) * STEPS
        logs[0].write((epoch + 1) * end / EPOCHS - 2, "epoch", epoch=epoch, step=step,
                      logs={k: v for k, v in row.items() if k != "learning_rate"},
                      learning_rate=row["learning_rate"], peak_memory_bytes=14 << 20)
        if epoch % 3 == 2:
            logs[0].write((epoch + 1) * end / EPOCHS - 1, "save", file="model.safetensors",
                          epoch=epoch, step=step, save_seconds=0.042, bytes=417912)
    for i in (0, 1):
        logs[i].write(498, "waited", step=996, **{"for": "2"}, waited_seconds=2.4 - i / 10)
        logs[i].write(498.5, "loss", view=1, step=996, lost=["2"],
                      reason="silent for 2.16 s", last_heard_seconds=2.16)
        logs[i].write(499.5, "view", view=2, rank=i, members=two, step=996)
        logs[i].write(499.7, "view", replicas={"0": 2, "1": 2})
        logs[i].write(560 + i, "view", replicas={"0": 3, "1": 1})
        logs[i].write(499.6, "rollback", from_epoch=4, from_step=996, to_epoch=4, to_step=980,
                      source="verified point")
        logs[i].write(638, "join", view=2, step=1276)
    logs[2].write(630, "start", version="0.1.0", run="run.json", pid=990, index=2, workers=3,
                  address="10.0.0.3:2222")
    for i, log in enumerate(logs):
        log.write(639, "view", view=3, rank=i, members=everyone, step=1276)
        log.write(639.2, "view", replicas={"0": 2, "1": 1, "2": 1})
        log.write(end - 1, "check", epoch=11, step=2400, digest="00000000deadbeef", agreed=True)
        log.write(end, "end", exit_code=0, status="ok", reason="", epoch=11, step=2400)
    logs[1].write(700, "warning", text="checkpoint: the disk is nearly full", lost_lines=0)
    for log in logs:
        log.close()


def write_run(folder):
    layers = [{"class_name": "InputLayer", "config": {"batch_shape": [None, 28, 28, 1]}},
              {"class_name": "Conv2D", "config": {"filters": 16, "kernel_size": 3,
                                                  "activation": "relu"}},
              {"class_name": "MaxPooling2D", "config": {}},
              {"class_name": "Flatten", "config": {}},
              {"class_name": "Dense", "config": {"units": 10}}]
    run = {"model": {"class_name": "Sequential", "config": {"layers": layers}},
           "compile": {"optimizer": "adam", "metrics": ["accuracy"],
                       "loss": {"class_name": "SparseCategoricalCrossentropy",
                                "config": {"from_logits": True}}},
           "data": {"train": {"images": "train.idx", "labels": "labels.idx"}},
           "fit": {"batch_size": 32, "epochs": EPOCHS}}
    (folder / "run.json").write_text(json.dumps(run))


def write_all(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = losses()
    write_epochs(folder / "log.csv", rows)
    write_steps(folder / "steps.csv", EPOCHS, STEPS)
    write_events(folder, rows)
    write_run(folder)


if __name__ == "__main__":
    write_all(sys.argv[1])
