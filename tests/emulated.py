#!/usr/bin/env python3
"""Scripts that start the programs of a cross build in an emulator.

    emulated.py BUILD PROGRAM... -- EMULATOR...

Writes BUILD/emulated/PROGRAM for each: tests that start programs of the build
find them there as they find them in BUILD on their own machine. The process is
the emulator's from its exec on, so signals and process ids are as elsewhere.
"""
import pathlib
import shlex
import sys


def main():
    build = pathlib.Path(sys.argv[1])
    end = sys.argv.index("--")
    emulator = sys.argv[end + 1:]
    for program in sys.argv[2:end]:
        script = build / "emulated" / program
        script.parent.mkdir(parents=True, exist_ok=True)
        command = shlex.join([*emulator, str(build / program)])
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)


main()
