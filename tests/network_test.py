#!/usr/bin/env python3
"""Jobs over networks that are cut, lose packets, are slow or under attack.

    network_test.py BUILD [NAME...]    all tests, or those whose name has NAME

Makes a switch and workers' networks in namespaces of its own, which also hold
every process it starts: all of it ends with it, however it ends. Exits with
77 where such namespaces cannot be made.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

TIMEOUT = 1.0  # of the workers, seconds
# The bound on naming a lost worker is 0.75 to 1.5 timeouts on an idle machine.
LOADED = 4.0
PORT = 7000
RESUMABLE = 75  # exit code: start it again
INSIDE = "RINGLET_NETWORK_TEST_INSIDE"


def run(*command):
    subprocess.run(command, check=True)


def wait_until(condition, what, seconds=100):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.005)


class Network:
    """Hosts 10.77.0.1 ..., each in a namespace, on a bridge in another."""

    def __init__(self, hosts):
        self.names = [f"host{i}" for i in range(hosts)]
        run("ip", "netns", "add", "switch")
        run("ip", "-n", "switch", "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", "switch", "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run("ip", "-n", "switch", "link", "add", f"port{i}", "type", "veth",
                "peer", "name", "eth0", "netns", name)
            run("ip", "-n", "switch", "link", "set", f"port{i}", "master",
                "bridge", "up")
            run("ip", "-n", name, "address", "add", f"{self.host(i)}/24", "dev",
                "eth0")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "eth0", "up")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self.names + ["switch"]:
            run("ip", "netns", "delete", name)

    @staticmethod
    def host(i):
        return f"10.77.0.{i + 1}"

    def addresses(self, count):
        return [f"{self.host(i)}:{PORT}" for i in range(count)]

    def inside(self, i, *command):
        return ["nsenter", f"--net=/run/netns/{self.names[i]}", *command]

    def rule(self, i, hooks, rule):
        """What `rule` says of all that passes these hooks of a host."""
        for hook in hooks:
            run(*self.inside(i, "nft", "add table inet test; "
                             f"add chain inet test {hook} {{ type filter hook "
                             f"{hook} priority 0; }}; "
                             f"add rule inet test {hook} {rule}"))

    def no_rules(self, i):
        run(*self.inside(i, "nft", "delete table inet test"))


class Process:
    """A worker. Its lines are kept with the time at which they came."""

    def __init__(self, command, environment=None):
        self.lines = []
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env={**os.environ, **(environment or {})})
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.rstrip()))

    def said(self, word):
        return next((line for line in self.lines if word in line[1]), None)

    def end(self, seconds=200):
        code = self.process.wait(timeout=seconds)
        self.reader.join()
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.end()


class Processes(list):
    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self:
            process.kill()
        if kind is not None:
            for i, process in enumerate(self):
                for when, line in process.lines[-5:]:
                    print(f"  process {i} at {when:.3f}: {line}")


def ring(network, size, count, rounds, *keys):
    """Workers that sum vectors, once all have met."""
    workers = Processes()
    addresses = ",".join(network.addresses(size))
    for i in range(size):
        workers.append(Process(network.inside(
            i, f"{BUILD}/tests/ring_worker", str(i), addresses, str(count),
            str(rounds), f"timeout={TIMEOUT}", "start=60", *keys)))
    for worker in workers:
        wait_until(lambda: worker.said("up") or worker.process.poll(), "up")
    return workers


def test_cut():
    """A link that is cut, both ways or one way, is one worker's fault."""
    size = 4
    with Network(size) as network:
        for hooks in (["input", "output"], ["output"], ["input"]):
            for victim, count in ((2, 30000), (2, 100), (0, 30000), (0, 100)):
                with ring(network, size, count, 0, "pause=10") as workers:
                    time.sleep(0.5)
                    start = time.monotonic()
                    network.rule(victim, hooks, "drop")
                    times = []
                    for i, worker in enumerate(workers):
                        if i == victim:
                            continue
                        wait_until(lambda: worker.said("failed:"), "failed", 20)
                        when, text = worker.said("failed:")
                        lost = re.search(r"rank (\d+) \(.*?\) was lost", text)
                        assert lost and int(lost[1]) == victim, text
                        times.append((when - start) / TIMEOUT)
                        assert worker.end() == RESUMABLE
                    network.no_rules(victim)
                    print(f"  {'+'.join(hooks)} of rank {victim}, {4 * count} "
                          f"bytes: named after {min(times):.2f} to "
                          f"{max(times):.2f} timeouts", flush=True)
                    assert 0.7 <= min(times) and max(times) <= LOADED, times


def enter():
    """Starts this program again in namespaces of its own."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork",
               "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    missing = [tool for tool in ("unshare", "nsenter", "ip", "nft", "tc")
               if shutil.which(tool) is None]
    if missing:
        print("skipped: needs", ", ".join(missing))
        sys.exit(77)
    probe = subprocess.run(
        command + ["sh", "-c", "mount -t tmpfs none /run && ip netns add probe"
                   " && ip -n probe link add veth0 type veth peer name veth1"
                   " && nsenter --net=/run/netns/probe nft add table inet t"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if probe.returncode != 0:
        print("skipped: no network namespaces here:", probe.stdout.strip())
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.execvp(command[0], command + [sys.executable] + sys.argv)


def main():
    if INSIDE not in os.environ:
        enter()
    run("mount", "-t", "tmpfs", "none", "/run")
    for name, test in list(globals().items()):
        if name.startswith("test_") and (
                not WANTED or any(w in name for w in WANTED)):
            print(f"{name}: {test.__doc__}", flush=True)
            test()
    print("passed")


BUILD = pathlib.Path(sys.argv[1]).resolve()
WANTED = sys.argv[2:]
if __name__ == "__main__":
    main()
