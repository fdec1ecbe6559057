#!/usr/bin/env python3
"""A static program names no loader and no library, and needs no other file; its
tarball holds what it should.

    static_test.py elf PROGRAM...
    static_test.py chroot RINGLET SOURCE    trains samples/mnist.json in a folder
        that is the root directory and holds nothing else; that takes root
    static_test.py container RINGLET SOURCE the same in the image that the
        Containerfile of docs/operations.md makes
    static_test.py dist BUILD SOURCE        packs it twice
"""
import hashlib
import json
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile

PT_DYNAMIC, PT_INTERP = 2, 3
# What a whole C library reads files for, and tools/libc.ld leaves out.
SETTINGS = {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "TZ": "EST5EDT",
            "GCONV_PATH": "/gconv", "LOCALDOMAIN": "example.org"}


def segment_types(program):
    """The types of an ELF file's program headers."""
    with open(program, "rb") as file:
        content = file.read()
    assert content[:4] == b"\x7fELF", f"{program}: not an ELF file"
    wide = content[4] == 2
    order = "<" if content[5] == 1 else ">"
    (start,) = struct.unpack_from(order + ("Q" if wide else "I"), content,
                                  32 if wide else 28)
    size, count = struct.unpack_from(order + "HH", content, 54 if wide else 42)
    return {struct.unpack_from(order + "I", content, start + i * size)[0]
            for i in range(count)}


def check_elf(program):
    types = segment_types(program)
    assert PT_INTERP not in types, f"{program}: asks for a loader"
    assert PT_DYNAMIC not in types, f"{program}: asks for shared libraries"
    # `file` must report the same, if it is installed.
    if shutil.which("file"):
        said = output(["file", "-b", program])
        assert "statically linked" in said, f"{program}: {said}"
    said = output(["ldd", program])
    assert "not a dynamic executable" in said, f"{program}: {said}"


def output(command):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT).stdout


def need_root():
    if os.geteuid() != 0:
        print("skipped: only root may change the root directory")
        sys.exit(77)


def into(root):
    """Returns the function that a child calls first: it enters the root."""
    return lambda: (os.chroot(root), os.chdir("/"))


def check_chroot(ringlet, source):
    need_root()
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        shutil.copy(ringlet, root / "ringlet")
        for folder in ("data", "samples"):
            shutil.copytree(pathlib.Path(source) / folder, root / folder)
        for arguments, expected in [
                (["train", "samples/mnist.json", "--save", "m.safetensors"],
                 "Epoch 3/3"),
                (["inspect", "m.safetensors"], "dense_1"),
                (["evaluate", "m.safetensors", "--data", "samples/mnist.json"],
                 "accuracy")]:
            result = subprocess.run(
                ["/ringlet"] + arguments, text=True, stdout=subprocess.PIPE,
                env=SETTINGS, preexec_fn=into(root))
            assert result.returncode == 0, result
            assert expected in result.stdout, result.stdout
        # Workers get it as their standard input.
        result = subprocess.run(
            ["/ringlet", "launch", "-n", "1", "--", "/ringlet", "--version"],
            text=True, stderr=subprocess.PIPE, env={}, preexec_fn=into(root))
        assert "no /dev/null" in result.stderr, result
        assert result.returncode == 127, result


def check_container(ringlet, source):
    """The root directory has what the Containerfile copies, the folder /job that
    `-v` mounts, and /dev/null, which every runtime gives."""
    need_root()
    page = (pathlib.Path(source) / "docs/operations.md").read_text()
    lines = page.split("```dockerfile\n")[1].split("```")[0].splitlines()
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        entry, folder = [], "/"
        for instruction, _, rest in (line.partition(" ") for line in lines):
            if instruction == "COPY":
                assert rest.split()[0] == "ringlet", rest
                shutil.copy(ringlet, root / rest.split()[1].lstrip("/"))
            elif instruction == "WORKDIR":
                folder = rest
            elif instruction == "ENTRYPOINT":
                entry = json.loads(rest)
            else:
                assert (instruction, rest) == ("FROM", "scratch"), instruction
        assert [path.name for path in root.iterdir()] == ["ringlet"]
        job = root / folder.lstrip("/")
        job.mkdir()
        for of_job in ("data", "samples"):
            shutil.copytree(pathlib.Path(source) / of_job, job / of_job)
        (root / "dev").mkdir()
        os.mknod(root / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        train = ["train", "samples/mnist.json", "--save", "m.safetensors"]
        for arguments in (train, ["launch", "-n", "2", "--", *entry, *train]):
            done = subprocess.run(
                [*entry, *arguments], text=True, stdout=subprocess.PIPE, env={},
                preexec_fn=lambda: (os.chroot(root), os.chdir(folder)))
            assert done.returncode == 0 and "Epoch 3/3" in done.stdout, done
            assert (job / "m.safetensors").stat().st_size > 0
            (job / "m.safetensors").unlink()


def tarball_of(build, source, folder):
    environment = dict(os.environ, SOURCE_DATE_EPOCH="86400",
                       # A checkout may be of another user.
                       GIT_CONFIG_COUNT="1", GIT_CONFIG_VALUE_0="*",
                       GIT_CONFIG_KEY_0="safe.directory")
    subprocess.run([f"{source}/tools/dist.py", build, folder], check=True,
                   env=environment)
    (name,) = pathlib.Path(folder).glob("*.tar.gz")
    return name


def check_sbom(sbom, program, licences):
    """Checks what the JSON schema and the tools of SPDX 2.3 need."""
    assert sbom["spdxVersion"] == "SPDX-2.3" and sbom["name"]
    assert sbom["dataLicense"] == "CC0-1.0"
    assert sbom["SPDXID"] == "SPDXRef-DOCUMENT"
    assert sbom["documentNamespace"].startswith("https://")
    assert "#" not in sbom["documentNamespace"]
    assert sbom["creationInfo"]["created"] == "1970-01-02T00:00:00Z"
    elements = {e["SPDXID"]: e for e in [sbom, *sbom["packages"],
                                         *sbom["files"]]}
    assert len(elements) == 1 + len(sbom["packages"]) + len(sbom["files"])
    for package in sbom["packages"]:
        assert package["downloadLocation"] and package["versionInfo"]
        assert package["filesAnalyzed"] is False
        for reference in package.get("externalRefs", []):
            purl = reference["referenceLocator"]
            assert purl.startswith("pkg:deb/debian/"), purl
            assert "+" not in purl and purl.count(":") == 1, purl
    linked = set()
    for relation in sbom["relationships"]:
        kind = relation["relationshipType"]
        of, to = (elements[relation[end]]
                  for end in ("spdxElementId", "relatedSpdxElement"))
        # Files that are not analyzed may not be named as contained.
        assert kind in ("DESCRIBES", "GENERATED_FROM", "STATIC_LINK"), kind
        if kind == "STATIC_LINK":
            assert of["name"] == "ringlet"
            linked.add(to["name"])
    assert {"glibc", "libstdc++ and libgcc", "libuv", "cJSON",
            "zlib"} <= linked, linked
    for name in linked:
        assert name.replace(" ", "-") in licences, (name, licences)
    assert {"GPL-3", "LGPL-2.1"} <= licences, licences
    (file,) = sbom["files"]
    sums = {c["algorithm"]: c["checksumValue"] for c in file["checksums"]}
    assert sums["SHA1"] == hashlib.sha1(program).hexdigest()
    assert sums["SHA256"] == hashlib.sha256(program).hexdigest()


def check_deb(first, second, source):
    """The package of the tarball: the same bytes twice, and no complaint."""
    packages = []
    for tarball in (first, second):
        subprocess.run(
            [f"{source}/tools/deb.py", tarball, tarball.parent], check=True,
            stdout=subprocess.DEVNULL,
            env=dict(os.environ, DEBFULLNAME="A", DEBEMAIL="a@debian.org"))
        (package,) = tarball.parent.glob("*.deb")
        packages.append(package)
    assert packages[0].read_bytes() == packages[1].read_bytes()
    listed = subprocess.run(["dpkg-deb", "-c", packages[0]], check=True,
                            text=True, stdout=subprocess.PIPE).stdout
    for path in ("./usr/bin/ringlet", "./usr/share/man/man1/ringlet.1.gz"):
        assert f" {path}\n" in listed, listed
    if shutil.which("lintian"):
        # The test's packages are of 1970.
        subprocess.run(["lintian", "--fail-on", "error,warning",
                        "--suppress-tags", "package-contains-ancient-file",
                        packages[0]], check=True)


def check_dist(build, source):
    with tempfile.TemporaryDirectory() as one, \
            tempfile.TemporaryDirectory() as two:
        first = tarball_of(build, source, one)
        second = tarball_of(build, source, two)
        assert first.read_bytes() == second.read_bytes()
        check_deb(first, second, source)
        with tarfile.open(first) as tar:
            files = {member.name.split("/", 1)[1]: tar.extractfile(member).read()
                     for member in tar}
    sums = files.pop("SHA256SUMS").decode()
    assert sums == "".join(
        f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n"
        for name in sorted(files)), sums
    for name in ("ringlet", "ringlet.1", "ringlet.bash", "LICENSE"):
        assert files[name], name
    check_sbom(json.loads(files["sbom.spdx.json"]), files["ringlet"],
               {name.split("/")[1] for name in files if "/" in name})


if sys.argv[1] == "dist":
    check_dist(*sys.argv[2:])
elif sys.argv[1] == "container":
    check_container(*sys.argv[2:])
elif sys.argv[1] == "elf":
    for argument in sys.argv[2:]:
        check_elf(argument)
else:
    check_chroot(*sys.argv[2:])
