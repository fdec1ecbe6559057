#!/usr/bin/env python3
"""Breaks each rule, or plants each defect, in a copy; a test must fail.

    rules.py [--of results|elastic|defects] [--folder FOLDER] [NAME...]
    rules.py --check

Changes one line after another in a copy of the sources, builds it and runs the
tests. Some test must fail each time.
  results  the rules of docs/one_result.md, by digests (x86-64, AVX2 and FMA)
  elastic  the rules by which workers leave and join; tested by the simulators,
           the search of core_recovery_test and scenes of a faulty machine
  defects  the mistakes in tests/planted_defects.py, each by the test named there
With --folder the copy and its build stay in FOLDER for the next run. --check
builds nothing: the text of each change must be in its file exactly once.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from planted_defects import DEFECTS

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# From the suite to its GoogleTest filter.
TESTS = {"results": {"program_digests": "DigestsTest.*", "core_compute": "GemmTest.*"},
         "elastic": {"net_simulator": "*SimulatorTest.*",
                     "core_recovery": "RecoveryModelTest.*",
                     "core_elastic": "RecoveryScenariosTest.*"}}
# A rule that matters in one simulated job of 600 needs as many jobs.
SETTINGS = {"elastic": {"RINGLET_SIM_SEEDS": "5000"}}
# A test that catches a planted defect fails within these seconds. The tests of
# a rule may take longer, or hang.
SECONDS_OF_ONE = 60
SECONDS_OF_ALL = 1200
HANGS = "does not end"

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
        ("core/objective/optimizer_formulas.cc", '#include "optimizer_table.h"',
         '#pragma GCC target("avx2,fma")\n'
         '#pragma GCC optimize("fp-contract=fast")\n'
         '#include "optimizer_table.h"'),
    "a sum cut among the threads":
        ("core/layers/basic/dense.cc",
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
    "a worker that was stalled leaves its ring":
        ("net/membership/failure_detector.cc",
         "  if (late > timeout) return SelfStalled(now);\n", ""),
    "frames of another generation are dropped":
        ("net/membership/ring_members.cc", "                          bool lingering) const {\n",
         "                          bool lingering) const {\n"
         "  if (worker >= 0) return false;\n"),
    "a replica is computed once":
        ("core/exchange/replica_range.h",
         "return {cut(rank), cut(rank + 1) - cut(rank)};",
         "return {cut(rank), cut(rank + 1) - cut(rank) +\n"
         "                         (workers > 1 && rank == 0 ? 1 : 0)};"),
    "a step that a loss cuts off is made again":
        ("core/recovery/recovery.cc",
         "  if (state_.valid()) "
         "RINGLET_RETURN_IF_ERROR(snapshot_.Restore(parts_.all));\n", ""),
    "scales of exact sums belong to the step boundary":
        ("core/recovery/step_snapshot.cc",
         "  if (span.name == kScalesName) return false;\n", ""),
    "a loss rolls back to the verified point":
        ("core/recovery/recovery_state.cc",
         "(progress_.contributors & ~staying) != 0",
         "(progress_.contributors & ~staying & 0) != 0"),
    "a view begins with a check":
        ("core/fit/fitter_checks.cc",
         "return model_->collective()->elastic() ? CheckReplicas() : Status();",
         "return Status();"),
    "contributors travel with a state":
        ("core/recovery/recovery_state.cc", "  progress_ = donors;\n",
         "  progress_ = {donors.verified_step, donors.step, 0};\n"),
    "a worker alone verifies nothing":
        ("core/recovery/recovery_state.cc",
         "const bool alone = (members_ & (members_ - 1)) == 0;",
         "const bool alone = false;"),
    "a rollback comes before the summaries":
        ("core/recovery/recovery.cc",
         "  if (RollBack() == OnViewAction::kRollBack) "
         "point_.Restore(&snapshot_);\n", "",
         "  RINGLET_RETURN_IF_ERROR(CheckConflict(summaries));\n",
         "  if (RollBack() == OnViewAction::kRollBack) {\n"
         "    point_.Restore(&snapshot_);\n"
         "    RINGLET_RETURN_IF_ERROR(snapshot_.Restore(parts_.all));\n"
         "  }\n"
         "  RINGLET_RETURN_IF_ERROR(CheckConflict(summaries));\n"),
    "a restarted worker is a new one":
        ("core/recovery/recovery.cc", "incarnations_[w] == member.state_incarnation",
         "incarnations_[w] != 0"),
}
RULES = {"results": RESULTS, "elastic": ELASTIC, "defects": DEFECTS}


def tests_of(table, name):
    """From the suite to the filter of the tests that must fail."""
    if table != "defects":
        return TESTS[table]
    suite, test = DEFECTS[name][-1]
    return {suite: test}


def change_of(table, name):
    """The file, then pairs: what is there and what takes its place."""
    change = RULES[table][name]
    return change[:-1] if table == "defects" else change


def joined(tests):
    """Joins the filters of several tables, suite by suite."""
    together = {}
    for each in tests:
        for suite, chosen in each.items():
            together.setdefault(suite, {})[chosen] = None
    return {suite: ":".join(chosen) for suite, chosen in together.items()}


def run(command, seconds=None, **more):
    """The exit code (None: it did not end in time), and what was printed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.STDOUT,
                               start_new_session=True, **more)
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        if process.poll() is None:  # with the processes that it started
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, said


def must(command, **more):
    code, said = run(command, **more)
    if code != 0:
        sys.exit(said[-4000:])
    return said


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


class Copy:
    """A copy of the sources, its build and its tests."""

    def __init__(self, folder, settings):
        self.folder = folder
        self.environment = {**settings, **os.environ,
                            "RINGLET_SOURCE": str(folder),
                            "RINGLET_BUILD": str(folder / "build")}
        self.targets = {}  # of each suite
        copy(folder)
        if not (folder / "build/build.ninja").exists():
            must(["meson", "setup", folder / "build", folder])

    def targets_of(self, suite):
        if suite not in self.targets:
            self.targets[suite] = must(
                [self.folder / "tools/test_targets.py", self.folder / "build",
                 "--suite", suite]).split()
        return self.targets[suite]

    def build(self, tests):
        """The exit code, and what the build printed."""
        targets = {t for suite in tests for t in self.targets_of(suite)}
        return run(["ninja", "-C", self.folder / "build", "-j",
                    str(os.cpu_count()), *sorted(targets)])

    def test(self, suite, *flags, **more):
        return run([self.folder / "build/tests" / f"{suite}_test", *flags],
                   env=self.environment, **more)

    def has_tests(self, suite, chosen):
        _, said = self.test(suite, "--gtest_list_tests",
                            f"--gtest_filter={chosen}")
        return "\n  " in said

    def failing(self, tests, seconds):
        """The suites that fail, each with the way it failed."""
        found = {}
        for suite, chosen in tests.items():
            code, said = self.test(suite, f"--gtest_filter={chosen}",
                                   seconds=seconds)
            failures = len(re.findall(r": Failure$", said, re.MULTILINE))
            if code is None:
                found[suite] = HANGS
            elif code != 0:
                found[suite] = (f"fails {failures} times" if failures else
                                 f"ends with code {code}")
        return found

    def with_change(self, path, text, tests, seconds):
        """Returns failing() while the file at `path` has `text`."""
        before = (self.folder / path).read_text()
        (self.folder / path).write_text(text)
        try:
            code, said = self.build(tests)
            if code != 0:
                print(said[-4000:], file=sys.stderr)
                return {}
            return self.failing(tests, seconds)
        finally:
            (self.folder / path).write_text(before)


def broken(name, path, *pairs):
    """The text of the file at `path`, with the change of each of `pairs`."""
    text = (SOURCE / path).read_text()
    for before, after in zip(pairs[::2], pairs[1::2]):
        if text.count(before) != 1:
            sys.exit(f"{name}: {path} has {text.count(before)} times, not "
                     f"once: {before}")
        text = text.replace(before, after)
    return text


def check(folder, table, names):
    texts = {name: broken(name, *change_of(table, name)) for name in names}
    work = Copy(folder, SETTINGS.get(table, {}))
    whole = joined(tests_of(table, name) for name in names)
    code, said = work.build(whole)
    if code != 0:
        sys.exit(said[-4000:])
    gone = [f"{name}: {suite}_test has no test {chosen}"
            for name in names
            for suite, chosen in tests_of(table, name).items()
            if not work.has_tests(suite, chosen)]
    if gone:
        sys.exit("\n".join(gone))
    found = work.failing(whole, SECONDS_OF_ALL)
    if found:
        sys.exit(f"the tests fail without a change: {found}")
    seconds = SECONDS_OF_ONE if table == "defects" else SECONDS_OF_ALL
    missed = []
    for name in names:
        begin = time.monotonic()
        found = work.with_change(change_of(table, name)[0], texts[name],
                                 tests_of(table, name), seconds)
        print(f"{name}: " + (", ".join(
            f"{suite}_test {how}" for suite, how in found.items())
            or "NOT FOUND") + f" ({time.monotonic() - begin:.0f} s)",
            flush=True)
        hangs = HANGS in found.values()
        if not found or (hangs and table == "defects"):
            missed.append(name)
    print(f"{len(names) - len(missed)} of {len(names)} were found")
    if missed:
        sys.exit("no test finds: " + ", ".join(missed))


def check_texts():
    """The changes that no longer fit their files."""
    return [f"{file}: {name}: the text to change occurs {count} times"
            for table, rules in RULES.items() for name in rules
            for file, *change in [change_of(table, name)]
            for before in change[::2]
            for count in [(SOURCE / file).read_text().count(before)]
            if count != 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--of", choices=RULES, default="results")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="a rule or defect (default: all)")
    options = parser.parse_args()
    if options.check:
        sys.exit("\n".join(check_texts()) or None)
    known = RULES[options.of]
    for given in options.names:
        if given not in known:
            parser.error(f"no rule {given!r}; there are: {', '.join(known)}")
    with tempfile.TemporaryDirectory() as scratch:
        check((options.folder or pathlib.Path(scratch)).resolve(), options.of,
              options.names or list(known))


if __name__ == "__main__":
    main()
