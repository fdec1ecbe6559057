#!/usr/bin/env python3
"""`ringlet train --status` and `ringlet top`, as others see a training.

RINGLET_BUILD names the folder of the build.
"""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from free_ports import free_ports  # noqa: E402
from made_runs import PROGRAM, layer, sequential  # noqa: E402

DEADLINE = 300  # seconds, for what takes a few
# A line of Prometheus's text format, version 0.0.4.
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
NUMBER = r"(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]Inf|NaN)"
LINE = re.compile(rf"(# HELP {NAME} .*|# TYPE {NAME} (counter|gauge)|"
                  rf"{NAME}(\{{{LABEL}(,{LABEL})*\}})? {NUMBER})")


class Training:
    """One that lasts until it is interrupted."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        rows = "".join(f"{i % 7},{i % 5},{i % 7 - i % 5}\n"
                       for i in range(1000))
        (folder / "data.csv").write_text("a,b,y\n" + rows)
        (folder / "run.json").write_text(json.dumps({
            "model": sequential(layer("InputLayer", batch_shape=[None, 2]),
                                layer("Dense", units=1)),
            "compile": {"optimizer": "sgd", "loss": "mse"},
            "data": {"train": {"csv": "data.csv", "label": "y"}},
            "fit": {"epochs": 10**9, "verbose": 0,
                    "validation_split": 0.1}}))
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
        self.environment.pop("RINGLET_STATUS_TOKEN", None)
        self.process = subprocess.Popen(
            [PROGRAM, "train", "run.json", "--no-save", "--status", str(port)],
            cwd=folder, env=self.environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + DEADLINE
        while self.status().get("iterations", 0) == 0:
            assert time.monotonic() < end, "no step in time"

    def ask(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=DEADLINE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def status(self):
        try:
            return json.loads(self.ask("/status.json")[1])
        except ConnectionError:
            assert self.process.poll() is None, self.process.communicate()
            return {}

    def top(self, *arguments):
        done = subprocess.run([PROGRAM, "top", *arguments], timeout=DEADLINE,
                              env=self.environment, capture_output=True,
                              text=True)
        return done.returncode, done.stdout

    def resident(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))  # KiB

    def end(self, number):
        self.process.send_signal(number)
        self.process.communicate(timeout=DEADLINE)


def pages_show_the_training(training):
    before = training.status()
    assert before["phase"] in ("training", "validating"), before
    end = time.monotonic() + DEADLINE
    while training.status()["iterations"] <= before["iterations"]:
        assert time.monotonic() < end, "the steps do not go on"
    assert training.ask("/healthz") == (200, "ok\n")
    code, page = training.ask("/")
    assert code == 200 and "run.json" in page and "<script" not in page, page
    assert training.ask("/other")[0] == 404


def metrics_follow_the_text_format(training):
    code, text = training.ask("/metrics")
    assert code == 200 and text.endswith("\n"), text
    names = set()
    for line in text.splitlines():
        assert LINE.fullmatch(line), line
        if not line.startswith("#"):
            names.add(re.match(NAME, line).group())
    assert {"ringlet_step", "ringlet_iterations_total",
            "ringlet_log"} <= names, names


def many_requests_leave_memory_as_it_is(training):
    for _ in range(100):
        training.ask("/metrics")
    before, begin = training.resident(), time.monotonic()
    for _ in range(3000):
        assert training.ask("/metrics")[0] == 200
    # The history of the training grows meanwhile, by less than 64 kB a second.
    limit = before + 1024 + 64 * (time.monotonic() - begin)
    assert training.resident() <= limit, (before, training.resident(), limit)


def top_lists_it_until_it_ends(training):
    code, table = training.top()
    assert code == 0 and str(training.process.pid) in table, table
    code, table = training.top(f"127.0.0.1:{training.port}")
    assert code == 0 and "run.json" in table, table


def top_shows_the_steps_between_validations(training):
    """Each epoch takes milliseconds, and all but a few of them are steps."""
    end = time.monotonic() + DEADLINE
    while training.status()["epoch"] < 3:
        assert time.monotonic() < end, "the epochs do not go on"
    tables = [training.top()[1] for _ in range(100)]
    assert any(" training " in table for table in tables), tables[-1]


def killed_training_is_not_listed(training):
    training.end(signal.SIGKILL)
    code, table = training.top()
    assert code == 0 and "no training" in table, table
    assert not list((training.folder / "ringlet").iterdir())
    code, table = training.top(f"127.0.0.1:{training.port}")
    assert code == 1 and "refused" in table, table


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        training = Training(pathlib.Path(folder), free_ports(1)[0])
        try:
            for test in (pages_show_the_training,
                         metrics_follow_the_text_format,
                         many_requests_leave_memory_as_it_is,
                         top_lists_it_until_it_ends,
                         top_shows_the_steps_between_validations,
                         killed_training_is_not_listed):
                try:
                    test(training)
                    print("ok", test.__name__)
                except AssertionError as error:
                    failed += 1
                    print("FAILED", test.__name__, error)
        finally:
            training.process.kill()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
