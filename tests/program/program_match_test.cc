// Columns and texts of a run's files that must match: of --init, of the
// validation, and of workers with their own examples.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../support/contains.h"
#include "../support/program.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

class MatchTest : public ProgramTest {
 protected:
  // A run on `train` and, unless it is empty, `validation`; x has `width`
  // values.
  static std::string RunOf(int width, const std::string& train,
                           const std::string& validation = "") {
    return R"({"model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, )" +
           std::to_string(width) + R"(]}},
        {"class_name": "Dense", "config": {"units": 2}}]}},
      "compile": {"optimizer": "sgd", "loss": {"class_name":
        "SparseCategoricalCrossentropy", "config": {"from_logits": true}}},
      "data": {"train": {)" +
           train + "}" +
           (validation.empty() ? ""
                               : ", \"validation\": {" + validation + "}") +
           R"(}, "fit": {"epochs": 1, "batch_size": 2, "verbose": 0}})";
  }
};

TEST_F(MatchTest, Init_ColumnsInAnotherOrder_AreReported) {
  WriteWhole(folder_ / "d.csv", "a,b,kind\n1,2,0\n3,4,1\n");
  WriteWhole(folder_ / "other.csv", "b,a,kind\n2,1,0\n4,3,1\n");
  WriteWhole(folder_ / "run.json", RunOf(2, R"("csv": "d.csv")"));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  const std::string note =
      "note: --init m: its weights are for the columns in this order: 'a', "
      "'b'; the data have: 'b', 'a'; \"columns\" in RUN.json can give the "
      "first order";
  const auto printed_by = [&](const std::string& train) {
    WriteWhole(folder_ / "run.json", RunOf(2, train));
    EXPECT_EQ(Run({"train", "run.json", "--init", "m", "--no-save"}), 0);
    return err_;
  };
  EXPECT_TRUE(Contains(printed_by(R"("csv": "other.csv")"), note));
  EXPECT_EQ(printed_by(R"("csv": "d.csv")"), "");
  EXPECT_EQ(printed_by(R"("csv": "other.csv", "columns": ["a", "b"])"), "");
}

TEST_F(MatchTest, Classes_WithoutAnExample_AreReported) {
  WriteWhole(folder_ / "d.csv", "a,b,kind\n1,2,auk\n3,4,emu\n");
  WriteWhole(folder_ / "run.json", RunOf(2, R"("csv": "d.csv")"));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  WriteWhole(folder_ / "e.csv", "a,b,kind\n1,2,emu\n");
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "e.csv"}), 0) << err_;
  EXPECT_EQ(err_,
            "note: e.csv: has no example of 1 of the 2 classes: "
            "'auk'\n");
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "d.csv"}), 0) << err_;
  EXPECT_EQ(err_, "");
  ASSERT_EQ(Run({"predict", "m", "--csv", "e.csv"}), 0) << err_;
  EXPECT_EQ(err_, "");
}

// The columns of label and weights are the same as in training.
TEST_F(MatchTest, Evaluate_CsvWithTheWeights_UsesThem) {
  const std::string rows = "a,b,kind,w\n1,2,0,1\n3,4,1,0\n5,0,0,3\n";
  WriteWhole(folder_ / "d.csv", rows);
  const std::string data =
      R"("csv": "d.csv", "label": "kind", "sample_weight": "w")";
  WriteWhole(folder_ / "run.json", RunOf(2, data, data));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0);
  const std::string weighted = out_;
  const auto evaluated = [&](const std::string& csv, const Strings& more = {}) {
    WriteWhole(folder_ / "e.csv", csv);
    Strings words = {"evaluate", "m", "--csv", "e.csv", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(Run(words), 0) << err_;
    return out_;
  };
  EXPECT_EQ(evaluated(rows), weighted);
  EXPECT_TRUE(Contains(err_, "note: e.csv: its column of sample weights"));
  EXPECT_EQ(evaluated("w,b,a,kind\n1,2,1,0\n0,4,3,1\n3,0,5,0\n"), weighted);
  EXPECT_EQ(evaluated("1,2,0,1\n3,4,1,0\n5,0,0,3\n", {"--no-header"}),
            weighted);
  // A file may lack the weights.
  EXPECT_NE(evaluated("a,b,kind\n1,2,0\n3,4,1\n5,0,0\n"), weighted);
  EXPECT_EQ(err_, "");
}

TEST_F(MatchTest, ValidationText_OfItsOwnColumn_HasTheLengthOfTraining) {
  WriteWhole(folder_ / "d.csv", "kind,text\n0,a b c\n1,b\n");
  WriteWhole(folder_ / "v.csv", "kind,text,body\n0,x,b a\n1,y,c\n");
  const std::string train =
      R"("csv": "d.csv", "label": "kind", "text": "text")";
  const std::string length = R"(, "output_sequence_length": 3)";
  const std::string validation =
      R"("csv": "v.csv", "label": "kind", "text": "body")";
  const auto losses = [&](const std::string& own) {
    WriteWhole(folder_ / "run.json", RunOf(3, train + length, own));
    EXPECT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
    EXPECT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json"}), 0)
        << err_;
    return out_;
  };
  EXPECT_EQ(losses(validation), losses(validation + length));
  // Without the length in data.train the validation has none.
  WriteWhole(folder_ / "run.json", RunOf(3, train, validation));
  ExpectError({"train", "run.json"}, 2,
              {"data.train.text: needs \"output_sequence_length\""});
  WriteWhole(folder_ / "run.json", RunOf(3, R"("csv": "d.csv")", validation));
  ExpectError({"train", "run.json"}, 2,
              {"data.validation.text: needs \"output_sequence_length\""});
}

// Two workers, each with a folder of its own.
class OwnFilesTest : public MatchTest {
 protected:
  // The exit code; err_ has what both have printed.
  int TrainBoth(const std::string& run, const std::string& of_0,
                const std::string& of_1) {
    for (const auto& [folder, csv] :
         {std::pair("w0", of_0), std::pair("w1", of_1)}) {
      std::filesystem::create_directories(folder_ / folder);
      WriteWhole(folder_ / folder + "/run.json", run);
      WriteWhole(folder_ / folder + "/own.csv", csv);
    }
    const std::string script =
        "worker=${TF_CONFIG##*\\\"index\\\":}; worker=${worker%%\\}*}; "
        "cd w$((worker)) && exec " +
        std::filesystem::absolute(Program("tools/ringlet/ringlet")).string() +
        " train run.json --no-save";
    return Run({"launch", "-n", "2", "--", "sh", "-c", script});
  }
};

constexpr char kOwn[] =
    R"("csv": "own.csv", "label": "y", "auto_shard_policy": "off",
       "own_examples": [2, 2], )";

TEST_F(OwnFilesTest, WhatWorkersLearn_OtherOnOne_IsRefused) {
  const std::string text =
      std::string(kOwn) + R"("text": "t", "output_sequence_length": 2)";
  const std::string csv = "t,y\na b,0\nb,1\n", other = "t,y\na c,0\nc,1\n";
  ASSERT_EQ(TrainBoth(RunOf(2, text), csv, csv), 0) << err_;
  const Strings advice = {"each worker learns them from its own examples",
                          "begin with a saved model that has them"};
  const auto refuses = [&](const std::string& train, const std::string& of_1,
                           const std::string& what) {
    SCOPED_TRACE(what);
    EXPECT_EQ(TrainBoth(RunOf(2, train), csv, of_1), 2);
    EXPECT_TRUE(Contains(err_, what));
    for (const std::string& part : advice) EXPECT_TRUE(Contains(err_, part));
  };
  refuses(text, other,
          "the names of the tokens is c, a on rank 1, but b, a on rank 0");
  for (const char* worker : {"w0", "w1"}) {
    WriteWhole(folder_ / worker + "/words.txt", "a\nb\nc\n");
  }
  EXPECT_EQ(
      TrainBoth(RunOf(2, text + R"(, "vocabulary": "words.txt")"), csv, other),
      0)
      << err_;
  refuses(
      std::string(kOwn) + R"("categorical": ["t"])", "t,y\na b,0\nc,1\n",
      "the names of the categories and means is column 0, a b, c on rank 1");
}

TEST_F(OwnFilesTest, Normalization_Adapts_IsRefused) {
  const std::string own = std::string(kOwn) + R"("header": true)";
  const std::string csv = "a,b,y\n1,2,0\n3,4,1\n";
  const std::string dense = R"({"class_name": "Dense")";
  const std::string run = Replaced(
      RunOf(2, own), dense, R"({"class_name": "Normalization"}, )" + dense);
  EXPECT_EQ(TrainBoth(run, csv, csv), 2);
  EXPECT_TRUE(Contains(err_,
                       "adapts to the data, but each worker has its own "
                       "examples; give mean and variance"));
}

TEST_F(OwnFilesTest, Means_OfASavedModel_EqualBoth) {
  const std::string train = std::string(kOwn) + R"("missing": "mean")";
  const std::string csv = "a,b,y\n1,2,0\n,3,1\n",
                    other = "a,b,y\n,2,0\n5,3,1\n";
  EXPECT_EQ(TrainBoth(RunOf(2, train), csv, other), 2);
  EXPECT_TRUE(
      Contains(err_, "the names of the categories and means is column 0, 5"));
  WriteWhole(folder_ / "d.csv", csv);
  WriteWhole(folder_ / "run.json",
             RunOf(2, R"("csv": "d.csv", "missing": "mean")"));
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  const std::string whole = RunOf(2, train);
  const std::string further =
      "{\"model\": \"../m\", " + whole.substr(whole.find("\"compile\""));
  EXPECT_EQ(TrainBoth(further, csv, other), 0) << err_;
}

}  // namespace
}  // namespace ringlet
