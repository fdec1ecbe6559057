#!/usr/bin/env python3
"""Workers of different machines train one model and end with the same bits.

    mixed_ring_test.py [--steps N] BUILD...

The job has a worker of each build; builds for other machines run under
qemu-user. Every worker writes its replica to a file. The files must be equal byte
for byte. So must be those of the same job over sealed connections while its keys
rotate. Skips (77) if a build is missing.
"""
import argparse
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import socket
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


@contextlib.contextmanager
def local_sockets_taken(addresses, keys):
    """Takes the names of the workers' local sockets, which carry plain frames. No
    worker can connect to them, so all use TCP (docs/wire_format.md)."""
    taken = []
    for address in addresses:
        for key in keys:
            name = b"ringlet/" + address.encode()
            tag = hashlib.blake2b(name, digest_size=16, key=key).hexdigest()
            taken.append(socket.socket(socket.AF_UNIX))
            taken[-1].bind(b"\0" + name + b"/" + tag.encode())
    try:
        yield
    finally:
        for one in taken:
            one.close()


def run(commands, folder, steps, key_files=None, keys=()):
    """Exit codes. The workers' key files take turns."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(commands))]
    with local_sockets_taken(addresses, keys):
        return run_at(addresses, commands, folder, steps, key_files)


def run_at(addresses, commands, folder, steps, key_files):
    processes = []
    try:
        for index, command in enumerate(commands):
            config = {"cluster": {"worker": addresses},
                      "task": {"type": "worker", "index": index}}
            key = {"RINGLET_KEY_FILE": str(key_files[index % len(key_files)])
                   } if key_files else {}
            with open(folder / f"said.{index}", "w") as said:
                processes.append(subprocess.Popen(
                    command + [str(folder),
                               str(SOURCE / "data/fashion-mnist-mini"),
                               str(steps)],
                    env=dict(os.environ, TF_CONFIG=json.dumps(config), **key),
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said))
        deadline = time.monotonic() + DEADLINE_SECONDS
        return [p.wait(max(0, deadline - time.monotonic()))
                for p in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def train(workers, folder, steps, **sealed):
    """The replicas' digests."""
    codes = run([command for _, command in workers], folder, steps, **sealed)
    for index, code in enumerate(codes):
        if code != 0:
            said = (folder / f"said.{index}").read_text()
            sys.exit(f"{workers[index][0]}: exit code {code}\n{said}")
    finals = [folder / f"final.{index}.safetensors"
              for index in range(len(workers))]
    digests = [hashlib.sha256(final.read_bytes()).hexdigest()
               for final in finals]
    for final in finals:
        final.unlink()
    return digests


def key_file(path, keys):
    """Writes a key file that only its owner may read."""
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        for key in keys:
            file.write(base64.b64encode(key) + b"\n")
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("builds", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    workers = [command_of(build) for build in options.builds]
    keys = [os.urandom(32), os.urandom(32)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = [key_file(folder / "new.key", keys),
                 key_file(folder / "old.key", keys[::-1])]
        for way, sealed in (("plain", {}),
                            ("sealed", {"key_files": files, "keys": keys})):
            start = time.monotonic()
            digests = train(workers, folder, options.steps, **sealed)
            for (machine, _), digest in zip(workers, digests):
                print(f"{machine:7} {digest}")
            expected = digests[0] if way == "plain" else expected
            assert set(digests) == {expected}, f"{way}: replicas differ"
            print(f"{way}: {len(workers)} workers, {options.steps} steps, the "
                  f"same bits; {time.monotonic() - start:.0f} s", flush=True)


main()
