#!/usr/bin/env python3
"""`ringlet launch --hosts` runs a worker on each host by ssh.

A program in the place of ssh runs the command on this machine, in a session and
an environment of its own, as sshd does: no signal to ssh reaches the command.
RINGLET_BUILD names the folder of the build.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from free_ports import free_ports  # noqa: E402

PROGRAM = pathlib.Path(os.environ["RINGLET_BUILD"]).resolve() / \
    "tools/ringlet/ringlet"
DEADLINE = 300 # seconds, for what takes a few
SSH = """#!/bin/sh
[ "$1 $2 $3" = "-o BatchMode=yes --" ] || exit 64
if [ "$4" = unreachable ]; then
  echo "ssh: connect to host $4 port 22: No route to host" >&2
  exit 255
fi
exec 3<&0
env -i "PATH=$PATH" setsid --wait sh -c "$5" <&3 3<&- &
echo "$!" >>ssh.pids
wait "$!"
"""


def until(find):
    end = time.monotonic() + DEADLINE
    while not find():
        assert time.monotonic() < end, find
        time.sleep(0.02)


class Hosts:
    """A folder that all hosts share."""

    def __init__(self, folder, epochs, **more):
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "ssh").write_text(SSH)
        (programs / "ssh").chmod(0o755)
        (programs / "ringlet").symlink_to(PROGRAM)
        layers = [{"class_name": "InputLayer",
                   "config": {"batch_shape": [None, 2]}},
                  {"class_name": "Dense", "config": {"units": 1}}]
        (folder / "run.json").write_text(json.dumps({
            "model": {"class_name": "Sequential",
                      "config": {"layers": layers}},
            "compile": {"optimizer": "sgd", "loss": "mse"},
            "data": {"train": {"csv": "data.csv", "label": "y"}},
            "callbacks": [{"class_name": "CSVLogger",
                           "config": {"filename": "log.csv"}}],
            "fit": {"batch_size": 4, "epochs": epochs}, **more}))
        (folder / "data.csv").write_text("a,b,y\n" + "".join(
            f"{i},{i % 3},{i % 5}\n" for i in range(16)))
        (folder / "hosts").write_text("# both are this machine\n" + "".join(
            f"127.0.0.1:{port}\n" for port in free_ports(2)))
        subprocess.run([PROGRAM, "keygen", "--out", folder / "job.key"],
                       check=True)
        self.environment = {
            **os.environ, "PATH": f"{programs}:{os.environ['PATH']}",
            "RINGLET_KEY_FILE": str(folder / "job.key")}

    def start(self, *command, flags=()):
        return subprocess.Popen(
            [PROGRAM, "launch", "--hosts", "hosts", *flags, "--", *command],
            cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *command, flags=()):
        process = self.start(*command, flags=flags)
        out, err = process.communicate(timeout=DEADLINE)
        return process.returncode, out, err

    def commands(self):
        """The sessions of the commands that run."""
        pids = (self.folder / "ssh.pids").read_text().split()
        return [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]


def job_trains(folder):
    hosts = Hosts(folder, 2)
    code, out, err = hosts.run("ringlet", "train", "run.json", "--save",
                               "a model's.safetensors")
    assert code == 0, (code, out, err)
    assert (folder / "a model's.safetensors").stat().st_size > 0
    assert "[0] Epoch 2/2" in out and "\r" not in out, out
    code, out, err = hosts.run("ringlet", "train", "run.json", "--save",
                               "no/m.safetensors")
    assert code == 2 and "[0] " in err and "[1] " in err, (code, out, err)
    code, out, err = hosts.run("sh", "-c", "echo out; echo err >&2; pwd; "
                               "echo $RINGLET_KEY_FILE; cat; exit 7")
    assert code == 7, (code, out, err)
    lines = sorted(out.splitlines())
    assert lines == sorted(
        f"[{worker}] {line}" for worker in (0, 1)
        for line in ("out", folder, folder / "job.key")), out
    assert {"[0] err", "[1] err"} <= set(err.splitlines()), err


def signal_reaches_the_hosts(folder, number):
    """The workers end their step and save; their last lines arrive."""
    hosts = Hosts(folder, 10**9)
    process = hosts.start("ringlet", "train", "run.json", "--save",
                          "m.safetensors")
    log = folder / "log.csv"
    until(lambda: log.exists() and log.read_text().count("\n") > 2)
    assert len(hosts.commands()) == 2
    process.send_signal(number)
    _, err = process.communicate(timeout=DEADLINE)
    # The workers get SIGTERM for either.
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "m-interrupted.safetensors" in err, err
    assert not hosts.commands()
    assert (folder / "m-interrupted.safetensors").stat().st_size > 0


def interrupt_reaches_the_hosts(folder):
    signal_reaches_the_hosts(folder, signal.SIGINT)


def termination_reaches_the_hosts(folder):
    signal_reaches_the_hosts(folder, signal.SIGTERM)


def killed_launcher_leaves_no_worker(folder):
    hosts = Hosts(folder, 10**9)
    process = hosts.start("ringlet", "train", "run.json", "--no-save")
    log = folder / "log.csv"
    until(lambda: log.exists() and log.read_text().count("\n") > 2)
    process.kill()
    process.communicate()
    until(lambda: not hosts.commands())


def worker_that_ignores_the_signal_is_killed(folder):
    hosts = Hosts(folder, 2)
    process = hosts.start("sh", "-c", 'trap "" TERM; echo $$ >>deaf; '
                          "while :; do sleep 0.1; done",
                          flags=("--grace", "1"))
    deaf = folder / "deaf"
    until(lambda: deaf.exists() and deaf.read_text().count("\n") == 2)
    process.kill()
    process.communicate()
    until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists()
                          for pid in deaf.read_text().split()))


def unreachable_host_ends_the_job(folder):
    hosts = Hosts(folder, 2)
    (folder / "hosts").write_text("127.0.0.1\nunreachable\n")
    code, _, err = hosts.run("sh", "-c", "while :; do sleep 1; done",
                             flags=("--grace", "0.1"))
    assert code == 255 and "[1] ssh: connect to host" in err, (code, err)
    until(lambda: not hosts.commands())


def elastic_job_outlives_a_lost_host(folder):
    """The exit code is that of the workers that completed the job."""
    hosts = Hosts(folder, 2, strategy={
        "policy": "shrink", "min_workers": 1, "timeout": 2,
        "start_timeout": 2})
    (folder / "hosts").write_text(
        f"127.0.0.1:{free_ports(1)[0]}\nunreachable\n")
    code, out, err = hosts.run("ringlet", "train", "run.json", "--save", "m")
    assert code == 0 and (folder / "m").exists(), (code, out, err)
    assert "worker 1 ended with exit code 255; the others continue" in err, err


def restart_is_refused(folder):
    hosts = Hosts(folder, 2)
    code, _, err = hosts.run("true", flags=("--restart",))
    assert code == 2 and "--print systemd" in err, (code, err)
    code, _, err = hosts.run("true", flags=("-n", "3"))
    assert code == 2 and "has 2 hosts" in err, (code, err)


def main():
    failed = 0
    for test in (job_trains, interrupt_reaches_the_hosts,
                 termination_reaches_the_hosts,
                 killed_launcher_leaves_no_worker,
                 worker_that_ignores_the_signal_is_killed,
                 unreachable_host_ends_the_job,
                 elastic_job_outlives_a_lost_host, restart_is_refused):
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder))
                print("ok", test.__name__)
            except AssertionError as error:
                failed += 1
                print("FAILED", test.__name__, error)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
