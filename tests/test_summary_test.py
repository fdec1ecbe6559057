#!/usr/bin/env python3
"""tools/test_summary.py reports the tests that fail and that skip."""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import may_skip

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# Why a test skips on no machine and build of CI: there it is a failure, and
# tests/may_skip.py has no row for it.
NEVER_IN_CI = ("python3", "share memory", "shared memory", "/proc/PID/io", "captured file",
               "may not mount, or not shut down")
CASES = {
    "passes": '<testcase classname="A" name="Passes"/>',
    "fails": '<testcase classname="A" name="Fails"><failure/>'
             "<system-out>why</system-out></testcase>",
    # Lets itself skip, and no list does.
    "forgets": '<testcase classname="A" name="Forgets">'
               '<skipped message="no numpy"/></testcase>',
    # tests/may_skip.py lets it in a static build.
    "static": '<testcase classname="RingCollectiveTest" '
              'name="Resolver_Slow_DelaysNoOtherRank"><skipped message="static"/>'
              "</testcase>",
    # A test of meson's own, named with and without suites.
    "meson": '<testcase classname="ringlet" name="ringlet:slow+static / '
             'static_chroot"><skipped/></testcase>',
    # A program of GoogleTest that meson has stopped.
    "stopped": '<testcase classname="ringlet" name="ringlet:slow / c_test">'
               "<system-out>[ RUN ] C.Hangs</system-out></testcase>",
    "plain": '<testcase classname="ringlet" name="static_chroot"><skipped/>'
             "</testcase>",
    "unlisted": '<testcase classname="ringlet" name="ringlet / csv_fuzz">'
                "<skipped/></testcase>",
}


def report_of(name, names):
    def suite(name, names):
        return (f'<testsuite name="{name}">' +
                "".join(CASES[name] for name in names) + "</testsuite>")
    return ("<testsuites>" +
            suite(name, [name for name in names if name != "stopped"]) +
            suite("ringlet", [name for name in names if name == "stopped"]) +
            "</testsuites>")


def summary(names, options="", ci=True, log=""):
    """(exit code, lines) of the summary; `log`: how c_test ended."""
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        (build / "meson-private").mkdir()
        (build / "meson-private/cmd_line.txt").write_text(options)
        (build / "meson-logs").mkdir()
        report = build / "meson-logs/testlog.junit.xml"
        report.write_text(report_of("ringlet.ringlet:slow / a_test.A", names))
        if log:
            (build / "meson-logs/testlog.json").write_text(json.dumps(
                {"name": "ringlet:slow / c_test", "result": log}))
        environment = {k: v for k, v in os.environ.items() if k != "RINGLET_CI"}
        if ci:
            environment["RINGLET_CI"] = "1"
        ran = subprocess.run([sys.executable, SOURCE / "tools/test_summary.py",
                              report], env=environment, text=True,
                             stdout=subprocess.PIPE)
        return ran.returncode, ran.stdout.splitlines()


def check(got, code, *ends):
    """The code, and how the last lines begin."""
    assert got[0] == code, got
    assert len(got[1]) == len(ends), got
    for line, end in zip(got[1], ends):
        assert line.startswith(end), (line, end)


check(summary(["passes"]), 0, "1 passed, 0 failed")
check(summary([]), 1, "0 passed, 0 failed")
check(summary(["forgets", "fails", "passes"]), 1,
      "FAILED  A.Forgets: skipped (no numpy)", "FAILED  A.Fails",
      "        why",
      "1 passed, 2 failed")
check(summary(["forgets", "passes"], ci=False), 0,
      "skipped A.Forgets: no numpy (fails in CI", "1 passed, 0 failed, 1 skipped")
check(summary(["static", "passes"], "[options]\nstatic = true\n"), 0,
      "skipped RingCollectiveTest.Resolver_Slow_DelaysNoOtherRank: static",
      "1 passed, 0 failed, 1 skipped")
check(summary(["static", "passes"]), 1,
      "FAILED  RingCollectiveTest.Resolver_Slow", "1 passed, 1 failed")
for name in ("meson", "plain"):  # only root may change the root directory
    if os.geteuid() == 0:
        check(summary([name, "passes"]), 1, "FAILED  ringlet.static_chroot: ",
              "1 passed, 1 failed")
    else:
        check(summary([name, "passes"]), 0, "skipped ringlet.static_chroot: ",
              "1 passed, 0 failed, 1 skipped")
check(summary(["unlisted"]), 1, "FAILED  ringlet.csv_fuzz: ",
      "0 passed, 1 failed")
check(summary(["stopped", "passes"], log="TIMEOUT"), 1,
      "FAILED  c_test: TIMEOUT", "1 passed, 1 failed")
check(summary(["stopped", "passes"], log="OK"), 0, "2 passed, 0 failed")


def skips():
    """(file, test, or fixture and a dot, reason) of every GTEST_SKIP."""
    for path in sorted((SOURCE / "tests").rglob("*.cc")):
        text = path.read_text()
        for skip in re.finditer(r'GTEST_SKIP\(\)\s*<<\s*"([^"]*)"', text):
            before = re.findall(r"^(?:TEST(?:_F|_P)?\(|class )\s*(\w+)"
                                r"(?:,\s*(\w+)\))?",
                                text[:skip.start()], re.M)
            yield path.name, ".".join(before[-1]), skip[1]


# Without this check the error appears only in CI, on the machine or with the
# sanitizer that skips.
for file, test, reason in skips():
    assert any(reason_part in reason for reason_part in NEVER_IN_CI) or any(
        fnmatch.fnmatchcase(test, pattern.split("/")[-1])
        for pattern, _, _ in may_skip.MAY_SKIP), (
            f"{file}: {test} skips ({reason}); tests/may_skip.py has no row")
print("test_summary.py: as it should be")
