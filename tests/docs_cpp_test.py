#!/usr/bin/env python3
"""Compiles the C++ of a page: each "## " section's blocks are one function.

    docs_cpp_test.py SOURCE docs/from-keras.md...
"""
import os
import re
import shlex
import subprocess
import sys

source = sys.argv[1]
program = ['#include "ringlet/ringlet.h"']
for page in sys.argv[2:]:
    with open(os.path.join(source, page), encoding="utf-8") as file:
        sections = re.split(r"^## ", file.read(), flags=re.MULTILINE)
    found = 0
    for number, section in enumerate(sections):
        blocks = re.findall(r"^```cpp\n(.*?)^```", section,
                            flags=re.MULTILINE | re.DOTALL)
        found += len(blocks)
        body = "\n".join(blocks).replace('#include "ringlet/ringlet.h"', "")
        program += [f"namespace section_{number} {{", "ringlet::Status Run() {",
                    "using namespace ringlet;", body, "return Status();",
                    "}", "}"]
    assert found > 0, f"{page}: no C++"
compiler = shlex.split(os.environ.get("CXX", "c++"))
subprocess.run([*compiler, "-std=c++17", "-fsyntax-only", "-I", source, "-x",
                "c++", "-"], input="\n".join(program), text=True, check=True)
