#!/usr/bin/env python3
"""A static program names no loader and no library, and needs no other file.

    static_test.py elf PROGRAM...
    static_test.py chroot RINGLET SOURCE    trains samples/mnist.json in a folder
        that is the root directory and holds nothing else; that takes root
"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

PT_DYNAMIC, PT_INTERP = 2, 3


def segment_types(program):
    """The types of an ELF file's program headers."""
    with open(program, "rb") as file:
        content = file.read()
    assert content[:4] == b"\x7fELF", f"{program}: not an ELF file"
    wide = content[4] == 2
    order = "<" if content[5] == 1 else ">"
    (start,) = struct.unpack_from(order + ("Q" if wide else "I"), content,
                                  32 if wide else 28)
    size, count = struct.unpack_from(order + "HH", content, 54 if wide else 42)
    return {struct.unpack_from(order + "I", content, start + i * size)[0]
            for i in range(count)}


def check_elf(program):
    types = segment_types(program)
    assert PT_INTERP not in types, f"{program}: asks for a loader"
    assert PT_DYNAMIC not in types, f"{program}: asks for shared libraries"
    # The same by the system's own word, where it knows the machine.
    if shutil.which("file"):
        said = output(["file", "-b", program])
        assert "statically linked" in said, f"{program}: {said}"
    said = output(["ldd", program])
    assert "not a dynamic executable" in said, f"{program}: {said}"


def output(command):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT).stdout


def need_root():
    if os.geteuid() != 0:
        print("skipped: only root may change the root directory")
        sys.exit(77)


def into(root):
    """What a child does first."""
    return lambda: (os.chroot(root), os.chdir("/"))


def check_chroot(ringlet, source):
    need_root()
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        shutil.copy(ringlet, root / "ringlet")
        for folder in ("data", "samples"):
            shutil.copytree(pathlib.Path(source) / folder, root / folder)
        for arguments, expected in [
                (["train", "samples/mnist.json", "--save", "m.safetensors"],
                 "Epoch 3/3"),
                (["inspect", "m.safetensors"], "dense_1"),
                (["evaluate", "m.safetensors", "--data", "samples/mnist.json"],
                 "accuracy")]:
            result = subprocess.run(
                ["/ringlet"] + arguments, text=True, stdout=subprocess.PIPE,
                env={}, preexec_fn=into(root))
            assert result.returncode == 0, result
            assert expected in result.stdout, result.stdout


if sys.argv[1] == "elf":
    for argument in sys.argv[2:]:
        check_elf(argument)
else:
    check_chroot(*sys.argv[2:])
