#!/usr/bin/env python3
"""Workers of different machines train one model and end with the same bits.

    mixed_ring_test.py [--steps N] BUILD...

One worker of each build: builds for other machines run under qemu-user. Every
worker writes its replica to a file; the files must be equal byte for byte.
Skips (77) where a build is missing.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from free_ports import free_ports

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# Machine of an ELF file -> its emulator and its name.
MACHINES = {62: ("", "x86-64"), 183: ("qemu-aarch64-static", "arm64"),
            40: ("qemu-arm-static", "armhf"),
            22: ("qemu-s390x-static", "s390x")}
DEADLINE_SECONDS = 900


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def machine_of(program):
    with open(program, "rb") as file:
        head = file.read(20)
    order = "<" if head[5] == 1 else ">"
    return MACHINES[struct.unpack_from(order + "H", head, 18)[0]]


def command_of(build):
    program = build / "tests" / "mixed_worker"
    if not program.exists():
        skip(f"no {program}; build it first: make static, make cross ARCH=...")
    emulator, name = machine_of(program)
    if emulator and os.uname().machine == "x86_64":
        if not shutil.which(emulator):
            skip(f"no {emulator}")
        return name, [emulator, str(program)]
    return name, [str(program)]


def run(commands, folder, steps):
    """Exit codes and what each worker said."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(commands))]
    processes = []
    try:
        for index, command in enumerate(commands):
            config = {"cluster": {"worker": addresses},
                      "task": {"type": "worker", "index": index}}
            with open(folder / f"said.{index}", "w") as said:
                processes.append(subprocess.Popen(
                    command + [str(folder),
                               str(SOURCE / "data/fashion-mnist-mini"),
                               str(steps)],
                    env=dict(os.environ, TF_CONFIG=json.dumps(config)),
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said))
        deadline = time.monotonic() + DEADLINE_SECONDS
        return [p.wait(max(0, deadline - time.monotonic()))
                for p in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("builds", nargs="+", type=pathlib.Path)
options = parser.parse_args()
workers = [command_of(build) for build in options.builds]
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    start = time.monotonic()
    codes = run([command for _, command in workers], folder, options.steps)
    for index, code in enumerate(codes):
        if code != 0:
            said = (folder / f"said.{index}").read_text()
            sys.exit(f"{workers[index][0]}: exit code {code}\n{said}")
    digests = [hashlib.sha256(
        (folder / f"final.{index}.safetensors").read_bytes()).hexdigest()
        for index in range(len(workers))]
    for (machine, _), digest in zip(workers, digests):
        print(f"{machine:7} {digest}")
    assert len(set(digests)) == 1, "replicas differ"
    print(f"{len(workers)} workers, {options.steps} steps, the same bits; "
          f"{time.monotonic() - start:.0f} s")
