#!/usr/bin/env python3
"""Bytes of the stripped programs of a build, and where they come from.

    size.py [--limit BYTES] [--objects N] BUILD...

Prints for each build the programs, and for its static `ringlet` what each
library takes (by the linker's map; with --objects its N largest objects too).
Exits 1 where a program is larger than the limit.
"""
import argparse
import collections
import json
import os
import pathlib
import re
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


def where(link_map):
    """{library: {object: bytes}} of what takes room in the file."""
    taken = collections.defaultdict(collections.Counter)
    piece = re.compile(r" (\.\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S+)$")
    content = link_map.read_text().split("Linker script and memory map")[1]
    # A long section name stands on a line of its own.
    for line in re.sub(r"(?m)^( \.\S+)\n\s+", r"\1 ", content).splitlines():
        found = piece.match(line)
        if not found or int(found.group(2), 16) == 0 or found.group(
                1).startswith((".bss", ".tbss", ".debug", ".comment")):
            continue
        archive = re.match(r"(?:.*/)?lib([^/]+?)\.a\((.*)\)", found.group(4))
        library, member = archive.groups() if archive else (
            "the program", pathlib.PurePath(found.group(4)).name)
        taken[library][member] += int(found.group(3), 16)
    return taken


def print_where(link_map, objects):
    taken = where(link_map)
    for library in sorted(taken, key=lambda l: -sum(taken[l].values())):
        print(f"{sum(taken[library].values()):10}  {library}")
        for member, count in taken[library].most_common(objects):
            print(f"{count:16}  {member}")


parser = argparse.ArgumentParser()
parser.add_argument("--limit", type=int)
parser.add_argument("--objects", type=int, default=0)
parser.add_argument("builds", nargs="+", type=pathlib.Path)
options = parser.parse_args()
too_large = []
print(f"{'stripped':>10}" + "".join(f"{s:>13}" for s in SECTIONS))
for build in options.builds:
    for program in programs(build):
        total, sections = measure(program, strip_of(build))
        name = program.relative_to(build.resolve().parent)
        print(f"{total:10}" + "".join(f"{s:13}" for s in sections)
              + f"  {name}")
        if options.limit and total > options.limit:
            too_large.append(name)
    link_map = build / "tools/ringlet/ringlet.map"
    if link_map.exists():
        print(f"of {build}/tools/ringlet/ringlet:")
        print_where(link_map, options.objects)
for name in too_large:
    print(f"size: {name} is larger than {options.limit} bytes")
raise SystemExit(1 if too_large else 0)
