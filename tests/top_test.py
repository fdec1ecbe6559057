#!/usr/bin/env python3
"""`ringlet top` and the page of --status, for a job of three workers that waits
for one of them; and terminals of 80 columns, as tmux captures them.

RINGLET_BUILD names the folder of the build.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from free_ports import free_ports  # noqa: E402

PROGRAM = pathlib.Path(os.environ["RINGLET_BUILD"]).resolve() / \
    "tools/ringlet/ringlet"
DEADLINE = 300  # seconds, for what takes a few


def until(find):
    """Returns the first result that is true."""
    end = time.monotonic() + DEADLINE
    while True:
        found = find()
        if found:
            return found
        assert time.monotonic() < end, find
        time.sleep(0.02)


def write_run(folder, epochs, verbose=0):
    rows = "".join(f"{i % 7},{i % 5},{i % 7 - i % 5}\n" for i in range(3000))
    (folder / "data.csv").write_text("a,b,y\n" + rows)
    layers = [{"class_name": "InputLayer",
               "config": {"batch_shape": [None, 2]}},
              {"class_name": "Dense", "config": {"units": 1}}]
    (folder / "run.json").write_text(json.dumps({
        "model": {"class_name": "Sequential", "config": {"layers": layers}},
        "compile": {"optimizer": "sgd", "loss": "mse"},
        "data": {"train": {"csv": "data.csv", "label": "y"}},
        "strategy": {"timeout": 30},
        "fit": {"epochs": epochs, "batch_size": 1, "verbose": verbose}}))


def environment(folder, **more):
    of_test = {**os.environ, "XDG_RUNTIME_DIR": str(folder), **more}
    of_test.pop("RINGLET_STATUS_TOKEN", None)
    return of_test


def ask(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}",
                                    timeout=DEADLINE) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return ""


class Job:
    """Three workers that train until they are killed."""

    def __init__(self, folder):
        self.folder = folder
        write_run(folder, 10**6)
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
        self.ports = free_ports(3)
        self.workers = []

    def __enter__(self):
        for worker in range(3):
            self.start(worker)
        return self

    def start(self, worker):
        config = json.dumps({"cluster": {"worker": self.addresses},
                             "task": {"type": "worker", "index": worker}})
        self.workers.append(subprocess.Popen(
            [PROGRAM, "train", "run.json", "--no-save", "--events",
             "job.events", "--status", str(self.ports[worker])],
            cwd=self.folder, env=environment(self.folder, TF_CONFIG=config),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def __exit__(self, *_):
        for process in self.workers:
            process.kill()
            process.wait()

    def status(self, worker):
        return json.loads(ask(self.ports[worker], "/status.json") or "{}")

    def top(self):
        """{worker: its line}."""
        table = subprocess.run([PROGRAM, "top"], env=environment(self.folder),
                               timeout=DEADLINE, capture_output=True,
                               text=True).stdout
        return {int(line.split()[1][0]): line for line in table.splitlines()[1:]
                if "/3" in line}


def stopped_worker_is_named(folder):
    """By the two others, until it goes on."""
    with Job(folder) as job:
        until(lambda: all(job.status(worker).get("iterations", 0) > 0
                          for worker in range(3)))
        assert "waiting_for" not in job.status(0), job.status(0)
        job.workers[1].send_signal(signal.SIGSTOP)
        lines = until(lambda: (
            lambda top: top if all("waits for worker 1, " in top.get(worker, "")
                                   for worker in (0, 2)) else None)(job.top()))
        assert "waits for" not in lines[1], lines
        status = job.status(0)
        assert status["waiting_for"] == "worker 1", status
        assert status["waiting_seconds"] > 0, status
        assert re.search(r'^ringlet_waiting_seconds\{for="worker 1"\} [\d.]+$',
                         ask(job.ports[2], "/metrics"), re.M)
        page = ask(job.ports[0], "/")
        assert "waits for" in page and "worker 1" in page, page
        job.workers[1].send_signal(signal.SIGCONT)
        until(lambda: not any("waits for" in line
                              for line in job.top().values()))
        before = job.status(0)["iterations"]
        until(lambda: job.status(0)["iterations"] > before)


def missing_worker_is_named(folder):
    """Before the first step, and after the worker was lost."""
    job = Job(folder)
    with contextlib.ExitStack() as at_end:
        at_end.callback(job.__exit__)
        job.start(0)
        until(lambda: job.status(0).get("waiting_for") == "workers 1, 2")
        assert job.status(0)["phase"] == "starting", job.status(0)
        job.start(1)
        until(lambda: "waits for worker 2, " in job.top().get(0, ""))
        job.start(2)
        until(lambda: all(job.status(worker).get("iterations", 0) > 0
                          for worker in range(3)))
        assert "waiting_for" not in job.status(0), job.status(0)


def page_is_the_report(folder):
    """Of the event log so far; it loads itself again without a program."""
    with Job(folder) as job:
        page = until(lambda: (
            lambda page: page if "<h2>Epochs</h2>" in page else None)(
                ask(job.ports[0], "/")))
        assert "<script" not in page and 'http-equiv="refresh"' in page
        assert "<h2>Workers</h2>" in page, page
        assert len(page) < 2_000_000


class Pane:
    """A terminal of 80 columns and 24 lines."""

    def __init__(self, folder, *command):
        self.tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]
        line = " ".join(["exec", *map(str, command)])
        subprocess.run([*self.tmux, "new-session", "-d", "-x", "80", "-y", "24",
                        "-c", str(folder), line], check=True,
                       env=environment(folder, TERM="screen"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([*self.tmux, "kill-server"], check=False,
                       capture_output=True)

    def lines(self):
        text = subprocess.run([*self.tmux, "capture-pane", "-p"], check=True,
                              capture_output=True, text=True).stdout
        return text.rstrip("\n").split("\n")


def top_fits_a_terminal(folder):
    """A heading and a line a worker, drawn again in their places."""
    with Job(folder) as job:
        until(lambda: all(job.status(worker).get("iterations", 0) > 0
                          for worker in range(3)))

        def drawn():
            lines = pane.lines()
            return lines if len(lines) == 4 else None
        with Pane(folder, PROGRAM, "top") as pane:
            first = until(drawn)
            heading = first[0].split()
            assert heading == ["PROCESS", "WORKER", "PHASE", "EPOCH", "STEP",
                               "STEPS/S", "LEFT", "LOSS", "RUN"], first
            assert sorted(line.split()[1] for line in first[1:]) == \
                ["0/3", "1/3", "2/3"], first
            assert all(len(line) <= 80 for line in first), first
            steps = first[1].split()[3:5]
            again = until(lambda: (
                lambda lines: lines if lines and lines[1].split()[3:5] != steps
                else None)(drawn()))
            assert again[0].split() == heading, again
            job.workers[1].send_signal(signal.SIGSTOP)
            waits = until(lambda: (
                lambda lines: lines if lines and sum(
                    "waits for worker 1" in line for line in lines) == 2
                else None)(drawn()))
            assert all(len(line) <= 80 for line in waits), waits
            job.workers[1].send_signal(signal.SIGCONT)


def bar_is_one_line(folder):
    """It grows in its place, and the epoch's figures follow it."""
    write_run(folder, 10**6, verbose=1)
    with Pane(folder, PROGRAM, "train", "run.json", "--no-save") as pane:
        bar = r" *\d+/3000 .* - loss: \d.*"
        lines = until(lambda: (
            lambda lines: lines if sum(
                re.fullmatch(bar, line) is not None for line in lines) >= 2
            else None)(pane.lines()))
        epochs = [line for line in lines if line.startswith("Epoch ")]
        bars = [line for line in lines if re.fullmatch(bar, line)]
        assert 0 <= len(epochs) - len(bars) <= 1, lines
        assert all(len(line) <= 80 for line in lines), lines


def main():
    tests = [stopped_worker_is_named, missing_worker_is_named,
             page_is_the_report, top_fits_a_terminal, bar_is_one_line]
    if shutil.which("tmux") is None:
        print("skipped: the tests of terminals need tmux")
        tests = tests[:3]
    failed = 0
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder))
                print("ok", test.__name__)
            except AssertionError as error:
                failed += 1
                print("FAILED", test.__name__, error)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
