#!/usr/bin/env python3
"""Prints what failed and was skipped, and last `N passed, N failed`.

Reads the JUnit file that `meson test` writes. Exits 1 where a test failed or
none ran.
"""
import os
import sys
import xml.etree.ElementTree as ET

if not os.path.exists(sys.argv[1]):
    print(f"FAILED  meson test: it wrote no {sys.argv[1]}; what it says is above")
    print("0 passed, 1 failed")
    sys.exit(1)
passed = failed = skipped = 0
for case in ET.parse(sys.argv[1]).getroot().iter("testcase"):
    name = f"{case.get('classname', '')}.{case.get('name', '')}"
    if case.find("failure") is not None or case.find("error") is not None:
        failed += 1
        print(f"FAILED  {name}")
    elif case.find("skipped") is not None:
        skipped += 1
        reason = (case.find("skipped").get("message") or
                  case.findtext("system-out") or "").strip()
        reason = reason.removeprefix("skipped: ")
        print(f"skipped {name}: {reason.splitlines()[-1] if reason else ''}")
    else:
        passed += 1
line = f"{passed} passed, {failed} failed"
print(line + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failed or not passed else 0)
