"""Ports of 127.0.0.1 that no other process has, for workers to listen on."""
import fcntl
import os
import random
import socket

# Byte N of this file is the lock of port N, also in tests/support/free_ports.h.
_FILE = os.open(f"/tmp/ringlet_test_ports-{os.getuid()}",
                os.O_CREAT | os.O_RDWR, 0o600)


def _reserve(port):
    """Locks the port until this process ends; False if another one has it."""
    try:
        fcntl.lockf(_FILE, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        return True
    except OSError:
        return False


def free_ports(count):
    """Below those that Linux gives to connections, so that none takes them."""
    ports = []
    while len(ports) < count:
        port = random.randrange(10000, 32768)
        if port in ports or not _reserve(port):
            continue
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
                ports.append(port)
            except OSError:
                pass
    return ports
