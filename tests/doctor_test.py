#!/usr/bin/env python3
"""ringlet doctor finds planted faults, and nothing on sound hosts.

    doctor_test.py BUILD [NAME...]

Runs all tests, or those whose name has NAME. Each plants a fault on one of
three hosts, which are networks in namespaces of its own (network_test.py), and
looks for the check that must find it and for its fix. Exits with 77 if such
namespaces cannot be made.
"""
import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import network_test
from network_test import Network, PORT, run

# A doctor takes at most 10 s. The rest is for a busy machine.
LIMIT = 60
# Faults that LD_PRELOAD plants: a wrong time of day, a resolver that hangs, and
# a disk that is slow.
SHIM = r"""
#define _GNU_SOURCE
#include <netdb.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec* out) {
  int result = syscall(SYS_clock_gettime, id, out);
  const char* ahead = getenv("TEST_AHEAD");
  if (id == CLOCK_REALTIME && ahead != 0) out->tv_sec += atoi(ahead);
  return result;
}
int getaddrinfo(const char* name, const char* port, const struct addrinfo* hints,
                struct addrinfo** out) {
  if (getenv("TEST_RESOLVER") != 0) sleep(1000);
  return EAI_NONAME;
}
int fsync(int fd) {
  const char* seconds = getenv("TEST_FSYNC");
  if (seconds != 0) usleep(1e6 * atof(seconds));
  return syscall(SYS_fsync, fd);
}
"""
RUN = {
    "model": {"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "InputLayer",
         "config": {"batch_input_shape": [None, 4], "name": "i"}},
        {"class_name": "Dense",
         "config": {"name": "d", "units": 3, "activation": "softmax"}}]}},
    "compile": {"optimizer": {"class_name": "SGD",
                              "config": {"learning_rate": 0.1}},
                "loss": "sparse_categorical_crossentropy"},
    "data": {"train": {"x": "x.npy", "y": "y.npy"}},
    "fit": {"batch_size": 8, "epochs": 2},
    "strategy": {"policy": "fail"}}


def write_npy(path, code, shape, data):
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    pathlib.Path(path).write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
        header.encode() + data)


class Hosts:
    """Three hosts. A doctor of each has a folder, flags and an environment."""

    def __init__(self, count=3):
        self.network = Network(count)
        self.count = count
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.flags = [["run.json"] for _ in range(count)]
        self.environment = [{"RINGLET_INSECURE": "1"} for _ in range(count)]
        self.wrapped = [[] for _ in range(count)]
        self.addresses = self.network.addresses(count)
        self.lists = [list(self.addresses) for _ in range(count)]
        self.indices = list(range(count))
        for i in range(count):
            self.folder(i).mkdir()
            self.write_run(i, RUN)
            write_npy(self.folder(i) / "x.npy", "<f4", "(64, 4)", bytes(1024))
            write_npy(self.folder(i) / "y.npy", "<i4", "(64,)", bytes(256))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.network.__exit__(*error)

    def folder(self, i):
        return self.top / str(i)

    def write_run(self, i, content):
        (self.folder(i) / "run.json").write_text(json.dumps(content))

    def environment_of(self, i):
        environment = {**os.environ, "TF_CONFIG": json.dumps({
            "cluster": {"worker": self.lists[i]},
            "task": {"type": "worker", "index": self.indices[i]}})}
        environment.pop("RINGLET_INSECURE", None)
        environment.update(self.environment[i])
        return environment

    def start(self, i, *command):
        return subprocess.Popen(
            self.network.inside(i, *self.wrapped[i], RINGLET, *command),
            cwd=self.folder(i), env=self.environment_of(i),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def doctor(self, i):
        return self.start(i, "doctor", "--json", *self.flags[i])

    def examine(self, workers=None):
        """{worker: its report}, of doctors that run at the same time."""
        begin = time.monotonic()
        running = {i: self.doctor(i)
                   for i in (range(self.count) if workers is None else workers)}
        return {i: self.report(process, begin)
                for i, process in running.items()}

    @staticmethod
    def report(process, begin):
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode in (0, 1, 2), (process.returncode, out, err)
        assert err == "", err
        report = json.loads(out)
        report["seconds"] = time.monotonic() - begin
        severity = ["ok", "warning", "error"][process.returncode]
        assert report["severity"] == severity, (process.returncode, out)
        for check in report["checks"]:
            faulty = check["severity"] != "ok"
            assert ("fix" in check) == faulty, check
        return report


SLOWEST = [0.0]


def faults(report):
    SLOWEST[0] = max(SLOWEST[0], report["seconds"])
    return [c for c in report["checks"] if c["severity"] != "ok"]


def expect(report, check, severity, text, fix):
    """The fault is found, with its fix, and it is the only one."""
    found = faults(report)
    fitting = [c for c in found
               if c["check"] == check and c["severity"] == severity and
               text in c["text"] and fix in c["fix"]]
    assert fitting, (check, severity, text, fix, found)
    others = [c for c in found if c["check"] != check]
    assert not others, others


def expect_sound(reports, workers=None):
    for i, report in reports.items():
        if workers is None or i in workers:
            assert not faults(report), (i, faults(report))


def test_sound():
    """Three sound hosts: nothing is found, and each link is measured."""
    with Hosts() as hosts:
        reports = hosts.examine()
        expect_sound(reports)
        for report in reports.values():
            links = [c["text"] for c in report["checks"] if c["check"] == "link"]
            assert len(links) == 2, report
            assert all("both ways" in text and "Mbit/s" in text
                       for text in links), links


def test_sound_sealed():
    """The same with a key."""
    with Hosts() as hosts:
        give_key(hosts, range(3))
        expect_sound(hosts.examine())


def test_late():
    """The last doctor is started by hand 4 s after the others."""
    with Hosts() as hosts:
        begin = time.monotonic()
        running = {i: hosts.doctor(i) for i in (0, 1)}
        time.sleep(4)
        running[2] = hosts.doctor(2)
        expect_sound({i: hosts.report(process, begin)
                      for i, process in running.items()})


def test_beside_a_job():
    """Doctors beside a job on all hosts: they find it and do not disturb it."""
    for sealed in (False, True):
        with Hosts() as hosts:
            if sealed:
                give_key(hosts, range(3))
            job = [hosts.start(i, "train", "run.json", "--epochs", "1000000",
                               "--no-save") for i in range(3)]
            wait_for_job(hosts, job)
            reports = hosts.examine()
            expect_sound(reports)
            for report in reports.values():
                links = [c["text"] for c in report["checks"]
                         if c["check"] == "link"]
                assert len(links) == 2 and all("job" in t for t in links), links
            for process in job:
                assert process.poll() is None
            job[0].terminate()
            said = [process.communicate(timeout=LIMIT)[1] for process in job]
            assert not any("refused" in text for text in said), said


def wait_for_job(hosts, job):
    # The chief prints its epochs once all are connected.
    for line in job[0].stdout:
        if line.startswith("Epoch"):
            break
    threading.Thread(target=job[0].stdout.read, daemon=True).start()


def give_key(hosts, workers):
    key = hosts.top / "job.key"
    run(RINGLET, "keygen", "--out", key)
    for i in workers:
        hosts.environment[i] = {"RINGLET_KEY_FILE": str(key)}


def planted(hosts, worker, *expected, sound=()):
    """Examines, and expects the fault in the report of `worker`."""
    reports = hosts.examine()
    expect(reports[worker], *expected)
    expect_sound(reports, sound)
    return reports


def test_name_unknown():
    """A worker's name that no resolver knows."""
    with Hosts() as hosts:
        hosts.lists = [[*hosts.addresses[:2], f"no-such.invalid:{PORT}"]] * 3
        found = faults(hosts.examine([0])[0])
        named = [c for c in found if c["check"] == "names"]
        assert named and "no-such.invalid" in named[0]["text"], found
        assert "/etc/hosts" in named[0]["fix"], found


def test_resolver_hangs():
    """A resolver that does not answer: the doctor ends in time."""
    with Hosts() as hosts:
        hosts.lists = [[*hosts.addresses[:2], f"slow.invalid:{PORT}"]] * 3
        hosts.environment[0].update(LD_PRELOAD=SHIM_FILE, TEST_RESOLVER="1")
        found = faults(hosts.examine([0])[0])
        named = [c for c in found if c["check"] == "names"]
        assert named and "has not answered" in named[0]["text"], found
        assert "/etc/resolv.conf" in named[0]["fix"], found


def test_loopback_name():
    """The own name is 127.0.1.1, as Debian writes it."""
    with Hosts() as hosts:
        hosts.lists = [[f"{name}:{PORT}" for name in hosts.network.names]] * 3
        for i in range(3):
            command = hosts.network.by_name(i, hosts.top)
            hosts.wrapped[i] = command[len(hosts.network.inside(i)):]
        for report in hosts.examine().values():
            expect(report, "loopback", "warning", "127.0.1.1", "/etc/hosts")


def test_other_on_loopback():
    """Another worker's name is this host's loopback address."""
    with Hosts() as hosts:
        hosts.lists = [[*hosts.addresses[:2], f"127.0.0.2:{PORT}"]] * 3
        found = faults(hosts.examine([0, 1])[0])
        assert any(c["check"] == "loopback" and c["severity"] == "error"
                   for c in found), found


def test_tf_config():
    """A TF_CONFIG that is no JSON."""
    with Hosts() as hosts:
        hosts.environment[0]["TF_CONFIG"] = "{"
        expect(hosts.examine([0])[0], "cluster", "error", "TF_CONFIG",
               "correct the environment")


def test_address_of_another_host():
    """Two workers were given the same index: one has another's address."""
    with Hosts() as hosts:
        hosts.indices[1] = 0
        found = faults(hosts.examine([1])[1])
        assert any(c["check"] == "port" and "ip address" in c["fix"]
                   for c in found), found


def test_port_taken():
    """Another program has the port."""
    with Hosts() as hosts:
        other = subprocess.Popen(hosts.network.inside(
            1, sys.executable, "-c",
            "import socket, time; s = socket.create_server(('', 7000));"
            "print(flush=True); time.sleep(1000)"), stdout=subprocess.PIPE)
        other.stdout.read(1)
        reports = hosts.examine()
        other.kill()
        found = faults(reports[1])
        assert any(c["check"] == "port" and "sport" in c["fix"]
                   for c in found), found
        expect(reports[0], "reach", "error", "does not answer",
               "another program has the port")


def test_peer_absent():
    """No doctor on a host."""
    with Hosts() as hosts:
        for report in hosts.examine([0, 1]).values():
            expect(report, "reach", "error", "worker 2", "'ringlet doctor'")


def test_host_off():
    """A host without its network."""
    with Hosts() as hosts:
        hosts.network.take_away(2)
        for report in hosts.examine([0, 1]).values():
            expect(report, "reach", "error", "worker 2", "firewall")


def test_firewall_one_way():
    """A firewall drops the connections from one host to another."""
    with Hosts() as hosts:
        hosts.network.rule(1, ["input"], f"ip saddr {hosts.network.host(0)} "
                           f"tcp dport {PORT} drop")
        reports = planted(hosts, 0, "reach", "error",
                          "but it reaches this worker", f"port {PORT}",
                          sound=[2])
        expect(reports[1], "reach", "error", "does not reach this worker",
               f"port {PORT}")


def test_black_hole():
    """Packets of more than 1,000 bytes to a host are dropped."""
    with Hosts() as hosts:
        hosts.network.rule(1, ["input"], f"ip saddr {hosts.network.host(0)} "
                           "meta length > 1000 drop")
        planted(hosts, 0, "mtu", "error", "large ones do not", "mtu",
                sound=[1, 2])


def test_wrong_key():
    """A host has another key."""
    with Hosts() as hosts:
        give_key(hosts, range(3))
        other = hosts.top / "other.key"
        run(RINGLET, "keygen", "--out", other)
        hosts.environment[2] = {"RINGLET_KEY_FILE": str(other)}
        reports = hosts.examine()
        for i in range(2):
            found = faults(reports[i])
            assert any(c["check"] == "key" and c.get("worker") == 2 and
                       "sha256sum" in c["fix"] for c in found), found
        assert any(c["check"] == "key" for c in faults(reports[2]))


def test_key_on_some_hosts():
    """A host has no key, the others have one."""
    with Hosts() as hosts:
        give_key(hosts, range(2))
        reports = hosts.examine()
        assert any("has no key" in c["text"] for c in faults(reports[0]))
        assert any("has a key" in c["text"] for c in faults(reports[2]))


def test_no_key():
    """No key, and no `insecure`."""
    with Hosts() as hosts:
        hosts.environment[0] = {}
        expect(hosts.examine([0])[0], "key", "error", "no key",
               "ringlet keygen")


def test_key_for_all():
    """Every user may read the key file."""
    with Hosts() as hosts:
        give_key(hosts, range(3))
        (hosts.top / "job.key").chmod(0o644)
        expect(hosts.examine([0])[0], "key", "error", "job.key", "chmod 600")


def test_other_settings():
    """A host has another learning rate."""
    with Hosts() as hosts:
        other = json.loads(json.dumps(RUN))
        other["compile"]["optimizer"]["config"]["learning_rate"] = 0.01
        hosts.write_run(1, other)
        reports = planted(hosts, 0, "settings", "error",
                          "learning_rate is 0.1 here and 0.01 there",
                          "copy one RUN.json")
        expect(reports[2], "settings", "error", "worker 1", "copy one RUN.json")


def test_other_list():
    """A host has the list in another order."""
    with Hosts() as hosts:
        a, b, c = hosts.addresses
        hosts.lists[2] = [b, a, c]
        reports = hosts.examine()
        assert any(c["check"] in ("list", "refused") and
                   "list" in c["fix"] for c in faults(reports[0]))
        assert any(c["check"] == "list" and "list" in c["fix"]
                   for c in faults(reports[2]))


def test_other_arithmetic():
    """A host computes without fused multiply-adds."""
    with Hosts() as hosts:
        hosts.environment[1]["RINGLET_KERNELS"] = "unfused"
        for i in range(3):
            hosts.environment[i].setdefault("RINGLET_KERNELS", "haswell")
        said = subprocess.run([RINGLET, "--version", "--verbose"],
                              capture_output=True, text=True,
                              env={**os.environ, "RINGLET_KERNELS": "haswell"})
        if said.returncode != 0:
            print("  (this processor has one arithmetic)")
            return
        planted(hosts, 0, "arithmetic", "warning", "worker 1",
                "RINGLET_KERNELS=unfused")


def test_clock():
    """A host's clock is a minute ahead."""
    with Hosts() as hosts:
        hosts.environment[1].update(LD_PRELOAD=SHIM_FILE, TEST_AHEAD="60")
        reports = planted(hosts, 0, "clock", "warning", "60 s ahead of",
                          "timedatectl")
        expect(reports[1], "clock", "warning", "60 s behind", "timedatectl")


def test_date():
    """A host's date is that of a board without a clock."""
    with Hosts() as hosts:
        hosts.environment[0].update(LD_PRELOAD=SHIM_FILE,
                                    TEST_AHEAD=str(-int(time.time()) + 1000))
        found = faults(hosts.examine([0])[0])
        assert any(c["check"] == "clock" and "timedatectl" in c["fix"]
                   for c in found), found


def test_address_space():
    """RLIMIT_AS leaves less memory than the data take."""
    with Hosts(2) as hosts:
        big_data(hosts.folder(0), 200 << 20)
        hosts.wrapped[0] = ["sh", "-c", 'ulimit -v 200000; exec "$@"', "sh"]
        expect(hosts.examine()[0], "memory", "error", "RLIMIT_AS",
               "ulimit -v")


def big_data(folder, size):
    rows = size // 16
    write_npy(folder / "x.npy", "<f4", f"({rows}, 4)", b"")
    write_npy(folder / "y.npy", "<i4", f"({rows},)", b"")
    for name, more in (("x", 16 * rows), ("y", 4 * rows)):
        path = folder / f"{name}.npy"
        os.truncate(path, path.stat().st_size + more)


class Group:
    """A control group with limits, below that of this process; `folder` is None
    if none can be made."""

    def __init__(self, controller, limits_2, limits_1):
        self.folder = None
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            number, kinds, path = line.split(":", 2)
            if number == "0":
                self.make("/sys/fs/cgroup" + path, limits_2)
            elif controller in kinds.split(","):
                self.make(f"/sys/fs/cgroup/{controller}{path}", limits_1)

    def make(self, parent, limits):
        folder = pathlib.Path(parent) / f"ringlet-doctor-{random.random()}"
        try:
            folder.mkdir()
        except OSError:
            return
        if self.folder is not None or not all(
                (folder / name).exists() for name in limits):
            folder.rmdir()
            return
        for name, value in limits.items():
            (folder / name).write_text(value)
        self.folder = folder

    def __enter__(self):
        if self.folder is None:
            print("  (no control group can be made)")
        return self

    def __exit__(self, *_):
        if self.folder is not None:
            self.folder.rmdir()

    def command(self):
        return ["sh", "-c", f'echo 0 >{self.folder}/cgroup.procs; exec "$@"',
                "sh"]


def test_memory_group():
    """A control group allows less memory than the data take."""
    with Group("memory", {"memory.max": "67108864"},
               {"memory.limit_in_bytes": "67108864"}) as group, \
            Hosts(2) as hosts:
        if group.folder is None:
            return
        big_data(hosts.folder(0), 200 << 20)
        hosts.wrapped[0] = group.command()
        expect(hosts.examine()[0], "memory", "error", "the control group",
               "memory.max")


def test_processor_group():
    """A control group allows half of a processor's time."""
    with Group("cpu", {"cpu.max": "50000 100000"},
               {"cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "50000"}) as group, Hosts(2) as hosts:
        if group.folder is None:
            return
        hosts.wrapped[0] = group.command()
        expect(hosts.examine()[0], "cores", "warning", "0.5 processors",
               "cpu.max")


def test_small_disk():
    """A disk without room for the model."""
    with Hosts(2) as hosts:
        small = hosts.top / "small"
        small.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=2M", "none", small)
        run("dd", "if=/dev/zero", f"of={small}/full", "bs=1M", "count=2",
            "status=none")
        hosts.flags[0] += ["--save", str(small / "m.safetensors")]
        expect(hosts.examine()[0], "disk", "error", str(small), "free room")
        run("umount", small)


def test_read_only_disk():
    """The folder of --save is on a disk that is mounted read-only."""
    with Hosts(2) as hosts:
        folder = hosts.top / "ro"
        folder.mkdir()
        run("mount", "-t", "tmpfs", "-o", "ro", "none", folder)
        hosts.flags[0] += ["--save", str(folder / "m.safetensors")]
        expect(hosts.examine()[0], "disk", "error", "Read-only", "remount,rw")
        run("umount", folder)


def test_slow_disk():
    """A disk that takes 2 s for fsync, and one that never returns."""
    for seconds in ("2", "1000"):
        with Hosts(2) as hosts:
            hosts.environment[0].update(LD_PRELOAD=SHIM_FILE,
                                        TEST_FSYNC=seconds)
            expect(hosts.examine()[0], "disk", "warning", "loss of power",
                   "save_freq")


def test_backup_folder():
    """The folder of BackupAndRestore is a file's."""
    with Hosts(2) as hosts:
        other = {**RUN, "callbacks": [{"class_name": "BackupAndRestore",
                                       "config": {"backup_dir": "x.npy/b"}}],
                 "strategy": {}}
        for i in range(2):
            hosts.write_run(i, other)
        found = faults(hosts.examine()[0])
        assert any(c["check"] in ("disk", "run") for c in found), found


def test_data_missing():
    """A host without the data."""
    with Hosts(2) as hosts:
        (hosts.folder(1) / "x.npy").unlink()
        planted(hosts, 1, "data", "error", "x.npy", "copy the data", sound=[0])


def test_few_processors():
    """More threads than taskset allows."""
    with Hosts(2) as hosts:
        hosts.wrapped[0] = ["taskset", "-c", "0"]
        hosts.flags[0] += ["--threads", "3"]
        planted(hosts, 0, "cores", "warning", "3 threads", "--threads 1",
                sound=[1])


def test_few_descriptors():
    """ulimit -n is too low for the connections."""
    with Hosts(3) as hosts:
        hosts.wrapped[0] = ["sh", "-c", 'ulimit -n 5; exec "$@"', "sh"]
        found = faults(hosts.examine([0])[0])
        assert any(c["check"] == "descriptors" and "ulimit -n" in c["fix"]
                   for c in found), found


def test_wrong_run():
    """A RUN.json with a field that does not exist."""
    with Hosts(2) as hosts:
        hosts.write_run(0, {**RUN, "fitt": {}})
        found = faults(hosts.examine()[0])
        assert any(c["check"] == "run" and "fitt" in c["text"]
                   for c in found), found


def test_hostile_bytes():
    """Programs that send anything to the ports while the doctors run."""
    with Hosts() as hosts:
        attackers = subprocess.Popen(hosts.network.inside(
            2, sys.executable, __file__, "--attack",
            *(hosts.network.host(i) for i in (0, 1))))
        reports = hosts.examine()
        attackers.kill()
        for i, report in reports.items():
            found = [c for c in faults(report) if c["check"] != "refused"]
            assert not found, (i, found)


def attack(hosts):
    """Connects and sends: nothing, random bytes, and hellos with random bytes."""
    draw = random.Random(1)
    held = []
    while True:
        for host in hosts:
            try:
                link = socket.create_connection((host, PORT), timeout=0.2)
                kind = draw.randrange(4)
                if kind == 0:
                    held.append(link)
                    del held[:-64]
                    continue
                data = draw.randbytes(draw.randrange(1, 3000))
                if kind == 1:
                    data = b"RGLT\x02" + data
                if kind == 2:
                    data = b"GET / HTTP/1.1\r\n\r\n"
                link.sendall(data)
                link.close()
            except OSError:
                time.sleep(0.005)


def main():
    global SHIM_FILE
    if WANTED[:1] == ["--attack"]:
        attack(WANTED[1:])
    if network_test.INSIDE not in os.environ:
        network_test.enter()
    threading.Thread(target=network_test.end_with_parent, daemon=True).start()
    run("mount", "-t", "tmpfs", "none", "/run")
    tempfile.tempdir = "/run"
    os.environ.pop("RINGLET_INSECURE", None)
    source = pathlib.Path("/run/shim.c")
    source.write_text(SHIM)
    SHIM_FILE = "/run/shim.so"
    run("cc", "-shared", "-fPIC", "-o", SHIM_FILE, source)
    for name, test in list(globals().items()):
        if name.startswith("test_") and (
                not WANTED or any(w in name for w in WANTED)):
            print(f"{name}: {test.__doc__}", flush=True)
            test()
    print(f"passed; the slowest took {SLOWEST[0]:.1f} s")


WANTED = sys.argv[2:]
if sys.argv[1:2] == ["--attack"]:
    WANTED = sys.argv[1:]
BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
RINGLET = str(BUILD / "tools/ringlet/ringlet") if BUILD else ""
SHIM_FILE = ""
if __name__ == "__main__":
    if BUILD is None:
        sys.exit(__doc__)
    main()
