// CSV files without names, and with the label at any place.

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

class HeaderTest : public ProgramTest {
 protected:
  void SetUp() override { WriteWhole(folder_ / "d.csv", rows_); }

  // csv.json, with these fields of its data.
  void WriteCsvRun(const std::string& fields) {
    const std::string run = R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
        {"class_name": "Dense", "config": {"units": 2,
                                         "activation": "softmax"}}]}},
      "compile": {"optimizer": "sgd",
                  "loss": "sparse_categorical_crossentropy"},
      "data": {"train": {FIELDS}},
      "fit": {"batch_size": 1, "shuffle": false}})";
    WriteWhole(folder_ / "csv.json", Replaced(run, "FIELDS", fields));
  }
  void TrainWithoutHeader() {
    WriteCsvRun(R"("csv": "d.csv")");
    ASSERT_EQ(Run({"train", "csv.json", "--save", "m"}), 0) << err_;
  }

  const std::string rows_ = "5.5,3.5,0\n4.5,3,1\n6,2,0\n5,2.5,1\n";
  const std::string note_ =
      "note: d.csv: line 1 holds numbers and is read as data, not as names; if "
      "that is wrong, set \"header\": true in RUN.json (evaluate, predict: "
      "--header)\n";
};

TEST_F(HeaderTest, Train_FirstLineOfNumbers_IsARowWithANote) {
  TrainWithoutHeader();
  EXPECT_TRUE(Contains(err_, note_));
  EXPECT_TRUE(Contains(out_, "4/4 - "));
}

TEST_F(HeaderTest, Train_FieldHeader_FirstLineIsNoRow) {
  WriteCsvRun(R"("csv": "d.csv", "header": true)");
  ASSERT_EQ(Run({"train", "csv.json"}), 0) << err_;
  EXPECT_FALSE(Contains(err_, "note: d.csv"));
  EXPECT_TRUE(Contains(out_, "3/3 - "));
}

TEST_F(HeaderTest, Predict_FlagsOfHeader_DecideOverTheFirstLine) {
  TrainWithoutHeader();
  ASSERT_EQ(Run({"predict", "m", "--csv", "d.csv"}), 0) << err_;
  EXPECT_EQ(err_, note_);
  EXPECT_EQ(Lines(out_).size(), 4u);
  ASSERT_EQ(Run({"predict", "m", "--csv", "d.csv", "--header"}), 0) << err_;
  EXPECT_EQ(err_, "");
  EXPECT_EQ(Lines(out_).size(), 3u);
  ASSERT_EQ(Run({"predict", "m", "--csv", "d.csv", "--no-header"}), 0) << err_;
  EXPECT_EQ(err_, "");
  EXPECT_EQ(Lines(out_).size(), 4u);
}

TEST_F(HeaderTest, Flags_OfHeaderTogetherOrWithData_AreRefused) {
  TrainWithoutHeader();
  ExpectError({"predict", "m", "--csv", "d.csv", "--header", "--no-header"}, 2,
              {"--header or --no-header"});
  ExpectError({"evaluate", "m", "--data", "csv.json", "--header"}, 2,
              {"only with --csv"});
}

TEST_F(HeaderTest, Train_WritesToALinkToItsData_IsRefused) {
  WriteCsvRun(R"("csv": "d.csv")");
  for (const char* flag : {"--save", "--log-steps"}) {
    ASSERT_EQ(symlink("d.csv", (folder_ / "same").c_str()), 0);
    ExpectError({"train", "csv.json", flag, "same"}, 2,
                {std::string(flag) + " same: holds the data that are read"});
    ASSERT_EQ(unlink((folder_ / "same").c_str()), 0);
  }
  EXPECT_EQ(ReadWhole(folder_ / "d.csv"), rows_);
}

TEST_F(HeaderTest, Labels_ThatAreNames_BecomeClasses) {
  WriteWhole(folder_ / "d.csv", "a,b,kind\n5.5,3.5,x\n4.5,3,y\n6,2,x\n");
  TrainWithoutHeader();
  EXPECT_TRUE(
      Contains(err_,
               "note: d.csv: labels are names, classes in their order: 0 "
               "'x', 1 'y'\n"));
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "d.csv"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "m", "--csv", "d.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 4u);
}

// The model keeps where the label is, for further uses of such files.
TEST_F(ProgramTest, Csv_LabelInFrontWithoutAHeader_IsFoundAgain) {
  WriteWhole(folder_ / "d.csv", "0,5.5,3.5\n1,4.5,3\n0,6,2\n1,5,2.5\n");
  const auto write = [&](const std::string& name, const std::string& model,
                         const std::string& more) {
    WriteWhole(folder_ / name, R"({"model": )" + model + R"(,
      "data": {"train": {"csv": "d.csv", "header": false)" +
                                   more + R"(}},
      "fit": {"batch_size": 3, "seed": 4}})");
  };
  for (const bool drops : {false, true}) {
    SCOPED_TRACE(drops);
    const std::string values = drops ? "1" : "2";
    write("run.json",
          R"({"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, )" +
              values + R"(]}},
        {"class_name": "Dense", "config": {"units": 2,
                                           "activation": "softmax"}}]}},
      "compile": {"optimizer": "sgd", "metrics": ["accuracy"],
                  "loss": "sparse_categorical_crossentropy"})",
          std::string(R"(, "label": 0)") + (drops ? R"(, "drop": [2])" : ""));
    ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
    ASSERT_EQ(Run({"evaluate", "m", "--data", "run.json", "--json", "--part",
                   "train"}),
              0)
        << err_;
    const std::string logs = out_;
    ASSERT_EQ(Run({"evaluate", "m", "--csv", "d.csv", "--no-header", "--json"}),
              0)
        << err_;
    EXPECT_EQ(out_, logs);
    ASSERT_EQ(Run({"predict", "m", "--csv", "d.csv", "--no-header"}), 0)
        << err_;
    EXPECT_EQ(Lines(out_).size(), 4u);
    if (!drops) {  // rows without a label
      WriteWhole(folder_ / "x.csv", "5.5,3.5\n4.5,3\n");
      ASSERT_EQ(Run({"predict", "m", "--csv", "x.csv", "--no-header"}), 0)
          << err_;
      EXPECT_EQ(Lines(out_).size(), 2u);
    }
    write("more.json", "\"m\"", "");
    ASSERT_EQ(Run({"train", "more.json", "--save", "n"}), 0) << err_;
    ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv", "--no-header"}), 0)
        << err_;
  }
}

// The label of the last training counts, and a label that is given.
TEST_F(ProgramTest, Csv_LabelAtAnotherPlaceInFurtherTraining_IsFoundAgain) {
  WriteWhole(folder_ / "d.csv", "90,1,2,3\n91,2,3,5\n92,3,5,8\n93,5,8,13\n");
  const auto train = [&](const std::string& model, const std::string& label,
                         const std::string& to) {
    WriteWhole(folder_ / "run.json", R"({"model": )" + model + R"(,
      "data": {"train": {"csv": "d.csv", "header": false, "label": )" +
                                         label + R"(}},
      "fit": {"batch_size": 4, "seed": 4}})");
    ASSERT_EQ(Run({"train", "run.json", "--save", to}), 0) << err_;
  };
  const auto loss = [&](Strings more) {
    Strings line = {"evaluate", more[0],       "--csv",
                    "d.csv",    "--no-header", "--json"};
    line.insert(line.end(), more.begin() + 1, more.end());
    EXPECT_EQ(Run(line), 0) << err_;
    return out_;
  };
  train(R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 3]}},
    {"class_name": "Dense", "config": {"units": 1}}]}},
    "compile": {"optimizer": {"class_name": "SGD",
                              "config": {"learning_rate": 1e-9}},
                "loss": "mean_squared_error"})",
        "0", "front");
  EXPECT_EQ(loss({"front"}), loss({"front", "--label", "0"}));
  EXPECT_NE(loss({"front"}), loss({"front", "--label", "-1"}));
  EXPECT_EQ(loss({"front", "--label", "3"}), loss({"front", "--label", "-1"}));
  for (const char* last : {"3", "-1"}) {
    SCOPED_TRACE(last);
    train("\"front\"", last, "last");
    EXPECT_EQ(loss({"last"}), loss({"last", "--label", "3"}));
    EXPECT_NE(loss({"last"}), loss({"last", "--label", "0"}));
  }
  train("\"last\"", "1", "second");
  EXPECT_EQ(loss({"second"}), loss({"second", "--label", "1"}));
  for (const char* name : {"-", "1-2", "99999999999"}) {
    ExpectError({"evaluate", "last", "--csv", "d.csv", "--label", name}, 2,
                {std::string("no column named '") + name + "'"});
  }
}

}  // namespace
}  // namespace ringlet
