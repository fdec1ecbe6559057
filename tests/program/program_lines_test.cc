// ringlet predict --csv -: a line of stdout for each line of stdin.

#include <gtest/gtest.h>

#include <string>

#include "../support/contains.h"
#include "../support/program.h"
#include "../support/python.h"
#include "../support/sanitized.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

// A table with gaps and a column of text, and classes with names.
const char kTable[] =
    "width,island,height,bird\n1,north,2,owl\n2,south,NA,emu\n"
    "3,south,4,owl\n4,north,1,emu\n";

const char kTableRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4]}},
    {"class_name": "Dense", "config": {"units": 2, "activation": "softmax"}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
  "data": {"train": {"csv": "d.csv", "label": "bird", "scale": 0.5,
                     "categorical": ["island"], "missing": "mean"}},
  "fit": {"seed": 1}})";

const char kNumbersRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 3]}},
    {"class_name": "Dense", "config": {"units": 2}}]}},
  "compile": {"optimizer": "sgd", "loss": "mse"},
  "data": {"train": {"x": "x.npy", "y": "y.npy", "scale": 0.25, "offset": -1}},
  "fit": {"seed": 1}})";

class LinesTest : public ProgramTest {
 protected:
  // `lines` as all of stdin.
  int Predict(const std::string& lines, Strings flags = {}) {
    WriteWhole(folder_ / "stdin", lines);
    flags.insert(flags.begin(), {"predict", "m", "--csv", "-"});
    stdin_ = folder_ / "stdin";
    const int code = Run(flags);
    stdin_.clear();
    return code;
  }

  void TrainOnTable() {
    WriteWhole(folder_ / "d.csv", kTable);
    WriteWhole(folder_ / "run.json", kTableRun);
    ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  }

  // A model of numbers without names, its weights as w.npz, and the start of a
  // Python program that runs it.
  void TrainOnNumbers() {
    WriteWhole(folder_ / "make.py", R"(
import sys, numpy
r = numpy.random.default_rng(1)
numpy.save(sys.argv[1] + "/x.npy", r.normal(size=(50, 3)).astype("f4"))
numpy.save(sys.argv[1] + "/y.npy", r.normal(size=(50, 2)).astype("f4"))
)");
    RunPython(folder_ / "make.py" + (" " + folder_.path()));
    WriteWhole(folder_ / "run.json", kNumbersRun);
    ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
    ASSERT_EQ(Run({"export", "m", "--out", "w.npz"}), 0) << err_;
  }
  void RunWithPython(const std::string& script) {
    WriteWhole(folder_ / "script.py", R"(
import os, signal, subprocess, sys
import numpy
os.chdir(sys.argv[2])
def start(stderr=subprocess.PIPE):
  return subprocess.Popen([sys.argv[1], "predict", "m", "--csv", "-",
                           "--no-header"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=stderr)
)" + script);
    EXPECT_EQ(RunPython(folder_ / "script.py" +
                        (" " + Program("tools/ringlet/ringlet")) + " " +
                        folder_.path()),
              Strings{"done"});
  }
};

TEST_F(LinesTest, Line_WithoutTheNext_IsAnswered) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  TrainOnNumbers();
  RunWithPython(R"(
w = numpy.load("w.npz")
kernel, = [w[n] for n in w.files if w[n].ndim == 2]
bias, = [w[n] for n in w.files if w[n].ndim == 1]
program = start()
ends = [b"\n", b"\r\n", b"\r"]
for i in range(100):
  x = numpy.array([i, i * i % 7, -i / 8], "f4")
  program.stdin.write(b"%d,%d, %.3f" % tuple(x) + ends[i % 3])
  program.stdin.flush()
  answer = program.stdout.readline()  # before the next line is written
  assert answer.endswith(b"\n"), answer
  y = [float(text) for text in answer.split(b",")]
  numpy.testing.assert_allclose(y, (x * .25 - 1) @ kernel + bias, rtol=1e-4,
                                atol=1e-5)
out, err = program.communicate(b"1,2,3")  # no line's end
assert len(out.split(b"\n")) == 2, out
assert (program.returncode, err) == (0, b""), (program.returncode, err)
print("done")
)");
}

TEST_F(LinesTest, Output_ReaderHasLeft_EndsQuietly) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  TrainOnNumbers();
  RunWithPython(R"(
for ignored in (signal.SIG_DFL, signal.SIG_IGN):
  signal.signal(signal.SIGPIPE, ignored)
  program = subprocess.Popen(
      [sys.argv[1], "predict", "m", "--csv", "-", "--no-header"],
      restore_signals=False, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
      stderr=subprocess.PIPE)
  signal.signal(signal.SIGPIPE, signal.SIG_IGN)
  program.stdin.write(b"1,2,3\n")
  program.stdin.flush()
  assert program.stdout.readline()
  program.stdout.close()
  program.stdin.write(b"1,2,3\n")
  program.stdin.flush()
  assert program.stderr.read() == b""
  assert program.wait() in (0, -signal.SIGPIPE)
print("done")
)");
}

#ifndef RINGLET_SANITIZED
TEST_F(LinesTest, Memory_ManyLines_DoesNotGrow) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  TrainOnNumbers();
  RunWithPython(R"(
program = start(stderr=subprocess.DEVNULL)
def kilobytes(lines):
  for i in range(lines // 100):
    program.stdin.write(b"1,2,3\n4,wrong,6\n" * 50)
    program.stdin.flush()
    for k in range(100):
      assert program.stdout.readline()
  with open("/proc/%d/status" % program.pid) as status:
    return [int(l.split()[1]) for l in status if l.startswith("VmData")][0]
before = kilobytes(1000)
after = kilobytes(40000)  # 16 bytes a line would be 640 KiB
assert after <= before + 300, (before, after)
program.communicate()
assert program.returncode == 1
print("done")
)");
}
#endif

TEST_F(LinesTest, Table_AnyLines_AreEncodedAsTheSameFile) {
  TrainOnTable();
  for (const char* table :
       {"width,island,height\n1,north,2\n2,south,NA\n7,north,\n",
        "bird,height,note,island,width\nowl,2,x,north,1\n?,,,south,2\n",
        "1,north,2\n2,south,nan\n", kTable}) {
    SCOPED_TRACE(table);
    WriteWhole(folder_ / "x.csv", table);
    ASSERT_EQ(Run({"predict", "m", "--csv", "x.csv"}), 0) << err_;
    const std::string with_head = out_;
    ASSERT_EQ(Predict(table), 0) << err_;
    // Only names are answered by names.
    const bool names = table[0] > '9';
    EXPECT_EQ(out_,
              names ? with_head : with_head.substr(with_head.find('\n') + 1));
  }
}

TEST_F(LinesTest, FirstLine_SepOfExcel_SetsTheSeparator) {
  TrainOnTable();
  ASSERT_EQ(Predict("1,north,2\n", {"--no-header"}), 0) << err_;
  const std::string row = out_;
  ASSERT_EQ(Predict("sep=;\n1;north;2\n", {"--no-header"}), 0) << err_;
  EXPECT_EQ(out_, "\n" + row);
}

TEST_F(LinesTest, Tabs_EmptyFieldAtAnEnd_KeepItsColumn) {
  TrainOnTable();
  const char kTabs[] = "\tnorth\t2\n1\tnorth\t\n\tsouth\t\n";
  WriteWhole(folder_ / "x.csv", kTabs);
  const Strings flags = {"--no-header", "--separator", "\t"};
  ASSERT_EQ(Run({"predict", "m", "--csv", "x.csv", "--no-header", "--separator",
                 "\t"}),
            0)
      << err_;
  const std::string rows = out_.substr(out_.find('\n') + 1);
  ASSERT_EQ(Predict(kTabs, flags), 0) << err_;
  EXPECT_EQ(out_, rows);
}

TEST_F(LinesTest, FirstLine_Wrong_DoesNotFixTheColumns) {
  TrainOnTable();
  ASSERT_EQ(Predict("1,north,2\n", {"--no-header"}), 0) << err_;
  const std::string answer = out_;
  ASSERT_NE(Predict("x,north,2,owl\n1,north,2\n", {"--no-header"}), 0);
  EXPECT_EQ(out_, "\n" + answer);
}

TEST_F(LinesTest, Line_WrongOrBlank_IsAnsweredByAnEmptyLine) {
  TrainOnTable();
  ASSERT_EQ(Predict("width,island,height\n1,north,2\n"), 0) << err_;
  const std::string head = Lines(out_)[0], answer = Lines(out_)[1];
  ASSERT_EQ(Predict("width,island,height\n\n1,north,2\n1,west,2\n"
                    "1,north\n1,north,inf\n1,\"north,2\n1,north,2"),
            1);
  const Strings lines = Lines(out_);
  ASSERT_EQ(lines.size(), 8u) << out_;
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i], i == 0 ? head : i == 2 || i == 7 ? answer : "") << i;
  }
  const Strings errors = Lines(err_);
  ASSERT_EQ(errors.size(), 4u) << err_;
  const char* const expected[] = {
      "error: stdin: line 4, column 2 ('island'): 'west' is none of the",
      "error: stdin: line 5 has 2 fields, the first had 3",
      "error: stdin: line 6: stdin: example 0, value 3 is inf",
      "error: stdin: line 7: the quote of column 2"};
  for (size_t i = 0; i < errors.size(); ++i) {
    EXPECT_EQ(errors[i].find(expected[i]), 0u) << errors[i];
  }
  ASSERT_EQ(Predict("1,north,2,owl,3\n1,north,2\n", {"--no-header"}), 2);
  EXPECT_EQ(out_, "\n" + answer + "\n");
  EXPECT_TRUE(Contains(err_, "stdin: line 1 has 5 columns, the training data"));
}

TEST_F(LinesTest, Input_NoLineOrWrongFlags_HasItsOwnError) {
  TrainOnTable();
  ASSERT_EQ(Predict(""), 0) << err_;
  EXPECT_EQ(out_ + err_, "");
  ASSERT_EQ(Predict("1;north;2,5\n", {"--separator", ";", "--decimal", ",",
                                      "--no-header", "--scale", "0.5"}),
            0)
      << err_;
  EXPECT_EQ(Lines(out_).size(), 1u);
  EXPECT_EQ(Predict("1,north,2\n", {"--scale", "2"}), 2);
  EXPECT_EQ(out_, "");
  ExpectError({"predict", "m", "--csv", "-", "--out", "y.csv"}, 2,
              {"--out y.csv: the answers to --csv - go to stdout"});
}

}  // namespace
}  // namespace ringlet
