#!/usr/bin/env python3
"""Time to an accuracy over slow links, of jobs of real workers.

usage: slow_links.py [options] RINGLET RUN.json

Each worker is in a network namespace of its own, whose only link is a TUN
device; this program carries the packets between them at a rate, late, and
loses some: kernels without netem can do so too. Without --rate workers speak
over loopback. It prints when each epoch ended and its val_accuracy, when the
accuracy that is asked for was reached, and the model's SHA-256.

Namespaces end with it. Exit code 77: this machine has none.
"""

import argparse
import ctypes
import fcntl
import hashlib
import heapq
import json
import os
import random
import re
import select
import signal
import struct
import tempfile
import threading
import time

import network_test

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

    def __init__(self, hosts, rate, delay, loss, seed):
        super().__init__(daemon=True)
        self.rate, self.delay, self.loss = rate, delay, loss
        self.random = random.Random(seed)
        self.links = [Link(f"host{i}") for i in range(hosts)]
        self.names = [link.name for link in self.links]
        for i, link in enumerate(self.links):
            network_test.run("ip", "netns", "add", link.name)
            link.tun = open_tun(link.name, self.host(i))
        self.late = []
        self.count = 0

    host = staticmethod(network_test.Network.host)
    inside = network_test.Network.inside

    def take(self, link, packet):
        now = time.monotonic()
        to = packet[19] - 1  # the last byte of an IPv4 destination
        if packet[0] >> 4 != 4 or not 0 <= to < len(self.links):
            return
        link.packets += 1
        waits = link.free - now
        if waits > MOST_QUEUED or self.random.random() < self.loss:
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
            for tun, _ in poll.poll(max(0, int(wait * 1000))):
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
    parser.add_argument("--quarter", type=int, default=-1, metavar="RANK",
                        help="a worker that has a quarter of a core")
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


def throttle(process):
    """Lets a process run a quarter of the time."""
    while process.poll() is None:
        for sent, seconds in ((signal.SIGSTOP, 0.06), (signal.SIGCONT, 0.02)):
            if process.poll() is None:
                process.send_signal(sent)
            time.sleep(seconds)


def main():
    asked = options()
    if asked.rate and os.environ.get(network_test.INSIDE) != "1":
        network_test.enter()
    radio = None
    if asked.rate:
        threading.Thread(target=network_test.end_with_parent,
                         daemon=True).start()
        network_test.run("mount", "-t", "tmpfs", "none", "/run")
        radio = Radio(asked.workers, asked.rate * 1e6, asked.delay / 1e3,
                      asked.loss, 1)
        radio.start()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        workers = start(asked, radio, folder)
        if asked.quarter >= 0:
            threading.Thread(target=throttle, daemon=True,
                             args=[workers[asked.quarter].process]).start()
        seen, reached = 0, None
        while time.monotonic() - begin < asked.seconds:
            ends = [(at, float(found.group(1))) for at, line in workers[0].lines
                    if (found := re.search(r"val_accuracy: ([0-9.]+)", line))]
            for at, accuracy in ends[seen:]:
                seen += 1
                print(f"epoch {seen}: {at - begin:.1f} s, val_accuracy "
                      f"{accuracy:.4f}", flush=True)
                if reached is None and accuracy >= asked.accuracy:
                    reached = at - begin
                    print(f"reached {asked.accuracy} after {reached:.1f} s",
                          flush=True)
            if all(w.process.poll() is not None for w in workers):
                break
            if asked.stop and reached is not None:
                break
            time.sleep(0.05)
        for i, worker in enumerate(workers):
            if worker.process.poll() is None:
                worker.kill()
            elif worker.process.returncode != 0:
                print(f"worker {i}: exit code {worker.process.returncode}:",
                      *(line for _, line in worker.lines[-3:]), sep="\n  ")
        for link in radio.links if radio else []:
            print(f"{link.name}: {link.bytes} bytes in {link.packets} packets, "
                  f"{link.lost} lost")
        model = f"{folder}/0.safetensors"
        if os.path.exists(model):
            with open(model, "rb") as file:
                print("SHA-256", hashlib.sha256(file.read()).hexdigest())


if __name__ == "__main__":
    main()
