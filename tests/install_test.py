#!/usr/bin/env python3
"""Installs into a fresh folder and builds a program by ringlet.pc alone.

    install_test.py BUILD
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

PROGRAM = r"""
#include <ringlet.h>
#include <stdexcept>  // users may build with exceptions
int main() {
  using namespace ringlet;
  Sequential model({Input({2}), Dense(4, kRelu), Dense(2)});
  model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  const float x[] = {0, 1, 1, 0};
  const int32_t y[] = {0, 1};
  FitOptions options;
  options.epochs = 2;
  return ExitCode(model.Fit(
      Dataset(MemorySource({DType::kFloat32, {2}}, x, {DType::kInt32, {}}, y,
                           2)).Batch(2), options));
}
"""


def run(*command, **options):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE, **options).stdout


build = sys.argv[1]
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    run("meson", "install", "-C", build, "--quiet", "--no-rebuild",
        "--destdir", str(folder / "root"))
    (pc,) = (folder / "root").rglob("ringlet.pc")
    root = folder / "root"
    env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent))
    prefix = run("pkg-config", "--variable=prefix", "ringlet", env=env).strip()
    flags = shlex.split(run(
        "pkg-config", f"--define-variable=prefix={root}{prefix}", "--static",
        "--cflags", "--libs", "ringlet", env=env))
    (folder / "use.cc").write_text(PROGRAM)
    # The sources' own compiler options are not there: any user's will do.
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    run(*compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
        *shlex.split(os.environ.get("RINGLET_TEST_FLAGS", "")),
        str(folder / "use.cc"), "-o", str(folder / "use"), *flags)
    out = run(str(folder / "use"))
    assert "Epoch 2/2\n1/1 - " in out, out
