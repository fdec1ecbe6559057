#!/usr/bin/env python3
"""Pages and comments name sources, and pages name methods, that exist.

Looks in pages for paths of sources, for `Class::Member` and for `CamelCase`, and
in comments for paths. Prints a line for each that this checkout does not have, and then exits
with 1.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = (".cc", ".h", ".in", ".c")
PATH = re.compile(r"(?<![\w.{}*$/-])(?:\.\./)*((?:[\w-]+/)*[\w-]+\.(?:cc|h)"
                  r"|(?:tools|tests)/[\w/-]+\.py)\b(?![*(])")
MEMBER = re.compile(r"`([A-Za-z]\w*)::(\w+)")
CAMEL = re.compile(r"`((?:[A-Z]+[a-z0-9]+){2,})(?:\(\))?`")
# Names of Keras and PyTorch.
FOREIGN_NAMES = {"BatchNorm", "GradientTape"}
# Headers of others, and files that users or commands make.
FOREIGN = re.compile(r"(?:linux/\w+|uv|mpi|blis|cJSON|zlib|sodium|model\w*|"
                     r"program|ringlet_config)\.(?:h|cc)$")


def names_by_class(sources):
    """The words of the files that define or implement each class."""
    found = {}
    for text in sources.values():
        owners = re.findall(r"\b(?:class|struct|enum)\s+(?:\[\[\w+\]\]\s+)?"
                            r"(?:class\s+)?(\w+)[^;(]*?\{|\b(\w+)::~?\w+", text)
        words = None
        for owner in {a or b for a, b in owners}:
            words = words or set(re.findall(r"\w+", text))
            found.setdefault(owner, set()).update(words)
    return found


def main():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    ends = {"/".join(name.split("/")[i:]) for name in files
            for i in range(name.count("/") + 1)}
    texts = {name: (ROOT / name).read_text(errors="replace") for name in files
             if name.endswith(SOURCES + (".md",)) and name != "CHANGELOG.md"}
    members = names_by_class({name: text for name, text in texts.items()
                              if name.endswith(SOURCES)})
    words = FOREIGN_NAMES.union(*(re.findall(r"\w+", text)
                                  for name, text in texts.items()
                                  if name.endswith(SOURCES)))
    wrong = 0
    for name, text in texts.items():
        page = name.endswith(".md")
        for number, line in enumerate(text.splitlines(), 1):
            if not page and "//" not in line:
                continue
            said = line if page else line[line.find("//"):]
            missing = [path for path in PATH.findall(said)
                       if path not in ends and not FOREIGN.match(path)]
            missing += [f"{owner}::{member}"
                        for owner, member in MEMBER.findall(line)
                        if page and member not in members.get(owner, ())]
            if page:
                missing += [word for word in CAMEL.findall(line)
                            if word not in words]
            for what in missing:
                wrong += 1
                print(f"{name}:{number}: there is no {what}")
    sys.exit(1 if wrong else 0)


main()
