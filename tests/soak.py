#!/usr/bin/env python3
"""Many all-reduces, and a job on a machine that is busy with other things.

    soak.py BUILD [ROUNDS [SECONDS]]

Three workers make ROUNDS all-reduces of random lengths, several together, over
AF_UNIX. Then they make as many over TCP and in half precision. Every sum is
checked, no call hangs, and no worker grows. Then four workers run for SECONDS with
the default timeout, while busy loops take all processors twice. No worker is
reported as lost.
"""
import os
import pathlib
import subprocess
import sys
import threading
import time

from free_ports import free_ports

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 5
HANG = 120  # seconds without a line; a worker prints one every 50 rounds
GROWTH = 8192  # kB that a worker may grow by in its second half
SANITIZED = bool(os.environ.get("RINGLET_TEST_FLAGS"))  # keeps what is freed
BUSY = "while True: pass"
TIMEOUT = 5  # of jobs by default; a shorter one is not for so busy a machine


def free_addresses(count):
    return ",".join(f"127.0.0.1:{port}" for port in free_ports(count))


class Worker:
    def __init__(self, rank, addresses, *arguments):
        self.process = subprocess.Popen(
            [str(BUILD / "tests/ring_worker"), str(rank), addresses,
             *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self.lines = []
        self.heard = time.monotonic()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())
            self.heard = time.monotonic()

    def wait(self):
        while self.reader.is_alive():
            self.reader.join(0.5)
            if time.monotonic() - self.heard > HANG:
                sys.exit(f"soak: a worker hangs after: {self.lines[-1:]}")
        if self.process.wait() != 0:
            sys.exit(f"soak: a worker failed: {self.lines[-3:]}")


def start(count, *arguments):
    addresses = free_addresses(count)
    return [Worker(rank, addresses, *arguments) for rank in range(count)]


def reap(workers):
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()


def held(line):
    """Kilobytes and descriptors of "round 1000: 5000 kB, 12 descriptors"."""
    words = line.split()
    return int(words[2]), int(words[4])


def sums(*keys):
    begin = time.monotonic()
    workers = start(3, 300000, ROUNDS, "soak=1", "timeout=30", *keys)
    try:
        for worker in workers:
            worker.wait()
    finally:
        reap(workers)
    grown = 0
    for worker in workers:
        rounds = [line for line in worker.lines if line.startswith("round")]
        first, last = held(rounds[len(rounds) // 2]), held(rounds[-1])
        grown = max(grown, last[0] - first[0])
        if last[1] > first[1]:
            sys.exit(f"soak: descriptors grew: {rounds}")
    if grown > GROWTH and not SANITIZED:
        sys.exit(f"soak: a worker grew by {grown} kB: {rounds}")
    print(f"{ROUNDS} all-reduces of up to 300000 floats, 3 workers"
          f"{' '.join(('',) + keys)}: all right in "
          f"{time.monotonic() - begin:.0f} s, grown by {grown} kB", flush=True)


def load():
    loops = [subprocess.Popen([sys.executable, "-c", BUSY])
             for _ in range(2 * os.cpu_count())]
    workers = []
    try:
        # A round is 20 ms of pause and the sum of 4 MB.
        workers = start(4, 1000000, 0, f"timeout={TIMEOUT}", "pause=20")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(0.2)
            for rank, worker in enumerate(workers):
                if worker.process.poll() is not None:
                    sys.exit(f"soak: rank {rank} ended under load: "
                             f"{worker.lines[-3:]}")
        average = os.getloadavg()[0]
    finally:
        reap(workers)
        for loop in loops:
            loop.kill()
            loop.wait()
    print(f"4 workers, timeout {TIMEOUT} s, {SECONDS:.0f} s, {len(loops)} busy "
          f"loops on {os.cpu_count()} processors (load {average:.1f}): no "
          f"false alarm")


sums()
sums("tcp=1", "dtype=bfloat16")
load()
