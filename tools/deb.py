#!/usr/bin/env python3
"""Debian packages of the tarball that dist.py has made.

    deb.py TARBALL OUTPUT [--install FOLDER]

Writes OUTPUT/ringlet_VERSION_ARCH.deb: the static program, its manual page and
completion. With the folder of `make install DESTDIR=FOLDER PREFIX=/usr` also
OUTPUT/libringlet-dev_VERSION_ARCH.deb: headers, the static library, and what
pkg-config and CMake read. The same tarball gives the same bytes.
"""
import argparse
import email.utils
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
ABOUT = """trains neural networks on small machines
 ringlet trains models of Keras's kinds on one machine or on several in step,
 survives lost workers and power cuts, and exports to ONNX and C.
"""
PROGRAM = f"""Section: science
Priority: optional
Description: {ABOUT} .
 This package has the program, which needs no other package.
"""
LIBRARY = f"""Section: libdevel
Priority: optional
Depends: {{depends}}
Description: {ABOUT} .
 This package has the library for C++ programs, to be linked statically.
"""
# What ringlet.pc links -> the package that has it.
DEPENDS = {"-l:libblis.a": "libblis-serial-dev", "-lcjson": "libcjson-dev",
           "-ljpeg": "libjpeg-dev", "-lsodium": "libsodium-dev",
           "-luv_a": "libuv1-dev", "-lz": "zlib1g-dev"}


def output(*command):
    return subprocess.run(command, check=True, text=True, cwd=SOURCE,
                          stdout=subprocess.PIPE).stdout.strip()


def maintainer():
    """Who packs it: of the environment, as Debian's tools, or the commit."""
    name, mail = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    if name and mail:
        return f"{name} <{mail}>"
    if (SOURCE / ".git").exists():
        return output("git", "log", "-1", "--format=%an <%ae>")
    return sys.exit("deb: not a git checkout; set DEBFULLNAME and DEBEMAIL")


def write(path, data, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    path.chmod(mode)


def zipped(data):
    return gzip.compress(data if isinstance(data, bytes) else data.encode(), 9,
                         mtime=0)


class Package:
    """A folder that becomes a package."""

    def __init__(self, name, version, arch, when, root):
        self.name, self.version, self.arch = name, version, arch
        self.when, self.root = when, root

    def documents(self, licences):
        folder = self.root / "usr/share/doc" / self.name
        write(folder / "copyright",
              "Format: https://www.debian.org/doc/packaging-manuals/"
              "copyright-format/1.0/\n"
              "Upstream-Name: ringlet\n\n"
              "Files: *\nCopyright: the ringlet developers\nLicense: Expat\n"
              + licence_text((SOURCE / "LICENSE").read_text()))
        for name, text in licences.items():
            write(folder / "licenses" / f"{name}.gz", zipped(text))
        date = email.utils.formatdate(self.when)
        write(folder / "changelog.gz", zipped(
            f"ringlet ({self.version}) unstable; urgency=medium\n\n"
            "  * See CHANGELOG.md of the sources.\n\n"
            f" -- {maintainer()}  {date}\n"))

    def pack(self, fields, folder):
        files = sorted(p for p in self.root.rglob("*")
                       if p.is_file() and not p.is_symlink())
        size = sum(-(-p.stat().st_size // 1024) for p in files)
        sums = "".join(
            f"{output('md5sum', str(p)).split()[0]}  "
            f"{p.relative_to(self.root)}\n" for p in files)
        write(self.root / "DEBIAN/md5sums", sums)
        write(self.root / "DEBIAN/control",
              f"Package: {self.name}\nVersion: {self.version}\n"
              f"Architecture: {self.arch}\nMaintainer: {maintainer()}\n"
              f"Installed-Size: {size}\n" + fields)
        for path in [self.root, *self.root.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (self.when, self.when), follow_symlinks=False)
        path = folder / f"{self.name}_{self.version}_{self.arch}.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--build",
             str(self.root), str(path)], check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(self.when)})
        print(f"{path}: {path.stat().st_size} bytes")


def licence_text(text):
    return "".join(f" {line}\n" if line.strip() else " .\n"
                   for line in text.splitlines())


def pack_program(files, package, folder):
    usr = package.root / "usr"
    write(usr / "bin/ringlet", files["ringlet"], 0o755)
    write(usr / "share/man/man1/ringlet.1.gz", zipped(files["ringlet.1"]))
    write(usr / "share/bash-completion/completions/ringlet",
          files["ringlet.bash"])
    write(usr / "share/lintian/overrides/ringlet",
          "# One program for every Debian: it needs no library.\n"
          "ringlet: statically-linked-binary [usr/bin/ringlet]\n"
          "ringlet: embedded-library * [usr/bin/ringlet]\n")
    licences = {name.split("/")[1]: data for name, data in files.items()
                if name.startswith("licenses/")}
    package.documents(licences)
    write(usr / "share/doc/ringlet/sbom.spdx.json.gz",
          zipped(files["sbom.spdx.json"]))
    package.pack(PROGRAM, folder)


def pack_library(install, package, folder):
    usr = install / "usr"
    for path in sorted(usr.rglob("*")):
        part = path.relative_to(usr)
        library = str(part).startswith("lib") and not re.search(
            r"\.so(\.|$)", path.name)
        if path.is_file() and (library or part.parts[0] == "include"):
            write(package.root / "usr" / part, path.read_bytes())
    links = " ".join(p.read_text() for p in package.root.rglob("*.pc")).split()
    depends = [debian for link, debian in DEPENDS.items() if link in links]
    package.documents({})
    package.pack(LIBRARY.format(depends=", ".join(depends)), folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tarball", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--install", type=pathlib.Path)
    arguments = parser.parse_args()
    named = re.fullmatch(r"ringlet-(.+)-linux-(\w+)\.tar\.gz",
                         arguments.tarball.name)
    if not named:
        sys.exit(f"deb: {arguments.tarball} is not a tarball of make dist")
    version, arch = named.groups()
    files = {}
    with tarfile.open(arguments.tarball) as tar:
        for member in tar:
            name = member.name.split("/", 1)[1]
            files[name] = tar.extractfile(member).read()
            when = int(member.mtime)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        pack_program(files, Package("ringlet", version, arch, when,
                                    root / "ringlet"), arguments.output)
        if arguments.install:
            pack_library(arguments.install,
                         Package("libringlet-dev", version, arch, when,
                                 root / "library"), arguments.output)


if __name__ == "__main__":
    main()
