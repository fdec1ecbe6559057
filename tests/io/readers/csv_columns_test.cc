// Tables for a trained model: its columns are found again.

#include "ringlet/readers.h"

#include <gtest/gtest.h>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "csv_read.h"
#include "io/readers/tables/csv_records.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

// As a model that was trained on columns a and b reads a file.
CsvOptions TrainedOn(const std::vector<std::string>& values,
                     const std::string& label = "") {
  using Role = TableColumn::Role;
  CsvOptions options;
  for (const std::string& name : values) {
    const int64_t value = static_cast<int64_t>(options.training_columns.size());
    options.training_columns.push_back({name, Role::kValue, value});
  }
  options.training_columns.push_back({label, Role::kLabel, -1});
  return options;
}

CsvOptions TrainedOnAB(const std::string& label = "") {
  return TrainedOn({"a", "b"}, label);
}

TEST(CsvTest, Columns_OtherOrderAndOthers_AreTakenByName) {
  const CsvTable ab = {{1, 2, 3, 4}, {7, 8}};
  EXPECT_TRUE(Read("a,b,y\n1,2,7\n3,4,8\n", TrainedOnAB()) == ab);
  EXPECT_TRUE(Read("y,b,a\n7,2,1\n8,4,3\n", TrainedOnAB()) == ab);
  // Text in a column that is not taken is no error.
  CsvOptions named = TrainedOnAB();
  named.label_name = "y";
  EXPECT_TRUE(Read("b,note,y,a\n2,old,7,1\n4,,8,3\n", named) == ab);
  EXPECT_TRUE(Read("b,id,y,a\n2,5,7,1\n4,6,8,3\n", TrainedOnAB("y")) == ab);
  // Without names the columns count.
  EXPECT_TRUE(Read("1,2,7\n3,4,8\n", TrainedOnAB()) == ab);
}

TEST(CsvTest, Columns_NumeralsAsNames_AreTheHeader) {
  const CsvOptions options = TrainedOn({"2001", "2002"});
  const CsvTable table = {{1, 2}, {7}};
  EXPECT_TRUE(Read("2002,2001,2003\n2,1,7\n", options) == table);
}

TEST(CsvTest, Columns_WithoutALabel_AreFoundByTheirNumber) {
  CsvOptions options = TrainedOnAB();
  options.values = 2;
  EXPECT_EQ(Read("b,a\n2,1\n", options).x, (std::vector<float>{1, 2}));
  EXPECT_EQ(Read("y,b,note,a\n7,2,text,1\n", options).x,
            (std::vector<float>{1, 2}));
}

// -1 is the default of RUN.json, which has the fields of the training data.
TEST(CsvTest, Label_LastOfAFileToPredict_MayBeAbsent) {
  CsvOptions options;
  options.values = 2;
  options.for_prediction = true;
  options.label_column = -1;
  EXPECT_EQ(Read("1,2\n", options).x, (std::vector<float>{1, 2}));
  EXPECT_EQ(Read("1,2,7\n", options).x, (std::vector<float>{1, 2}));
  options.take = {"0", "2"};
  EXPECT_EQ(Read("1,9,2\n", options).x, (std::vector<float>{1, 2}));
  EXPECT_EQ(Read("1,9,2,7\n", options).x, (std::vector<float>{1, 2}));
  options.take.clear();
  options.label_column = 2;
  ExpectRefused("1,2\n", options, Code::kInvalidArgument, "--label");
}

TEST(CsvTest, Columns_MissingOrAmbiguous_AreRefused) {
  const auto refused = [](const std::string& text, const CsvOptions& options,
                          const std::string& what) {
    ExpectRefused(text, options, Code::kInvalidArgument, what);
  };
  refused("a,c,y\n1,2,7\n", TrainedOnAB(),
          "no column is named 'b', which the model was trained on");
  refused("a,b,b,y\n1,2,3,7\n", TrainedOnAB(), "several columns are named 'b'");
  refused("a,b,y,z\n1,2,7,8\n", TrainedOnAB(),
          "any of several columns may be the label");
  refused("a,b,id\n1,2,7\n", TrainedOnAB("y"),
          "no column is named 'y', the label of training");
  CsvOptions options = TrainedOnAB();
  options.label_name = "b";
  refused("a,b,y\n1,2,7\n", options,
          "the column of the label is 'b', a value of the model");
  options.label_name = "";
  options.label_column = 0;
  refused("a,b,y\n1,2,7\n", options,
          "the column of the label is 'a', a value of the model");
  options = TrainedOnAB();
  options.weight_name = "a";
  refused("a,b,y\n1,2,7\n", options,
          "the column of sample_weight is 'a', a value of the model");
  options.weight_name = "";
  options.weight_column = 1;
  refused("y,b,a\n7,2,1\n", options,
          "the column of sample_weight is 'b', a value of the model");
}

TEST(CsvTest, Columns_WeightIsTheLast_LabelIsTheOtherOne) {
  CsvOptions options = TrainedOnAB();
  options.weight_name = "w";
  EXPECT_TRUE(Read("a,y,b,w\n1,7,2,0.5\n", options) == (CsvTable{{1, 2}, {7}}));
}

// Options by which a model finds its columns in other data.
CsvOptions FoundAgain(const Source& trained_on, CsvOptions given) {
  CsvOptions options;
  options.header = given.header;
  options.training_columns = trained_on.Description().columns;
  if (!trained_on.Description().encoding.empty())
    options.encoding = trained_on.Description().encoding;
  return options;
}

// The same for a model that was trained on a file with this text.
CsvOptions TrainedOnFile(const std::string& text, const CsvOptions& training) {
  const DataFiles files;
  const Dataset d = CsvDataset(files.Write("a.csv", text), training);
  EXPECT_OK(d.Batch(1).status());
  return FoundAgain(*d.source(), training);
}

// Trained on the weight, two values and the label.
CsvOptions TrainedWithWeights() {
  CsvOptions training;
  training.weight_column = 0;
  training.header = false;
  return TrainedOnFile("9,1,2,7\n", training);
}

TEST(CsvTest, TrainingColumns_AnyLabelAndHeader_FindTheLabel) {
  const DataFiles files;
  const std::string rows = "1,2,3,4\n5,6,7,8\n9,1,2,3\n";
  for (const char* header : {"", "a,b,c,d\n", "a,a,c,d\n", "a,b,b,a\n"}) {
    const std::string path = files.Write("a.csv", header + rows);
    for (int label = -4; label < 4; ++label) {
      for (const char* drop : {"", "0", "2"}) {
        SCOPED_TRACE(std::string(header) + std::to_string(label) + drop);
        CsvOptions options;
        options.header = header[0] != '\0';
        options.label_column = label;
        if (drop[0] != '\0') options.drop = {drop};
        if (drop[0] == std::to_string((label + 4) % 4)[0]) continue;
        const Dataset d = CsvDataset(path, options);
        ASSERT_OK(d.Batch(1).status());
        const CsvTable table = ReadFileTable(path, options);
        CsvOptions again = FoundAgain(*d.source(), options);
        EXPECT_TRUE(ReadFileTable(path, again) == table);
        again.drop = options.drop;
        EXPECT_TRUE(ReadFileTable(path, again) == table);
      }
    }
  }
}

// The file has no names. It has the columns of the training file, or only its
// weights are absent.
TEST(CsvTest, Label_OfAFileWithoutNames_IsWhereItWasInTraining) {
  const DataFiles files;
  const std::string rows[] = {"1,2,3,4\n", "5,6,7,8\n"};
  const auto without = [](std::string row, int column) {
    return row.erase(static_cast<size_t>(column) * 2, 2);
  };
  for (const char* header : {"", "a,b,c,d\n"}) {
    for (int label = 0; label < 4; ++label) {
      for (int weight = 0; weight < 3; ++weight) {
        if (weight == label) continue;
        SCOPED_TRACE(header + std::to_string(label) + std::to_string(weight));
        CsvOptions options;
        options.label_column = label;
        options.weight_column = weight;
        const Dataset d = CsvDataset(
            files.Write("a.csv", header + rows[0] + rows[1]), options);
        ASSERT_OK(d.Batch(1).status());
        const CsvTable table =
            ReadFileTable(files.Write("a.csv", header + rows[0]), options);
        CsvOptions again = FoundAgain(*d.source(), options);
        again.header = false;
        EXPECT_TRUE(Read(without(rows[0], weight), again) == table);
        EXPECT_TRUE(Read(rows[0], again) == table);
        again.weight_column = weight;
        EXPECT_TRUE(Read(rows[0], again) == table);
        ExpectRefused(
            without(rows[0], weight), again, Code::kInvalidArgument,
            "line 1 has 3 columns, the training data had 4 (2 values, "
            "the label is column");
      }
    }
  }
}

// A model that is used without names of columns, as it was trained.
TEST(CsvTest, Prediction_ColumnsAreAbsent_EqualsAllColumnsOrIsRefused) {
  CsvOptions training;
  training.header = false;
  training.label_column = 1;
  training.drop = {"0"};
  const CsvOptions trained = TrainedOnFile("9,7,1,2\n8,6,3,4\n", training);
  CsvOptions options = trained;
  for (const bool given : {false, true}) {
    if (given) options.drop = training.drop;
    if (given) options.label_column = 1;
    options.values = 2;
    options.for_prediction = true;
    const std::vector<float> x = {1, 2};
    EXPECT_EQ(Read("9,7,1,2\n", options).x, x);
    EXPECT_EQ(Read("9,1,2\n", options).x, x);
    // "1,2" may have lost another column than the dropped one.
    for (const char* row : {"1,2\n", "9,7,1,2,5\n"}) {
      ExpectRefused(row, options, Code::kInvalidArgument,
                    "the training data had 4 (2 values, 1 not taken, the label "
                    "is column 2); give the same columns in this order");
    }
    options.values = 0;
    options.for_prediction = false;
    ExpectRefused("9,1,2\n", options, Code::kInvalidArgument,
                  "has 3 columns, the training data had 4");
  }
  // Other columns of x for this file.
  options = trained;
  options.label_column = 0;
  options.take = {"2", "1"};
  EXPECT_TRUE(Read("7,2,1\n", options) == (CsvTable{{1, 2}, {7}}));
}

TEST(CsvTest, Columns_OneTooFewInAFileWithWeights_IsReported) {
  CsvOptions options = TrainedWithWeights();
  CsvTable table;
  EXPECT_TRUE(Contains(NoteOf("1,2,7\n", options, &table),
                       "has 3 columns, the training data had 4; it is read as "
                       "without the weights, column 1 there"));
  EXPECT_EQ(table, (CsvTable{{1, 2}, {7}}));
  EXPECT_EQ(NoteOf("9,1,2,7\n", options, &table), "");
}

TEST(CsvTest, Prediction_LabelOrWeightsMayBeAbsent_IsRefused) {
  CsvOptions options = TrainedWithWeights();
  options.values = 2;
  options.for_prediction = true;
  EXPECT_EQ(Read("1,2\n", options).x, (std::vector<float>{1, 2}));
  EXPECT_EQ(Read("9,1,2,7\n", options).x, (std::vector<float>{1, 2}));
  ExpectRefused("9,1,2\n", options, Code::kInvalidArgument,
                "the label or the weights may be absent: give both");
}

TEST(CsvTest, Columns_OtherOrderOfX_IsKeptInAFileWithoutNames) {
  CsvOptions training;
  training.take = {"b", "a"};
  CsvOptions options = TrainedOnFile("a,b,y\n1,2,7\n", training);
  EXPECT_TRUE(Read("y,a,b\n7,1,2\n", options) == (CsvTable{{2, 1}, {7}}));
  options.header = false;
  EXPECT_TRUE(Read("1,2,7\n", options) == (CsvTable{{2, 1}, {7}}));
  ExpectRefused("1,2\n", options, Code::kInvalidArgument,
                "give the same columns, or a first line with the names");
}

// Names decide, and "columns" or "drop" may not contradict them.
TEST(CsvTest, Columns_GivenBesideNames_AreAsInTrainingOrRefused) {
  CsvOptions training;
  training.drop = {"d"};
  training.label_name = "y";
  const CsvOptions found = TrainedOnFile("y,a,d,b\n0,1,5,2\n", training);
  using Keys = std::vector<std::string>;
  const std::string rows = "b,e,y,a\n2,9,7,1\n";
  for (const Keys& take : {Keys{"a", "b"}, Keys{"3", "0"}}) {
    CsvOptions options = found;
    options.take = take;
    EXPECT_TRUE(Read(rows, options) == (CsvTable{{1, 2}, {7}}));
  }
  for (const Keys& drop : {Keys{"d"}, Keys{"e"}, Keys{"d", "e"}}) {
    CsvOptions options = found;
    options.drop = drop;
    EXPECT_TRUE(Read(rows, options) == (CsvTable{{1, 2}, {7}}));
  }
  for (const Keys& take : {Keys{"b", "a"}, Keys{"zz", "b"}, Keys{"a"}}) {
    CsvOptions options = found;
    options.take = take;
    ExpectRefused(rows, options, Code::kInvalidArgument,
                  "\"columns\" is another choice than in training; the model "
                  "takes, in this order: 'a', 'b'");
  }
  for (const Keys& drop : {Keys{"a"}, Keys{"zz"}}) {
    CsvOptions options = found;
    options.drop = drop;
    ExpectRefused(rows, options, Code::kInvalidArgument,
                  "\"drop\" is another choice than in training");
  }
}

// A model keeps no names that are too long or not UTF-8.
TEST(CsvTest, Columns_OnlyTheLabelHasAName_IsFoundByIt) {
  const CsvOptions options = TrainedOn({"", ""}, "y");
  const CsvTable first = {{2, 7, 4, 8}, {1, 3}};
  const std::string rows = "1,2,7\n3,4,8\n";
  EXPECT_TRUE(Read("y,a,a\n" + rows, options) == first);
  EXPECT_TRUE(Read(rows, options) == (CsvTable{{1, 2, 3, 4}, {7, 8}}));
  ExpectRefused("a,b,c\n" + rows, options, Code::kInvalidArgument,
                "no column is named 'y', the label of training");
  ExpectRefused("y,y,b\n" + rows, options, Code::kInvalidArgument,
                "several columns are named 'y'");
}

}  // namespace
}  // namespace ringlet
