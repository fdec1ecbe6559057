#!/usr/bin/env python3
"""Who may include whom (docs/design.md, "Layout"). Exits 1 on a breach."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAY_INCLUDE = {"core": {"core"}, "net": {"net", "core"}, "io": {"io", "core"}}
# Third-party header -> the only files that may include it.
ONLY_IN = {
    "blis.h": r"core/compute/(gemm\.cc|blis_trim\.h)",
    "blis/blis.h": r"core/compute/(gemm\.cc|blis_trim\.h)",
    "uv.h": r"net/.*",
    "zlib.h": r"io/files/input_file\.cc|tests/.*",
    "cjson/cJSON.h": r"core/base/json\.cc|tests/.*",
    "mpi.h": r"net/cluster/mpi_collective\.cc",
    # Streams bring 0.4 MB of locales into a static program.
    "sstream": r"tests/.*",
    "iostream": r"tests/.*",
    "fstream": r"tests/.*",
    "iomanip": r"tests/.*",
    "cJSON.h": r"core/base/json\.cc|tests/.*",
}


def breaches(path):
    """What is wrong with this source's includes: (line number, text)."""
    name = path.relative_to(ROOT).as_posix()
    top = name.split("/")[0]
    text = path.read_text()
    public = path.suffix == ".h" and any(
        line.startswith("// Public") for line in text.splitlines()[:6])
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if not match:
            continue
        header = match[2]
        for base in (path.parent, ROOT) if match[1] == '"' else ():
            if (base / header).exists():
                other = (base / header).resolve().relative_to(ROOT).parts[0]
                if other not in MAY_INCLUDE.get(top, {other}):
                    yield number, f"{top} may not include {header}"
                break
        if header in ONLY_IN:
            if not re.fullmatch(ONLY_IN[header], name):
                yield number, f"{header} is included in one place only"
            if public:
                yield number, f"a public header exposes {header}"


bad = 0
for folder in ("core", "io", "net", "samples", "tests", "tools"):
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".h", ".cc"):
            for number, what in breaches(path):
                print(f"{path.relative_to(ROOT)}:{number}: {what}")
                bad = 1
sys.exit(bad)
