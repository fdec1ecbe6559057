#!/usr/bin/env python3
"""Each FEATURE_absent.cc is complete: a program without the feature links.

    absent_test.py BUILD LIBRARY...

A LIBRARY is named ringlet_TOP_FEATURE_absent. It replaces ringlet_TOP_FEATURE in
a build without FEATURE. So it must define each symbol of the latter that other
objects use, and each function of it that a public header declares.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent
NAMES = [name.removesuffix("_absent") for name in sys.argv[2:]]
# Libraries that a build without another feature leaves out too.
PARTS = {"pictures": ["ringlet_io_jpeg"],
         "workers": ["ringlet_net_secure", "ringlet_net_mpi"]}


def objects():
    """{folder of a target: its objects} of core, io, net and the program."""
    found = collections.defaultdict(list)
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    for command in commands:
        output = pathlib.PurePath(command["output"])
        if re.match(r"(core|io|net)/|tools/ringlet/", str(output)):
            found[str(output.parent)].append(str(output))
    return found


def symbols(files):
    """{kind: symbols}; an inline function is weak, so that each user has it."""
    said = subprocess.run(["nm", "--format=posix", *files], cwd=BUILD, text=True,
                          check=True, stdout=subprocess.PIPE).stdout
    kinds = collections.defaultdict(set)
    for name, kind in re.findall(r"^(\S+) ([A-Za-z])(?: |$)", said, re.M):
        kinds["undefined" if kind == "U" else
              "weak" if kind in "VWvwu" else
              "defined" if kind.isupper() else "local"].add(name)
    return kinds


def plain(names):
    """{symbol: its name in C++}."""
    names = sorted(names)
    said = subprocess.run(["c++filt"], input="\n".join(names), text=True,
                          check=True, stdout=subprocess.PIPE).stdout
    return dict(zip(names, said.splitlines()))


def public_names():
    """The words of the public headers, without comments."""
    text = "".join(path.read_text() for path in (SOURCE / "ringlet").glob("*.h"))
    return set(re.findall(r"\w+", re.sub(r"//.*", "", text)))


def is_public(name, words):
    """True for ringlet::Function(...) and ringlet::Class::Method(...)."""
    found = re.match(r"(?:.*?[ *&])?ringlet::((?:\w+::)*~?\w+)(?:\[.*?\])?\(", name)
    return found is not None and all(
        word.strip("~") in words for word in found[1].split("::"))


def lacking(feature, targets):
    """The symbols of a feature that its absent libraries do not define."""
    left_out = [name for name in NAMES if name.endswith(f"_{feature}")]
    left_out += PARTS.get(feature, [])
    defined, used, replaced = set(), set(), set()
    for target, has in targets.items():
        if target in left_out:
            defined |= has["defined"]
        else:
            used |= has["undefined"]
            if target.endswith("_absent"):
                replaced |= has["defined"]
    words = public_names()
    used |= {symbol for symbol, name in plain(defined).items()
             if is_public(name, words)}
    return plain((used & defined) - replaced).values()


def main():
    targets = {re.sub(r"^.*/lib|\.a\.p$", "", folder): symbols(files)
               for folder, files in objects().items()}
    features = sorted({name.split("_")[-1] for name in NAMES if name in targets})
    missing = [f"{feature}_absent.cc lacks {name}" for feature in features
               for name in lacking(feature, targets)]
    for line in missing:
        print(line)
    print(f"{len(features)} features: {', '.join(features)}")
    return 1 if missing else 0


sys.exit(main())
