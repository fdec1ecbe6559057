#!/usr/bin/env python3
"""Runs the tests that failed once more, one at a time.

    test_again.py BUILD [FLAGS OF meson test]

For builds that run in an emulator: the deadlines of a test go on there while
its programs hardly do. Reads what `meson test` has written to BUILD/meson-logs,
and writes again.junit.xml beside it, from which tools/test_summary.py takes the
results of these tests, saying so. A test that fails twice has failed.
"""
import json
import pathlib
import subprocess
import sys

PASSED = ("OK", "SKIP", "EXPECTEDFAIL")


def main(build, flags):
    logs = pathlib.Path(build) / "meson-logs"
    (logs / "again.junit.xml").unlink(missing_ok=True)
    with open(logs / "testlog.json") as lines:
        results = [json.loads(line) for line in lines]
    names = [each["name"].rsplit(" / ", 1)[-1] for each in results
             if each["result"] not in PASSED]
    if names:
        print(f"again, alone: {', '.join(names)}", flush=True)
        subprocess.run(["meson", "test", "-C", build, "--no-rebuild",
                        "--num-processes", "1", "--logbase", "again",
                        *flags, *names])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
