#!/usr/bin/env python3
"""Who may include whom (docs/design.md, "Layout"). Exits 1 on a breach."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAY_INCLUDE = {"core": {"core"}, "net": {"net", "core"}, "io": {"io", "core"}}
# Third-party header -> the only files that may include it.
ONLY_IN = {
    "blis.h": r"core/(gemm\.cc|blis_trim\.h)",
    "blis/blis.h": r"core/(gemm\.cc|blis_trim\.h)",
    "uv.h": r"net/.*",
    "zlib.h": r"io/input_file\.cc|tests/.*",
    "cjson/cJSON.h": r"(io|net)/json\.cc|tests/.*",
    "mpi.h": r"net/mpi_collective\.cc",
    # Streams bring 0.4 MB of locales into a static program.
    "sstream": r"tests/.*",
    "iostream": r"tests/.*",
    "fstream": r"tests/.*",
    "iomanip": r"tests/.*",
    "cJSON.h": r"(io|net)/json\.cc|tests/.*",
}
bad = 0
for path in sorted(ROOT.glob("*/*.[hc]*")):
    name = path.relative_to(ROOT).as_posix()
    folder = path.parent.name
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)', line)
        if not match:
            continue
        header = match.group(1)
        target = (path.parent / header).resolve()
        inside = ROOT in target.parents and '"' in line
        if folder in MAY_INCLUDE and inside and \
                target.parent.name not in MAY_INCLUDE[folder]:
            print(f"{name}:{number}: {folder} may not include {header}")
            bad = 1
        if header in ONLY_IN and not re.fullmatch(ONLY_IN[header], name):
            print(f"{name}:{number}: {header} is included in one place only")
            bad = 1
        public = path.suffix == ".h" and any(
            text.startswith("// Public")
            for text in path.read_text().splitlines()[:6])
        if public and header in ONLY_IN:
            print(f"{name}:{number}: a public header exposes {header}")
            bad = 1
sys.exit(bad)
