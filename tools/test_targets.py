#!/usr/bin/env python3
"""Prints what ninja must build for the tests of some suites.

    test_targets.py BUILD --suite NAME | --no-suite NAME ...
"""
import argparse
import json
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--suite", action="append", default=[])
parser.add_argument("--no-suite", action="append", default=[])
options = parser.parse_args()


def introspect(what):
    return json.loads(subprocess.check_output(
        ["meson", "introspect", options.build, what]))


def chosen(test):
    suites = {suite.split(":")[-1] for suite in test["suite"]}
    return (not options.suite or suites & set(options.suite)) and \
        not suites & set(options.no_suite)


files = {target["id"]: target["filename"]
         for target in introspect("--targets")}
wanted = set()
for test in introspect("--tests"):
    if chosen(test):
        for target in test["depends"]:
            wanted.update(files[target])
if not wanted:
    sys.exit("test_targets.py: no test is of these suites")
print(*sorted(os.path.relpath(path, options.build) for path in wanted))
