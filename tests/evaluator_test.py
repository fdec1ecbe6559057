#!/usr/bin/env python3
"""The task "evaluator" of a job: real processes, killed at each row.

RINGLET_BUILD names the folder of the build.
"""
import csv
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

from made_runs import PROGRAM, layer, sequential

DEADLINE = 300  # seconds, for what takes a few
EPOCHS, BATCH, EXAMPLES = 40, 32, 100
STEPS = -(-(EXAMPLES * 4 // 5) // BATCH)  # of an epoch; a fifth validates


def write_run(folder, filepath="saved/m-{epoch:02d}.safetensors", **options):
    draw = random.Random(1)
    rows = ["a,b,y"]
    for _ in range(EXAMPLES):
        a, b = draw.random(), draw.random()
        rows.append(f"{a},{b},{a - b}")
    (folder / "data.csv").write_text("\n".join(rows) + "\n")
    run = {
        "model": sequential(layer("InputLayer", batch_shape=[None, 2]),
                            layer("Dense", units=1)),
        "compile": {"optimizer": "sgd", "loss": "mse", "metrics": ["mae"]},
        "data": {"train": {"csv": "data.csv", "label": "y"}},
        "fit": {"epochs": EPOCHS, "batch_size": BATCH,
                "validation_split": 0.2, "verbose": 2},
        "callbacks": [
            {"class_name": "ModelCheckpoint",
             "config": {"filepath": filepath, **options}},
            {"class_name": "TensorBoard", "config": {"log_dir": "logs"}}]}
    (folder / "run.json").write_text(json.dumps(run))


def start(folder, task, *flags, listed=True, key=None, **process):
    cluster = {"chief": ["127.0.0.1:1"]}
    if listed:
        cluster["evaluator"] = ["127.0.0.1:2"]
    job = {"cluster": cluster, "task": {"type": task, "index": 0}}
    environment = {**os.environ, "TF_CONFIG": json.dumps(job)}
    if key:
        environment["RINGLET_KEY_FILE"] = key
    return subprocess.Popen(
        [PROGRAM, "train", "run.json", "--no-save", *flags], cwd=folder,
        text=True, env=environment, **process,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process, code=0):
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == code, (process.returncode, out, err)
    return out, err


def rows_of(folder):
    with open(folder / "run-evaluations.csv", newline="") as file:
        return list(csv.DictReader(file))


def killed_at_each_row_evaluates_each_file_once(folder):
    """30 kills, each when the next row is there."""
    write_run(folder)
    finish(start(folder, "chief"))
    rows = folder / "run-evaluations.csv"
    # As while the run goes on: no evaluator ends by itself.
    end_of_run = folder / "saved/run.ended"
    end_of_run.unlink()
    for kill in range(30):
        evaluator = start(folder, "evaluator")
        end = time.monotonic() + DEADLINE
        wanted = min(kill + 1, EPOCHS) + 1  # with the header
        while not rows.exists() or rows.read_bytes().count(b"\n") < wanted:
            assert evaluator.poll() is None, evaluator.communicate()
            assert time.monotonic() < end, "no row was written"
        evaluator.send_signal(signal.SIGKILL)
        evaluator.communicate()
        # As a power cut may leave it.
        if kill % 3 == 0:
            with open(rows, "ab") as file:
                file.write(b"saved/m-40")
    end_of_run.touch()
    finish(start(folder, "evaluator"))
    found = rows_of(folder)
    assert [r["file"] for r in found] == [
        f"saved/m-{i:02d}.safetensors" for i in range(1, EPOCHS + 1)], found
    assert [int(r["iterations"]) for r in found] == [
        STEPS * i for i in range(1, EPOCHS + 1)], found
    # The numbers of `ringlet evaluate`.
    for row in found[::13]:
        out = subprocess.run(
            [PROGRAM, "evaluate", row["file"], "--data", "run.json", "--json"],
            cwd=folder, check=True, capture_output=True, text=True,
            timeout=DEADLINE).stdout
        logs = json.loads(out)
        assert float(row["loss"]) == logs["loss"], (row, logs)
        assert float(row["mae"]) == logs["mae"], (row, logs)


def beside_a_running_chief_follows_it_to_its_end(folder):
    """The evaluator is there first; the chief's files appear one by one."""
    write_run(folder, save_weights_only=True,
              filepath="saved/m-{epoch:02d}.safetensors")
    evaluator = start(folder, "evaluator")
    finish(start(folder, "chief"))
    out, _ = finish(evaluator)
    assert f"{EPOCHS} evaluations" in out, out
    found = rows_of(folder)
    assert len({r["file"] for r in found}) == len(found) == EPOCHS, found
    assert {r["iterations"] for r in found} == {""}, found


def one_replaced_file_ends_with_the_newest(folder):
    """A filepath without fields: each save replaces the file."""
    write_run(folder, filepath="saved/m.safetensors")
    evaluator = start(folder, "evaluator")
    finish(start(folder, "chief"))
    finish(evaluator)
    found = rows_of(folder)
    steps = [int(r["iterations"]) for r in found]
    assert steps == sorted(set(steps)) and steps[-1] == EPOCHS * STEPS, steps


def damaged_file_is_left_out_with_a_message(folder):
    write_run(folder)
    finish(start(folder, "chief"))
    damaged = folder / "saved/m-02.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    _, err = finish(start(folder, "evaluator"))
    assert "m-02.safetensors is left out" in err, err
    assert len(rows_of(folder)) == EPOCHS - 1


def full_disk_is_an_error_and_the_next_evaluator_goes_on(folder):
    """A limit of the file's size is a disk that becomes full."""
    write_run(folder)
    finish(start(folder, "chief"))

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    _, err = finish(start(folder, "evaluator", preexec_fn=limit), code=1)
    assert "the last rows could not be written" in err, err
    finish(start(folder, "evaluator"))
    assert len({row["file"] for row in rows_of(folder)}) == EPOCHS


def sealed_files_need_their_key(folder):
    """Without it each file is left out with a message."""
    write_run(folder)
    for key in ("job.key", "other.key"):
        subprocess.run([PROGRAM, "keygen", "--out", key], cwd=folder,
                       check=True, capture_output=True, timeout=DEADLINE)
    finish(start(folder, "chief", "--sealed", key="job.key"))
    for key in (None, "other.key"):
        _, err = finish(start(folder, "evaluator", key=key))
        assert err.count("is left out") == EPOCHS, err
    finish(start(folder, "evaluator", key="job.key"))
    assert len(rows_of(folder)) == EPOCHS


def wrong_runs_are_refused(folder):
    write_run(folder)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "callbacks": []}))
    _, err = finish(start(folder, "evaluator"), code=2)
    assert "add one" in err, err
    del run["fit"]["validation_split"]
    (folder / "run.json").write_text(json.dumps(run))
    _, err = finish(start(folder, "evaluator"), code=2)
    assert "needs data.validation" in err, err
    # Rows of another run.
    write_run(folder)
    (folder / "run-evaluations.csv").write_text("epoch,loss,mae\n1,2,3\n")
    _, err = finish(start(folder, "evaluator"), code=2)
    assert "move it" in err, err


def main():
    failed = 0
    for test in (killed_at_each_row_evaluates_each_file_once,
                 beside_a_running_chief_follows_it_to_its_end,
                 one_replaced_file_ends_with_the_newest,
                 damaged_file_is_left_out_with_a_message,
                 full_disk_is_an_error_and_the_next_evaluator_goes_on,
                 sealed_files_need_their_key,
                 wrong_runs_are_refused):
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder))
                print("ok", test.__name__)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                print("FAILED", test.__name__, error)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
