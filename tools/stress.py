#!/usr/bin/env python3
"""Runs one test many times on a busy machine, and counts how often it passes.

    stress.py TEST [--filter PATTERN] [--times 200] [--load 8] [--jobs 4]
              [--build build]

TEST is the name of a test of `meson test`, or the path of a program. Each run
has the environment that meson gives the test, and a temporary folder of its own.
PATTERN is GoogleTest's --gtest_filter. `--jobs` runs execute at the same time,
beside `--load` processes that only compute. A run that exceeds the time limit is
stopped and has failed. The limit is the test's in meson, 600 s for the path of a
program, or `--timeout`.

Prints `N of M passed` and the output of the first run that failed. Exits 0 if all
passed, 1 if one failed, 2 if there is no such test, 130 after Ctrl-C or SIGTERM.
All processes that it has started have ended when it ends.
"""
import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time


class Stress:
    """The runs of one command, and their count. stop() ends the current runs."""

    def __init__(self, command, environment, limit):
        self.command, self.environment, self.limit = command, environment, limit
        self.passed, self.ended, self.first_failure = 0, 0, None
        self.stopped = False
        self.lock = threading.Lock()  # guards the fields above and below
        self.running = set()

    def run_once(self, number):
        with tempfile.TemporaryDirectory(prefix="stress") as folder:
            with tempfile.TemporaryFile() as output:
                began = time.monotonic()
                code = self.start_and_wait(folder, output)
                seconds = time.monotonic() - began
                output.seek(0)
                text = output.read().decode(errors="replace")
        with self.lock:
            if self.stopped:
                return
            self.ended += 1
            if code == 0:
                self.passed += 1
            elif self.first_failure is None:
                self.first_failure = (
                    f"--- run {number} {self.how(code)} after {seconds:.1f} s; "
                    f"its output:\n{text}")

    def start_and_wait(self, folder, output):
        """Returns the exit code; None after the time limit."""
        with self.lock:
            if self.stopped:
                return None
            # A new session, so that the test's own processes end with it.
            child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={**self.environment, "TMPDIR": folder})
            self.running.add(child)
        try:
            return child.wait(self.limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_session(child)
            with self.lock:
                self.running.discard(child)

    def how(self, code):
        if code is None:
            return f"was stopped at its limit of {self.limit} s"
        return f"ended by signal {-code}" if code < 0 else f"failed with code {code}"

    def stop(self):
        with self.lock:
            self.stopped = True
            for child in self.running:
                end_session(child, wait=False)


def end_session(child, wait=True):
    """Kills what is left of the child's process group."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if wait:
        child.wait()


def interrupt_once(*_):
    """Ends the runs. Further signals are ignored, so that all processes end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def compute():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getppid()
    n = 0
    while os.getppid() == parent:
        for _ in range(100000):
            n = n * 1103515245 + 12345 & 0xffffffff


def test_of_meson(build, name):
    """The entry of the test in `meson introspect --tests`, or None."""
    path = pathlib.Path(build) / "meson-info/intro-tests.json"
    if not path.exists():
        return None
    named = [t for t in json.loads(path.read_text()) if t["name"] == name]
    return named[0] if named else None


def find(args):
    """(command, environment, seconds) of the test; None if there is none."""
    # The program of a test has the name of the test in nearly all cases.
    test = test_of_meson(args.build, pathlib.Path(args.test).name)
    environment, limit = dict(os.environ), 600
    if test is not None:
        environment.update(test["env"])
        limit = test["timeout"] or limit
    if os.path.sep in args.test:
        if not os.access(args.test, os.X_OK):
            return None
        command = [os.path.abspath(args.test)]
    elif test is not None:
        command = test["cmd"]
    else:
        return None
    if args.filter:
        environment["GTEST_FILTER"] = args.filter
    environment["GTEST_FAIL_IF_NO_TEST_SELECTED"] = "1"
    return command, environment, args.timeout or limit


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test")
    parser.add_argument("--filter")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--load", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--timeout", type=float)
    parser.add_argument("--build", default="build")
    args = parser.parse_args()
    found = find(args)
    if found is None:
        print(f"stress.py: there is no test {args.test} in {args.build}; "
              "`meson test --list` names all", file=sys.stderr)
        return 2
    stress = Stress(*found)
    load = [multiprocessing.Process(target=compute, daemon=True)
            for _ in range(args.load)]
    for process in load:
        process.start()
    pool = concurrent.futures.ThreadPoolExecutor(args.jobs)
    interrupted = False
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt_once)
    try:
        for run in [pool.submit(stress.run_once, n) for n in range(args.times)]:
            run.result()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        stress.stop()
        pool.shutdown(cancel_futures=True)
        for process in load:
            process.terminate()
        for process in load:
            process.join()
    if stress.first_failure:
        print(stress.first_failure.rstrip("\n"))
    print(f"{stress.passed} of {stress.ended} passed" +
          (f"; interrupted before {args.times}" if interrupted else ""))
    return 130 if interrupted else 0 if stress.passed == args.times else 1


if __name__ == "__main__":
    sys.exit(main())
