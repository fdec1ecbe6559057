#!/usr/bin/env python3
"""Bytes of the stripped programs of a build, and where they come from.

    size.py [--limit BYTES] BUILD...

Exits 1 where a program is larger than the limit.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

SECTIONS = (".text", ".rodata", ".eh_frame", ".data.rel.ro", ".data", ".bss")


def programs(build):
    """The executables of samples/ and tools/ringlet/, by meson's own list."""
    targets = json.loads(subprocess.run(
        ["meson", "introspect", "--targets", str(build)], check=True,
        stdout=subprocess.PIPE).stdout)
    files = [pathlib.Path(name) for target in targets
             if target["type"] == "executable" for name in target["filename"]]
    return sorted(f for f in files
                  if f.exists() and f.parent.name in ("samples", "ringlet"))


def strip_of(build):
    """Of the target the build is for."""
    for tool in ("aarch64-linux-gnu", "arm-linux-gnueabihf",
                 "s390x-linux-gnu"):
        if tool in (build / "build.ninja").read_text():
            return tool + "-"
    return ""


def measure(program, tools):
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "stripped")
        subprocess.run([tools + "strip", "-o", stripped, str(program)],
                       check=True)
        table = subprocess.run([tools + "size", "-A", stripped], check=True,
                               text=True, stdout=subprocess.PIPE).stdout
        sizes = {line.split()[0]: int(line.split()[1])
                 for line in table.splitlines() if line.startswith(".")}
        return os.path.getsize(stripped), [sizes.get(s, 0) for s in SECTIONS]


parser = argparse.ArgumentParser()
parser.add_argument("--limit", type=int)
parser.add_argument("builds", nargs="+", type=pathlib.Path)
options = parser.parse_args()
too_large = []
print(f"{'stripped':>10}" + "".join(f"{s:>13}" for s in SECTIONS))
for build in options.builds:
    for program in programs(build):
        total, sections = measure(program, strip_of(build))
        name = f"{build}/{program.parent.name}/{program.name}"
        print(f"{total:10}" + "".join(f"{s:13}" for s in sections)
              + f"  {name}")
        if options.limit and total > options.limit:
            too_large.append(name)
for name in too_large:
    print(f"size: {name} is larger than {options.limit} bytes")
raise SystemExit(1 if too_large else 0)
