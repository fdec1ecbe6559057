// Tables with names of columns and classes: a saved model finds them in other
// data.

#include <gtest/gtest.h>

#include <string>

#include "../support/contains.h"
#include "../support/data_files.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// Four birds of two values; only b separates the classes.
constexpr char kBirdRun[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2]}},
    {"class_name": "Dense", "config": {"units": 3, "activation": "softmax"}}]}},
  "compile": {"optimizer": {"class_name": "SGD",
                            "config": {"learning_rate": 0.5}},
              "loss": "sparse_categorical_crossentropy",
              "metrics": ["accuracy"]},
  "data": {"train": {"csv": "d.csv"}, "validation": {"csv": "v.csv"}},
  "fit": {"epochs": 60}})";

class BirdTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    WriteWhole(folder_ / "run.json", kBirdRun);
    WriteWhole(folder_ / "d.csv",
               "a,b,bird\n1,-2,emu\n2,0,auk\n1,2,owl\n2,2,owl\n");
    WriteWhole(folder_ / "v.csv", "b,bird,a\n2,owl,1\n-2,emu,1\n");
    ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  }

  // Trains the model "n" of n.json, with a Normalization that adapts.
  // *evaluated becomes the text that evaluate prints for it.
  void TrainAdapted(std::string* evaluated) {
    WriteWhole(folder_ / "n.json",
               Replaced(kBirdRun, "{\"class_name\": \"Dense\"",
                        "{\"class_name\": \"Normalization\", \"config\": "
                        "{\"name\": \"norm\"}}, {\"class_name\": \"Dense\""));
    ASSERT_EQ(Run({"train", "n.json", "--save", "n"}), 0) << err_;
    ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv", "--json"}), 0) << err_;
    *evaluated = out_;
  }
};

TEST_F(BirdTest, ValidationData_OtherOrderAndFewerClasses_IsMatchedByName) {
  EXPECT_TRUE(Contains(out_, "val_accuracy: 1.0000"));
}

TEST_F(BirdTest, Evaluate_OtherOrderAndMoreColumns_IsTheSame) {
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "d.csv", "--json"}), 0) << err_;
  const std::string same = out_;
  WriteWhole(folder_ / "e.csv",
             "bird,note,b,a\nemu,x,-2,1\nauk,,0,2\nowl,y,2,1\nowl,z,2,2\n");
  ASSERT_EQ(
      Run({"evaluate", "m", "--csv", "e.csv", "--label", "bird", "--json"}), 0)
      << err_;
  EXPECT_EQ(out_, same);
  EXPECT_TRUE(
      Contains(err_, "ignores columns that the model does not take: 'note'"));
}

TEST_F(BirdTest, Evaluate_UnknownClassOrColumn_IsRefused) {
  WriteWhole(folder_ / "e.csv", "a,b,bird\n1,-2,emu\n2,0,kiwi\n");
  ExpectError({"evaluate", "m", "--csv", "e.csv"}, 2,
              {"e.csv: line 3, column 3 ('bird'): the label 'kiwi' is not one "
               "of the 3 classes",
               "0 'auk', 1 'emu', 2 'owl'"});
  WriteWhole(folder_ / "e.csv", "a,c,bird\n1,-2,emu\n");
  ExpectError({"evaluate", "m", "--csv", "e.csv"}, 2,
              {"e.csv: line 1: no column is named 'b'"});
  ExpectError({"predict", "m", "--csv", "e.csv"}, 2,
              {"e.csv: line 1: no column is named 'b'"});
}

TEST_F(BirdTest, Predict_ClassesHaveNames_WritesClassAndProbability) {
  WriteWhole(folder_ / "x.csv", "b,a\n-2,1\n2,2\n");
  ASSERT_EQ(Run({"predict", "m", "--csv", "x.csv"}), 0) << err_;
  const Strings lines = Lines(out_);
  ASSERT_EQ(lines.size(), 3u) << out_;
  EXPECT_EQ(lines[0], "class,probability,auk,emu,owl");
  EXPECT_EQ(lines[1].substr(0, 4), "emu,");
  EXPECT_EQ(lines[2].substr(0, 4), "owl,");
  // The probability is the largest of the outputs.
  std::istringstream row(lines[1]);
  Strings fields;
  for (std::string field; std::getline(row, field, ',');) {
    fields.push_back(field);
  }
  ASSERT_EQ(fields.size(), 5u);
  EXPECT_EQ(fields[1], fields[3]);
  ASSERT_EQ(Run({"export", "m", "--format", "onnx", "--out", "m.onnx"}), 0);
  EXPECT_TRUE(
      Contains(ReadWhole(folder_ / "m.onnx"), R"(["auk","emu","owl"])"));
}

TEST_F(BirdTest, Predict_LogitsOrOtherLosses_HaveAProbabilityOrNoName) {
  const std::string run = ReadWhole(folder_ / "run.json");
  const std::string from_logits =
      R"({"class_name": "SparseCategoricalCrossentropy",
          "config": {"from_logits": true}})";
  const std::string loss = "\"sparse_categorical_crossentropy\"";
  const auto predicted = [&](const std::string& json) {
    WriteWhole(folder_ / "other.json", json);
    EXPECT_EQ(Run({"train", "other.json", "--save", "n"}), 0) << err_;
    EXPECT_EQ(Run({"predict", "n", "--csv", "d.csv"}), 0) << err_;
    return Lines(out_);
  };
  const Strings logits = predicted(Replaced(
      Replaced(run, ", \"activation\": \"softmax\"", ""), loss, from_logits));
  ASSERT_EQ(logits.size(), 5u);
  EXPECT_EQ(logits[1].substr(0, 6), "emu,0.") << logits[1];
  // The outputs are probabilities already.
  const Strings both = predicted(Replaced(run, loss, from_logits));
  std::istringstream row(both[1]);
  Strings fields;
  for (std::string field; std::getline(row, field, ',');) {
    fields.push_back(field);
  }
  ASSERT_EQ(fields.size(), 5u);
  EXPECT_EQ(fields[1], fields[3]);
  // Two classes with one output of another loss.
  WriteWhole(folder_ / "d.csv", "a,b,bird\n1,-2,emu\n2,0,auk\n");
  WriteWhole(folder_ / "v.csv", "a,b,bird\n1,-2,emu\n");
  const std::string one = Replaced(
      run, "\"units\": 3, \"activation\": \"softmax\"", "\"units\": 1");
  EXPECT_EQ(predicted(Replaced(one, loss, "\"hinge\"")).size(), 2u);
  const Strings sigmoid =
      predicted(Replaced(Replaced(one, "\"units\": 1",
                                  "\"units\": 1, \"activation\": \"sigmoid\""),
                         loss, "\"binary_crossentropy\""));
  EXPECT_EQ(sigmoid[0], "class,probability,emu");
}

TEST_F(BirdTest, Evaluate_FewerClassesThanUnits_IsPossible) {
  WriteWhole(folder_ / "run.json", Replaced(ReadWhole(folder_ / "run.json"),
                                            "\"units\": 3", "\"units\": 4"));
  ASSERT_EQ(Run({"train", "run.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "v.csv"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_)[0], "class,probability,auk,emu,owl,unit 3");
  // A row needs no label for it, and may have any.
  WriteWhole(folder_ / "u.csv", "1,-2,unknown\n2,0,unknown\n");
  ASSERT_EQ(Run({"predict", "n", "--csv", "u.csv", "--no-header"}), 0) << err_;
}

TEST_F(BirdTest, Train_FromTheSavedModelWithoutNames_KeepsTheKnownOnes) {
  WriteWhole(folder_ / "d.csv", "1,-2,1\n2,0,0\n1,2,2\n2,2,2\n");
  const std::string run = ReadWhole(folder_ / "run.json");
  WriteWhole(folder_ / "more.json",
             R"({"model": "m", "data": {"train": {"csv": "d.csv"}}})");
  ASSERT_EQ(Run({"train", "more.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_)[0], "class,probability,auk,emu,owl");
  WriteWhole(folder_ / "e.csv", "b,a,bird\n0,2,kiwi\n");
  ExpectError({"evaluate", "n", "--csv", "e.csv"}, 2, {"the label 'kiwi'"});
}

// A list, a layer's name, or one file: the columns are matched by name.
TEST_F(BirdTest, Parts_OfOneInput_AreMatchedAndDescribed) {
  WriteWhole(folder_ / "named.json",
             Replaced(kBirdRun, "\"batch_shape\"",
                      "\"name\": \"in\", \"batch_shape\""));
  ASSERT_EQ(Run({"train", "named.json", "--save", "base"}), 0) << err_;
  WriteWhole(folder_ / "x.csv", "b,a\n-2,1\n0,2\n2,1\n");
  WriteWhole(folder_ / "y.csv", "kind\n1\n0\n2\n");
  for (const char* x : {"[\"x.csv\"]", "{\"in\": \"x.csv\"}", "\"x.csv\""}) {
    SCOPED_TRACE(x);
    const std::string part =
        "{\"x\": " + std::string(x) + ", \"y\": [\"y.csv\"]}";
    WriteWhole(folder_ / "parts.json",
               R"({"model": "base", "data": {"train": )" + part +
                   ", \"validation\": " + part + R"(}, "fit": {"epochs": 1}})");
    ASSERT_EQ(Run({"train", "parts.json", "--save", "n"}), 0) << err_;
    EXPECT_TRUE(Contains(out_, "val_accuracy: 1.0000"));
    for (const char* model : {"base", "n"}) {
      ASSERT_EQ(
          Run({"evaluate", model, "--data", "parts.json", "--part", "train"}),
          0)
          << err_;
      EXPECT_TRUE(Contains(out_, "accuracy: 1.0000"));
    }
    ASSERT_EQ(Run({"predict", "n", "--csv", "x.csv"}), 0) << err_;
    ASSERT_EQ(Lines(out_).size(), 4u);
    EXPECT_EQ(Lines(out_)[0], "class,probability,auk,emu,owl");
    EXPECT_EQ(Lines(out_)[1].substr(0, 4), "emu,");
  }
}

// A scale that is given nowhere, in a part, in the data, or in both, is the
// scale of training and of validation.
TEST_F(BirdTest, Scale_OfPartsAndFurtherTraining_IsTheSameForAllData) {
  WriteWhole(
      folder_ / "s.json",
      Replaced(Replaced(kBirdRun, "\"d.csv\"", "\"d.csv\", \"scale\": 0.1"),
               "\"v.csv\"", "\"v.csv\", \"scale\": 0.1"));
  WriteWhole(folder_ / "d.csv",
             "a,b,bird\n10,-20,emu\n20,0,auk\n10,20,owl\n20,20,owl\n");
  WriteWhole(folder_ / "v.csv", "a,b,bird\n10,-20,emu\n20,0,auk\n10,20,owl\n");
  WriteWhole(folder_ / "x.csv", "a,b\n10,-20\n20,0\n10,20\n");
  WriteWhole(folder_ / "y.csv", "kind\n1\n0\n2\n");
  ASSERT_EQ(Run({"train", "s.json", "--save", "base"}), 0) << err_;
  for (const std::string data :
       {R"({"csv": "v.csv"})", R"({"x": "x.csv", "y": ["y.csv"]})",
        R"({"x": [{"file": "x.csv", "scale": 0.1}], "y": ["y.csv"]})",
        R"({"x": [{"file": "x.csv", "scale": 0.5}], "y": ["y.csv"],
            "scale": 0.2})"}) {
    SCOPED_TRACE(data);
    WriteWhole(folder_ / "more.json",
               R"({"model": "base", "data": {"train": )" + data +
                   ", \"validation\": " + data + R"(}, "fit": {"epochs": 1}})");
    ASSERT_EQ(Run({"train", "more.json", "--save", "n"}), 0) << err_;
    EXPECT_FALSE(Contains(err_, "warning"));
    EXPECT_TRUE(Contains(out_, "val_accuracy: 1.0000"));
    ASSERT_EQ(Run({"evaluate", "n", "--csv", "v.csv"}), 0) << err_;
    EXPECT_TRUE(Contains(out_, "accuracy: 1.0000"));
  }
}

TEST_F(BirdTest, Init_OfOtherWeights_HasTheirDescription) {
  WriteWhole(folder_ / "s.json",
             Replaced(kBirdRun, "\"d.csv\"", "\"d.csv\", \"scale\": 0.001"));
  std::string scaled = ReadWhole(folder_ / "s.json");
  scaled = Replaced(scaled, ", \"validation\": {\"csv\": \"v.csv\"}", "");
  WriteWhole(folder_ / "s.json", scaled);
  ASSERT_EQ(Run({"train", "s.json", "--save", "other"}), 0) << err_;
  WriteWhole(folder_ / "mix.json",
             R"({"model": "other", "data": {"validation": {"csv": "v.csv"}}})");
  ASSERT_EQ(Run({"evaluate", "mix.json", "--init", "m"}), 0) << err_;
  EXPECT_TRUE(Contains(out_, "accuracy: 1.0000"));
}

TEST_F(BirdTest, Init_OfAnAdaptedModel_HasItsStatistics) {
  std::string right;
  ASSERT_NO_FATAL_FAILURE(TrainAdapted(&right));
  ASSERT_EQ(
      Run({"evaluate", "n.json", "--init", "n", "--part", "train", "--json"}),
      0)
      << err_;
  EXPECT_EQ(out_, right);
  // Other data do not change them.
  WriteWhole(folder_ / "d.csv", "a,b,bird\n9,9,emu\n8,8,auk\n7,7,owl\n");
  ASSERT_EQ(
      Run({"train", "n.json", "--init", "n", "--epochs", "0", "--save", "k"}),
      0)
      << err_;
  WriteWhole(folder_ / "d.csv",
             "a,b,bird\n1,-2,emu\n2,0,auk\n1,2,owl\n2,2,owl\n");
  ASSERT_EQ(Run({"evaluate", "k", "--csv", "d.csv", "--json"}), 0) << err_;
  EXPECT_EQ(out_, right);
}

TEST_F(BirdTest, Export_OfAnAdaptedModel_KeepsItsStatistics) {
  std::string right;
  ASSERT_NO_FATAL_FAILURE(TrainAdapted(&right));
  ASSERT_EQ(Run({"export", "n", "-o", "w.safetensors"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "n.json", "--init", "w.safetensors", "--part",
                 "train", "--json"}),
            0)
      << err_;
  EXPECT_EQ(out_, right);
  ASSERT_EQ(Run({"export", "n", "-o", "w.npz"}), 0) << err_;
  EXPECT_TRUE(Contains(err_, "note: w.npz: is without mean and variance"));
}

// The columns of a file without names are identified by their places.
TEST_F(BirdTest, FileWithoutNames_LabelFirst_IsAsInTraining) {
  WriteWhole(folder_ / "d.csv",
             "bird,a,b\nemu,1,-2\nauk,2,0\nowl,1,2\nowl,2,2\n");
  WriteWhole(folder_ / "first.json",
             Replaced(kBirdRun, "\"d.csv\"", "\"d.csv\", \"label\": \"bird\""));
  ASSERT_EQ(Run({"train", "first.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv", "--json"}), 0) << err_;
  const std::string right = out_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "d.csv"}), 0) << err_;
  const std::string predicted = out_;
  WriteWhole(folder_ / "q.csv", "emu,1,-2\nauk,2,0\nowl,1,2\nowl,2,2\n");
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "q.csv", "--json"}), 0) << err_;
  EXPECT_EQ(out_, right);
  ASSERT_EQ(Run({"predict", "n", "--csv", "q.csv"}), 0) << err_;
  EXPECT_EQ(out_, predicted);
  WriteWhole(folder_ / "q.csv", "emu,1,-2,3\nauk,2,0,3\n");
  ExpectError({"predict", "n", "--csv", "q.csv", "--no-header"}, 2,
              {"has 4 columns, the training data had 3 (2 values, the label is "
               "column 1)"});
}

// As pandas writes its index.
TEST_F(BirdTest, Column_WithoutAName_IsPartOfX) {
  WriteWhole(folder_ / "d.csv", ",b,bird\n1,-2,emu\n2,0,auk\n1,2,owl\n");
  WriteWhole(folder_ / "v.csv", ",b,bird\n1,-2,emu\n2,2,owl\n");
  ASSERT_EQ(Run({"train", "run.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 3u);
}

TEST_F(BirdTest, Columns_NamedByNumbers_DoNotTakeARowForAHeader) {
  WriteWhole(folder_ / "d.csv", "0,1,bird\n1,-2,emu\n2,0,auk\n1,2,owl\n");
  WriteWhole(folder_ / "v.csv", "1,0,bird\n-2,1,emu\n");
  ASSERT_EQ(Run({"train", "run.json", "--save", "n"}), 0) << err_;
  WriteWhole(folder_ / "q.csv", "1,0\n0,1\n3,0\n0,3\n");
  ExpectError({"predict", "n", "--csv", "q.csv"}, 2,
              {"q.csv: line 1 may have the names of the columns, or be a row"});
  ASSERT_EQ(Run({"predict", "n", "--csv", "q.csv", "--no-header"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 5u);
}

TEST_F(BirdTest, Train_FromTheSavedModel_KeepsItsClasses) {
  WriteWhole(folder_ / "d.csv", "bird,b,a\nowl,2,1\nemu,-2,1\n");
  const std::string whole = ReadWhole(folder_ / "run.json");
  const size_t end = whole.find("\"compile\"");
  WriteWhole(folder_ / "more.json",
             "{\"model\": \"m\", " + whole.substr(whole.find("\"data\"", end)));
  ASSERT_EQ(Run({"train", "more.json", "--save", "n"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_)[0], "class,probability,auk,emu,owl");
}

TEST_F(BirdTest, Names_NotUtf8_AreReportedAndNotKept) {
  WriteWhole(folder_ / "d.csv",
             "a,b,bird\n1,-2,emu\n2,0,\xe9pervier\n1,2,owl\n");
  WriteWhole(folder_ / "v.csv", "a,b,bird\n1,2,owl\n");
  ASSERT_EQ(Run({"train", "run.json", "--save", "n"}), 0) << err_;
  EXPECT_TRUE(Contains(err_,
                       "note: d.csv: the model does not keep the names of the "
                       "classes"));
  ASSERT_EQ(Run({"evaluate", "n", "--csv", "d.csv"}), 0) << err_;
  ASSERT_EQ(Run({"predict", "n", "--csv", "v.csv"}), 0) << err_;
  EXPECT_EQ(Lines(out_).size(), 1u);
}

}  // namespace
}  // namespace ringlet
