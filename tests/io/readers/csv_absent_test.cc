// Files without names that have fewer columns than the training data.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

struct Reading {
  std::vector<float> x;
  std::string printed, error;
};

// Reads `text` for a model that was trained on `trained`.
Reading ReadAgain(const std::string& trained, const CsvOptions& training,
                  const std::string& text, bool predicts) {
  const DataFiles files;
  const Dataset before = CsvDataset(files.Write("t.csv", trained), training);
  EXPECT_OK(before.Batch(1).status());
  if (before.source() == nullptr) return {};
  CsvOptions options;
  options.training_columns = before.source()->Description().columns;
  options.for_prediction = predicts;
  if (predicts) options.values = before.source()->x().shape.elements();
  Reading read;
  testing::internal::CaptureStderr();
  const Dataset data = CsvDataset(files.Write("a.csv", text), options);
  read.printed = testing::internal::GetCapturedStderr();
  read.error = data.Batch(1).status().message();
  if (!read.error.empty()) return read;
  const size_t width = static_cast<size_t>(data.source()->x().shape.elements());
  read.x.resize(static_cast<size_t>(data.source()->size()) * width);
  for (int64_t i = 0; i < data.source()->size(); ++i) {
    EXPECT_OK(data.source()->Read(
        &i, 1, read.x.data() + static_cast<size_t>(i) * width, nullptr));
  }
  return read;
}

constexpr char kAbsent[] =
    "has 2 columns, the training data had 3; it is read as without the label, "
    "column 3 there; check that it lacks no other";

// The number of columns does not show whether the label or a value is absent.
TEST(CsvAbsentTest, Prediction_OneColumnTooFew_IsReported) {
  for (const char* trained : {"a,b,y\n1,2,7\n3,4,8\n", "1,2,7\n3,4,8\n"}) {
    const Reading fewer = ReadAgain(trained, {}, "5,6\n", /*predicts=*/true);
    EXPECT_EQ(fewer.x, (std::vector<float>{5, 6})) << fewer.error;
    EXPECT_TRUE(Contains(fewer.printed, kAbsent));
    const Reading whole = ReadAgain(trained, {}, "5,6,9\n", /*predicts=*/true);
    EXPECT_EQ(whole.x, (std::vector<float>{5, 6}));
    EXPECT_EQ(whole.printed.find("without"), std::string::npos)
        << whole.printed;
    // To evaluate, the label is needed.
    const Reading evaluated =
        ReadAgain(trained, {}, "5,6\n", /*predicts=*/false);
    EXPECT_TRUE(
        Contains(evaluated.error, "has 2 columns, the training data had 3"));
  }
  const Reading named =
      ReadAgain("a,b,y\n1,2,7\n", {}, "b,a\n6,5\n", /*predicts=*/true);
  EXPECT_EQ(named.x, (std::vector<float>{5, 6}));
  EXPECT_EQ(named.printed, "");
}

TEST(CsvAbsentTest, Prediction_NoLabelAndNoWeights_NamesBoth) {
  CsvOptions training;
  training.weight_column = 0;
  const Reading read =
      ReadAgain("9,1,2,7\n8,3,4,8\n", training, "5,6\n", /*predicts=*/true);
  EXPECT_EQ(read.x, (std::vector<float>{5, 6})) << read.error;
  EXPECT_TRUE(Contains(read.printed,
                       "without the label, column 4 there and the weights, "
                       "column 1 there"));
}

TEST(CsvAbsentTest, Names_AllInOneField_TellOfTheSeparator) {
  const Reading read =
      ReadAgain("a,b,y\n1,2,7\n", {}, "a;b\n5;6\n", /*predicts=*/true);
  EXPECT_TRUE(Contains(read.error, "no column is named 'a'"));
  EXPECT_TRUE(Contains(read.error,
                       "\"separator\": \";\" (--separator) would give more"));
}

TEST(CsvAbsentTest, DroppedColumns_ValuesAlone_NeedTheirNames) {
  CsvOptions training;
  training.drop = {"id"};
  const std::string trained = "id,a,b,y\n1,2,3,7\n";
  const Reading alone =
      ReadAgain(trained, training, "5,6\n", /*predicts=*/true);
  EXPECT_TRUE(Contains(alone.error,
                       "line 1 has 2 columns, the training data had 4 (2 "
                       "values, 1 not taken, the label is column 4); give the "
                       "same columns, or a first line with the names of those "
                       "that are there; the model takes 'a', 'b'"));
  const Reading named =
      ReadAgain(trained, training, "a,b\n5,6\n", /*predicts=*/true);
  EXPECT_EQ(named.x, (std::vector<float>{5, 6})) << named.error;
}

}  // namespace
}  // namespace ringlet
