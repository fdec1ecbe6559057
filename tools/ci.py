#!/usr/bin/env python3
"""Runs the checks of a commit, one after another, and sums them up.

    ci.py          what .ci/run calls: about an hour on two cores
    ci.py full     everything
    ci.py NAME...  these steps alone

Each step is a make target. A step whose tools cannot be had is skipped, with
the reason; one that fails counts as failed, and shows the end of its log. A
step that runs tests counts its tests, any other counts as one. A test that
skips has failed, unless tests/may_skip.py lets it on this machine; then it is
named, with its reason, in the lines before the last. The last line is
`N passed, N failed`; the exit code is 1 where something failed.

RINGLET_CI_MINUTES (55): steps that have not begun by then are skipped. One that
still runs half as long again later is stopped and has failed.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build-ci-logs"
MINUTES = float(os.environ.get("RINGLET_CI_MINUTES", "55"))

SANITIZERS = ("-Db_lundef=false -Doptimization=1 "
              "-Dcpp_args=-fno-sanitize=vptr")
ASAN = ["BUILD=build-ci-asan",
        f"MESON_OPTIONS=--werror -Db_sanitize=address,undefined {SANITIZERS}"]
TSAN = ["BUILD=build-ci-tsan",
        "MESON_OPTIONS=-Db_sanitize=thread -Db_lundef=false -Doptimization=1"]

# Name, what tools/deps.sh is to install ("" for nothing more), the command.
STEPS = [
    ("check-deps", "", ["make", "check-deps"]),
    # gcc, every test, the docs' blocks, the fuzz corpora replayed.
    ("gcc", "", ["make", "test"]),
    ("lint", "tidy", ["make", "lint"]),
    # clang, which must say nothing, and two sanitizers.
    ("clang-asan", "clang",
     ["env", "CXX=clang++", "RINGLET_SIM_SEEDS=200", "make", "test", *ASAN,
      "SUITE=--no-suite slow"]),
    ("tsan", "", ["make", "test", *TSAN, "SUITE=--suite threads"]),
    ("static", "static", ["make", "static", "SUITE=--suite static"]),
    ("cross", "cross armhf",
     ["env", "RINGLET_SIM_SEEDS=64", "make", "cross", "ARCH=armhf",
      "SUITE=--no-suite native"]),
]
FULL = [
    ("gcc", "", ["make", "test"]),
    ("check-deps", "", ["make", "check-deps"]),
    ("lint", "tidy", ["make", "lint", "FILES=all"]),
    *[(variant, tools, ["make", "test", f"VARIANT={variant}"])
      for variant, tools in (("clang", "clang"), ("asan", ""), ("tsan", ""),
                             ("coverage", "coverage"))],
    ("insecure", "", ["make", "test", "BUILD=build-ci-insecure",
                      "MESON_OPTIONS=--werror -Dsecure=disabled",
                      "SUITE=--no-suite slow"]),
    *[(f"static-{blis}", "static", ["make", "static", f"BLIS={blis}"])
      for blis in ("system", "none")],
    *[(f"cross-{arch}", f"cross {arch}", ["make", "cross", f"ARCH={arch}"])
      for arch in ("arm64", "armhf", "s390x")],
    ("fuzz", "fuzz", ["make", "fuzz", "FUZZ_RUNS=100000"]),
    ("crash", "", ["make", "long", "RUN=crash"]),
]
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
SKIPPED = 77  # as automake and meson have it


def run(command, log, seconds):
    """The exit code; all of the command's children end with it."""
    with open(log, "ab") as out:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=subprocess.STDOUT,
                                 start_new_session=True)
        try:
            return child.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            out.write(b"\nci: stopped, out of time\n")
            return 1
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def processor_seconds():
    times = os.times()
    return times.children_user + times.children_system


def lines_of(log):
    return log.read_text(errors="replace").splitlines()


SKIPS = []  # what the lines before the last one name


def step(name, tools, command, last_start):
    """(passed, failed, skipped) of one step; prints its line."""
    log = LOGS / f"{name}.log"
    log.write_bytes(b"")
    begin, used = time.monotonic(), processor_seconds()

    def tell(word, what):
        if word == "skipped":
            SKIPS.append(f"skipped {name}: {what}")
        print(f"{word:8}{name:12} {what} ({time.monotonic() - begin:.0f} s, "
              f"{processor_seconds() - used:.0f} s of processor)", flush=True)

    if begin > last_start:
        tell("skipped", f"{MINUTES:g} minutes are over")
        return 0, 0, 1
    deadline = last_start + 30 * MINUTES
    if tools and run(["tools/deps.sh", *tools.split()], log,
                     deadline - begin) != 0:
        tell("skipped", (lines_of(log) or ["no tools"])[-1])
        return 0, 0, 1
    code = run(command, log, deadline - time.monotonic())
    lines = lines_of(log)
    sums = [match for match in map(SUMMARY.match, lines) if match]
    if code == SKIPPED or (code == 2 and lines and
                           lines[-1].endswith(f"Error {SKIPPED}")):
        reasons = [line for line in lines if line.startswith("skipped")]
        tell("skipped", (reasons or ["no reason given"])[-1]
             .removeprefix("skipped: "))
        return 0, 0, 1
    passed = sum(int(match[1]) for match in sums) if sums else int(code == 0)
    failed = sum(int(match[2]) for match in sums)
    skipped = sum(int(match[3] or 0) for match in sums)
    if code != 0 and failed == 0:
        failed = 1
    if failed:
        print(f"--- {name}: {' '.join(command)}")
        tail = [line for line in lines[-300:]
                if not re.match(r"\[\d+/\d+\] ", line)
                and not SUMMARY.match(line)]
        print(*tail[-80:], sep="\n")
        tell("FAILED", f"{failed} of {passed + failed}; all of it: {log}")
    else:
        tell("ok", f"{passed} tests" if sums else "")
    SKIPS.extend(f"{line} (in {name})" for line in lines
                 if line.startswith("skipped "))
    return passed, failed, skipped


def main():
    full = sys.argv[1:] == ["full"]
    steps = FULL if full else STEPS
    if sys.argv[1:] and not full:
        unknown = set(sys.argv[1:]) - {name for name, *_ in STEPS}
        if unknown:
            sys.exit(f"ci: no step {', '.join(sorted(unknown))}; there are "
                     f"{', '.join(name for name, *_ in STEPS)}")
        steps = [each for each in STEPS if each[0] in sys.argv[1:]]
    try:
        LOGS.mkdir(exist_ok=True)
        os.environ["RINGLET_CI"] = "1"  # for tools/test_summary.py
    except OSError as error:
        sys.exit(f"ci: {error}; run it in a copy of your own")
    begin = time.monotonic()
    last_start = begin + 60 * (MINUTES if not full else 24 * 60)
    sums = [0, 0, 0]
    for each in steps:
        sums = [a + b for a, b in zip(sums, step(*each, last_start))]
    passed, failed, skipped = sums
    print(*SKIPS, sep="\n", end="\n" if SKIPS else "")
    print(f"all of it took {(time.monotonic() - begin) / 60:.1f} minutes, "
          f"{processor_seconds() / 60:.1f} of processor; "
          f"{skipped} skipped, named above")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
