#!/usr/bin/env python3
"""Packs the static program of a build: the same commit, the same bytes.

    dist.py BUILD OUTPUT    writes OUTPUT/ringlet-VERSION-linux-ARCH.tar.gz and
                            its line of OUTPUT/SHA256SUMS

The tarball holds the stripped program, its manual page and completion, the
licence of each library linked in, an SBOM (SPDX 2.3, JSON) and SHA256SUMS.
Times are SOURCE_DATE_EPOCH, or else the commit's.
"""
import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# Machine of an ELF file -> Debian's names of it: architecture, triplet.
MACHINES = {62: ("amd64", "x86_64-linux-gnu"),
            183: ("arm64", "aarch64-linux-gnu"),
            40: ("armhf", "arm-linux-gnueabihf"),
            22: ("s390x", "s390x-linux-gnu")}
# What is linked in -> SPDX's name of its licence, Debian's package.
LIBRARIES = {
    "glibc": ("LGPL-2.1-or-later", "libc6-dev"),
    "libstdc++ and libgcc": ("GPL-3.0-or-later WITH GCC-exception-3.1",
                             "libstdc++-12-dev"),
    "BLIS": ("BSD-3-Clause", "libblis-serial-dev"),
    "libjpeg-turbo": ("IJG AND BSD-3-Clause AND Zlib",
                      "libjpeg62-turbo-dev"),
    "libsodium": ("ISC", "libsodium-dev"),
    "libuv": ("MIT", "libuv1-dev"),
    "zlib": ("Zlib", "zlib1g-dev"),
}
# Which these packages only name.
COMMON_LICENCES = ("LGPL-2.1", "GPL-3")


def output(*command):
    try:
        return subprocess.run(command, check=True, text=True, cwd=SOURCE,
                              stdout=subprocess.PIPE).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"dist: {error}")


def commit():
    """What was built, and whether it is as committed."""
    if not (SOURCE / ".git").exists():
        return "not a git checkout"
    changed = output("git", "status", "--porcelain", "--untracked-files=no")
    return ("commit " + output("git", "rev-parse", "HEAD")
            + (" with changes" if changed else ""))


def time_of_build():
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch and not (SOURCE / ".git").exists():
        sys.exit("dist: not a git checkout; give the time of the release, in "
                 "seconds: SOURCE_DATE_EPOCH=... make dist")
    try:
        return int(epoch or output("git", "log", "-1", "--format=%ct"))
    except ValueError:
        sys.exit(f"dist: SOURCE_DATE_EPOCH is '{epoch}', not a number")


def machine_of(program):
    head = program.read_bytes()[:20]
    order = "<" if head[5] == 1 else ">"
    return MACHINES[struct.unpack_from(order + "H", head, 18)[0]]


def stripped(program, triplet, native):
    tool = "strip" if native else triplet + "-strip"
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "stripped"
        subprocess.run([tool, "-o", str(result), str(program)], check=True)
        return result.read_bytes()


def library(package, arch, native):
    """Version, licence text and purl, from the sysroot or the system."""
    doc = SOURCE / ".deps" / arch / "usr/share/doc" / package
    if not native and doc.exists():
        with gzip.open(doc / "changelog.Debian.gz", "rt") as changelog:
            version = re.search(r"\((.*?)\)", changelog.readline()).group(1)
        return (version, (doc / "copyright").read_bytes(),
                purl(package, version, arch))
    if not native:
        package += f"-{arch}-cross"
    version, arch = output("dpkg-query", "-W", "-f=${Version} ${Architecture}",
                           package).split()
    return (version,
            pathlib.Path(f"/usr/share/doc/{package}/copyright").read_bytes(),
            purl(package, version, arch))


def purl(package, version, arch):
    quote = urllib.parse.quote
    return (f"pkg:deb/debian/{quote(package)}@{quote(version)}"
            f"?arch={arch}")


def libraries(options, arch, native):
    """(name, version, licence's name, its text, where it is from)"""
    found = []
    for name, (licence, package) in LIBRARIES.items():
        if (name == "BLIS" and options["blis"] == "none"
                or name == "libjpeg-turbo" and options["jpeg"] == "disabled"
                or name == "libsodium" and options["secure"] == "disabled"):
            continue
        version, text, origin = library(package, arch, native)
        found.append((name, version, licence, text, origin))
    cjson = SOURCE / ".deps/cjson"
    version = (cjson / "version").read_text().strip()
    found.append(("cJSON", version, "MIT", (cjson / "LICENSE").read_bytes(),
                  purl("cjson", version, "source")))
    return sorted(found)


def sbom(name, version, program, parts, options, when):
    digest = hashlib.sha256(program).hexdigest()
    packages = [{
        "SPDXID": "SPDXRef-ringlet", "name": "ringlet", "versionInfo": version,
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "MIT", "licenseDeclared": "MIT",
        "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION",
        "comment": f"{commit()}, -Dblis={options['blis']}"}]
    # Not CONTAINS, which a package whose files are not analyzed may not say.
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-ringlet"),
                 ("SPDXRef-program", "GENERATED_FROM", "SPDXRef-ringlet")]
    for part, part_version, licence, _, origin in parts:
        identity = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-")
        packages.append({
            "SPDXID": identity, "name": part, "versionInfo": part_version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION",
            "primaryPackagePurpose": "LIBRARY",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER",
                              "referenceType": "purl",
                              "referenceLocator": origin}]})
        relations.append(("SPDXRef-ringlet", "STATIC_LINK", identity))
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{digest}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(
                when, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: ringlet-tools/dist.py"]},
        "packages": packages,
        "files": [{
            "SPDXID": "SPDXRef-program", "fileName": "./ringlet",
            "fileTypes": ["BINARY"], "copyrightText": "NOASSERTION",
            "licenseConcluded": "NOASSERTION",
            "licenseInfoInFiles": ["NOASSERTION"],
            "checksums": [
                {"algorithm": "SHA1",
                 "checksumValue": hashlib.sha1(program).hexdigest()},
                {"algorithm": "SHA256", "checksumValue": digest}]}],
        "relationships": [{"spdxElementId": a, "relationshipType": kind,
                           "relatedSpdxElement": b}
                          for a, kind, b in relations]}


def tarball(folder, files, when):
    """The bytes of a .tar.gz: sorted, one owner, one time."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as compressed, \
            tarfile.open(fileobj=compressed, mode="w",
                         format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(files[name])
            entry.mtime = when
            entry.mode = 0o755 if name == "ringlet" else 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    return packed.getvalue()


def sums(files):
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n"
                   for name in sorted(files)).encode()


parser = argparse.ArgumentParser()
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("output", type=pathlib.Path)
arguments = parser.parse_args()
introspect = ["meson", "introspect", str(arguments.build.resolve())]
version = json.loads(output(*introspect, "--projectinfo"))["version"]
options = {o["name"]: o["value"]
           for o in json.loads(output(*introspect, "--buildoptions"))}
program = arguments.build / "tools/ringlet/ringlet"
if not options["static"] or not program.exists():
    sys.exit(f"dist: {arguments.build} holds no static program: make dist")
arch, triplet = machine_of(program)
native = arch == output("dpkg", "--print-architecture")
when = time_of_build()

name = f"ringlet-{version}-linux-{arch}"
parts = libraries(options, arch, native)
files = {
    "ringlet": stripped(program, triplet, native),
    "ringlet.1": (SOURCE / "tools/ringlet/ringlet.1").read_bytes(),
    "ringlet.bash": (SOURCE / "tools/ringlet/ringlet.bash").read_bytes(),
    "LICENSE": (SOURCE / "LICENSE").read_bytes(),
}
for part, _, _, text, _ in parts:
    files["licenses/" + part.replace(" ", "-")] = text
for name_of_text in COMMON_LICENCES:
    files["licenses/" + name_of_text] = pathlib.Path(
        "/usr/share/common-licenses", name_of_text).read_bytes()
files["sbom.spdx.json"] = (json.dumps(sbom(
    name, version, files["ringlet"], parts, options, when),
    indent=1) + "\n").encode()
files["SHA256SUMS"] = sums(files)

try:
    arguments.output.mkdir(parents=True, exist_ok=True)
except OSError as error:
    sys.exit(f"dist: {error}; another folder: make dist DIST=...")
(arguments.output / f"{name}.tar.gz").write_bytes(tarball(name, files, when))
tarballs = {p.name: p.read_bytes()
            for p in arguments.output.glob("ringlet-*.tar.gz")}
(arguments.output / "SHA256SUMS").write_bytes(sums(tarballs))
print(f"{arguments.output / name}.tar.gz: {len(tarballs[name + '.tar.gz'])} "
      f"bytes, the program {len(files['ringlet'])}")
