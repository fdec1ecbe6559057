#!/usr/bin/env python3
"""An elastic job of which somebody is lost or comes back every ten seconds.

    elastic_churn.py BUILD [--seconds N] [--every N] [--share S] [--seed S]
                     [--measure N] [--no-check] [--data FOLDER]

Four workers of LeNet-5 with 64 replicas. Three may use a share S (0.4) of a
core, one of them a quarter of that: control groups see to it. In turn one is
killed by SIGKILL and started again, each after --every (10) seconds. Prints the
goodput: the steps that the job made, against those that its workers make in the
seconds that they lived, a process that starts included. They make these steps
in two ways:

- Each trains alone, beside the others and with the same share (two that compute
  at once may slow each other down).
- Together in an undisturbed job without the check. Such a job has whole
  replicas, waits for the slowest of each step, and exchanges with workers that
  a control group stops for up to 10 ms. This is no price of losses, so the goals
  are of this goodput.

The model must be that of a worker whom nobody disturbs, byte for byte, and the
log of the examples pass `ringlet audit`.

Exits with 77 where processes cannot be limited, with 1 where bits differ.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from local_accuracy import FULL, SOURCE, layer, part

sys.path.append(str(SOURCE / "tests"))
import network_test  # noqa: E402
from free_ports import free_ports  # noqa: E402
from network_test import Process, Processes, wait_until  # noqa: E402

WORKERS = 4
BATCH = 128  # of a replica
REPLICAS = 64
STEPS = 7  # whole batches an epoch
PROGRAM = str(network_test.BUILD / "tools/ringlet/ringlet")


class Limit:
    """A control group whose processes have a share of a core."""

    def __init__(self, number, share):
        root = pathlib.Path("/sys/fs/cgroup")
        first = (root / "cpu").exists()  # version 1
        self.path = (root / "cpu" if first else root) / (
            f"ringlet-churn-{os.getpid()}-{number}")
        # The shortest that there are, in microseconds: who waits for another
        # that has used up its part waits for the next period.
        quota, period = 1000, round(1000 / share)
        try:
            self.path.mkdir()
            if first:
                (self.path / "cpu.cfs_period_us").write_text(str(period))
                (self.path / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (self.path / "cpu.max").write_text(f"{quota} {period}")
        except OSError as error:
            print(f"skipped: no control groups of its own: {error}")
            sys.exit(77)

    def command(self, *command):
        return ["sh", "-c", f'echo $$ >{self.path}/cgroup.procs; exec "$@"',
                "sh", *command]

    def remove(self):
        for _ in range(100):  # its processes have just ended
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.02)


def run_of(data, epochs, check=True):
    return {
        "model": layer("Sequential", layers=[
            layer("InputLayer", batch_shape=[None, 28, 28]),
            layer("Reshape", target_shape=[28, 28, 1]),
            layer("Conv2D", filters=6, kernel_size=5, padding="same",
                  activation="relu"), layer("MaxPooling2D"),
            layer("Conv2D", filters=16, kernel_size=5, activation="relu"),
            layer("MaxPooling2D"), layer("Flatten"),
            layer("Dense", units=120, activation="relu"),
            layer("Dense", units=84, activation="relu"),
            layer("Dense", units=10)]),
        "compile": {"optimizer": "adam", "metrics": ["accuracy"],
                    "loss": layer("SparseCategoricalCrossentropy",
                                  from_logits=True)},
        "data": {"train": part(data, "train")},
        "fit": {"batch_size": BATCH, "epochs": epochs, "verbose": 2,
                "steps_per_epoch": STEPS},
        "strategy": {"timeout": 1.0, "policy": "shrink", "replicas": REPLICAS,
                     "min_workers": 1, "start_timeout": 60,
                     "cross_check": check}}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def alone(folder, data, epochs):
    """The command of a job of one worker, up to its number of threads."""
    folder.mkdir()
    run = run_of(data, epochs)
    run["strategy"] = {"replicas": REPLICAS, "reduction": "exact"}
    (folder / "run.json").write_text(json.dumps(run))
    return [PROGRAM, "train", str(folder / "run.json"), "--save",
            str(folder / "m.safetensors"), "--log-steps",
            str(folder / "steps.csv"), "--threads"]


def steps_in(log):
    lines = log.read_text().split("\n") if log.exists() else []
    if len(lines) < 3:  # a header, and behind the last one nothing
        return 0
    epoch, step = lines[-2].split(",")[:2]
    return int(epoch) * STEPS + int(step) + 1


def speeds(folders, seconds):
    """Steps a second of the logs in these folders, in so many seconds."""
    seen = [{} for _ in folders]  # when there were so many steps
    wait_until(lambda: all(steps_in(f / "steps.csv") for f in folders),
               "a step of each", 60)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for folder, times in zip(folders, seen):
            times.setdefault(steps_in(folder / "steps.csv"), time.monotonic())
        time.sleep(0.005)
    # What was there at first is of an unknown time.
    spans = [sorted(times.items())[1:] for times in seen]
    return [(s[-1][0] - s[0][0]) / (s[-1][1] - s[0][1]) for s in spans]


def rates(root, limits, arguments):
    """Steps a second of each worker alone, of all at once."""
    folders = [root / f"alone{i}" for i in range(WORKERS)]
    with Processes(Process(limit.command(*alone(folder, arguments.data, 10**6),
                                         "1"))
                   for folder, limit in zip(folders, limits)):
        return speeds(folders, arguments.measure)


class Job:
    def __init__(self, root, limits, rates_of, run):
        root.mkdir()
        self.root, self.limits, self.rates = root, limits, rates_of
        self.ports = free_ports(WORKERS)
        self.workers = Processes([None] * WORKERS)
        self.old = []
        self.since = [0.0] * WORKERS
        self.possible = 0.0  # steps of those who lived
        for i in range(WORKERS):
            self.folder(i).mkdir()
            (self.folder(i) / "run.json").write_text(json.dumps(run))
            self.start(i)

    def end(self):
        for worker in [*self.workers, *self.old]:
            worker.kill()

    def folder(self, i):
        return self.root / f"worker{i}"

    def start(self, i):
        config = {"cluster": {"worker": [f"127.0.0.1:{port}"
                                         for port in self.ports]},
                  "task": {"type": "worker", "index": i}}
        folder = self.folder(i)
        self.since[i] = time.monotonic()
        self.workers[i] = Process(
            self.limits[i].command(
                PROGRAM, "train", str(folder / "run.json"), "--threads", "1",
                "--save", str(folder / "m.safetensors"), "--log-examples",
                str(folder / "examples.csv"), "--log-steps",
                str(folder / "steps.csv")),
            {"TF_CONFIG": json.dumps(config)})

    def ends(self, i):
        self.possible += self.rates[i] * (time.monotonic() - self.since[i])

    def kill(self, i):
        os.kill(self.workers[i].process.pid, signal.SIGKILL)
        self.workers[i].end()
        self.ends(i)
        self.old.append(self.workers[i])

    def steps(self):
        return max(steps_in(self.folder(i) / "steps.csv")
                   for i in range(WORKERS))

    def over(self):
        return any(worker.process.poll() == 0 for worker in self.workers)

    def churn(self, rng, every):
        """Until the training has ended: the steps, and how often."""
        lost = None
        times = 0
        begin = time.monotonic()
        while not self.over():
            wait_until(lambda: self.over()
                       or time.monotonic() >= begin + every,
                       "the next event", every + 60)
            begin += every
            if self.over():
                break
            times += 1
            if lost is None:
                lost = rng.randrange(WORKERS)
                self.kill(lost)
            else:
                self.start(lost)
                lost = None
        for i, worker in enumerate(self.workers):
            if i == lost:
                continue
            try:
                assert worker.end(20) == 0, (i, worker.lines[-3:])
                self.ends(i)
            except subprocess.TimeoutExpired:
                # It came when the others had finished; a launcher ends it.
                print(f"worker {i} came too late", flush=True)
                self.kill(i)
        return times

    def check(self, expected):
        models = {digest(path)
                  for path in self.root.glob("worker*/m.safetensors")}
        logs = sorted(self.root.glob("worker*/examples.csv"))
        audit = subprocess.run([PROGRAM, "audit", *logs], text=True,
                               capture_output=True)
        print(audit.stdout.strip() or audit.stderr.strip(), flush=True)
        assert audit.returncode == 0, audit.stderr
        if models == {expected}:
            return True
        print(f"the models differ: {expected} alone, {models} of the job")
        return False


def undisturbed_share(root, limits, rates_of, arguments):
    """The steps of an undisturbed job, against those of its workers alone."""
    job = Job(root, limits, rates_of, run_of(arguments.data, 10**6, False))
    try:
        return speeds([job.folder(0)], arguments.measure)[0] / sum(rates_of)
    finally:
        job.end()


def play(root, limits, arguments):
    rates_of = rates(root, limits, arguments)
    together = undisturbed_share(root / "calm", limits, rates_of, arguments)
    # What is lost is somebody of average for half of the time.
    steps = sum(rates_of) * (1 - 0.5 / WORKERS) * arguments.seconds
    epochs = max(2, round(steps / STEPS))
    print("steps a second alone: "
          + ", ".join(f"{rate:.2f}" for rate in rates_of)
          + f"; together {100 * together:.1f} % of that; {epochs * STEPS} steps",
          flush=True)
    undisturbed = Process([*alone(root / "alone", arguments.data, epochs), "2"])
    assert undisturbed.end(10000) == 0, undisturbed.lines[-1:]
    expected = digest(root / "alone/m.safetensors")
    job = Job(root / "job", limits, rates_of,
              run_of(arguments.data, epochs, arguments.check))
    try:
        # Nobody is to make steps before all are there.
        wait_until(lambda: job.steps() > 0 or job.over(), "the first step")
        first, before = time.monotonic(), job.steps()
        job.since = [first] * WORKERS
        times = job.churn(random.Random(arguments.seed), arguments.every)
        made = epochs * STEPS - before
        seconds = time.monotonic() - first
        share = made / job.possible
        print(f"{times} losses and returns in {seconds:.0f} s: {made} steps, "
              f"{100 * share:.1f} % of what those who lived make alone, "
              f"{100 * share / together:.1f} % of what they make together "
              f"undisturbed (goal {88 if arguments.check else 92})", flush=True)
        return job.check(expected)
    except BaseException:
        for i, worker in enumerate(job.workers):
            for when, line in worker.lines[-8:]:
                print(f"  worker {i} at {when:.3f}: {line}")
        raise
    finally:
        job.end()
        if arguments.show:
            for i, worker in enumerate([*job.workers, *job.old]):
                for when, line in worker.lines:
                    if not line.startswith(("Epoch", f"{STEPS}/")):
                        print(f"  process {i} at {when:.3f}: {line}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--measure", type=float, default=30,
                        help="seconds, of the speeds of workers alone")
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-check", dest="check", action="store_false",
                        help="without the replica check")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--data", type=pathlib.Path, default=FULL)
    arguments = parser.parse_args()
    os.environ["RINGLET_INSECURE"] = "1"
    limits = []
    try:
        for i in range(WORKERS):
            limits.append(Limit(i, arguments.share * (1 if i < 3 else 0.25)))
        with tempfile.TemporaryDirectory() as folder:
            if not play(pathlib.Path(folder), limits, arguments):
                sys.exit(1)
    finally:
        for limit in limits:
            limit.remove()


main()
