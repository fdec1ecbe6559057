#!/usr/bin/env python3
"""The event logs of real processes, read with Python's json.

A run is killed 50 times at any moment. Its log then has only whole lines, except
perhaps the last, and all that the run has printed. RINGLET_BUILD names the
folder of the build.
"""
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from made_runs import LOGITS_LOSS, PROGRAM, SOURCE, fashion_mnist, layer, sequential

KILLS = 50
# The fields of each event in docs/events.md, the table that the writers and the
# readers keep to.
COMMON = {"time", "seconds", "worker", "event"}
FIELDS = {}
for _name, _fields in re.findall(r"^\| `(\w+)` \|(.*\|.*) \|$",
                                 (SOURCE / "docs/events.md").read_text(), re.M):
    FIELDS.setdefault(_name, set(COMMON)).update(re.findall(r"`(\w+)`", _fields))
EPOCH = re.compile(r"^\d+/\d+ - .* - loss: (\d+\.\d+) - val", re.M)


def write_run(folder, epochs, steps, strategy=None):
    run = {"model": sequential(layer("InputLayer", batch_shape=[None, 28, 28]),
                               layer("Flatten"), layer("Dense", units=10)),
           "compile": {"optimizer": "sgd", "metrics": ["accuracy"],
                       "loss": LOGITS_LOSS},
           "data": {"train": fashion_mnist("train"),
                    "validation": fashion_mnist("t10k")},
           "fit": {"batch_size": 16, "epochs": epochs,
                   "steps_per_epoch": steps, "validation_steps": 1},
           "strategy": strategy or {}}
    (folder / "run.json").write_text(json.dumps(run))


def start(folder, *arguments, **how):
    return subprocess.Popen([PROGRAM, *arguments], cwd=folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            **how)


def run(folder, *arguments, **how):
    process = start(folder, *arguments, **how)
    out, err = process.communicate()
    return process.returncode, out, err


def read(path):
    """The log's events, and the number of lines that are no JSON."""
    events, damaged = [], 0
    text = path.read_bytes().decode("utf-8")
    for line in text.split("\n"):
        if not line:
            continue
        assert len(line) < 4096, line
        try:
            events.append(json.loads(line))
        except ValueError:
            damaged += 1
            continue
        assert COMMON <= events[-1].keys() <= FIELDS[events[-1]["event"]], line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
                            events[-1]["time"])
    return events, damaged


def named(events, name):
    return [event for event in events if event["event"] == name]


def until(what):
    """Waits until `what()` is true, and returns it."""
    end = time.monotonic() + 120
    while not (value := what()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


def test_kills(folder):
    write_run(folder, 100000, 20)
    log = folder / "k.events"
    chance = random.Random(7)
    for _ in range(KILLS):
        log.unlink(missing_ok=True)
        process = start(folder, "train", "run.json", "--no-save", "--events",
                        "k.events")
        lines = ""
        for _ in range(chance.randrange(60)):
            lines += process.stdout.readline()
        time.sleep(chance.random() / 200)
        process.kill()
        lines += process.stdout.read()
        process.communicate()
        events, damaged = read(log) if log.exists() else ([], 0)
        assert damaged == 0 or (damaged == 1 and
                             not log.read_bytes().endswith(b"\n"))
        printed = EPOCH.findall(lines)
        epochs = named(events, "epoch")
        assert len(printed) <= len(epochs) <= len(printed) + 1, (lines, events)
        for i, (text, event) in enumerate(zip(printed, epochs)):
            assert event["epoch"] == i and event["step"] == 20 * (i + 1)
            assert f"{event['logs']['loss']:.4f}" == text
        assert not lines or events[0]["event"] == "start"
        seconds = [event["seconds"] for event in events]
        assert seconds == sorted(seconds)


def workers_of(launcher):
    children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children")
    return [int(child) for child in children.read_text().split()
            if pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")[1]
            == "train"]


def is_stopped(process):
    """A thread that waits for a processor stops when it gets one."""
    tasks = pathlib.Path(f"/proc/{process}/task").iterdir()
    states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0]
              for task in tasks]
    return set(states) == {"T"}


def test_stalled_job(folder):
    """The logs of a stalled job that is killed name the awaited worker."""
    write_run(folder, 10, 1000000, {"timeout": 60})
    process = start(folder, "launch", "-n", "3", "--", PROGRAM, "train",
                    "run.json", "--save", "s.safetensors")
    logs = [folder / f"s.worker-{n}.events" for n in range(3)]
    try:
        until(lambda: all(log.exists() and named(read(log)[0], "steps")
                          for log in logs))
        workers = workers_of(process.pid)
        assert len(workers) == 3
        os.kill(workers[1], signal.SIGSTOP)
        until(lambda: all(named(read(logs[n])[0], "wait") for n in (0, 2)))
    finally:
        # All stop before the first is killed, so none records another's loss.
        workers = workers_of(process.pid)
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        until(lambda: all(map(is_stopped, workers)))
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        process.communicate()
    waits = [named(read(logs[n])[0], "wait")[-1] for n in (0, 2)]
    assert "1" in [wait["for"] for wait in waits]
    assert all(wait["waited_seconds"] >= 1 and wait["step"] > 1
               for wait in waits)
    code, out, err = run(folder, "inspect", *(str(log) for log in logs))
    assert code == 0 and not err
    assert "waiting for worker 1 since" in out, out
    (view, *_) = named(read(logs[0])[0], "view")
    assert view["members"] == ["0", "1", "2"] and view["view"] == 1
    replicas = [event["replicas"] for event in named(read(logs[0])[0], "view")
                if "replicas" in event]
    assert replicas == [{"0": 1, "1": 1, "2": 1}], replicas


def test_a_run(folder):
    """The events of a run, of one that a signal ends, and of one that fails."""
    write_run(folder, 2, 50)
    assert run(folder, "train", "run.json", "--save", "m", "--events",
               "m.events")[0] == 0
    events, damaged = read(folder / "m.events")
    names = [event["event"] for event in events if event["event"] != "check"]
    assert damaged == 0 and names == ["start", "fit", "epoch", "epoch", "save",
                                   "steps", "end"], names
    (begin, fit, *_, save, steps, end) = [
        event for event in events if event["event"] != "check"]
    assert begin["run"] == "run.json" and begin["workers"] == 1
    assert fit["epochs"] == 2 and fit["steps_per_epoch"] == 50
    assert fit["batch_size"] == 16 and fit["threads"] == 1
    assert fit["model"]["parameters"] == 7850 and fit["model"]["layers"] == 2
    assert fit["planned_memory_bytes"] > 4 * 7850
    assert save["file"] == "m" and save["step"] == 100
    assert save["bytes"] == (folder / "m").stat().st_size
    assert (steps["first_step"], steps["last_step"]) == (1, 100)
    parts = sum(steps[part] for part in
                ("compute", "wait", "transfer", "read", "save"))
    assert steps["p50"] <= steps["p99"] <= steps["max"] <= parts
    assert end["exit_code"] == 0 and end["step"] == 100

    write_run(folder, 2, 1000000)
    process = start(folder, "train", "run.json", "--save", "t", "--events",
                    "t.events")
    until(lambda: (folder / "t.events").exists() and
          named(read(folder / "t.events")[0], "steps"))
    process.terminate()
    process.communicate()
    events, damaged = read(folder / "t.events")
    assert [event["signal"] for event in named(events, "signal")] == [15]
    assert events[-1]["exit_code"] == 143 and damaged == 0
    assert "signal 15 came at" in run(folder, "inspect", "t.events")[1]

    (folder / "run.json").write_text("{}")
    assert run(folder, "train", "run.json", "--events", "f.events")[0] == 2
    events, _ = read(folder / "f.events")
    assert [event["event"] for event in events] == ["start", "warning", "end"]
    assert events[1]["text"] == "error: " + events[2]["reason"]


def test_readers(_):
    """The readers ask for no field that is not documented."""
    documented = set().union(*FIELDS.values())
    for name in ("io/logs/event_lines.cc",
                 "tools/ringlet/report/event_history.cc"):
        text = (SOURCE / name).read_text()
        asked = set(re.findall(r'\["(\w+)"\]', text))
        for some in re.findall(r"FirstField\(\w+, \{(.*?)\}\)", text, re.S):
            asked |= set(re.findall(r'"(\w+)"', some))
        assert len(asked) > 15 and asked <= documented, asked - documented


def test_files(folder):
    """Which files are written, and that their errors do not end a run."""
    write_run(folder, 1, 5)
    before = {path.name for path in folder.iterdir()}

    def job(*more):
        code, _, err = run(folder, "launch", "-n", "2", "--", PROGRAM, "train",
                           "run.json", *more)
        assert code == 0, err
        files = {path.name for path in folder.iterdir()} - before
        for name in files:
            (folder / name).unlink()
        return files
    assert job("--save", "j.safetensors", "--no-events") == {"j.safetensors"}
    assert job("--no-save") == set()
    assert job("--save", "j.safetensors") == {
        "j.safetensors", "j.worker-0.events", "j.worker-1.events"}
    assert job("--no-save", "--events", "e.events") == {
        "e.worker-0.events", "e.worker-1.events"}

    code, _, err = run(folder, "train", "run.json", "--no-save", "--events",
                       "missing/e.events")
    assert code == 0 and err.count("warning: ") == 1, err
    code, _, err = run(folder, "train", "run.json", "--no-save", "--events",
                       "run.json")
    assert code == 2 and "run.json" in err, err
    (folder / "letter").write_text("a letter")
    code, _, err = run(folder, "train", "run.json", "--no-save", "--events",
                       "letter")
    assert code == 2 and "is not an event log" in err, err
    assert (folder / "letter").read_text() == "a letter"

    def low():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
    code, _, err = run(folder, "train", "run.json", "--no-save", "--events",
                       "full.events", preexec_fn=low)
    assert code == 0 and err.count("cannot be written") == 1, (code, err)


def main():
    for test in (test_readers, test_a_run, test_files, test_stalled_job,
                 test_kills):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ringlet-"))
        try:
            test(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(test.__name__, "passed", flush=True)


if __name__ == "__main__":
    main()
