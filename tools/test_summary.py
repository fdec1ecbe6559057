#!/usr/bin/env python3
"""Prints what failed, then what was skipped and why, last `N passed, N failed`.

    test_summary.py BUILD/meson-logs/testlog.junit.xml

Reads the JUnit file that `meson test` writes. Exits 1 where a test failed or
none ran. A test that skips where tests/may_skip.py does not let it is marked;
with RINGLET_CI set it has failed.
"""
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


def main(path):
    if not os.path.exists(path):
        print(f"FAILED  meson test: it wrote no {path}; what it says is above")
        print("0 passed, 1 failed")
        return 1
    build = may_skip.Build(pathlib.Path(path).resolve().parent.parent)
    passed, failed, skipped = 0, [], []
    for case in ET.parse(path).getroot().iter("testcase"):
        # meson puts the suites before a name: "ringlet:slow / install_static".
        name = case.get("name", "").rsplit(" / ", 1)[-1]
        name = f"{case.get('classname', '')}.{name}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"FAILED  {name}")
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
