#!/usr/bin/env python3
"""Elastic jobs whose workers are killed, stopped, cut off and started again.

    elastic_faults.py BUILD [--times N] [--seed S] [--shared] [--local H]
                      [--flaps N] [NAME...]

Runs all scenarios, or those whose name has NAME, each N times (3). A job is four
processes of `ringlet train` with eight replicas and a timeout of 1 s, each in a
network of its own. After any fault the saved model and the log of the steps must
be those of the undisturbed job, byte for byte. The log of the examples must pass
`ringlet audit`. --local: with rounds of H local steps. Prints the time until the
next step, and until a restarted worker has joined. Exits with 77 if no namespaces
can be made.
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
import threading
import time

import network_test
from made_runs import LOGITS_LOSS, fashion_mnist, layer, sequential
from network_test import Network, Process, Processes, run, wait_until

WORKERS = 4
STEPS = 31  # whole batches an epoch
TIMEOUT = 1.0
PROGRAM = str(network_test.BUILD / "tools/ringlet/ringlet")


def run_of(folder, arguments):
    rounds = {}
    if arguments.local:
        rounds = {"mode": "local", "local_steps": arguments.local}
    return {
        "model": sequential(
            layer("InputLayer", batch_shape=[None, 28, 28]), layer("Flatten"),
            layer("Dense", units=64, activation="relu"),
            layer("BatchNormalization"), layer("Dropout", rate=0.2),
            layer("Dense", units=10)),
        "compile": {"optimizer": "adam", "metrics": ["accuracy"],
                    "loss": LOGITS_LOSS},
        "data": {"train": fashion_mnist("train")},
        "fit": {"batch_size": 8, "epochs": arguments.epochs, "verbose": 2,
                "steps_per_epoch": STEPS},
        "callbacks": [{"class_name": "BackupAndRestore",
                       "config": {"backup_dir": str(folder / "backup"),
                                  "save_freq": 50}}],
        "strategy": {"timeout": TIMEOUT, "policy": "shrink", "replicas": 8,
                     "min_workers": 1, "start_timeout": 60, **rounds}}


class Job:
    """Workers in folders of their own, as if each on its disk, or in one."""

    def __init__(self, network, root, arguments, by_name=False):
        self.network, self.root, self.by_name = network, root, by_name
        self.shared, self.flaps = arguments.shared, arguments.flaps
        self.workers = Processes([None] * WORKERS)
        self.old = []
        for i in range(WORKERS):
            folder = self.folder(i)
            folder.mkdir(exist_ok=True)
            (folder / "run.json").write_text(
                json.dumps(run_of(folder, arguments)))
            self.start(i)

    def folder(self, i):
        return self.root / f"worker{0 if self.shared else i}"

    def start(self, i):
        addresses = self.network.addresses(WORKERS)
        if self.by_name:
            addresses = [f"{name}:{network_test.PORT}"
                         for name in self.network.names]
        config = {"cluster": {"worker": addresses},
                  "task": {"type": "worker", "index": i}}
        if self.workers[i] is not None:
            self.old.append(self.workers[i])
        command = [PROGRAM, "train", str(self.folder(i) / "run.json"),
                   "--log-steps", str(self.folder(i) / "steps.csv"),
                   "--save", str(self.folder(i) / "m.safetensors"),
                   "--log-examples", str(self.folder(i) / "examples.csv")]
        self.workers[i] = Process(
            self.network.by_name(i, self.root, *command) if self.by_name
            else self.network.inside(i, *command),
            {"TF_CONFIG": json.dumps(config)})

    def logs(self, i, name):
        """The logs in worker i's folder: that of a second writer is beside the first."""
        return sorted(self.folder(i).glob(f"{name}*.csv"))

    def rows(self, i):
        """The rows of worker i's logs, by step."""
        rows = {}
        for log in self.logs(i, "steps"):
            lines = log.read_text().split("\n")
            cells = [line.split(",", 2) for line in lines[1:-1]]  # whole lines
            rows.update({int(c[0]) * STEPS + int(c[1]): c[2] for c in cells})
        return rows

    def check_order(self, i):
        """Each row of a log is there once, behind those before it."""
        for log in self.logs(i, "steps"):
            lines = log.read_text().split("\n")[1:-1]
            steps = [line.split(",", 2)[:2] for line in lines]
            numbers = [int(epoch) * STEPS + int(step) for epoch, step in steps]
            assert numbers == sorted(set(numbers)), (
                f"{log} has rows twice, or not in order")

    def coverage(self):
        """The steps in each log, as ranges."""
        out = []
        for i in range(WORKERS):
            rows = self.rows(i)
            steps = sorted(rows)
            ends = [s for s in steps if s + 1 not in rows][:9]
            begins = [s for s in steps if s - 1 not in rows][:9]
            out.append(f"worker {i}: " + ", ".join(
                f"{a} to {b}" for a, b in zip(begins, ends)))
        return "; ".join(out)

    def show(self):
        """Prints the workers' lines, without those of epochs."""
        for i, worker in enumerate(self.workers):
            for when, line in worker.lines:
                if not line.startswith(("Epoch ", f"{STEPS}/")):
                    print(f"    worker {i} at {when:.3f}: {line}")

    def step(self):
        return max(max(self.rows(i), default=0) for i in range(WORKERS))

    def alive(self):
        return [i for i in range(WORKERS)
                if self.workers[i].process.poll() is None]

    def wait_step(self, step, seconds=100):
        wait_until(lambda: self.step() >= step or not self.alive(),
                   f"step {step}", seconds)

    def next_step(self):
        """Seconds until a step that begins from now on has been made."""
        begin, at = time.monotonic(), self.step()
        self.wait_step(at + 2)
        return time.monotonic() - begin

    def signal(self, i, number):
        os.kill(self.workers[i].process.pid, number)
        if number == signal.SIGKILL:
            self.workers[i].end()

    def until_all(self, begin, size=WORKERS):
        """Seconds from `begin` until `size` workers run together."""
        def together():
            return any(when > begin and "continues at" in line
                       and f"with {size} workers" in line
                       for worker in self.workers
                       for when, line in worker.lines)
        wait_until(lambda: together() or not self.alive(), "all run together")
        return time.monotonic() - begin

    def take_back(self, *workers):
        begin = time.monotonic()
        for i in workers:
            self.start(i)
        return self.until_all(begin, len(self.alive()))

    def kill(self):
        for worker in [*self.workers, *self.old]:
            worker.kill()

    def end(self):
        """The digest of the model, and all rows of all logs."""
        for i, worker in enumerate(self.workers):
            code = worker.end()
            assert code == 0, f"worker {i}: exit code {code}"
        models = {hashlib.sha256(path.read_bytes()).hexdigest()
                  for path in self.root.glob("worker*/m.safetensors")}
        assert len(models) == 1, f"{len(models)} models were saved"
        rows = {}
        for i in range(WORKERS):
            self.check_order(i)
            for step, row in self.rows(i).items():
                assert rows.setdefault(step, row) == row, (
                    f"step {step} is another one in the log of worker {i}")
        logs = sorted({log for i in range(WORKERS)
                       for log in self.logs(i, "examples")})
        audit = subprocess.run([PROGRAM, "audit", *logs],
                               capture_output=True, text=True)
        assert audit.returncode == 0, audit.stderr
        return models.pop(), rows


class Figures(list):
    """Seconds; printed as their median and maximum."""

    def __str__(self):
        if not self:
            return "-"
        return f"{sorted(self)[len(self) // 2]:.2f} s (worst {max(self):.2f})"


class Scenario:
    def __init__(self, job, rng):
        self.job, self.rng = job, rng
        self.next, self.back = Figures(), Figures()

    def somewhere(self):
        """At a random step soon."""
        self.job.wait_step(self.job.step() + self.rng.randrange(20, 200))

    def kill(self, *workers):
        for i in workers:
            os.kill(self.job.workers[i].process.pid, signal.SIGKILL)
        for i in workers:
            self.job.workers[i].end()

    def lose_and_take_back(self, *workers):
        self.somewhere()
        pids = {i: self.job.workers[i].process.pid for i in self.job.alive()}
        self.kill(*workers)
        self.next.append(self.job.next_step())
        self.job.wait_step(self.job.step() + self.rng.randrange(1, 200))
        self.back.append(self.job.take_back(*workers))
        for i in set(pids) - set(workers):  # no survivor was started again
            assert self.job.workers[i].process.pid == pids[i]
            assert i in self.job.alive(), f"worker {i} has ended"

    # The scenarios.

    def one(self):
        """kill -9 of any worker."""
        for _ in range(3):
            self.lose_and_take_back(self.rng.randrange(WORKERS))

    def chief(self):
        """kill -9 of worker 0."""
        for _ in range(3):
            self.lose_and_take_back(0)

    def two(self):
        """kill -9 of two at once."""
        for _ in range(2):
            self.lose_and_take_back(*self.rng.sample(range(WORKERS), 2))

    def all_but_one(self):
        """kill -9 of all but one at once."""
        stays = self.rng.randrange(WORKERS)
        self.lose_and_take_back(*(set(range(WORKERS)) - {stays}))

    def everyone(self):
        """kill -9 of all at once: the chief's backup is what is left."""
        self.somewhere()
        self.job.wait_step(60)
        self.kill(*range(WORKERS))
        for i in range(WORKERS):
            self.job.start(i)
        self.next.append(self.job.next_step())

    def one_by_one(self):
        """Down to one, and back to all."""
        order = self.rng.sample(range(WORKERS), WORKERS - 1)
        for i in order:
            self.somewhere()
            self.kill(i)
            self.next.append(self.job.next_step())
        for i in self.rng.sample(order, WORKERS - 1):
            self.somewhere()
            self.back.append(self.job.take_back(i))

    def stopped(self):
        """A worker is stopped for ten timeouts, and continues."""
        self.somewhere()
        worker = self.rng.randrange(WORKERS)
        os.kill(self.job.workers[worker].process.pid, signal.SIGSTOP)
        self.next.append(self.job.next_step())
        time.sleep(10 * TIMEOUT)
        begin = time.monotonic()
        os.kill(self.job.workers[worker].process.pid, signal.SIGCONT)
        self.back.append(self.job.until_all(begin))

    def cut(self, pairs, hooks, seconds=4 * TIMEOUT):
        """Drops what goes between these pairs, the first's side."""
        network = self.job.network
        for a, b in pairs:
            for hook in hooks:
                where = "saddr" if hook == "input" else "daddr"
                network.rule(a, [hook], f"ip {where} {network.host(b)} drop")
        self.next.append(self.job.next_step())
        time.sleep(seconds)
        begin = time.monotonic()
        for a in {a for a, _ in pairs}:
            network.no_rules(a)
        self.back.append(self.job.until_all(begin))

    def halves(self):
        """The network parts into two and two."""
        self.somewhere()
        order = self.rng.sample(range(WORKERS), WORKERS)
        self.cut([(a, b) for a in order[:2] for b in order[2:]],
                 ["input", "output"])

    def alone(self):
        """A worker is cut off from the other three."""
        self.somewhere()
        one = self.rng.randrange(WORKERS)
        self.cut([(one, b) for b in range(WORKERS) if b != one],
                 ["input", "output"])

    def one_way(self):
        """A worker sends but receives nothing, or receives but sends nothing."""
        self.somewhere()
        one = self.rng.randrange(WORKERS)
        self.cut([(one, b) for b in range(WORKERS) if b != one],
                 [self.rng.choice(["input", "output"])])

    def pair(self):
        """Two do not reach each other, all others do."""
        self.somewhere()
        a, b = self.rng.sample(range(WORKERS), 2)
        self.cut([(a, b)], ["input", "output"])

    def gone(self, workers, seconds=4 * TIMEOUT):
        """Takes carrier and address of `workers` away, and gives them back."""
        self.somewhere()
        self.job.network.take_away(*workers)
        self.next.append(self.job.next_step())
        time.sleep(seconds)
        begin = time.monotonic()
        self.job.network.give_back(*workers)
        self.back.append(self.job.until_all(begin))

    def address(self):
        """Takes the network of one worker away, and gives it back."""
        self.gone([self.rng.randrange(WORKERS)])

    def switch(self):
        """Takes the network of all workers away, and gives it back."""
        self.gone(range(WORKERS))

    def route(self):
        """Loses an address or the switch, on hosts whose own name is 127.0.1.1."""
        self.gone(self.rng.choice([[self.rng.randrange(WORKERS)],
                                   range(WORKERS)]))

    def flaps(self):
        """The link of one comes and goes each second."""
        self.somewhere()
        one = self.rng.randrange(WORKERS)
        for _ in range(self.job.flaps):
            self.job.network.rule(one, ["input", "output"], "drop")
            time.sleep(0.5)
            self.job.network.no_rules(one)
            time.sleep(0.5)


NAMES = ["one", "chief", "two", "all_but_one", "everyone", "one_by_one",
         "stopped", "halves", "alone", "one_way", "pair", "address", "switch",
         "route", "flaps"]


def logged(arguments):
    """The numbers of the steps that have a row: of each round the last."""
    size = arguments.local or 1
    ends = [*range(size - 1, STEPS - 1, size), STEPS - 1]
    return {e * STEPS + s for e in range(arguments.epochs) for s in ends}


def play(network, name, rng, arguments):
    with tempfile.TemporaryDirectory() as folder:
        job = Job(network, pathlib.Path(folder), arguments,
                  by_name=name == "route")
        try:
            scenario = Scenario(job, rng)
            if name:
                getattr(scenario, name)()
            model, rows = job.end()
            missing = sorted(logged(arguments) - set(rows))
            assert not missing, (
                f"{len(missing)} steps are in no log: {missing[0]} to "
                f"{missing[-1]}; {job.coverage()}")
            if arguments.show:
                job.show()
            return model, rows, scenario
        except BaseException:
            job.show()
            raise
        finally:
            job.kill()


def inside(arguments):
    names = [name for name in NAMES
             if not arguments.names or name in arguments.names]
    with Network(WORKERS) as network:
        expected, rows, _ = play(network, "", None, arguments)
        print(f"undisturbed: {len(rows)} steps, {expected[:16]}", flush=True)
        for name in names:
            next_, back, equal = Figures(), Figures(), 0
            for time_ in range(arguments.times):
                seed = f"{arguments.seed} {name} {time_}"
                try:
                    model, logged, scenario = play(
                        network, name, random.Random(seed), arguments)
                except AssertionError as error:
                    print(f"  {seed}: {error}", flush=True)
                    continue
                if model != expected or logged != rows:
                    what = "model" if model != expected else "log"
                    print(f"  {seed}: another {what}", flush=True)
                    continue
                equal += 1
                next_ += scenario.next
                back += scenario.back
            print(f"{name}: {equal} of {arguments.times} equal; next step "
                  f"after {next_}, back after {back}", flush=True)
            arguments.failed += arguments.times - equal


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true",
                        help="what the workers say, of those that pass too")
    parser.add_argument("--shared", action="store_true",
                        help="all workers in one folder")
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--flaps", type=int, default=10,
                        help="how often a link that flaps does, each second; "
                        "the job needs --epochs that take longer")
    parser.add_argument("--local", type=int, default=0)
    arguments = parser.parse_intermixed_args()
    arguments.failed = 0
    if network_test.INSIDE not in os.environ:
        network_test.enter()
    threading.Thread(target=network_test.end_with_parent, daemon=True).start()
    run("mount", "-t", "tmpfs", "none", "/run")
    tempfile.tempdir = "/run"
    os.environ["RINGLET_INSECURE"] = "1"
    inside(arguments)
    sys.exit(arguments.failed > 0)


main()
