#!/usr/bin/env python3
"""Jobs over networks that are cut, lose packets, are slow or under attack.

    network_test.py BUILD [--sealed] [NAME...]

Runs all tests, or those whose name has NAME; --sealed: with jobs that have a key.
Makes a switch and the workers' networks in namespaces of its own. All its
processes are in them, so they end when it ends. Exits with 77 if such namespaces
cannot be made.
"""
import collections
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# The workers' timeout in seconds. No running worker is silent for so long, even
# on a busy machine.
TIMEOUT = 4.0
PORT = 7000
RESUMABLE = 75  # exit code: start it again
INSIDE = "RINGLET_NETWORK_TEST_INSIDE"


SEALED = "--sealed" in sys.argv
if SEALED:
    os.environ.pop("RINGLET_INSECURE", None)
else:  # no other process is in its networks
    os.environ["RINGLET_INSECURE"] = "1"


def run(*command):
    subprocess.run(command, check=True)


def wait_until(condition, what, seconds=300):
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
        """Adds `rule` for all packets that pass these hooks of a host."""
        for hook in hooks:
            run(*self.inside(i, "nft", "add table inet test; "
                             f"add chain inet test {hook} {{ type filter hook "
                             f"{hook} priority 0; }}; "
                             f"add rule inet test {hook} {rule}"))

    def take_away(self, *hosts):
        """Takes the carrier and the address away, as with a DHCP client."""
        for i in hosts:
            run("ip", "-n", "switch", "link", "set", f"port{i}", "down")
            run("ip", "-n", self.names[i], "address", "delete",
                f"{self.host(i)}/24", "dev", "eth0")

    def give_back(self, *hosts):
        for i in hosts:
            run("ip", "-n", "switch", "link", "set", f"port{i}", "up")
            run("ip", "-n", self.names[i], "address", "add",
                f"{self.host(i)}/24", "dev", "eth0")

    def by_name(self, i, folder, *command):
        """Runs the command like inside, with host names. A host's own is 127.0.1.1
        (Debian)."""
        hosts = pathlib.Path(folder, f"hosts.{i}")
        hosts.write_text("127.0.0.1 localhost\n" + "".join(
            f"{'127.0.1.1' if j == i else self.host(j)} {name}\n"
            for j, name in enumerate(self.names)))
        return self.inside(i, "unshare", "--mount", "sh", "-c",
                           f'mount --bind {hosts} /etc/hosts && exec "$@"',
                           "sh", *command)

    def no_rules(self, i):
        run(*self.inside(i, "nft", "delete table inet test"))


class Process:
    """A worker. Its lines are kept with the time at which they came."""

    def __init__(self, command, environment=None):
        self.lines = []
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})})
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
    if SEALED and "key=right" not in keys:
        keys = (*keys, "key=right")
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
            for cut_off, count in ((2, 30000), (2, 100), (0, 30000), (0, 100)):
                with ring(network, size, count, 0, "pause=10") as workers:
                    for worker in workers:
                        wait_until(lambda: worker.said("made 16"), "16 rounds")
                    start = time.monotonic()
                    network.rule(cut_off, hooks, "drop")
                    times = []
                    for i, worker in enumerate(workers):
                        if i == cut_off:
                            continue
                        wait_until(lambda: worker.said("failed:"), "failed")
                        when, text = worker.said("failed:")
                        lost = re.search(r"rank (\d+) \(.*?\) was lost: (\w+)",
                                         text)
                        assert lost and int(lost[1]) == cut_off, text
                        times.append((when - start) / TIMEOUT)
                        assert worker.end() == RESUMABLE
                    network.no_rules(cut_off)
                    print(f"  {'+'.join(hooks)} of rank {cut_off}, {4 * count} "
                          f"bytes: {lost[2]}, named after "
                          f"{min(times):.2f} to {max(times):.2f} timeouts",
                          flush=True)


def test_relay():
    """Workers that only dial out, and reach a relay alone, are a job."""
    size = 3
    with Network(size + 1) as network:
        # Nothing comes but what the relay answers.
        for i in range(size):
            network.rule(i, ["input"], f"ip saddr != {network.host(size)} drop")
            network.rule(i, ["input"], "tcp flags & (syn | ack) == syn drop")
        relay = f"{network.host(size)}:{PORT}"

        def serve():
            process = Process(network.inside(
                size, f"{BUILD}/tools/ringlet/ringlet", "relay", str(PORT)))
            wait_until(lambda: process.said("relays at"), "the relay")
            return process

        with Processes([serve()]), ring(
                network, size, 30000, 50, f"relay={relay}",
                "key=right") as workers:
            for worker in workers:
                assert worker.end() == 0, worker.lines[-1]
            ends = {worker.lines[-1][1] for worker in workers}
            assert len(ends) == 1, ends
        with Processes([serve()]) as relays, ring(
                network, size, 30000, 0, f"relay={relay}", "key=right",
                "pause=10") as workers:
            for worker in workers:
                wait_until(lambda: worker.said("made 4"), "four rounds")
            relays[0].kill()
            for worker in workers:
                assert worker.end() == RESUMABLE
                said = worker.said("failed:")[1]
                assert f"by the relay at {relay}: closed" in said, said
            print("  " + said, flush=True)


def job(network, size, folder, *arguments):
    """Workers that train, each beginning at once, as far as the test lets them."""
    set_limit(folder, 10)
    workers = Processes()
    for i in range(size):
        workers.append(job_worker(network, size, i, folder, *arguments))
    return workers


def job_worker(network, size, i, folder, *arguments):
    config = {"cluster": {"worker": network.addresses(size)},
              "task": {"type": "worker", "index": i}}
    return Process(
        network.inside(i, f"{BUILD}/tests/job_runner", folder, *arguments),
        {"TF_CONFIG": json.dumps(config)})


def set_limit(folder, step):
    """See job_runner.cc."""
    whole = pathlib.Path(folder, "limit.new")
    whole.write_text(str(step))
    whole.rename(pathlib.Path(folder, "limit"))


def no_limit(folder):
    pathlib.Path(folder, "limit").unlink(missing_ok=True)


def step_of(folder, i=0):
    try:
        return int(pathlib.Path(folder, f"step.{i}").read_text())
    except FileNotFoundError:
        return 0


def wait_for_step(workers, folder, step):
    """Until then; no worker makes more than ten steps more."""
    set_limit(folder, step + 10)
    wait_until(lambda: step_of(folder) >= step
               or any(w.process.poll() for w in workers), f"step {step}")
    assert step_of(folder) >= step, "a worker ended before"


def final_weights(folder, size):
    """The bytes of the final state, which all workers must share."""
    contents = {pathlib.Path(folder, f"final.{i}.safetensors").read_bytes()
                for i in range(size)}
    assert len(contents) == 1, "the workers end with different weights"
    return contents.pop()


# TCP tries again after 0.2, 0.6, 1.4, 3 and 6 s: what is lost several times would
# take longer than TIMEOUT.
PATIENT = "timeout=20"


def train(network, size, disturb=lambda workers, folder: None):
    """The final weights of a job, and its seconds between two steps."""
    with tempfile.TemporaryDirectory() as folder:
        with job(network, size, folder, PATIENT) as workers:
            wait_for_step(workers, folder, 20)
            first, start = step_of(folder), time.monotonic()
            disturb(workers, folder)
            wait_for_step(workers, folder, 150)
            seconds = (time.monotonic() - start) / (step_of(folder) - first)
            no_limit(folder)
            for worker in workers:
                assert worker.end() == 0
            return final_weights(folder, size), seconds


@functools.lru_cache(maxsize=None)
def undisturbed(size=4):
    with Network(size) as network:
        return train(network, size)


def test_blink():
    """A link that is down for less than the timeout harms nothing."""
    size = 4
    expected, seconds = undisturbed()
    with Network(size) as network:
        def blink(where, device):
            def disturb(workers, folder):
                for end in (50, 90):
                    wait_for_step(workers, folder, end)
                    run("ip", "-n", where, "link", "set", device, "down")
                    time.sleep(0.4)  # of a timeout of 20 s
                    run("ip", "-n", where, "link", "set", device, "up")
            return disturb

        for where, device in (("switch", "port2"), ("host2", "eth0")):
            final, slow = train(network, size, blink(where, device))
            assert final == expected
            print(f"  {where}'s {device}: steps took {slow / seconds:.1f} "
                  "times as long", flush=True)


def test_loss():
    """A job over links that lose 5 % of all packets ends with the same."""
    size = 4
    expected, seconds = undisturbed()
    with Network(size) as network:
        for i in range(size):
            network.rule(i, ["input"], "numgen random mod 100 < 5 drop")
        final, slow = train(network, size)
        assert final == expected
        print(f"  steps took {slow / seconds:.1f} times as long", flush=True)


def test_slow_link():
    """Two workers over 20 Mbit/s keep the link full."""
    rate, floats, rounds = 20e6, 250000, 12
    with Network(2) as network:
        for i in range(2):
            # BBR, where a host has it, takes the delay of acknowledgements
            # behind data for a narrower link, and leaves a tenth unused.
            run(*network.inside(i, "sh", "-c", "echo reno > "
                                "/proc/sys/net/ipv4/tcp_congestion_control"))
            run("tc", "-n", network.names[i], "qdisc", "add", "dev", "eth0",
                "root", "tbf", "rate", f"{rate:.0f}bit", "burst", "16kb",
                "latency", "400ms")
        with ring(network, 2, floats, rounds, "bench=1") as workers:
            for worker in workers:
                assert worker.end() == 0
            columns = [[float(word) for _, line in worker.lines
                        if line[:1].isdigit() for word in line.split()]
                       for worker in workers]
    seconds = [max(row) for row in zip(*columns)]
    # 2 (n - 1) / n of the vector leaves each worker.
    limit = floats * 4 * 8 / rate
    framed = limit * 1514 / 1448  # TCP's payload of a full Ethernet frame
    median, best = statistics.median(seconds), min(seconds)
    print(f"  {floats * 4} bytes: median {median / limit:.3f}, best "
          f"{best / limit:.3f} of the time that the bytes alone need; "
          f"{median / framed:.3f} and {best / framed:.3f} in full TCP packets",
          flush=True)


def test_backup():
    """A worker cut off for longer than the timeout comes back to the job."""
    size = 4
    expected, _ = undisturbed()
    with Network(size) as network:
        for cut_off in (2, 0):
            with tempfile.TemporaryDirectory() as folder:
                timeout = f"timeout={TIMEOUT}"
                with job(network, size, folder, "backup",
                         timeout) as workers:
                    wait_for_step(workers, folder, 60)
                    network.rule(cut_off, ["input", "output"], "drop")
                    no_limit(folder)
                    for i, worker in enumerate(workers):
                        wait_until(lambda: i == cut_off
                                   or worker.said("until it joins again"), f"loss: {i}")
                    network.no_rules(cut_off)
                    back = time.monotonic()
                    restarts = 0
                    for i in range(size):
                        while workers[i].end() == RESUMABLE:
                            restarts += 1
                            assert restarts < 10
                            workers[i] = job_worker(network, size, i, folder,
                                                    "backup", timeout)
                        assert workers[i].process.returncode == 0
                    assert final_weights(folder, size) == expected
                    print(f"  rank {cut_off}: complete {restarts} restarts and "
                          f"{time.monotonic() - back:.1f} s after its return",
                          flush=True)


def test_address():
    """A worker that loses its network and address joins again later."""
    size = 4
    expected, _ = undisturbed()
    with Network(size) as network:
        for absent in ([2], [0], range(size)):
            with tempfile.TemporaryDirectory() as folder:
                with job(network, size, folder, "backup") as workers:
                    wait_for_step(workers, folder, 60)
                    network.take_away(*absent)
                    # Workers that wait at the limit see no loss.
                    no_limit(folder)
                    for worker in workers:
                        wait_until(lambda: worker.said("until it joins again")
                                   or worker.process.poll(), "a line about the loss")
                    time.sleep(2 * TIMEOUT)
                    network.give_back(*absent)
                    for worker in workers:
                        assert worker.end() == 0, "it did not go on"
                    assert final_weights(folder, size) == expected


def test_flood():
    """Strangers in numbers neither keep, change nor stop a job."""
    size = 4
    expected, seconds = undisturbed()
    with Network(size + 1) as network:
        strangers = Process(network.inside(
            size, sys.executable, __file__, str(BUILD), "--flood",
            *network.addresses(size)))
        try:
            wait_until(lambda: strangers.said("begun"), "strangers")
            final, slow = train(network, size)
            assert strangers.process.poll() is None, strangers.lines
        finally:
            strangers.process.terminate()
            strangers.end()
        print("  strangers:", strangers.lines[-1][1], flush=True)
        assert final == expected
        print(f"  the rate of steps is {seconds / slow:.2f} of the undisturbed",
              flush=True)


def flood(addresses):
    """Connects to all addresses again and again, until it is killed."""
    chance = random.Random(7)
    says = {
        "silent": lambda: b"",
        "http": lambda: b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n",
        "random": lambda: chance.randbytes(chance.randrange(1, 4096)),
        "magic": lambda: b"RGLT\2\1" + chance.randbytes(200),
        "greeting": lambda: b"RGLS\1\0\0\0" + chance.randbytes(52),
    }
    counts = dict.fromkeys(["refused", *says], 0)
    held = collections.deque()

    def tell(*_):
        print(", ".join(f"{n} {kind}" for kind, n in counts.items()),
              flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, tell)
    print("begun", flush=True)
    while True:
        for kind, words in says.items():
            for address in addresses:
                host, port = address.split(":")
                try:
                    stranger = socket.create_connection((host, int(port)), 1)
                    counts[kind] += 1
                    held.append(stranger)
                    stranger.sendall(words())
                except OSError:
                    counts["refused"] += 1
        while len(held) > 1000:
            held.popleft().close()
        time.sleep(0.01)


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
    # The inner process reads this pipe, and ends when this process has ended.
    inside = subprocess.Popen(command + [sys.executable] + sys.argv,
                              stdin=subprocess.PIPE,
                              env={**os.environ, INSIDE: "1"})
    sys.exit(inside.wait())


def end_with_parent():
    os.read(0, 1)
    os._exit(1)  # the first process of its namespace: it ends all others


def main():
    if BUILD is None or not (BUILD / "tests").is_dir():
        sys.exit(__doc__)
    if WANTED[:1] == ["--flood"]:
        flood(WANTED[1:])
    if INSIDE not in os.environ:
        enter()
    threading.Thread(target=end_with_parent, daemon=True).start()
    # Names of networks, and files: gone with this namespace.
    run("mount", "-t", "tmpfs", "none", "/run")
    tempfile.tempdir = "/run"
    if SEALED:
        os.environ["RINGLET_KEY_FILE"] = "/run/job.key"
        run(f"{BUILD}/tools/ringlet/ringlet", "keygen", "--out",
            "/run/job.key")
    for name, test in list(globals().items()):
        if name.startswith("test_") and (
                not WANTED or any(w in name for w in WANTED)):
            print(f"{name}: {test.__doc__}", flush=True)
            test()
    print("passed")


BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
WANTED = [word for word in sys.argv[2:] if word != "--sealed"]
if __name__ == "__main__":
    main()
