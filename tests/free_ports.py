"""Ports of 127.0.0.1 that nobody has, for workers to listen on."""
import random
import socket


def free_ports(count):
    """Below those that Linux gives to connections, so that none takes them."""
    held = []
    while len(held) < count:
        candidate = socket.socket()
        try:
            candidate.bind(("127.0.0.1", random.randrange(10000, 32768)))
            held.append(candidate)
        except OSError:
            candidate.close()
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports
