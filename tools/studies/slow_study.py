#!/usr/bin/env python3
"""What slow links, lost packets and slow boards cost jobs of local updates.

    slow_study.py BUILD [--data FOLDER] [--csv FOLDER] [PART...]

Jobs of four workers by slow_links.py, each over its own network; the parts:

exchange  seconds of a round's exchange and of a synchronous step's, at 20 and
          5 Mbit/s, 20 and 100 ms each way, with a batch of one example
time      seconds until the tutorials' model with Adam has --accuracy (0.87) on
          the test images, a look after every round of --steps (117), over
          loopback and these links, in changes of int8 and sparse ones; and its
          steps in synchronous training
loss      the model's SHA-256 with and without one packet in ten lost
workers   the model's SHA-256 of 1, 2, 3 and 4 workers
shares    seconds of a round where one worker has a quarter of the speed,
          against those that the sum of the speeds would allow

--csv: a folder, for exchange.csv and time_to_accuracy.csv.
--data: a folder with Fashion-MNIST's four files; without it Debian's
(dataset-fashion-mnist), or the small one of the repository, for which
--accuracy 0.7 --steps 4 are.
Exits with 77 where no namespaces can be made, with 1 where bits differ.
"""
import argparse
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import local_accuracy

STUDIES = pathlib.Path(__file__).resolve().parent
LOOPBACK = (0, 0)
LINKS = [(20, 20), (20, 100), (5, 20), (5, 100)]  # Mbit/s, ms each way
PARTS = ["exchange", "time", "loss", "workers", "shares"]
EXCHANGE = ["setting", "mbits", "ms", "seconds"]
FIELDS = ["setting", "mbits", "ms", "round", "seconds", "val_accuracy"]


class Said:
    """What slow_links.py printed."""

    def __init__(self, text):
        self.ends = [float(s) for s in
                     re.findall(r"^epoch \d+: ([\d.]+)", text, re.M)]
        self.accuracies = re.findall(r"val_accuracy ([\d.]+)", text)
        self.digest = (re.findall(r"^SHA-256 (\w+)", text, re.M) or [None])[0]
        found = re.search(r"^reached .* after ([\d.]+)", text, re.M)
        self.reached = float(found[1]) if found else None
        self.sent = sum(int(n) for n in re.findall(r": (\d+) bytes in", text))

    def epochs(self, skip=1):
        """Seconds of each epoch but the first ones."""
        return [b - a for a, b in zip(self.ends[skip - 1:], self.ends[skip:])]


class Study:
    def __init__(self, asked):
        self.asked = asked
        self.program = str(pathlib.Path(asked.build).resolve() /
                           "tools/ringlet/ringlet")

    def run_of(self, setting, epochs, steps, batch=64, replicas=4):
        """Without validation, whose time is not that of steps."""
        run = local_accuracy.run_of(setting, self.asked.data, None, epochs, 1)
        run["fit"].update(batch_size=batch, steps_per_epoch=steps)
        run["strategy"].update(replicas=replicas, timeout=30)
        del run["data"]["validation"]
        return run

    def job(self, run, link=LOOPBACK, *flags):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "run.json")
            path.write_text(json.dumps(run))
            rate = (["--rate", str(link[0]), "--delay", str(link[1])]
                    if link[0] else [])
            done = subprocess.run(
                [sys.executable, str(STUDIES / "slow_links.py"), *rate, *flags,
                 self.program, str(path)], stdout=subprocess.PIPE, text=True,
                stdin=subprocess.DEVNULL)
        if done.returncode == 77:
            print(done.stdout.strip())
            sys.exit(77)
        assert done.returncode == 0, done.stdout
        assert "exit code" not in done.stdout, done.stdout
        return Said(done.stdout)

    # The parts.

    def exchange(self):
        rows = []
        for setting, steps in (("local-1", 5), ("local-1-sparse", 5),
                               ("sync-ring", 2)):
            run = self.run_of(setting, 1 + steps, 1, 1)
            for link in (LOOPBACK, *LINKS):
                said = self.job(run, link)
                seconds = f"{statistics.median(said.epochs()):.2f}"
                rows.append(dict(zip(EXCHANGE, [setting, *link, seconds])))
                print(f"exchange, {setting}, {name(link)}: {seconds} s, "
                      f"{said.sent / 4 / (1 + steps):.0f} bytes on the wire "
                      "of each worker", flush=True)
        write(self.asked.csv / "exchange.csv", EXCHANGE, rows)
        return True

    def time(self):
        steps, rows, loopback = self.asked.steps, [], {}
        # Where a link is too slow for int8, changes of the largest weights.
        dense, sparse = f"local-{steps}", f"local-{steps}-gentle-sparse"
        for setting, link in [
                ("sync-ring", LOOPBACK),
                *((setting, link) for setting in (dense, sparse)
                  for link in (LOOPBACK, *LINKS))]:
            run = self.run_of(setting, self.asked.rounds, steps)
            run["data"]["validation"] = local_accuracy.part(self.asked.data,
                                                            "t10k")
            said = self.job(run, link, "--stop", "--accuracy",
                            str(self.asked.accuracy))
            rows += [dict(zip(FIELDS, [setting, *link, i + 1, *row]))
                     for i, row in enumerate(zip(said.ends, said.accuracies))]
            if link == LOOPBACK:
                loopback[setting] = said.reached or 0
            print(f"time, {setting}, {name(link)}: "
                  + (f"{self.asked.accuracy} after {said.reached} s and "
                     f"{len(said.ends) * steps} steps"
                     if said.reached else "not reached")
                  + "".join(f", {said.reached / seconds:.2f} of {other} over "
                            "loopback" for other, seconds in loopback.items()
                            if said.reached and seconds), flush=True)
            write(self.asked.csv / "time_to_accuracy.csv", FIELDS, rows)
        return True

    def loss(self):
        run = self.run_of("local-10", 3, 10, 8)
        made = {part: self.job(run, (100, 5), "--loss", part)
                for part in ("0", "0.1")}
        for part, said in made.items():
            print(f"loss, {part} of the packets: {said.digest}, a round in "
                  f"{statistics.median(said.epochs()):.2f} s", flush=True)
        return same(made)

    def workers(self):
        run = self.run_of("local-7", 2, 20, 8)
        made = {n: self.job(run, LOOPBACK, "--workers", str(n))
                for n in (1, 2, 3, 4)}
        for n, said in made.items():
            print(f"workers, {n}: {said.digest}", flush=True)
        return same(made)

    def shares(self):
        """The equal and the unequal job in turn, of (workers, replicas)."""
        for workers, replicas in ((2, 8), (4, 16), (4, 8)):
            ratios, digests = [], {}
            run = self.run_of("local-32", 9, 32, 64, replicas)
            run["strategy"]["policy"] = "shrink"
            for turn in range(self.asked.turns):
                seconds = []
                for last in (1, 0.25):
                    shares = [self.asked.share] * (workers - 1) + [
                        self.asked.share * last]
                    said = self.job(run, LOOPBACK, "--workers", str(workers),
                                    "--shares", ",".join(map(str, shares)))
                    seconds.append(statistics.median(said.epochs(4)))
                    digests[turn, last] = said
                ideal = seconds[0] * workers / (workers - 0.75)
                ratios.append(seconds[1] / ideal)
            print(f"shares, {workers} workers, {replicas} replicas: a round "
                  f"takes {statistics.median(ratios):.2f} of the ideal "
                  f"({min(ratios):.2f} to {max(ratios):.2f})", flush=True)
            if not same(digests):
                return False
        return True


def write(path, fields, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def name(link):
    return f"{link[0]} Mbit/s, {link[1]} ms" if link[0] else "loopback"


def same(made):
    digests = {said.digest for said in made.values()}
    if len(digests) == 1 and None not in digests:
        return True
    print("these differ:", digests)
    return False


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--data", type=pathlib.Path,
                        default=local_accuracy.FULL
                        if local_accuracy.FULL.is_dir()
                        else local_accuracy.MINI)
    parser.add_argument("--csv", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--accuracy", type=float, default=0.87)
    parser.add_argument("--steps", type=int, default=117)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--share", type=float, default=0.4,
                        help="of a core, that a worker has in `shares`")
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_intermixed_args()
    asked.data = asked.data.resolve()
    study = Study(asked)
    for part in asked.parts or PARTS:
        if part not in PARTS:
            sys.exit(f"{part}: there are {', '.join(PARTS)}")
        if not getattr(study, part)():
            sys.exit(1)


if __name__ == "__main__":
    main()
