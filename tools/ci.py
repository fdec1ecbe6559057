#!/usr/bin/env python3
"""Runs the checks of a commit, one after another, and sums them up.

    ci.py          what .ci/run calls for each commit
    ci.py nightly  every compiler, sanitizer and machine, and more seeds: hours
    ci.py release  the nightly steps and the long runs: a night more
    ci.py NAME...  only these steps of the commit's checks

docs/testing.md says what the commit's, nightly and release steps prove.

Each step is a make target. A step whose tools cannot be had is skipped, with
the reason; one that fails counts as failed, and shows the end of its log. A
step that runs tests counts its tests, any other counts as one. A test that
skips has failed, unless tests/may_skip.py lets it on this machine; then it is
named, with its reason, in the lines before the last. The last line is
`N passed, N failed`; the exit code is 1 where something failed.

RINGLET_CI_MINUTES (60): steps that have not begun by then are skipped. One that
still runs half as long again later is stopped and has failed.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build-ci-logs"
MINUTES = float(os.environ.get("RINGLET_CI_MINUTES", "60"))

SANITIZERS = ("-Db_lundef=false -Doptimization=1 "
              "-Dcpp_args=-fno-sanitize=vptr")
ASAN = ["BUILD=build-ci-asan",
        f"MESON_OPTIONS=--werror -Db_sanitize=address,undefined {SANITIZERS}"]
TSAN = ["BUILD=build-ci-tsan",
        "MESON_OPTIONS=-Db_sanitize=thread -Db_lundef=false -Doptimization=1"]

# Placeholders in a step's command for the suites that these() chooses.
THESE, THESE_WITH_THREADS = "SUITE=these", "SUITE=these with threads"
QUICK = "RINGLET_TEST_SECONDS=2"  # for slow builds

# Name, what tools/deps.sh is to install ("" for nothing more), the command. The
# longest of those that run in pairs come first.
STEPS = [
    ("check-deps", "", ["make", "check-deps"]),
    # gcc, every test, the docs' blocks, the fuzz corpora replayed.
    ("gcc", "", ["make", "test"]),
    ("lint", "tidy", ["make", "lint"]),
    # clang, which must say nothing, and two sanitizers.
    ("clang-asan", "clang",
     ["env", "CXX=clang++", QUICK, "make", "test", *ASAN, THESE]),
    ("cross", "cross armhf", ["env", QUICK, "make", "cross", "ARCH=armhf",
                              "SUITE=--suite numerics",
                              "STATIC_TARGETS=tools/ringlet/ringlet"]),
    ("tsan", "", ["env", QUICK, "make", "test", *TSAN, THESE_WITH_THREADS]),
    ("static", "static", ["env", QUICK, "make", "static"]),
]
# These have the machine to themselves. Of the others two run at a time, each
# with half of the processors: a step's last tests often leave some idle.
ALONE = ("check-deps", "gcc")
NIGHTLY = [
    ("gcc", "", ["make", "test"]),
    ("check-deps", "", ["make", "check-deps"]),
    ("lint", "tidy", ["make", "lint", "FILES=all"]),
    *[(variant, tools, ["make", "test", f"VARIANT={variant}"])
      for variant, tools in (("clang", "clang"), ("asan", ""), ("tsan", ""),
                             ("coverage", "coverage"))],
    ("insecure", "", ["make", "test", "BUILD=build-ci-insecure",
                      "MESON_OPTIONS=--werror -Dsecure=disabled",
                      "SUITE=--no-suite slow"]),
    ("alone", "", ["make", "build", "BUILD=build-ci-alone",
                   "MESON_OPTIONS=--werror -Dunity=off",
                   "TARGETS=programs meson-test-prereq"]),
    *[(f"static-{blis}", "static", ["make", "static", f"BLIS={blis}"])
      for blis in ("system", "none")],
    *[(f"cross-{arch}", f"cross {arch}", ["make", "cross", f"ARCH={arch}"])
      for arch in ("arm64", "armhf", "s390x")],
    ("fuzz", "fuzz", ["make", "fuzz", "FUZZ_RUNS=100000"]),
    ("boards", "boards", ["make", "long", "RUN=boards"]),
    ("features", "static", ["make", "long", "RUN=features"]),
    ("crash", "", ["make", "long", "RUN=crash"]),
    ("install", "", ["make", "long", "RUN=install"]),
    ("sim", "", ["make", "sim"]),
]
RELEASE = NIGHTLY + [
    (run, "", ["make", "long", f"RUN={run}"])
    for run in ("deploy", "differential", "elastic", "functions", "kills",
                "losses", "mixed", "result", "rules", "soak", "strangers",
                "tables")
]
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
SKIPPED = 77  # as automake and meson have it
STOP = threading.Event()  # set by Ctrl-C: all lanes end


def run(command, log, seconds):
    """The exit code, and the seconds of processor; all of the command's
    children end with it."""
    deadline = time.monotonic() + max(seconds, 1)
    with open(log, "ab") as out:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=subprocess.STDOUT,
                                 start_new_session=True)
        try:
            while True:
                ended, status, usage = os.wait4(child.pid, os.WNOHANG)
                if ended:
                    child.returncode = os.waitstatus_to_exitcode(status)
                    return child.returncode, usage.ru_utime + usage.ru_stime
                if time.monotonic() > deadline:
                    out.write(b"\nci: stopped, out of time\n")
                    return 1, 0
                if STOP.wait(0.1):
                    return 1, 0
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


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.strip() if done.returncode == 0 else ""


def suites():
    """{name: (its folder, whether its tests use several threads)} of the
    test suites, in the order of tests/meson.build, without those that take
    minutes under a sanitizer."""
    text = (ROOT / "tests/meson.build").read_text()
    folders = dict(re.findall(r"^ +'(\w+)': \['([a-z/]+)', \[", text, re.M))
    threads = re.search(r"^threads = \[(.*?)\]", text, re.M | re.S)[1]
    slow = re.search(r"^slow = \[(.*?)\]", text, re.M | re.S)[1]
    return {name: (folder, f"'{name}'" in threads)
            for name, folder in folders.items() if f"'{name}'" not in slow}


def these(with_threads):
    """`--suite NAME` for each suite to test under a sanitizer: the suites
    changed since the last tag. Without a tag or a change, or with a changed
    public header, a third of all, which changes with each commit. It is never
    empty, which would be all tests."""
    tag = git("describe", "--tags", "--abbrev=0")
    changed = git("diff", "--name-only", tag) if tag else ""
    commits = int(git("rev-list", "--count", "HEAD") or 0)
    able = [(i, name, folder) for i, (name, (folder, threads)) in
            enumerate(suites().items()) if threads or not with_threads]
    header = re.search(r"^ringlet/", changed, re.M)
    changed = [name for _, name, folder in able if f"{folder}/" in changed]
    third = [name for i, name, _ in able if i % 3 == commits % 3]
    chosen = third if header or not changed else changed
    return "SUITE=" + " ".join(f"--suite {name}" for name in chosen)


def filled(command):
    """The command with its placeholders replaced by suites."""
    return [these(part == THESE_WITH_THREADS)
            if part in (THESE, THESE_WITH_THREADS) else part
            for part in command]


SKIPS = []  # what the lines before the last one name
INSTALLING = threading.Lock()  # packages are installed by one step at a time


def step(name, tools, command, last_start):
    """(passed, failed, skipped) of one step; prints its line."""
    log = LOGS / f"{name}.log"
    log.write_bytes(b"")
    command = filled(command)
    begin, used = time.monotonic(), 0

    def tell(word, what):
        if word == "skipped":
            SKIPS.append(f"skipped {name}: {what}")
        print(f"{word:8}{name:12} {what} ({time.monotonic() - begin:.0f} s, "
              f"{used:.0f} s of processor)", flush=True)

    if begin > last_start:
        tell("skipped", f"{MINUTES:g} minutes are over")
        return 0, 0, 1
    deadline = last_start + 30 * MINUTES
    if tools:
        with INSTALLING:
            code, _ = run(["tools/deps.sh", *tools.split()], log,
                          deadline - begin)
        if code != 0:
            tell("skipped", (lines_of(log) or ["no tools"])[-1])
            return 0, 0, 1
    code, used = run(command, log, deadline - time.monotonic())
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
        tail = [line for line in lines[-300:]
                if not re.match(r"\[\d+/\d+\] ", line)
                and not SUMMARY.match(line)]
        print(f"--- {name}: {' '.join(command)}", *tail[-80:], sep="\n")
        tell("FAILED", f"{failed} of {passed + failed}; all of it: {log}")
    else:
        tell("ok", f"{passed} tests" if sums else "")
    SKIPS.extend(f"{line} (in {name})" for line in lines
                 if line.startswith("skipped "))
    return passed, failed, skipped


def main():
    long = {"nightly": NIGHTLY, "release": RELEASE}.get(
        sys.argv[1] if len(sys.argv) == 2 else "")
    steps = long or STEPS
    if sys.argv[1:] and not long:
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
    last_start = begin + 60 * (24 * 60 if long else MINUTES)
    results = []

    def run_steps(waiting):
        """Another thread may take steps from the same list."""
        while waiting and not STOP.is_set():
            try:
                each = waiting.pop(0)
            except IndexError:  # the other thread took the last one
                return
            results.append(step(*each, last_start))

    run_steps([each for each in steps if long or each[0] in ALONE])
    rest = [each for each in steps if not long and each[0] not in ALONE]
    lanes = [threading.Thread(target=run_steps, args=(rest,))
             for _ in rest[:2]]
    if len(lanes) == 2:
        os.environ.setdefault("JOBS", str(max((os.cpu_count() or 2) // 2, 1)))
    try:
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    except KeyboardInterrupt:
        STOP.set()
        for lane in lanes:
            lane.join()
        sys.exit("ci: stopped")
    passed, failed, skipped = (sum(column) for column in zip(*results))
    failed += len(steps) - len(results)  # a lane that ended with an exception
    print(*SKIPS, sep="\n", end="\n" if SKIPS else "")
    print(f"all of it took {(time.monotonic() - begin) / 60:.1f} minutes, "
          f"{processor_seconds() / 60:.1f} of processor; "
          f"{skipped} skipped, named above")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
