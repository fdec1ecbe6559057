// ringlet train: the data of RUN.json, as tables, arrays, windows and texts.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/expect_ok.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "io/files/file_system.h"
#include "io/readers/arrays/npz.h"
#include "ringlet/model.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

TEST_F(ProgramTest, Train_CsvDataWholeOrDamaged_TrainsOrNamesTheDamage) {
  // Four examples of two numbers; the class is the greater one's place.
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n0,1,1\n2,0,1\n1,1,2\n");
  const char kSmall[] = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
      {"class_name": "Dense", "config": {"units": 2}}]}},
    "compile": {"optimizer": "sgd", "loss": {"class_name":
      "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
    "data": {"train": {"csv": "d.csv", "label": "kind"}},
    "fit": {"batch_size": 2, "epochs": 3}})";
  WriteWhole(folder_ / "csv.json", kSmall);
  ASSERT_EQ(Run({"train", "csv.json", "--log-steps", "s.csv"}), 0) << err_;
  EXPECT_EQ(Lines(ReadWhole(folder_ / "s.csv")).size(), 7u);
  WriteWhole(folder_ / "csv.json", Replaced(kSmall, "\"kind\"", "\"knid\""));
  ExpectError({"train", "csv.json"}, 2, {"d.csv", "knid"});
  WriteWhole(folder_ / "csv.json", Replaced(kSmall, "\"kind\"", "1"));
  ASSERT_EQ(Run({"train", "csv.json"}), 0) << err_;
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n0,7,1\n");
  ExpectError({"train", "csv.json"}, 1, {"d.csv", "label 7"});
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n0,1,x\n");
  ExpectError({"train", "csv.json"}, 1, {"d.csv", "line 3"});
  // The bad label is in the last part of several replicas' last batch.
  WriteWhole(folder_ / "d.csv", "a,kind,b\n1,0,0\n1,0,0\n1,0,0\n1,7,0\n");
  WriteWhole(
      folder_ / "csv.json",
      Replaced(kSmall, "\"fit\"", "\"strategy\": {\"replicas\": 2}, \"fit\""));
  ExpectError({"train", "csv.json"}, 1, {"d.csv", "label 7"});
  WriteWhole(folder_ / "csv.json", kSmall);
  // The damage is far behind the first examples.
  std::string rows = "a,kind,b\n";
  for (int i = 0; i < 100; ++i) rows += "1,0,0\n";
  WriteWhole(folder_ / "d.csv", rows + "nan,1,1\n");
  ExpectError({"train", "csv.json"}, 1, {"d.csv: example 100, value 0 is nan"});
  WriteWhole(folder_ / "d.csv", rows + "0,1,3e38\n");
  ASSERT_EQ(Run({"train", "csv.json", "--epochs", "0"}), 0) << err_;
  WriteWhole(folder_ / "csv.json",
             Replaced(kSmall, "\"kind\"", "\"kind\", \"scale\": 10"));
  ExpectError({"train", "csv.json"}, 1,
              {"d.csv: example 100, value 1 is 3e+38, which times 10"});
}

TEST_F(ProgramTest, DataOnDisk_ShortEpoch_ReadsOnlyWhatItTrainsOn) {
  constexpr int kExamples = 20000;
  std::string images("\0\0\x08\x03\0\0\x4e\x20\0\0\0\x1c\0\0\0\x1c", 16);
  std::string labels("\0\0\x08\x01\0\0\x4e\x20", 8);
  WriteWhole(folder_ / "x", images.append(kExamples * 28 * 28, '\1'));
  WriteWhole(folder_ / "y", labels.append(kExamples, '\2'));
  std::string run = Replaced(kRun, "@DATA@/train-images-idx3-ubyte.gz", "x");
  run = Replaced(run, "@DATA@/train-labels-idx1-ubyte.gz", "y");
  run = Replaced(run, "\"scale\"", "\"in_memory\": false, \"scale\"");
  const size_t begin = run.find(",\n    \"validation\""),
               end = run.find("},\n  \"fit\"");
  WriteWhole(folder_ / "run.json", run.erase(begin, end - begin));
  Start({"train", "run.json", "--epochs", "1"});
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOWAIT),
            0);
  const std::string io = ReadWhole("/proc/" + std::to_string(child_) + "/io");
  EXPECT_EQ(Wait(), 0) << err_;
  const size_t at = io.find("rchar: ");
  if (at == std::string::npos) GTEST_SKIP() << "needs /proc/PID/io";
  EXPECT_LT(std::stol(io.substr(at + 7)), kExamples * 28 * 28 / 4);
}

// 130 examples of three values and one of four classes, as images (of IDX),
// arrays and a table with gaps and text.
void WriteExamplesInAnyForm(const TempFolder& folder) {
  constexpr int kExamples = 130;
  std::vector<double> x;
  std::vector<unsigned char> y;
  std::string images("\0\0\x08\x02\0\0\0\x82\0\0\0\x03", 12);
  std::string labels("\0\0\x08\x01\0\0\0\x82", 8);
  for (int i = 0; i < 3 * kExamples; ++i) {
    x.push_back(i * i % 101 / 7.);
    images += static_cast<char>(i * i % 101);
    if (i % 3 != 0) continue;
    y.push_back(static_cast<unsigned char>(i % 4));
    labels += static_cast<char>(i % 4);
  }
  std::string csv = "a,b,c,kind\n";
  for (size_t i = 0; i < y.size(); ++i) {
    csv += (i % 9 == 0 ? "" : std::to_string(x[3 * i])) + ",t" +
           std::to_string(i % 5) + "," + std::to_string(x[3 * i + 2]) + ",k" +
           std::to_string(y[i]) + "\n";
  }
  WriteWhole(folder / "d.csv", csv);
  WriteWhole(folder / "images", images);
  WriteWhole(folder / "labels", labels);
  ASSERT_OK(
      WriteNpy(folder / "x.npy", DType::kFloat64, {kExamples, 3}, x.data()));
  ASSERT_OK(WriteNpy(folder / "y.npy", DType::kUint8, {kExamples}, y.data()));
}

// Of 117 training examples the last batch has 21 with batch size 32, and 17
// with 100.
TEST_F(ProgramTest, DataOnDisk_AnyForm_TrainsToTheBitsInMemory) {
  WriteExamplesInAnyForm(folder_);
  const std::string run = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer",
       "config": {"name": "x", "batch_shape": [null, 3]}},
      {"class_name": "Dense", "config": {"units": 4}}]}},
    "compile": {"optimizer": "adam", "loss": {"class_name":
      "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
    "data": {"train": {"scale": 0.1, "in_memory": IN_MEMORY, FORM}},
    "fit": {"epochs": 2, "seed": 3, "validation_split": 0.1}})";
  for (const char* form : {R"("images": "images", "labels": "labels")",
                           R"("x": "x.npy", "y": "y.npy")",
                           R"("x": {"x": "x.npy"}, "y": ["labels"])",
                           R"("csv": "d.csv", "label": "kind",
                              "missing": {"a": "mean"},
                              "categorical": {"b": "index"})"}) {
    for (const char* batch : {"1", "32", "100"}) {
      SCOPED_TRACE(std::string(form) + " " + batch);
      const auto train = [&](const char* in_memory) {
        WriteWhole(
            folder_ / "run.json",
            Replaced(Replaced(run, "IN_MEMORY", in_memory), "FORM", form));
        EXPECT_EQ(Run({"train", "run.json", "--batch-size", batch,
                       "--log-steps", "s.csv"}),
                  0)
            << err_;
        return ReadWhole(folder_ / "s.csv");
      };
      EXPECT_EQ(train("true"), train("false"));
    }
  }
}

// Three groups of 30 rows, as arrays and as a table; and as arrays the windows
// of groups 0 and 2, with the target of the ninth row after the first.
void WriteRowsAndTheirWindows(const TempFolder& folder) {
  constexpr int kRows = 90, kLength = 4, kRate = 2, kStride = 3, kOffset = 9;
  std::vector<float> x, group, y, window_x, window_y;
  std::string csv = "who,a,b,y\n";
  for (int i = 0; i < kRows; ++i) {
    const int a = i * i % 101, b = i % 7, target = i * 5 % 13;
    x.push_back(static_cast<float>(a));
    x.push_back(static_cast<float>(b));
    y.push_back(static_cast<float>(target));
    group.push_back(static_cast<float>(i / 30));
    csv += "p" + std::to_string(i / 30) + "," + std::to_string(a) + "," +
           std::to_string(b) + "," + std::to_string(target) + "\n";
  }
  for (const int begin : {0, 60}) {
    for (int i = begin; i + kOffset < begin + 30; i += kStride) {
      for (int k = 0; k < kLength; ++k) {
        window_x.push_back(x[2 * (i + k * kRate)]);
        window_x.push_back(x[2 * (i + k * kRate) + 1]);
      }
      window_y.push_back(y[i + kOffset]);
    }
  }
  WriteWhole(folder / "d.csv", csv);
  const auto write = [&](const char* name, const Shape& shape,
                         const std::vector<float>& numbers) {
    ASSERT_OK(WriteNpy(folder / name, DType::kFloat32, shape, numbers.data()));
  };
  const auto windows = static_cast<int64_t>(window_y.size());
  write("x.npy", {kRows, 2}, x);
  write("y.npy", {kRows}, y);
  write("who.npy", {kRows}, group);
  write("window_x.npy", {windows, kLength, 2}, window_x);
  write("window_y.npy", {windows}, window_y);
}

// Group 1 is left out, for validation.
TEST_F(ProgramTest, Windows_OfGroupsInAnyForm_TrainAsTheirCopies) {
  WriteRowsAndTheirWindows(folder_);
  const std::string run = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 4, 2]}},
      {"class_name": "SimpleRNN", "config": {"units": 3}},
      {"class_name": "Dense", "config": {"units": 1}}]}},
    "compile": {"optimizer": "adam", "loss": "mse"},
    "data": {"train": {"scale": 0.1, DATA}},
    "fit": {"epochs": 3, "batch_size": 4, "verbose": 2}})";
  const auto train = [&](const std::string& data) {
    WriteWhole(folder_ / "run.json", Replaced(run, "DATA", data));
    EXPECT_EQ(Run({"train", "run.json", "--save", "m", "--log-steps", "s.csv",
                   "--log-digests"}),
              0)
        << err_;
    return ReadWhole(folder_ / "s.csv");
  };
  const std::string expected =
      train(R"("x": "window_x.npy", "y": "window_y.npy")");
  const std::string fields =
      R"("sequence_length": 4, "sampling_rate": 2, "sequence_stride": 3,
         "target_offset": 9, )";
  for (const std::string& data :
       Strings{R"("x": "x.npy", "y": "y.npy", "group": "who.npy",
                  "validation_groups": [1])",
               R"("csv": "d.csv", "group": "who", "label": "y",
                  "validation_groups": ["p1"])",
               R"("csv": "d.csv", "group": 0, "validation_groups": ["p1"],
                  "in_memory": false)"}) {
    SCOPED_TRACE(data);
    EXPECT_EQ(train(fields + data), expected);
    EXPECT_EQ(Run({"evaluate", "m", "--data", "run.json"}), 0) << err_;
    // The last rows have windows too, without a target.
    EXPECT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
    EXPECT_EQ(Lines(out_).size(), 8u) << out_;
  }
  // If rows are left out, a window would join rows that do not follow each
  // other.
  WriteWhole(folder_ / "run.json",
             Replaced(ReadWhole(folder_ / "run.json"), "\"in_memory\": false",
                      "\"missing\": \"drop\""));
  ExpectError({"train", "run.json"}, 2, {"sequence_length", "\"mean\""});
}

// A RUN.json: its model takes 2 rows of `values` and has one output.
std::string WindowsRun(const std::string& data, int values,
                       const std::string& fit = "") {
  return R"({"model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, )" +
         std::to_string(values) + R"(]}},
      {"class_name": "Flatten", "config": {}},
      {"class_name": "Dense", "config": {"units": 1}}]}},
    "compile": {"optimizer": "sgd", "loss": "mse"},
    "data": {)" +
         data + R"(}, "fit": {"epochs": 1)" + fit + "}}";
}

TEST_F(ProgramTest, Windows_GroupsOfArray_EqualItsExactNumbers) {
  const std::vector<float> x(12, 1);
  ASSERT_OK(WriteNpy(folder_ / "x.npy", DType::kFloat32, {12, 1}, x.data()));
  const std::string data = R"("train": {"x": "x.npy", "target_columns": [0],
    "sequence_length": 2, "group": "g.npy")";
  std::vector<int64_t> g;
  for (int64_t i = 0; i < 12; ++i) g.push_back((int64_t{1} << 60) + i / 4);
  ASSERT_OK(WriteNpy(folder_ / "g.npy", DType::kInt64, {12}, g.data()));
  WriteWhole(folder_ / "run.json", WindowsRun(data + "}", 1));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "--part", "train"}), 0)
      << err_;
  EXPECT_EQ(Lines(out_).size(), 9u) << out_;
  WriteWhole(
      folder_ / "run.json",
      WindowsRun(data + R"(, "validation_groups": ["1152921504606846977"]})",
                 1));
  ASSERT_EQ(Run({"train", "run.json", "--no-save"}), 0) << err_;
  WriteWhole(folder_ / "run.json", WindowsRun(data + R"(, "validation_groups": [
               "1152921504606846976", "1152921504606846977",
               "1152921504606846978"]})",
                                              1));
  ExpectError({"train", "run.json"}, 2, {"validation_groups: has all 3"});
  std::vector<double> f = {0.0, -0.0, 0.0, -0.0, 1.5, 1.5,
                           1.5, 1.5,  2,   2,    2,   2};
  ASSERT_OK(WriteNpy(folder_ / "g.npy", DType::kFloat64, {12}, f.data()));
  WriteWhole(folder_ / "run.json",
             WindowsRun(data + R"(, "validation_groups": [1.5]})", 1));
  ASSERT_EQ(Run({"train", "run.json", "--no-save"}), 0) << err_;
  EXPECT_FALSE(Contains(err_, "no window")) << err_;
  f[5] = std::nan("");
  ASSERT_OK(WriteNpy(folder_ / "g.npy", DType::kFloat64, {12}, f.data()));
  ExpectError({"train", "run.json"}, 2, {"g.npy: row 5", "nan"});
}

TEST_F(ProgramTest, Windows_SplitOfOneGroup_NamesTheGroups) {
  WriteWhole(folder_ / "d.csv",
             "g,a,y\np,1,2\np,3,4\np,5,6\np,7,8\np,9,1\nq,1,2\n");
  WriteWhole(folder_ / "run.json",
             WindowsRun(R"("train": {"csv": "d.csv", "group": "g",
                            "sequence_length": 2})",
                        1, ", \"validation_split\": 0.4"));
  EXPECT_EQ(Run({"train", "run.json"}), 2);
  for (const char* text :
       {"note: d.csv: 1 of 2 groups have no window",
        "0.4 of 1 group leaves none to train", "a split needs two"}) {
    EXPECT_TRUE(Contains(err_, text)) << err_;
  }
}

TEST_F(ProgramTest, Windows_ColumnsByNumber_EqualTheFiles) {
  WriteWhole(folder_ / "d.csv",
             "g,a,b\np,1,10\np,2,20\np,,30\np,4,40\np,5,50\n");
  const std::string data = R"("train": {"csv": "d.csv", "group": 0,
    "sequence_length": 2, "missing": {"a": 0}, "target_columns": [)";
  // The loss of the first step is the loss for column b.
  Strings steps;
  for (const char* column : {"2", "-1", "\"b\""}) {
    WriteWhole(folder_ / "run.json", WindowsRun(data + column + "]}", 2));
    ASSERT_EQ(Run({"train", "run.json", "--no-save", "--log-steps", "s.csv"}),
              0)
        << err_;
    steps.push_back(ReadWhole(folder_ / "s.csv"));
    EXPECT_EQ(steps.back(), steps[0]);
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"0", "not a column of x"}, {"3", "3 columns"}, {"1", "fills gaps"}};
  for (const auto& [column, message] : wrong) {
    WriteWhole(folder_ / "run.json", WindowsRun(data + column + "]}", 2));
    ExpectError({"train", "run.json"}, 2, {"target_columns", message});
  }
  WriteWhole(folder_ / "d.csv", "1,a,b\n1,1,10\n1,2,20\n1,3,30\n");
  WriteWhole(folder_ / "run.json",
             WindowsRun(R"("train": {"csv": "d.csv", "header": true,
               "sequence_length": 2, "target_columns": [1]})",
                        3));
  ExpectError({"train", "run.json"}, 2,
              {"target_columns", "the name of one column"});
}

TEST_F(ProgramTest, Windows_GroupColumn_IsReadAsItsTable) {
  // The first line has no names, although its group is a text.
  WriteWhole(folder_ / "d.csv", "p,1,2\np,3,4\np,5,6\nq,7,8\nq,9,1\n");
  const std::string fields = R"("csv": "d.csv", "group": 0,
    "sequence_length": 2)";
  WriteWhole(folder_ / "run.json",
             WindowsRun("\"train\": {\"header\": false, " + fields + "}", 1));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  WriteWhole(folder_ / "run.json",
             WindowsRun("\"train\": {" + fields + "}", 1));
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "--part", "train"}), 0)
      << err_;
  EXPECT_EQ(Lines(out_).size(), 3u) << out_;
  // No model keeps the names of the groups.
  std::string csv = "g,a,y\n";
  for (int i = 0; i < 140000; ++i) {
    csv += "person-" + std::to_string(i / 2) + ",1,2\n";
  }
  WriteWhole(folder_ / "d.csv", csv);
  ASSERT_EQ(Run({"train", "run.json", "--no-save", "--batch-size", "10000"}), 0)
      << err_;
  WriteWhole(folder_ / "d.csv", "g,a,y\np,1,2\n,3,4\np,5,6\n");
  ExpectError({"train", "run.json"}, 2, {"d.csv: line 3", "needs a group"});
}

TEST_F(ProgramTest, Windows_FieldsThatDisagree_AreRefused) {
  WriteWhole(folder_ / "d.csv", "g,a,y\np,1,2\np,3,4\nq,5,6\nq,7,8\n");
  const std::string same = R"("csv": "d.csv", "drop": ["g"],
    "sequence_length": 2)";
  const std::string in_groups = R"("train": {"csv": "d.csv", "group": "g",
    "sequence_length": 2, "validation_groups": ["q"], )";
  const std::pair<std::string, Strings> wrong[] = {
      {"\"train\": {\"target_offset\": 1, " + same + "}, \"validation\": {" +
           same + "}",
       {"data.validation.target_offset", "data.train"}},
      {in_groups + R"("missing": "mean"})", {"missing", "validation_groups"}},
      {in_groups + R"("auto_shard_policy": "off", "own_examples": [4]})",
       {"validation_groups", "own_examples"}}};
  for (const auto& [data, messages] : wrong) {
    WriteWhole(folder_ / "run.json", WindowsRun(data, 1));
    ExpectError({"train", "run.json"}, 2, messages);
  }
}

TEST_F(ProgramTest, Windows_OfAnotherFile_NeedNoLabel) {
  WriteWhole(folder_ / "d.csv", "g,a,y\np,1,2\np,3,4\np,5,6\np,7,8\n");
  WriteWhole(folder_ / "n.csv", "g,a\np,1\np,3\np,5\n");
  const auto run = [&](const std::string& csv) {
    WriteWhole(folder_ / "run.json",
               WindowsRun("\"train\": {\"csv\": \"" + csv +
                              R"(", "group": "g", "label": "y",
                                 "sequence_length": 2, "target_offset": 2})",
                          1));
  };
  run("d.csv");
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  run("n.csv");
  ASSERT_EQ(Run({"predict", "m", "--data", "run.json", "--part", "train"}), 0)
      << err_;
  EXPECT_EQ(Lines(out_).size(), 2u) << out_;
}

class TextDataTest : public ProgramTest {
 protected:
  // d.csv and v.csv are texts, for training and validation. words.txt is the
  // vocabulary of d.csv, and n.csv and nv.csv are the texts as its numbers.
  void SetUp() override {
    WriteWhole(folder_ / "d.csv",
               "mood,text\ngood,A b.\nbad,\"c, a a\"\ngood,b d\nbad,c\n");
    WriteWhole(folder_ / "v.csv", "mood,text\nbad,c e\ngood,b\n");
    WriteWhole(folder_ / "words.txt", "a\nc\nb\n");
    WriteWhole(folder_ / "n.csv",
               "mood,x,y,z\ngood,2,4,0\nbad,3,2,2\ngood,4,1,0\nbad,3,0,0\n");
    WriteWhole(folder_ / "nv.csv", "mood,x,y,z\nbad,3,1,0\ngood,4,0,0\n");
  }

  // Writes run.json with the fields of the data.
  void WriteTextRun(const std::string& train, const std::string& validation) {
    const std::string run = R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 3]}},
        {"class_name": "Embedding", "config": {"input_dim": 5,
                                               "output_dim": 2}},
        {"class_name": "GlobalAveragePooling1D"},
        {"class_name": "Dense", "config": {"units": 2}}]}},
      "compile": {"optimizer": "adam", "loss": {"class_name":
        "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
      "data": {"train": {"label": "mood", TRAIN},
               "validation": {"label": "mood", VALIDATION}},
      "fit": {"epochs": 3, "batch_size": 2, "verbose": 2}})";
    WriteWhole(folder_ / "run.json", Replaced(Replaced(run, "TRAIN", train),
                                              "VALIDATION", validation));
  }
  // The log of the steps.
  std::string Train() {
    EXPECT_EQ(Run({"train", "run.json", "--save", "m", "--log-steps", "s.csv",
                   "--log-digests"}),
              0)
        << err_;
    return ReadWhole(folder_ / "s.csv");
  }
  std::string Predict() {
    EXPECT_EQ(Run({"predict", "m", "--data", "run.json"}), 0) << err_;
    return out_;
  }

  const std::string texts_ = R"("csv": "d.csv", "text": "text",
                                "max_tokens": 5, "output_sequence_length": 3)";
  const std::string body_ = R"("csv": "v.csv", "text": "body",
                               "output_sequence_length": 3)";
};

// The validation data have the vocabulary of the training data.
TEST_F(TextDataTest, Vocabulary_LearnedOrOfAFile_TrainsAsItsNumbers) {
  WriteTextRun(R"("csv": "n.csv")", R"("csv": "nv.csv")");
  const std::string steps = Train(), predicted = Predict();
  for (const char* vocabulary : {"", R"(, "vocabulary": "words.txt")"}) {
    SCOPED_TRACE(vocabulary);
    WriteTextRun(texts_ + vocabulary, R"("csv": "v.csv")");
    EXPECT_EQ(Train(), steps);
    EXPECT_EQ(Predict(), predicted);
  }
}

TEST_F(TextDataTest, Validation_OtherColumn_HasTheSameText) {
  WriteTextRun(texts_, R"("csv": "v.csv")");
  Train();
  const std::string predicted = Predict();
  WriteWhole(folder_ / "v.csv", "mood,text,body\nbad,a,c e\ngood,a,b\n");
  WriteTextRun(texts_, body_);
  EXPECT_EQ(Predict(), predicted);
}

TEST_F(TextDataTest, Validation_OtherSettings_AreRefused) {
  WriteWhole(folder_ / "v.csv", "mood,text,body\nbad,a,c e\ngood,a,b\n");
  WriteTextRun(texts_, body_ + R"(, "standardize": "none")");
  ExpectError({"train", "run.json"}, 2,
              {"data.validation.standardize", "differs from"});
}

TEST_F(TextDataTest, MissingValues_BesideAText_AreRefused) {
  for (const char* field :
       {R"(, "missing": "drop")", R"(, "na_values": ["?"])"}) {
    SCOPED_TRACE(field);
    WriteTextRun(texts_ + field, R"("csv": "v.csv")");
    ExpectError({"train", "run.json"}, 2, {"leave out columns", "missing"});
    WriteTextRun(texts_, std::string(R"("csv": "v.csv")") + field);
    ExpectError({"train", "run.json"}, 2, {"leave out columns", "missing"});
  }
}

TEST_F(TextDataTest, Text_WithoutALength_IsRefused) {
  WriteTextRun(R"("csv": "d.csv", "text": "text", "max_tokens": 5)",
               R"("csv": "v.csv")");
  ExpectError({"train", "run.json"}, 2, {"output_sequence_length"});
}

constexpr char kTextFields[] =
    R"("text": "text", "output_sequence_length": 3, )";
constexpr char kTextRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 3]}},
    {"class_name": "Embedding", "config": {"input_dim": 9, "output_dim": 2}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 1, "activation": "sigmoid"}}]}},
  "compile": {"optimizer": "adam", "loss": "binary_crossentropy"},
  "data": {"train": {"text": "text", "output_sequence_length": 3, "csv":
    "d.csv", "label": "mood"}},
  "fit": {"epochs": 2, "verbose": 0}})";

// A file of other columns, of the text alone and of lines gives the same, also
// when the training data have changed.
TEST_F(ProgramTest, Text_OfASavedModel_NeedsNoRunJson) {
  const std::string csv = "mood,text\ngood,A b.\nbad,\"c, a a\"\nbad,c\n";
  WriteWhole(folder_ / "d.csv", csv);
  const std::string run = kTextRun, text = kTextFields;
  WriteWhole(folder_ / "run.json", run);
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  const Strings by_run = {"--data", "run.json", "--part", "train"};
  const auto with = [](Strings command, const Strings& flags) {
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  };
  ASSERT_EQ(Run(with({"predict", "m"}, by_run)), 0) << err_;
  const std::string predicted = out_;
  ASSERT_EQ(Run(with({"evaluate", "m"}, by_run)), 0) << err_;
  const std::string evaluated = out_.substr(out_.find("loss"));

  WriteWhole(folder_ / "d.csv", "mood,text\ngood,z z y\nbad,c\n");
  WriteWhole(folder_ / "e.csv", csv);
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "e.csv"}), 0) << err_;
  EXPECT_EQ(out_.substr(out_.find("loss")), evaluated);
  const std::string alone = "A b.\n\"c, a a\"\nc\n";
  WriteWhole(folder_ / "p.csv", "text\n" + alone);
  WriteWhole(folder_ / "n.csv", alone);
  for (const Strings& flags : {Strings{"--csv", "e.csv"},
                               {"--csv", "p.csv"},
                               {"--csv", "n.csv", "--no-header"}}) {
    ASSERT_EQ(Run(with({"predict", "m"}, flags)), 0) << err_;
    EXPECT_EQ(out_, predicted);
  }
  stdin_ = folder_ / "p.csv";
  ASSERT_EQ(Run({"predict", "m", "--csv", "-"}), 0) << err_;
  EXPECT_EQ(out_, predicted);
  stdin_.clear();
  ASSERT_EQ(Run({"inspect", "m"}), 0) << err_;
  EXPECT_NE(out_.find("column 'text', 5 tokens"), std::string::npos) << out_;
  ExpectError({"predict", "m", "--csv", "n.csv"}, 2, {"n.csv", "'text'"});

  // Other fields, at --data and in a further training.
  const std::pair<const char*, Strings> others[] = {
      {R"("standardize": "lower", )", {"standardize", "lower"}},
      {R"("split": "character", )", {"split", "whitespace"}},
      {R"("max_tokens": 3, )", {"max_tokens", "5 tokens"}},
      {R"("vocabulary": "w.txt", )", {"w.txt", "token 2", "'b'"}}};
  WriteWhole(folder_ / "w.txt", "a\nb\nc\n");
  const size_t model = run.find("{\"class_name"), end = run.find("\"compile");
  const std::string further =
      Replaced(run, run.substr(model, end - model), R"("m", )");
  for (const auto& [fields, message_parts] : others) {
    WriteWhole(folder_ / "run.json", Replaced(run, text, text + fields));
    ExpectError(with({"evaluate", "m"}, by_run), 2, message_parts);
    WriteWhole(folder_ / "run.json", Replaced(further, text, text + fields));
    ExpectError({"train", "run.json"}, 2, message_parts);
  }
  WriteWhole(folder_ / "run.json",
             Replaced(run, R"("text": "text")", R"("text": "mood")"));
  ExpectError(with({"evaluate", "m"}, by_run), 2, {"mood", "label"});
  // A further training takes the model's vocabulary.
  WriteWhole(folder_ / "run.json", further);
  ASSERT_EQ(Run({"train", "run.json", "--save", "m2"}), 0) << err_;
  ASSERT_EQ(Run({"inspect", "m2"}), 0) << err_;
  EXPECT_NE(out_.find("column 'text', 5 tokens"), std::string::npos) << out_;
}

TEST_F(ProgramTest, Text_VocabularyThatNoFileCanHave_IsKnownByItsDigest) {
  const std::string csv = "mood,text\n1,caf\xe9\n0,b\n";
  WriteWhole(folder_ / "d.csv", csv);
  WriteWhole(folder_ / "run.json", kTextRun);
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  EXPECT_NE(err_.find("a digest of it"), std::string::npos) << err_;
  ExpectError({"evaluate", "m", "--csv", "d.csv"}, 2, {"digest", "RUN.json"});
  const Strings by_run = {"evaluate", "m",      "--data",
                          "run.json", "--part", "train"};
  EXPECT_EQ(Run(by_run), 0) << err_;
  WriteWhole(folder_ / "d.csv", csv + "0,caf\xe9\n");
  EXPECT_EQ(Run(by_run), 0) << err_;
  WriteWhole(folder_ / "d.csv", csv + "0,c\n");
  ExpectError(by_run, 2, {"d.csv", "5 tokens", "digest"});
}

// The difference in one of the 2,000 written examples.
enum class Changed { kNothing, kLabel, kValue };

// Two values and a label, as tables, arrays and an NPZ file.
void WriteExamples(const TempFolder& folder, Changed changed) {
  constexpr int64_t kExamples = 2000;
  constexpr size_t kChanged = 5;  // not one of the 64 that are sampled
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = 0; i < kExamples; ++i) {
    x.insert(x.end(), 2, static_cast<float>(i % 7));
    y.push_back(i % 3);
  }
  if (changed == Changed::kLabel) y[kChanged] = (y[kChanged] + 1) % 3;
  if (changed == Changed::kValue) x[2 * kChanged] += 1;
  std::string rows = "a,b,y\n", values = "a,b\n";
  for (size_t i = 0; i < y.size(); ++i) {
    const std::string row =
        std::to_string(x[2 * i]) + "," + std::to_string(i % 7);
    values += row + "\n";
    rows += row + "," + std::to_string(y[i]) + "\n";
  }
  WriteWhole(folder / "d.csv", rows);
  WriteWhole(folder / "v.csv", values);
  const Shape x_shape = {kExamples, 2}, y_shape = {kExamples};
  ASSERT_OK(WriteNpy(folder / "x.npy", DType::kFloat32, x_shape, x.data()));
  ASSERT_OK(WriteNpy(folder / "y.npy", DType::kInt64, y_shape, y.data()));
  NpzWriter npz;
  ASSERT_OK(npz.Open(PosixFiles(), folder / "d.npz"));
  ASSERT_OK(npz.Add("x", DType::kFloat32, x_shape, x.data()));
  ASSERT_OK(npz.Add("y", DType::kInt64, y_shape, y.data()));
  ASSERT_OK(npz.Finish());
}

// The models that NAME.json has saved.
int CountModels(const TempFolder& folder, const std::string& name) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::filesystem::path& file = entry.path();
    models += file.extension() == ".safetensors" &&
              file.filename().string().find(name) == 0;
  }
  return models;
}

// A model of other data is not replaced, whatever example differs.
TEST_F(ProgramTest, DataOnDisk_OneExampleChanged_IsAnotherRun) {
  const std::string run = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
      {"class_name": "Dense", "config": {"units": 3,
                                         "activation": "softmax"}}]}},
    "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
    "data": {"train": {"in_memory": false, FORM}},
    "fit": {"steps_per_epoch": 1}})";
  int number = 0;
  for (const std::string& form :
       Strings{R"("csv": "d.csv")", R"("x": "d.npz:x", "y": "d.npz:y")",
               R"("x": ["d.npz:x"], "y": ["d.npz:y"])",
               R"("x": ["v.csv"], "y": ["d.npz:y"])",
               R"("x": "x.npy", "y": "y.npy")",
               R"("x": ["x.npy"], "y": ["y.npy"])"}) {
    SCOPED_TRACE(form);
    const std::string name = "r" + std::to_string(++number);
    WriteWhole(folder_ / (name + ".json"), Replaced(run, "FORM", form));
    const auto train = [&] {
      EXPECT_EQ(Run({"train", name + ".json"}), 0) << err_;
      return CountModels(folder_, name);
    };
    WriteExamples(folder_, Changed::kNothing);
    EXPECT_EQ(train(), 1);
    EXPECT_EQ(train(), 1);
    WriteExamples(folder_, Changed::kLabel);
    EXPECT_EQ(train(), 2);
    WriteExamples(folder_, Changed::kNothing);
    EXPECT_EQ(train(), 2);
    // No pass reads the examples of an NPY file.
    if (form.find("npy") != std::string::npos) continue;
    WriteExamples(folder_, Changed::kValue);
    EXPECT_EQ(train(), 3);
  }
}

}  // namespace
}  // namespace ringlet
