#!/usr/bin/env python3
"""Installs into a fresh folder, and builds and runs a program there as users do.

    install_test.py BUILD pkg-config | static | cmake | subproject | parent

Every way of linking with each compiler that there is, as C++17 and as C++20;
`cmake` with one standard a compiler. `parent` compiles the part of `subproject`
that is the user's own; `subproject` compiles the whole library again.
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent

# The program has exceptions and RTTI, which the library lacks. It trains, saves
# and reads TF_CONFIG, so that all of the library is linked.
PROGRAM = r"""
#include <ringlet/ringlet.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

using namespace ringlet;

class Teller final : public Callback {
 public:
  const char* name() const override { return "teller"; }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    epochs = fit.epoch + 1;
    if (throws) throw std::runtime_error("as asked");
    return Status();
  }
  int64_t epochs = 0;
  bool throws = false;
};

class Points final : public Source {
 public:
  int64_t size() const override { return 2; }
  ExampleSpec x() const override { return {DType::kFloat32, {2}}; }
  ExampleSpec y() const override { return {DType::kInt32, {}}; }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    for (int i = 0; i < count; ++i) {
      const float point[2] = {1.0f * static_cast<float>(index[i]), 1};
      const auto label = static_cast<int32_t>(index[i]);
      std::memcpy(static_cast<char*>(x) + i * 8, point, 8);
      if (y != nullptr) std::memcpy(static_cast<char*>(y) + i * 4, &label, 4);
    }
    return Status();
  }
  std::string name() const override { return "points"; }
};

Sequential BuildAndCompile() {
  Sequential model({Input({2}), Dense(4, kRelu), Dense(2)});
  model.Compile(SGD(0.1f), SparseCategoricalCrossentropy(kFromLogits));
  return model;
}

// 1 + 2^-12 squared is rounded to 1 + 2^-11; a fused multiply-add has 2^-24 more.
float MultiplyAdd(float a, float b, float c) { return a * b + c; }

int main() {
  volatile float a = 1.000244140625f, c = -1.00048828125f;
  if (MultiplyAdd(a, a, c) != 0) return 6;
  auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
  if (strategy.num_workers() != 1) return 3;
  Sequential model = BuildAndCompile();
  auto teller = std::make_shared<Teller>();
  EarlyStoppingOptions stopping;
  stopping.monitor = "loss";
  FitOptions options;
  options.epochs = 2;
  options.callbacks = {EarlyStopping(stopping), teller};
  // With RTTI a program may ask what a callback is, the library's own too.
  int tellers = 0;
  for (const auto& callback : options.callbacks) {
    tellers += std::dynamic_pointer_cast<Teller>(callback) != nullptr;
  }
  const Dataset data = Dataset(std::make_shared<Points>()).Batch(2);
  const Status trained = model.Fit(data, options).status();
  if (!trained.ok()) return ExitCode(trained);
  if (tellers != 1 || teller->epochs != 2) return 4;
  teller->throws = true;
  const Status threw = model.Fit(data, options).status();
  std::printf("%s\n", threw.message());
  if (threw.ok()) return 5;
  return ExitCode(SaveModel(&model, "model.safetensors"));
}
"""

# The sources' own compiler options are not there: any user's will do.
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]




def may_fuse():
    """Flags by which the compiler may fuse multiply-adds, where there are such."""
    try:
        fma = " fma " in pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        fma = False
    return ["-O2", "-mfma"] if fma else ["-O2"]


def run(*command, **options):
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, **options)
    assert result.returncode == 0, f"{shlex.join(map(str, command))}:\n{result.stdout}"
    return result.stdout


def flags_of_tests():
    return shlex.split(os.environ.get("RINGLET_TEST_FLAGS", ""))


def compilers():
    """The build's own, and where its objects go with any other's, the others."""
    own = shlex.split(os.environ.get("CXX", "c++"))
    found = [own]
    for name in ("g++", "clang++"):
        if flags_of_tests() or not shutil.which(name):
            continue
        if name not in (pathlib.Path(part).name for part in own):
            found.append([name])
    return found


def matrix():
    """Each compiler and each standard, in pairs."""
    for number, compiler in enumerate(compilers()):
        for standard in ("17", "20"):
            # A third compiler and beyond: one standard each.
            if number < 2 or standard == "20":
                yield compiler, standard


def check_run(folder, program, **environment):
    """In the folder, where it may leave files; it finds what it links."""
    env = dict(os.environ, **environment)
    for name in ("TF_CONFIG", "RINGLET_SHARED"):
        env.pop(name, None)
    out = run(str(program), cwd=folder, env=env)
    assert "Epoch 2/2\n1/1 - " in out, out
    assert "teller: " in out and "as asked" in out, out
    assert (folder / "model.safetensors").exists()


class Installed:
    def __init__(self, build, folder):
        run("meson", "install", "-C", build, "--quiet", "--no-rebuild",
            "--destdir", str(folder / "root"))
        # Moves the installed files: none may have the path where they were installed.
        (pc,) = (folder / "root").rglob("ringlet.pc")
        prefix = pc.parent
        while not (prefix / "include").exists():
            prefix = prefix.parent
        self.prefix = folder / "elsewhere"
        (self.libdir,) = [p.parent for p in prefix.rglob("libringlet.a")]
        self.libdir = self.prefix / self.libdir.relative_to(prefix)
        os.rename(prefix, self.prefix)
        # No package but this: its users need not have what it was built with.
        self.env = dict(os.environ, PKG_CONFIG_LIBDIR=str(self.libdir / "pkgconfig"))
        self.env.pop("PKG_CONFIG_PATH", None)
        self.shared = (self.libdir / "libringlet.so").exists()

    def pkg_config(self, *what):
        return shlex.split(run("pkg-config", *what, "ringlet", env=self.env))


def readme(start):
    """The line of README.md that begins so, without its comment."""
    (line,) = [line for line in (SOURCE / "README.md").read_text().splitlines()
               if line.startswith(start)]
    return line.split("  #")[0]


def check_readme_line(installed, folder, start, **environment):
    shutil.copy(folder / "use.cc", folder / "program.cc")
    run("sh", "-c", readme(start), cwd=folder, env=installed.env)
    check_run(folder, folder / "a.out", **environment)


def compile_program(folder, compiler, standard, name, flags, source="use.cc"):
    program = folder / name
    run(*compiler, f"-std=c++{standard}", *WARNINGS, *may_fuse(), *flags_of_tests(),
        str(folder / source), "-o", str(program), *flags)
    return program


def needed_by(program):
    dynamic = run("readelf", "-d", str(program))
    return [line.split("[")[1].rstrip("]") for line in dynamic.splitlines()
            if "(NEEDED)" in line]


def check_pkg_config(installed, folder):
    flags = installed.pkg_config("--cflags", "--libs")
    assert not [f for f in flags if "blis" in f or "cjson" in f] or (
        not installed.shared), flags
    for compiler, standard in matrix():
        program = compile_program(folder, compiler, standard, "use", flags)
        needs_it = any(n.startswith("libringlet.so") for n in needed_by(program))
        assert needs_it == installed.shared, needed_by(program)
        check_run(folder, program, LD_LIBRARY_PATH=str(installed.libdir))
    if not flags_of_tests():
        check_readme_line(installed, folder, "c++ -std=c++17 program.cc",
                          LD_LIBRARY_PATH=str(installed.libdir))
        # UBSan checks the classes of objects, also of the library's.
        program = compile_program(
            folder, compilers()[0], "17", "use",
            ["-fsanitize=undefined", "-fno-sanitize-recover=all", *flags])
        check_run(folder, program, LD_LIBRARY_PATH=str(installed.libdir))
    # The sample with parts of its own, by what is installed.
    sample = compile_program(folder, compilers()[-1], "20", "custom_parts", flags,
                             SOURCE / "samples/custom_parts.cc")
    env = dict(os.environ, LD_LIBRARY_PATH=str(installed.libdir))
    assert "learned y = 2.00 x + 1.00" in run(str(sample), env=env)
    # Every header is whole, whatever was included before it.
    headers = sorted((installed.prefix / "include/ringlet").rglob("*.h"))
    for order in (headers, headers[::-1]):
        (folder / "all.cc").write_text(
            "".join(f'#include "{h}"\n' for h in order))
        run(*compilers()[0], "-std=c++17", *WARNINGS, "-fsyntax-only",
            str(folder / "all.cc"))


def check_static(installed, folder):
    flags = installed.pkg_config("--static", "--cflags", "--libs")
    # cJSON is in the archive, or in one of the system's.
    whole = "-lcjson" not in flags or subprocess.run(
        ["c++", "-x", "c++", "-", "-static", "-lcjson", "-o", os.devnull],
        input="int main() {}", text=True, stderr=subprocess.DEVNULL
    ).returncode == 0
    if flags_of_tests():
        whole = False  # no sanitizer's runtime is static
    for so in installed.libdir.glob("libringlet.so*"):
        so.unlink()
    for compiler, standard in matrix():
        program = compile_program(folder, compiler, standard, "use",
                                  flags + ["-static"] * whole)
        assert whole == (needed_by(program) == []), needed_by(program)
        check_run(folder, program)
    if whole:
        check_readme_line(installed, folder, "c++ -static program.cc")
    if not whole and not flags_of_tests():
        print("skipped: wholly static programs; no static cJSON: "
              "tools/deps.sh static, and meson setup --reconfigure")
        sys.exit(77)


CMAKE = """
cmake_minimum_required(VERSION 3.10)
project(use CXX)
find_package(ringlet 0.1 REQUIRED)
find_package(ringlet REQUIRED)  # a second time, as in a project of several
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
foreach(kind ringlet static)
  add_executable(use_${kind} ../use.cc)
  target_link_libraries(use_${kind} PRIVATE ringlet::${kind})
endforeach()
add_executable(program ../use.cc)
"""


def check_cmake(installed, folder):
    if shutil.which("cmake") is None:
        print("skipped: no cmake")
        sys.exit(77)
    (folder / "cmake").mkdir()
    (folder / "cmake/CMakeLists.txt").write_text(
        CMAKE + readme("find_package(ringlet") + "\n"
        + readme("target_link_libraries(program") + "\n")
    flags = shlex.join(WARNINGS + may_fuse() + flags_of_tests())
    standards = {tuple(compiler): standard for compiler, standard in matrix()}
    for number, (compiler, standard) in enumerate(standards.items()):
        build = folder / f"cmake-{number}"
        run("cmake", "-S", str(folder / "cmake"), "-B", str(build),
            f"-DCMAKE_PREFIX_PATH={installed.prefix}",
            f"-DCMAKE_CXX_STANDARD={standard}", f"-DCMAKE_CXX_FLAGS={flags}",
            f"-DCMAKE_CXX_COMPILER={compiler[-1]}")
        run("cmake", "--build", str(build), "-j2")
        for kind in ("ringlet", "static"):
            program = build / f"use_{kind}"
            needs_it = any(n.startswith("libringlet.so")
                           for n in needed_by(program))
            assert needs_it == (installed.shared and kind == "ringlet"), kind
            check_run(folder, program)
    result = subprocess.run(
        ["cmake", "-S", str(folder / "cmake"), "-B", str(folder / "none"),
         f"-DCMAKE_PREFIX_PATH={folder}/nowhere"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode != 0, result.stdout


MESON = """
project('user', 'cpp', default_options: ['cpp_std=c++17', 'warning_level=3', 'werror=true'])
README
foreach standard : ['c++17', 'c++20']
  executable('use-' + standard, 'use.cc', dependencies: ringlet, install: true,
             override_options: 'cpp_std=' + standard)
endforeach
test('none', find_program('true'))
"""


def set_up_parent(folder):
    """The build folder of a project that has ringlet as a subproject."""
    project = folder / "project"
    (project / "subprojects").mkdir(parents=True)
    (project / "meson.build").write_text(
        MESON.replace("README", readme("ringlet = dependency(")))
    shutil.copy(folder / "use.cc", project)
    ringlet = project / "subprojects/ringlet"
    ringlet.mkdir()
    for name in ("core", "io", "net", "package", "tools", "samples", "tests",
                 "meson.build", "meson_options.txt", "ringlet"):
        (ringlet / name).symlink_to(SOURCE / name)
    if (SOURCE / ".deps").exists():
        (ringlet / ".deps").symlink_to(SOURCE / ".deps")
    (project / "subprojects/ringlet.wrap").write_text(
        "[wrap-file]\ndirectory = ringlet\n\n[provide]\nringlet = ringlet_dep\n")
    build = folder / "build"
    # Compiled in the least time, by the compiler that is least the build's.
    run("meson", "setup", str(build), str(project), "--buildtype=plain",
        "-Dunity=subprojects", "-Dunity_size=8",
        "--prefix=/usr", env=dict(os.environ, CXX=shlex.join(compilers()[-1]),
                                  CXXFLAGS=shlex.join(flags_of_tests())))
    commands = json.loads((build / "compile_commands.json").read_text())
    own = [c["command"] for c in commands if c["file"].endswith("use.cc")]
    assert own and all("-ffp-contract=off" in c for c in own), own
    tests = run("meson", "test", "-C", str(build), "--list")
    assert "ringlet:" not in tests, tests
    return build


def check_parent(_, folder):
    """The parent keeps its options, and its sources compile."""
    build = set_up_parent(folder)
    commands = json.loads((build / "compile_commands.json").read_text())
    objects = [c["output"] for c in commands if c["file"].endswith("use.cc")]
    assert len(objects) == 2, objects
    run("ninja", "-C", str(build), *objects)


def check_subproject(_, folder):
    """A parent project builds: its programs run, and no file of ringlet is installed."""
    build = set_up_parent(folder)
    run("ninja", "-C", str(build), "-j2")
    for standard in ("17", "20"):
        check_run(folder, build / f"use-c++{standard}")
    run("meson", "install", "-C", str(build), "--quiet", "--destdir",
        str(folder / "installed"))
    installed = [p.name for p in (folder / "installed").rglob("*") if p.is_file()]
    assert sorted(installed) == ["use-c++17", "use-c++20"], installed


CHECKS = {"pkg-config": check_pkg_config, "static": check_static,
          "cmake": check_cmake, "subproject": check_subproject,
          "parent": check_parent}

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "use.cc").write_text(PROGRAM)
    CHECKS[sys.argv[2]](Installed(sys.argv[1], folder), folder)
