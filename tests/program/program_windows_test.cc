// A model that was trained on windows of rows takes rows of other files.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/expect_ok.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

// Two people. One has rows on both sides of the other's rows. The label is
// between the columns.
constexpr char kRows[] =
    "g,a,y,b\np,1,2,3\np,3,4,1\np,5,6,2\np,7,8,9\nq,2,1,0\nq,4,2,6\n"
    "q,6,9,1\nq,1,5,5\nq,3,3,2\n";

// The model takes 2 rows of `values`.
std::string RunJson(const std::string& data, int values, int units) {
  return R"({"model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, )" +
         std::to_string(values) + R"(]}},
      {"class_name": "Flatten", "config": {}},
      {"class_name": "Dense", "config": {"units": )" +
         std::to_string(units) + R"(}}]}},
    "compile": {"optimizer": "sgd", "loss": "mse"},
    "data": {"train": {)" +
         data + R"(}}, "fit": {"epochs": 1}})";
}

class ProgramWindowsTest : public ProgramTest {
 protected:
  void WriteRunOf(const std::string& name, const std::string& data,
                  int values = 2, int units = 1) {
    WriteWhole(folder_ / name, RunJson(data, values, units));
  }
  void Write(const char* name, const Shape& shape,
             const std::vector<float>& values) {
    ASSERT_OK(WriteNpy(folder_ / name, DType::kFloat32, shape, values.data()));
  }
  // Both commands print the same.
  void ExpectSame(const std::vector<std::string>& a,
                  const std::vector<std::string>& b) {
    ASSERT_EQ(Run(a), 0) << err_;
    const std::string out = out_;
    EXPECT_EQ(err_, "");
    EXPECT_NE(out, "");
    ASSERT_EQ(Run(b), 0) << err_;
    EXPECT_EQ(out_, out);
  }
  void Train(const std::string& run) {
    ASSERT_EQ(Run({"train", run, "--save", "m"}), 0) << err_;
  }
};

constexpr char kOfLabel[] =
    R"("group": "g", "label": "y", "sequence_length": 2, "sampling_rate": 2,
       "target_offset": 3)";

TEST_F(ProgramWindowsTest, Model_TrainedOnWindows_TakesRowsOfATable) {
  WriteWhole(folder_ / "d.csv", kRows);
  WriteRunOf("run.json", std::string(R"("csv": "d.csv", )") + kOfLabel);
  Train("run.json");
  ExpectSame(
      {"evaluate", "m", "--csv", "d.csv", "--json"},
      {"evaluate", "m", "--data", "run.json", "--part", "train", "--json"});
  ExpectSame({"predict", "m", "--csv", "d.csv"},
             {"predict", "m", "--data", "run.json", "--part", "train"});
  // Another file has no label, and its columns in another order.
  WriteWhole(folder_ / "n.csv",
             "b,g,a\n3,p,1\n1,p,3\n2,p,5\n9,p,7\n0,q,2\n6,q,4\n1,q,6\n");
  WriteWhole(folder_ / "same.csv",
             "a,b,g\n1,3,p\n3,1,p\n5,2,p\n7,9,p\n2,0,q\n4,6,q\n6,1,q\n");
  ExpectSame({"predict", "m", "--csv", "n.csv"},
             {"predict", "m", "--csv", "same.csv"});
  // Two windows of p, one of q.
  EXPECT_EQ(Lines(out_).size(), 3u) << out_;
}

TEST_F(ProgramWindowsTest, Model_TargetsOfColumns_NeedsNoRunJson) {
  WriteWhole(folder_ / "d.csv", "a,b\n1,2\n3,4\n5,6\n7,8\n2,9\n1,0\n3,3\n");
  WriteRunOf("run.json",
             R"("csv": "d.csv", "sequence_length": 2, "target_offset": 2,
                "target_length": 2, "target_columns": ["b"], "scale": 0.5)",
             2, 2);
  Train("run.json");
  ExpectSame(
      {"evaluate", "m", "--csv", "d.csv", "--json"},
      {"evaluate", "m", "--data", "run.json", "--part", "train", "--json"});
  ExpectSame({"predict", "m", "--csv", "d.csv"},
             {"predict", "m", "--data", "run.json", "--part", "train"});
  EXPECT_EQ(Lines(out_).size(), 6u) << out_;
  // A model that is trained further has its windows without the fields.
  const auto further = [&](const std::string& fields, const std::string& to) {
    WriteWhole(folder_ / "more.json", R"({"model": "m", "data": {"train": {
        "csv": "d.csv")" + fields + R"(}}, "fit": {"epochs": 1}})");
    ASSERT_EQ(Run({"train", "more.json", "--save", to}), 0) << err_;
  };
  further("", "further");
  further(R"(, "sequence_length": 2, "target_offset": 2, "target_length": 2,
             "target_columns": [1])",
          "other");
  ExpectSame({"predict", "further", "--csv", "d.csv"},
             {"predict", "other", "--csv", "d.csv"});
}

TEST_F(ProgramWindowsTest, Model_OfArrays_TakesRowsAndWholeWindows) {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> windows = {1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 8};
  const std::vector<float> labels = {0, 1, 2, 3};
  const auto write = [&](const char* name, const Shape& shape,
                         const std::vector<float>& values) {
    ASSERT_OK(WriteNpy(folder_ / name, DType::kFloat32, shape, values.data()));
  };
  write("x.npy", {4, 2}, rows);
  write("w.npy", {3, 2, 2}, windows);
  write("y.npy", {4}, labels);
  WriteRunOf("run.json", R"("x": "x.npy", "y": "y.npy", "sequence_length": 2)");
  Train("run.json");
  ExpectSame({"predict", "m", "--x", "x.npy"},
             {"predict", "m", "--x", "w.npy"});
  ExpectSame(
      {"evaluate", "m", "--x", "x.npy", "--y", "y.npy", "--json"},
      {"evaluate", "m", "--data", "run.json", "--part", "train", "--json"});
}

// A model that was trained on windows of another program, or by an older one.
TEST_F(ProgramWindowsTest, Model_WithoutWindows_NeedsARunJson) {
  const std::vector<float> windows = {1, 2, 3, 4, 3, 4, 5, 6};
  const std::vector<float> labels = {0, 1};
  ASSERT_OK(
      WriteNpy(folder_ / "w.npy", DType::kFloat32, {2, 2, 2}, windows.data()));
  ASSERT_OK(WriteNpy(folder_ / "y.npy", DType::kFloat32, {2}, labels.data()));
  WriteWhole(folder_ / "d.csv", "a,b,y\n1,2,0\n3,4,0\n5,6,1\n");
  WriteRunOf("run.json", R"("x": "w.npy", "y": "y.npy")");
  Train("run.json");
  ExpectError({"predict", "m", "--csv", "d.csv"}, 2, {"--data RUN.json"});
  ExpectError({"evaluate", "m", "--csv", "d.csv"}, 2, {"--data RUN.json"});
  WriteRunOf("rows.json", R"("csv": "d.csv", "sequence_length": 2)");
  ExpectSame({"predict", "m", "--x", "w.npy"},
             {"predict", "m", "--data", "rows.json", "--part", "train"});
}

TEST_F(ProgramWindowsTest, RunJson_OtherWindows_IsRefused) {
  WriteWhole(folder_ / "d.csv", "a,b\n1,2\n3,4\n5,6\n7,8\n2,9\n1,0\n3,3\n");
  const auto with = [&](const std::string& fields) {
    WriteRunOf("other.json",
               R"("csv": "d.csv", "sequence_length": 2, )" + fields);
  };
  const std::string target = R"("target_columns": ["b"])";
  with(R"("target_offset": 2, )" + target);
  Train("other.json");
  const std::vector<std::string> use = {"evaluate",   "m",      "--data",
                                        "other.json", "--part", "train"};
  EXPECT_EQ(Run(use), 0) << err_;
  with(R"("target_offset": 2, "sequence_stride": 2, )" + target);
  EXPECT_EQ(Run(use), 0) << err_;  // other windows of the same kind
  with(R"("target_offset": 3, )" + target);
  ExpectError(use, 2, {"target_offset: is 3", "trained with 2", "leave"});
  with(R"("target_offset": 2, "sampling_rate": 2, )" + target);
  ExpectError(use, 2, {"sampling_rate: is 2", "trained with 1"});
  with(R"("target_offset": 2, "target_length": 1, )" + target);
  ExpectError(use, 2, {"target_length: is 1", "trained with 0"});
  with(R"("target_offset": 2, "target_columns": ["a"])");
  ExpectError(use, 2, {"target_columns"});
  // Prediction reads no targets.
  EXPECT_EQ(Run({"predict", "m", "--data", "other.json", "--part", "train"}), 0)
      << err_;
}

// The file of x has the targets, so labels would not be read.
TEST_F(ProgramWindowsTest, Model_TargetsOfColumns_RefusesLabels) {
  WriteWhole(folder_ / "d.csv", "a,b,y\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,1,0\n");
  Write("x.npy", {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 1});
  Write("y.npy", {5}, {0, 1, 0, 1, 0});
  Write("w.npy", {2, 2, 2}, {1, 2, 3, 4, 3, 4, 5, 6});
  Write("v.npy", {2}, {5, 7});
  const std::string windows =
      R"(, "sequence_length": 2, "target_offset": 2, "target_columns": [0])";
  const auto further = [&](const std::string& data) {
    WriteWhole(folder_ / "more.json", R"({"model": "m", "data": {"train": {)" +
                                          data +
                                          R"(}}, "fit": {"epochs": 1}})");
  };
  for (const std::string& data :
       {R"("x": "x.npy")" + windows,
        R"("csv": "d.csv", "columns": ["a", "b"])" + windows}) {
    SCOPED_TRACE(data);
    WriteRunOf("run.json", data);
    Train("run.json");
    ExpectSame(
        {"evaluate", "m", "--x", "x.npy", "--json"},
        {"evaluate", "m", "--data", "run.json", "--part", "train", "--json"});
    ExpectError({"evaluate", "m", "--x", "x.npy", "--y", "y.npy"}, 2,
                {"x.npy", "target_columns", "leave --y"});
    for (const char* label : {"y", "b", "-1", "0"}) {
      ExpectError({"evaluate", "m", "--csv", "d.csv", "--label", label}, 2,
                  {"d.csv", "target_columns", "leave --label"});
    }
    further(R"("x": "x.npy", "y": "y.npy")");
    ExpectError({"train", "more.json", "--no-save"}, 2,
                {"target_columns", "\"y\""});
    further(R"("csv": "d.csv", "label": "y")");
    ExpectError({"train", "more.json", "--no-save"}, 2,
                {"target_columns", "\"label\""});
    // Windows have their targets in y.
    EXPECT_EQ(Run({"evaluate", "m", "--x", "w.npy", "--y", "v.npy"}), 0)
        << err_;
    ExpectError({"evaluate", "m", "--x", "w.npy"}, 2, {"w.npy", "label"});
  }
  // Targets that are labels stay necessary.
  WriteRunOf("run.json", R"("x": "x.npy", "y": "y.npy", "sequence_length": 2)");
  Train("run.json");
  ExpectError({"evaluate", "m", "--x", "x.npy"}, 2, {"--x needs --y"});
}

// A window may not join rows of two groups.
TEST_F(ProgramWindowsTest, Model_TrainedInGroups_RefusesRowsWithout) {
  WriteWhole(folder_ / "d.csv", kRows);
  Write("x.npy", {9, 2},
        {1, 3, 3, 1, 5, 2, 7, 9, 2, 0, 4, 6, 6, 1, 1, 5, 3, 2});
  Write("y.npy", {9}, {2, 4, 6, 8, 1, 2, 9, 5, 3});
  Write("g.npy", {9}, {0, 0, 0, 0, 1, 1, 1, 1, 1});
  Write("w.npy", {2, 2, 2}, {1, 3, 3, 1, 3, 1, 5, 2});
  Write("v.npy", {2}, {4, 6});
  const std::string rows[] = {R"("x": "x.npy", "y": "y.npy")",
                              R"("csv": "d.csv", "label": "y")"};
  const std::string no_group[] = {"", R"(, "drop": ["g"])"};
  const std::string group[] = {R"(, "group": "g.npy")", R"(, "group": "g")"};
  const std::string windows = R"(, "sequence_length": 2)";
  for (size_t i = 0; i < 2; ++i) {
    SCOPED_TRACE(rows[i]);
    const std::string with = rows[i] + group[i] + windows,
                      without = rows[i] + no_group[i] + windows;
    WriteRunOf("run.json", with);
    Train("run.json");
    const std::vector<std::string> evaluate = {
        "evaluate", "m", "--data", "run.json", "--part", "train", "--json"};
    ASSERT_EQ(Run(evaluate), 0) << err_;
    const std::vector<std::string> wanted = {"group", "--data RUN.json"};
    ExpectError({"evaluate", "m", "--x", "x.npy", "--y", "y.npy"}, 2, wanted);
    ExpectError({"predict", "m", "--x", "x.npy"}, 2, wanted);
    EXPECT_EQ(Run({"evaluate", "m", "--x", "w.npy", "--y", "v.npy"}), 0)
        << err_;
    WriteRunOf("run.json", without);
    ExpectError(evaluate, 2, wanted);
    // A RUN.json may give groups to any rows.
    for (size_t k = 0; k < 2; ++k) {
      WriteRunOf("other.json", rows[k] + group[k] + windows);
      EXPECT_EQ(
          Run({"evaluate", "m", "--data", "other.json", "--part", "train"}), 0)
          << err_;
    }
    const auto more = [&](const std::string& model, const std::string& data) {
      WriteWhole(folder_ / "more.json", R"({"model": ")" + model +
                                            R"(", "data": {)" + data +
                                            R"(}, "fit": {"epochs": 1}})");
      return std::vector<std::string>{"train", "more.json", "--save", "m2"};
    };
    ExpectError(more("m", R"("train": {)" + without + "}"), 2, wanted);
    ExpectError(more("m", R"("train": {)" + with + R"(}, "validation": {)" +
                              without + "}"),
                2, wanted);
    // Windows of no rows do not change the file's windows.
    ASSERT_EQ(Run(more("m", R"("train": {"x": "w.npy", "y": "v.npy"})")), 0)
        << err_;
    ExpectError({"predict", "m2", "--x", "x.npy"}, 2, wanted);
    // A model that was trained without groups needs none.
    WriteRunOf("run.json", without);
    Train("run.json");
    EXPECT_EQ(Run({"predict", "m", "--x", "x.npy"}), 0) << err_;
  }
}

TEST_F(ProgramWindowsTest, Lines_OfAModelOfWindows_AreRefused) {
  WriteWhole(folder_ / "d.csv", "a,b,y\n1,2,0\n3,4,1\n5,6,0\n");
  WriteWhole(folder_ / "lines", "1,2\n");
  Write("x.npy", {3, 2}, {1, 2, 3, 4, 5, 6});
  Write("y.npy", {3}, {0, 1, 0});
  for (const char* data :
       {R"("csv": "d.csv")", R"("x": "x.npy", "y": "y.npy")"}) {
    SCOPED_TRACE(data);
    WriteRunOf("run.json", std::string(data) + R"(, "sequence_length": 2)");
    Train("run.json");
    stdin_ = folder_ / "lines";
    ExpectError({"predict", "m", "--csv", "-"}, 2,
                {"windows of 2 rows", "--csv FILE"});
  }
  // A line with a value for each row is a window.
  Write("x.npy", {3}, {1, 2, 3});
  WriteRunOf("run.json", R"("x": "x.npy", "y": "y.npy", "sequence_length": 2)",
             1);
  Train("run.json");
  EXPECT_EQ(Run({"predict", "m", "--csv", "-", "--no-header"}), 0) << err_;
  stdin_.clear();
  const std::string line_output = out_;
  Write("x.npy", {2}, {1, 2});
  ASSERT_EQ(Run({"predict", "m", "--x", "x.npy"}), 0) << err_;
  EXPECT_EQ(out_, line_output);
}

TEST_F(ProgramWindowsTest, Model_OfWindowsOfOneRow_TakesWholeWindows) {
  Write("x.npy", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  Write("w.npy", {3, 1, 2}, {1, 2, 3, 4, 5, 6});
  Write("y.npy", {4}, {0, 1, 2, 3});
  Write("v.npy", {3}, {1, 2, 3});
  WriteWhole(
      folder_ / "run.json",
      Replaced(RunJson(R"("x": "x.npy", "y": "y.npy", "sequence_length": 1,
                          "target_offset": 1)",
                       2, 1),
               "[null, 2,", "[null, 1,"));
  Train("run.json");
  ExpectSame({"evaluate", "m", "--x", "w.npy", "--y", "v.npy", "--json"},
             {"evaluate", "m", "--x", "x.npy", "--y", "y.npy", "--json"});
}

// The error names the way to train for another target, and this way succeeds.
TEST_F(ProgramWindowsTest, Train_OtherTarget_TakesLayersAndInit) {
  WriteWhole(folder_ / "d.csv", "a,b\n1,2\n3,4\n5,6\n7,8\n2,9\n1,0\n3,3\n");
  const auto data = [](int offset) {
    return R"("csv": "d.csv", "sequence_length": 2, "target_columns": ["b"],
              "target_offset": )" +
           std::to_string(offset);
  };
  WriteRunOf("run.json", data(2));
  Train("run.json");
  WriteWhole(folder_ / "more.json", R"({"model": "m", "data": {"train": {)" +
                                        data(3) +
                                        R"(}}, "fit": {"epochs": 1}})");
  ExpectError({"train", "more.json", "--no-save"}, 2,
              {"target_offset: is 3", "layers", "--init"});
  WriteRunOf("other.json", data(3));
  ASSERT_EQ(Run({"train", "other.json", "--init", "m", "--save", "m3"}), 0)
      << err_;
  EXPECT_EQ(Run({"evaluate", "m3", "--data", "other.json", "--part", "train"}),
            0)
      << err_;
}

}  // namespace
}  // namespace ringlet
