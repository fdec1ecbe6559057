"""A training that is killed, all of it or one worker, and goes on."""
import os
import pathlib
import signal
import subprocess
import time

SECONDS = 600


def children_of(process):
    try:
        text = pathlib.Path(
            f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def workers_of(launcher):
    """Without the process that watches over the launcher."""
    workers = []
    for child in children_of(launcher):
        try:
            line = pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"train" in line and b"launch" not in line:
            workers.append(child)
    return workers


def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def rows_of(path):
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


class Job:
    """The twin: one command, started again whenever all of it was killed."""

    def __init__(self, arguments, folder, log, environment=None):
        self.arguments, self.folder, self.log = arguments, folder, log
        self.environment = environment
        self.start()

    def start(self):
        with open(self.folder / "out", "ab") as out:
            self.process = subprocess.Popen(
                self.arguments, cwd=self.folder, stdout=out, stderr=out,
                env=self.environment)

    def await_row(self, row):
        """Waits for a row of the log. Returns False if the job ends before it."""
        end = time.monotonic() + SECONDS
        while self.process.poll() is None:
            if rows_of(self.log) >= row:
                return True
            assert time.monotonic() < end, "no step was logged"
            time.sleep(0.0005)
        return False

    def kill(self, rng, workers):
        """Says what was killed."""
        running = workers_of(self.process.pid)
        if workers > 1 and len(running) == workers and rng.random() < 0.5:
            lost = rng.randrange(workers)
            kill(running[lost])
            return f"worker {lost}"
        self.process.kill()
        for child in running:
            kill(child)
        self.process.wait()
        self.start()
        return "job"

    def end(self):
        try:
            return self.process.wait(SECONDS)
        finally:
            for child in children_of(self.process.pid):
                kill(child)
            self.process.kill()
