#!/usr/bin/env python3
"""Each rule is kept by a test: broken, it fails.

    rules.py [--of results|elastic] [--folder FOLDER] [RULE...]

Copies the sources, breaks one rule after another there, builds, and runs the
tests; some of them must fail. `results`: the rules of docs/one_result.md, by
digests (x86-64 with AVX2 and FMA); `elastic`: those by which workers leave and
come, by the simulators and by scenes of a wrong machine. With --folder the copy
and its build stay there, for the next run.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TESTS = {"results": ("digests_test", "gemm_test"),
         "elastic": ("simulator_test", "training_simulator_test",
                     "doubt_test", "verdict_test")}
PROGRAMS = {"results": ("tools/ringlet/ringlet",), "elastic": ()}

# A product of few columns as a library's kernels for small matrices compute
# it: several partial sums along k.
SMALL = """
  if (p.c.cols <= 64 && p.c.rows <= 64 && p.bias == nullptr && !p.relu) {
    for (int64_t i = 0; i < p.c.rows; ++i) {
      for (int64_t j = 0; j < p.c.cols; ++j) {
        float lanes[4] = {};
        for (int64_t k = 0; k < p.a.cols; ++k) {
          lanes[k % 4] =
              __builtin_fmaf(p.a.data[i * p.a.row_stride + k * p.a.col_stride],
                             p.b.data[k * p.b.row_stride + j * p.b.col_stride],
                             lanes[k % 4]);
        }
        float& c = p.c.data[i * p.c.row_stride + j * p.c.col_stride];
        c = (p.add ? c : 0) + ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
      }
    }
    return;
  }
"""
# Name -> file, what is there, what takes its place.
RESULTS = {
    "functions of libm":
        ("core/compute/functions.h", "inline float Exp(float x) {",
         "inline float Exp(float x) {\n  if (x < 1e9f) return std::exp(x);"),
    "operations fused by the compiler":
        ("core/model/optimizer_formulas.cc", '#include "optimizer_formulas.h"',
         '#pragma GCC target("avx2,fma")\n'
         '#pragma GCC optimize("fp-contract=fast")\n'
         '#include "optimizer_formulas.h"'),
    "a sum cut among the threads":
        ("core/layers/dense.cc",
         "AddColumnSums(call.dy, rows, units_, call.d_weights[1]);",
         """for (int t = 0; t < call.pool->threads(); ++t) {
        const Range part = Split(rows, call.pool->threads(), t);
        std::vector<float> sums(static_cast<size_t>(units_));
        AddColumnSums(call.dy + part.begin * units_, part.size(), units_,
                      sums.data());
        for (int64_t i = 0; i < units_; ++i) call.d_weights[1][i] += sums[i];
      }"""),
    "blocks of 256":
        ("core/compute/gemm.h", "kInnerBlock = 128", "kInnerBlock = 256"),
    "kernels for small matrices":
        ("core/compute/gemm.cc",
         "  if (p.c.rows == 0 || p.c.cols == 0) return;\n",
         "  if (p.c.rows == 0 || p.c.cols == 0) return;\n" + SMALL),
}
ELASTIC = {
    "one that slept lets go of its ring":
        ("net/ring/failure_detector.cc",
         "  if (late > timeout) return HeldUp(now);\n", ""),
    "frames of another generation are dropped":
        ("net/ring/session.h", "  bool stale(int peer, const FrameHeader& header) const {\n",
         "  bool stale(int peer, const FrameHeader& header) const {\n"
         "    if (peer >= 0) return false;\n"),
    "a state goes with its step":
        ("core/fit/recovery.cc",
         "  if (!offers[source].SameState(mine)) snapshot_.Invalidate();\n",
         "  const bool other = !offers[source].SameState(mine);\n"
         "  if (other) snapshot_.Invalidate();\n",
         "  Begin();\n  snapshot_.Complete();",
         "  if (other && fit_.step > 0) --fit_.step;\n"
         "  Begin();\n  snapshot_.Complete();"),
    "a replica is computed once":
        ("core/model/replica_range.h",
         "return {cut(rank), cut(rank + 1) - cut(rank)};",
         "return {cut(rank), cut(rank + 1) - cut(rank) +\n"
         "                         (workers > 1 && rank == 0 ? 1 : 0)};"),
    "a step that a loss cuts off is made again":
        ("core/fit/recovery.cc",
         "  if (whole) RINGLET_RETURN_IF_ERROR(snapshot_.Restore(&state));\n",
         ""),
    "a comparison that a loss cuts off proves nothing":
        ("core/model/replicas_check.cc", "  undecided_ = true;\n", ""),
    "who was cut off learns of a verdict":
        ("core/model/replicas.cc", "    disbelief_.Join(row.disbelief);\n",
         ""),
    "who is named again is not believed":
        ("core/model/replicas_check.cc",
         "verdicts = disbelief_.verdicts(w) + 1;", "verdicts = 1;"),
}
RULES = {"results": RESULTS, "elastic": ELASTIC}


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, **more)
    return done.returncode, done.stdout


def copy(folder):
    files = subprocess.run(["git", "ls-files"], cwd=SOURCE, check=True,
                           stdout=subprocess.PIPE, text=True).stdout.split("\n")
    for name in filter(None, files):
        to, data = folder / name, (SOURCE / name).read_bytes()
        if to.exists() and to.read_bytes() == data:
            continue  # as old as before: nothing to build
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
        to.chmod((SOURCE / name).stat().st_mode)


def build(folder, tests, programs):
    code, said = run(["ninja", "-C", folder / "build", "-j", str(
        os.cpu_count()), *programs, *("tests/" + test for test in tests)])
    if code != 0:
        sys.exit(said[-4000:])


def failing(folder, tests):
    """The tests that fail, each with how."""
    # A rule that matters in one simulated job of 600 needs as many.
    environment = {"RINGLET_SIM_SEEDS": "5000", **os.environ,
                   "RINGLET_SOURCE": str(folder),
                   "RINGLET_BUILD": str(folder / "build")}
    found = {}
    for test in tests:
        try:
            code, said = run([folder / "build/tests" / test], timeout=1200,
                             env=environment)
        except subprocess.TimeoutExpired:
            code, said = "none: it does not end", ""
        failures = len(re.findall(r": Failure$", said, re.MULTILINE))
        if code != 0:
            found[test] = (f"fails {failures} times" if failures else
                           f"ends with code {code}")
    return found


def broken(text, name, path, *pairs):
    """`text` with each of `pairs`, what is there and what takes its place."""
    for before, after in zip(pairs[::2], pairs[1::2]):
        if before not in text:
            sys.exit(f"{name}: {path} has no longer: {before}")
        text = text.replace(before, after)
    return text


def check(folder, rules, tests, programs, names):
    copy(folder)
    if not (folder / "build/build.ninja").exists():
        code, said = run(["meson", "setup", folder / "build", folder])
        if code != 0:
            sys.exit(said)
    build(folder, tests, programs)
    if failing(folder, tests):
        sys.exit("the tests fail without any rule broken")
    missed = []
    for name in names:
        path = rules[name][0]
        text = (folder / path).read_text()
        (folder / path).write_text(broken(text, name, *rules[name]))
        build(folder, tests, programs)
        found = failing(folder, tests)
        (folder / path).write_text(text)
        print(f"{name}: " + (", ".join(
            f"{test} {how}" for test, how in found.items())
            or "NOT FOUND"), flush=True)
        if not found:
            missed.append(name)
    if missed:
        sys.exit("no test keeps: " + ", ".join(missed))


parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--of", choices=RULES, default="results")
parser.add_argument("--folder", type=pathlib.Path)
parser.add_argument("rules", nargs="*", metavar="RULE",
                    help="of: " + ", ".join([*RESULTS, *ELASTIC]))
options = parser.parse_args()
table = RULES[options.of]
for rule in options.rules:
    if rule not in table:
        parser.error(f"no rule {rule!r}; there are: {', '.join(table)}")
with tempfile.TemporaryDirectory() as scratch:
    check((options.folder or pathlib.Path(scratch)).resolve(), table,
          TESTS[options.of], PROGRAMS[options.of],
          options.rules or list(table))
