#!/usr/bin/env python3
"""Time to an accuracy over slow links, of jobs of real workers.

usage: slow_links.py [options] RINGLET RUN.json

Each worker is in a network namespace of its own, whose only link is a TUN
device; this program carries the packets between them at a rate, and late:
kernels without netem can do so too. nftables loses some. Without --rate
workers speak over loopback. RUN.json has "verbose": 2. It prints when each
epoch ended and its val_accuracy, when the accuracy that is asked for was
reached, and the model's SHA-256.

Namespaces end with it. Exit code 77: this machine has none.
"""

import argparse
import ctypes
import fcntl
import hashlib
import heapq
import json
import math
import os
import pathlib
import re
import select
import signal
import struct
import sys
import tempfile
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import network_test  # noqa: E402

MOST_QUEUED = 0.4  # seconds of a link, as tbf's latency in network_test.py
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


class Link:
    """What a host sends waits here until the radio has taken it."""

    def __init__(self, name):
        self.name = name
        self.free = 0.0
        self.bytes = self.packets = self.lost = 0
        self.tun = -1


def open_tun(namespace, address):
    """A TUN device of a namespace, as a file of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    assert libc.setns(other, 0) == 0, os.strerror(ctypes.get_errno())
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", b"eth0", IFF_TUN | IFF_NO_PI))
    network_test.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
    network_test.run("ip", "link", "set", "eth0", "up")
    network_test.run("ip", "link", "set", "lo", "up")
    assert libc.setns(own, 0) == 0
    os.close(own)
    os.close(other)
    return tun


class Radio(threading.Thread):
    """Hosts 10.77.0.1 ..., of which each sends `rate` bits a second."""

    def __init__(self, hosts, rate, delay, loss):
        super().__init__(daemon=True)
        self.rate, self.delay = rate, delay
        self.links = [Link(f"host{i}") for i in range(hosts)]
        self.names = [link.name for link in self.links]
        for i, link in enumerate(self.links):
            network_test.run("ip", "netns", "add", link.name)
            link.tun = open_tun(link.name, self.host(i))
            if loss:
                self.rule(i, ["input"], "iif eth0 numgen random mod 1000 < "
                          f"{round(loss * 1000)} drop")
        self.late = []
        self.count = 0

    host = staticmethod(network_test.Network.host)
    inside = network_test.Network.inside
    rule = network_test.Network.rule

    def take(self, link, packet):
        now = time.monotonic()
        to = packet[19] - 1  # the last byte of an IPv4 destination
        if packet[0] >> 4 != 4 or not 0 <= to < len(self.links):
            return
        link.packets += 1
        waits = link.free - now
        if waits > MOST_QUEUED:
            link.lost += 1
            return
        link.bytes += len(packet)
        link.free = max(now, link.free) + len(packet) * 8 / self.rate
        self.count += 1
        heapq.heappush(self.late, (link.free + self.delay, self.count,
                                   self.links[to].tun, packet))

    def run(self):
        poll = select.poll()
        by_fd = {link.tun: link for link in self.links}
        for tun in by_fd:
            poll.register(tun, select.POLLIN)
        while True:
            now = time.monotonic()
            while self.late and self.late[0][0] <= now:
                _, _, tun, packet = heapq.heappop(self.late)
                try:
                    os.write(tun, packet)
                except OSError:
                    pass  # its queue is full: lost
            wait = self.late[0][0] - now if self.late else 1
            for tun, _ in poll.poll(max(0, math.ceil(wait * 1000))):
                for _ in range(64):
                    try:
                        packet = os.read(tun, 65536)
                    except OSError:
                        break
                    self.take(by_fd[tun], packet)


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("ringlet")
    parser.add_argument("run")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0, metavar="MBITS")
    parser.add_argument("--delay", type=float, default=0, metavar="MS",
                        help="each way")
    parser.add_argument("--loss", type=float, default=0, metavar="PART",
                        help="of the packets, 0 to 1")
    parser.add_argument("--accuracy", type=float, default=0.87)
    parser.add_argument("--stop", action="store_true",
                        help="at that accuracy")
    parser.add_argument("--shares", metavar="A,B,...",
                        help="of a core, for each worker: 0.4,0.4,0.4,0.1")
    parser.add_argument("--seconds", type=float, default=3600)
    return parser.parse_args()


def start(asked, radio, folder):
    """The workers, of which the chief saves its model in the folder."""
    addresses = [f"{radio.host(i) if radio else '127.0.0.1'}:{network_test.PORT + i}"
                 for i in range(asked.workers)]
    processes = []
    for i in range(asked.workers):
        command = [asked.ringlet, "train", "--save", f"{folder}/{i}.safetensors",
                   asked.run]
        environment = {
            **os.environ, "RINGLET_INSECURE": "1",
            "TF_CONFIG": json.dumps({"cluster": {"worker": addresses},
                                     "task": {"type": "worker", "index": i}})}
        if radio:
            command = radio.inside(i, *command)
        processes.append(network_test.Process(command, environment))
    return processes


def computed(process):
    """Seconds for which a process has computed."""
    total = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[0])
        except OSError:
            pass  # this thread has ended
    return total / 1e9


def throttle(process, share):
    """Stops a process whenever it has had its share of a core.

    What it left while it waited is not kept for later, but for 20 ms.
    """
    before, had = time.monotonic(), computed(process)
    left, stopped = 0.0, False
    while process.poll() is None:
        now, has = time.monotonic(), computed(process)
        left = min(left + share * (now - before), 0.02) - (has - had)
        before, had = now, has
        if (left <= 0) != stopped:
            stopped = not stopped
            process.send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)
        time.sleep(0.004)


class Progress:
    """Tells of the epochs that a worker says have ended."""

    def __init__(self, worker, begin, accuracy):
        self.worker, self.begin, self.accuracy = worker, begin, accuracy
        self.seen, self.epoch, self.reached = 0, 0, None

    def look(self):
        lines = self.worker.lines[self.seen:]
        self.seen += len(lines)
        for at, line in lines:
            if not re.match(r"\d+/\d+ - ", line):
                continue
            self.epoch += 1
            seconds = at - self.begin
            found = re.search(r"val_accuracy: ([0-9.]+)", line)
            print(f"epoch {self.epoch}: {seconds:.2f} s"
                  + (f", val_accuracy {found[1]}" if found else ""),
                  flush=True)
            if found and not self.reached and float(found[1]) >= self.accuracy:
                self.reached = seconds
                print(f"reached {self.accuracy} after {seconds:.2f} s",
                      flush=True)


def wait(asked, workers):
    """Until all have ended, or it need not go on; then all of them have."""
    begin = time.monotonic()
    progress = Progress(workers[0], begin, asked.accuracy)
    while time.monotonic() - begin < asked.seconds:
        running = any(w.process.poll() is None for w in workers)
        progress.look()
        if not running or (asked.stop and progress.reached):
            break
        time.sleep(0.02)
    on = [worker for worker in workers if worker.process.poll() is None]
    for worker in on:
        worker.kill()
    for i, worker in enumerate(workers):
        if worker not in on and worker.process.returncode != 0:
            print(f"worker {i}: exit code {worker.process.returncode}:",
                  *(line for _, line in worker.lines[-3:]), sep="\n  ")


def main():
    asked = options()
    if os.environ.get(network_test.INSIDE) != "1":
        network_test.enter()
    threading.Thread(target=network_test.end_with_parent, daemon=True).start()
    network_test.run("ip", "link", "set", "lo", "up")
    radio = None
    if asked.rate:
        network_test.run("mount", "-t", "tmpfs", "none", "/run")
        radio = Radio(asked.workers, asked.rate * 1e6, asked.delay / 1e3,
                      asked.loss)
        radio.start()
    with tempfile.TemporaryDirectory() as folder:
        workers = start(asked, radio, folder)
        if asked.shares:
            for worker, share in zip(workers, asked.shares.split(",")):
                threading.Thread(target=throttle, daemon=True, args=[
                    worker.process, float(share)]).start()
        wait(asked, workers)
        for link in radio.links if radio else []:
            print(f"{link.name}: {link.bytes} bytes in {link.packets} packets, "
                  f"{link.lost} lost")
        model = f"{folder}/0.safetensors"
        if os.path.exists(model):
            with open(model, "rb") as file:
                print("SHA-256", hashlib.sha256(file.read()).hexdigest())


if __name__ == "__main__":
    main()
