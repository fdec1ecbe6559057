#!/usr/bin/env python3
"""Thousands of strangers connect to the ports of a job with a key.

    strangers.py BUILD [--count N]

While three workers wait for each other, N connections come in each of these ways:
- with a greeting sealed by another key;
- with a changed greeting of a worker;
- with a recorded greeting, and the bytes recorded behind it;
- in plain.
Then the job runs, while more connections come. Only a recorded greeting may be
answered: by 52 bytes, and once by each worker. The job's numbers are those of an
undisturbed one, and no worker grows.
"""
import argparse
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import threading
import time

from free_ports import free_ports

parser = argparse.ArgumentParser()
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--count", type=int, default=2000)
options = parser.parse_args()
WORKER = str(options.build.resolve() / "tests/ring_worker")
GREETING = b"RGLS\1\0\0\0"
GROWTH = 1024  # kB
SANITIZED = bool(os.environ.get("RINGLET_TEST_FLAGS"))  # keeps what is freed


def start(rank, ports, rounds, key="key=right"):
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    return subprocess.Popen(
        [WORKER, str(rank), addresses, "30011", str(rounds), "tcp=1", key,
         "timeout=20", "start=600"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True)


def digest(worker):
    lines = worker.communicate(timeout=600)[0].split("\n")
    if worker.returncode != 0 or not lines[-2].startswith("digest "):
        sys.exit(f"strangers: a worker ended with {lines}")
    return lines[-2]


def recorded(ports):
    """Listens in the place of rank 0, and returns the greetings of rank 1."""
    with socket.create_server(("127.0.0.1", ports[0])) as listener:
        worker = start(1, ports, 1)
        greetings = []
        while len(greetings) < 5:
            connection, _ = listener.accept()
            with connection:
                greetings.append(connection.recv(60, socket.MSG_WAITALL))
        worker.kill()
        worker.communicate()
    if any(g[:8] != GREETING or len(g) != 60 for g in greetings):
        sys.exit(f"strangers: these are no greetings: {greetings}")
    return greetings


def frame_of(kind, payload=b""):
    """Returns a frame; its header is refused before the checksums are read."""
    return struct.pack("<4sBBHI", b"RGLT", 2, kind, 0, len(payload)) + bytes(
        44) + payload


def another_key(_, draw):
    return GREETING + draw.randbytes(52)


def changed(greetings, draw):
    greeting = bytearray(draw.choice(greetings))
    for _ in range(draw.randint(1, 4)):
        greeting[draw.randrange(60)] ^= draw.randint(1, 255)
    return bytes(greeting) if greeting not in greetings else b"x"


def replayed(greetings, draw):
    more = draw.choice([b"", b"\x22\0" + draw.randbytes(34), greetings[0]])
    return draw.choice(greetings) + more


def plain(_, draw):
    return draw.choice([frame_of(1, draw.randbytes(47)), frame_of(6, bytes(6)),
                        frame_of(5), frame_of(16, draw.randbytes(4096)),
                        draw.randbytes(draw.randint(1, 200))])


WAYS = {another_key: 0, changed: 0, replayed: 52, plain: 0}  # bytes of answer


def come(port, text, most):
    """Sends `text` and reads until the other side closes. Returns the bytes read."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(text)
            if len(text) <= 60:
                s.shutdown(socket.SHUT_WR)
            heard = 0
            while more := s.recv(4096):
                heard += len(more)
                if heard > most:
                    sys.exit(f"strangers: {more} was answered to {text}")
            return heard
    except ConnectionError:
        return 0  # closed while more was to be read


def resident(worker):
    pages = pathlib.Path(f"/proc/{worker.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE") // 1024


def wait_for_port(port):
    for _ in range(2000):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            time.sleep(0.01)
    sys.exit("strangers: nobody listens")


def while_it_runs(ports, greetings, stop):
    """Connects as often as it can, without waiting for the end of a connection."""
    draw = random.Random(2)
    count = 0
    held = []
    while not stop.is_set():
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", ports[count % 2]))
        held.append(s)
        if len(held) > 64:
            first = held.pop(0)
            try:
                first.send(draw.choice(list(WAYS))(greetings, draw))
            except OSError:
                pass
            first.close()
        count += 1
    print(f"{count} came while it ran")


def main():
    rounds = 300
    calm_ports = free_ports(3)
    calm = [start(r, calm_ports, rounds) for r in range(3)]
    expected = {digest(worker) for worker in calm}
    ports = free_ports(3)
    greetings = recorded(ports)
    workers = [start(r, ports, rounds) for r in (0, 1)]
    for port in ports[:2]:
        wait_for_port(port)
    before = [resident(worker) for worker in workers]
    draw = random.Random(1)
    for way, answer in WAYS.items():
        answers = sum(come(ports[i % 2], way(greetings, draw), answer) > 0
                      for i in range(options.count))
        if answers > 2 * len(greetings):
            sys.exit(f"strangers: {answers} of {way.__name__} were answered")
        print(f"{options.count} {way.__name__}: not taken", flush=True)
    stop = threading.Event()
    flood = threading.Thread(target=while_it_runs,
                             args=(ports, greetings, stop))
    flood.start()
    grown = [resident(w) - b for w, b in zip(workers, before)]
    try:
        workers.append(start(2, ports, rounds))
        found = {digest(worker) for worker in workers}
    finally:
        stop.set()
        flood.join()
    print(f"grown by {grown} kB")
    if found != expected or len(expected) != 1:
        sys.exit(f"strangers: {found}, and in a calm job {expected}")
    if max(grown) > GROWTH and not SANITIZED:
        sys.exit(f"strangers: workers grew by {grown} kB")


main()
