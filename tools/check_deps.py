#!/usr/bin/env python3
"""Who may include whom (docs/design.md, "Layout"), and who may read the date.
Exits 1 on a breach."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# ringlet/ has the public headers.
MAY_INCLUDE = {"ringlet": {"ringlet"}, "core": {"core", "ringlet"},
               "net": {"net", "core", "ringlet"},
               "io": {"io", "core", "ringlet"}}
# Within a folder each module may include those before it, and itself.
ORDER = {
    "core": ["base", "compute", "data", "layers", "graph", "objective",
             "exchange", "step", "model", "recovery", "fit"],
    "io": ["files", "pictures", "sound", "readers", "keras", "logs", "weights", "export",
           "checkpoint", "watch"],
    "net": ["wire", "secure", "cluster", "transport", "collective",
            "membership", "ring", "relay", "status", "doctor", "launch", "strategy"],
}
# Third-party header -> the only files that may include it.
ONLY_IN = {
    "blis.h": r"core/compute/kernel_sets\.cc",
    "blis/blis.h": r"core/compute/kernel_sets\.cc",
    "jpeglib.h": r"io/pictures/jpeg\.cc",
    "jerror.h": r"io/pictures/jpeg\.cc",
    "png.h": r"tests/.*",
    "uv.h": r"net/.*",
    "zlib.h": r"io/files/input_file\.cc|tests/.*",
    "cjson/cJSON.h": r"core/base/json\.cc|tests/.*",
    "sodium.h": r"(net/secure/noise|io/files/sealing)\.cc|tests/.*",
    "mpi.h": r"net/strategy/mpi_collective\.cc",
    # Streams bring 0.4 MB of locales into a static program.
    "sstream": r"tests/.*",
    "iostream": r"tests/.*",
    "fstream": r"tests/.*",
    "iomanip": r"tests/.*",
    "cJSON.h": r"core/base/json\.cc|tests/.*",
}

# The date may be set at any time: what decides how long a worker waits, and for
# whom, reads the clock that only goes forward.
DATE = re.compile(r"WallNanos|system_clock|CLOCK_REALTIME|gettimeofday"
                  r"|\btime\((nullptr|NULL|0|&)")
MAY_READ_DATE = re.compile(r"core/base/clock\.cc|ringlet/collective\.h|net/doctor/.*|(io|tests|tools)/.*")


def installed():
    """The headers that package/meson.build installs."""
    text = (ROOT / "package/meson.build").read_text()
    listed = text.split("headers = [")[1].split("]")[0]
    return {ROOT / "ringlet" / f"{name}.h"
            for name in re.findall(r"'(.*?)'", listed)}


def wrong_place(name, other):
    """Why this source may not include that one, both from the root; or None."""
    top, other_top = name.split("/")[0], other.split("/")[0]
    if other_top not in MAY_INCLUDE.get(top, {other_top}):
        return f"{top} may not include {other}"
    if top != other_top or top not in ORDER:
        return None
    module, other_module = name.split("/")[1], other.split("/")[1]
    order = ORDER[top]
    if module.endswith("_absent.cc"):  # in place of several modules
        return None
    if order.index(other_module) > order.index(module):
        return f"{top}/{module} may not include {top}/{other_module}"
    return None


def breaches(path):
    """What is wrong with this source's includes: (line number, text)."""
    name = path.relative_to(ROOT).as_posix()
    public = name.startswith("ringlet/")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if DATE.search(line) and not MAY_READ_DATE.fullmatch(name):
            yield number, "the date may be set: read MonotonicNanos()"
        match = re.match(r'\s*#\s*include\s*([<"])([^">]+)', line)
        if not match:
            continue
        header = match[2]
        for base in (path.parent, ROOT) if match[1] == '"' else ():
            if (base / header).exists():
                other = (base / header).resolve()
                why = wrong_place(name, other.relative_to(ROOT).as_posix())
                if why:
                    yield number, why
                break
        if header in ONLY_IN:
            if not re.fullmatch(ONLY_IN[header], name):
                yield number, f"{header} is included in one place only"
            if public:
                yield number, f"a public header exposes {header}"


def guard_of(name):
    """The include guard of a header: its path, after the project's name."""
    path = name if name.startswith("ringlet/") else f"ringlet/{name}"
    return re.sub(r"\W", "_", path).upper() + "_"


def wrong_guard(path):
    """What is wrong with this header's include guard: (line number, text)."""
    guard = guard_of(path.relative_to(ROOT).as_posix())
    text = path.read_text()
    if text.find(f"\n#ifndef {guard}\n#define {guard}\n") < 0:
        yield 1, f"the include guard must be {guard}"


bad = 0


def report(path, number, what):
    global bad
    print(f"{path.relative_to(ROOT)}:{number}: {what}")
    bad = 1


for folder in ("ringlet", "core", "io", "net", "samples", "tests", "tools"):
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".h", ".cc"):
            for number, what in breaches(path):
                report(path, number, what)
        if path.suffix == ".h":
            for number, what in wrong_guard(path):
                report(path, number, what)
for path in sorted(set((ROOT / "ringlet").iterdir()) ^ installed()):
    report(path, 1, "is public and not installed" if path.exists()
           else "is installed and does not exist")
sys.exit(bad)
