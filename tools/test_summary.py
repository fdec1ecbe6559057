#!/usr/bin/env python3
"""Prints what failed, then what was skipped and why, last `N passed, N failed`.

    test_summary.py BUILD/meson-logs/testlog.junit.xml

Reads the JUnit file that `meson test` writes. Exits 1 where a test failed or
none ran. A test that skips where tests/may_skip.py does not let it is marked;
with RINGLET_CI set it has failed.
"""
import json
import os
import pathlib
import sys
import xml.etree.ElementTree as ET

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "tests"))
sys.dont_write_bytecode = True
import may_skip  # noqa: E402


def reason_of(case):
    text = (case.find("skipped").get("message") or
            case.findtext("system-out") or "").strip()
    lines = text.removeprefix("skipped: ").splitlines()
    return lines[-1] if lines else "no reason given"


def last_words(case):
    """The end of what a failed test printed, indented, from a line of its own."""
    texts = [case.findtext(tag) or "" for tag in ("system-out", "system-err")]
    texts += [found.get("message") or found.text or ""
              for found in case.findall("failure") + case.findall("error")]
    lines = [line for text in texts for line in text.splitlines() if line]
    return "".join(f"\n        {line}" for line in lines[-25:])


def program_of(suite, case):
    """The test of tests/meson.build that a case belongs to: meson writes
    "ringlet.SUITES / PROGRAM.SUITE OF GTEST", or all others as cases of
    "ringlet"; the suites and their slash are not always there."""
    _, dot, rest = suite.get("name", "").partition(".")
    name = (rest if dot else case.get("name", "")).rsplit(" / ", 1)[-1]
    return name.split(".")[0]


def cases_of(path):
    """(program, case) of each in a report."""
    return [(program_of(suite, case), case)
            for suite in ET.parse(path).getroot() for case in suite]


PASSED = ("OK", "SKIP", "EXPECTEDFAIL")


def without_failure(path):
    """{program: result} of those that failed and have no case that did: of one
    that is stopped, out of time, the report has a case like that of a success.
    """
    report = pathlib.Path(path)
    log = report.with_name(report.name.removesuffix(".junit.xml") + ".json")
    if not log.exists():
        return {}
    reported = {program for program, case in cases_of(report)
                if case.find("failure") is not None
                or case.find("error") is not None}
    ended = {each["name"].rsplit(" / ", 1)[-1]: each["result"]
             for each in map(json.loads, log.read_text().splitlines())}
    return {program: result for program, result in ended.items()
            if result not in PASSED and program not in reported}


def main(path):
    if not os.path.exists(path):
        print(f"FAILED  meson test: it wrote no {path}; what it says is above")
        print("0 passed, 1 failed")
        return 1
    build = may_skip.Build(pathlib.Path(path).resolve().parent.parent)
    stopped = without_failure(path)
    passed, skipped = 0, []
    failed = [f"FAILED  {program}: {result}"
              for program, result in stopped.items()]
    for _, case in cases_of(path):
        # meson puts the suites before a name: "ringlet:slow / install_static".
        name = case.get("name", "").rsplit(" / ", 1)[-1]
        if name in stopped:
            continue
        name = f"{case.get('classname', '')}.{name}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"FAILED  {name}{last_words(case)}")
        elif case.find("skipped") is None:
            passed += 1
        elif may_skip.allowed(name, build):
            skipped.append(f"skipped {name}: {reason_of(case)}")
        elif os.environ.get("RINGLET_CI"):
            failed.append(f"FAILED  {name}: skipped ({reason_of(case)}), which "
                          "tests/may_skip.py does not let it here")
        else:
            skipped.append(f"skipped {name}: {reason_of(case)} (fails in CI: "
                           "see tests/may_skip.py)")
    for line in failed + skipped:
        print(line)
    print(f"{passed} passed, {len(failed)} failed" +
          (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
