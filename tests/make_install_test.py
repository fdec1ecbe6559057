#!/usr/bin/env python3
"""`make install` puts all under PREFIX, and the build stays as it was.

    make_install_test.py BUILD
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def run(*command, **environment):
    return subprocess.run(command, check=True, text=True, cwd=SOURCE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, **environment)).stdout


def state_of(build):
    """The files that a reconfiguration would change, and the steps that ninja would run."""
    return ([(build / name).read_bytes() for name in
             ("meson-private/cmd_line.txt", "meson-info/intro-buildoptions.json",
              "make_options") if (build / name).exists()],
            (build / "build.ninja").stat().st_mtime_ns,
            run("ninja", "-C", str(build), "-n"))


build = pathlib.Path(sys.argv[1]).resolve()
if subprocess.run(["sh", "-c", "command -v make"],
                  stdout=subprocess.DEVNULL).returncode != 0:
    print("skipped: no make")
    sys.exit(77)
with tempfile.TemporaryDirectory() as name:
    before = state_of(build)
    for destdir, prefix in (("", f"{name}/a b"), (f"{name}/root", "/opt/r")):
        # Runs only the install rule: the programs are those that the tests run.
        run("make", "install", "-o", "build", f"BUILD={build}",
            f"PREFIX={prefix}", f"DESTDIR={destdir}")
        folder = pathlib.Path(destdir + prefix)
        out = run(str(folder / "bin/ringlet"), "--version")
        assert "ringlet" in out, out
        assert (folder / "include/ringlet/ringlet.h").exists()
        (pc,) = folder.rglob("ringlet.pc")
        flags = run("pkg-config", "--variable=includedir", "ringlet",
                    PKG_CONFIG_LIBDIR=str(pc.parent))
        found = pathlib.Path(flags.replace("\\ ", " ").strip()).resolve()
        assert found == (folder / "include").resolve(), (found, folder)
    assert state_of(build) == before
