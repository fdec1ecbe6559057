// Tables of text, gaps and other dialects, as pandas.read_csv reads them.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "core/data/dataset_parts.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

using Missing = CsvOptions::Missing;
using Floats = std::vector<float>;
using Names = std::vector<std::string>;

Dataset Open(const std::string& text, const CsvOptions& options) {
  const DataFiles files;
  return CsvDataset(files.Write("a.csv", text), options);
}

// The values of all examples.
Floats ValuesOf(const std::string& text, const CsvOptions& options) {
  SCOPED_TRACE(text.substr(0, 200));
  const Dataset d = Open(text, options);
  const Status status = d.Batch(1).status();
  EXPECT_OK(status);
  Floats values;
  if (!status.ok()) return values;
  Floats row(static_cast<size_t>(d.source()->x().shape.elements()));
  for (int64_t i = 0; i < d.source()->size(); ++i) {
    EXPECT_OK(d.source()->Read(&i, 1, row.data(), nullptr));
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

void ExpectRefused(const std::string& text, const CsvOptions& options,
                   const std::string& what) {
  SCOPED_TRACE(text.substr(0, 200));
  const Status status = Open(text, options).Batch(1).status();
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(Contains(status, what));
}

Names NamesIn(const std::string& text, const CsvOptions& options) {
  return ValueNames(Open(text, options).source()->Description().columns);
}

CsvOptions Unlabelled() {
  CsvOptions options;
  options.has_label = false;
  return options;
}

CsvOptions Categorical(const Names& columns, bool one_hot = true) {
  CsvOptions options = Unlabelled();
  for (const std::string& column : columns) {
    options.categorical.push_back({column, one_hot, false});
  }
  return options;
}

// The options of data for a model that was trained on `text`.
CsvOptions TrainedOn(const std::string& text, const CsvOptions& options) {
  const Dataset d = Open(text, options);
  EXPECT_OK(d.Batch(1).status());
  CsvOptions known = Unlabelled();
  known.training_columns = d.source()->Description().columns;
  known.encoding = d.source()->Description().encoding;
  return known;
}

TEST(CsvTableTest, Quotes_LineEndWithin_BelongsToTheField) {
  CsvOptions options = Categorical({"a"});
  EXPECT_EQ(ValuesOf("a,b\n\"x\ny\",1\n\"x\r\ny\",2\n\"x\ry\",3\n", options),
            (Floats{1, 1, 1, 2, 1, 3}));
  EXPECT_EQ(Open("a,b\n\"x,\n\n\"\"y\"\"\",1\n", options)
                .source()
                ->Description()
                .encoding.columns.at(0)
                .categories,
            (Names{"x,\n\n\"y\""}));
  // The line of an error counts the lines in quotes.
  ExpectRefused("a,b\n\"x\n\n\",1\nz,no\n", options, "line 5, column 2 ('b')");
  ExpectRefused("a,b\n1,2\n\"x,3\n4,5\n", options,
                "line 3: the quote of column 1, on line 4, is not closed");
}

TEST(CsvTableTest, Lines_OfCarriageReturnsAlone_AreRead) {
  for (const char* end : {"\r", "\r\n", "\n"}) {
    std::string text;
    for (const char* line : {"a,b", "1,2", "3,4"})
      text += line + std::string(end);
    EXPECT_EQ(ValuesOf(text, Unlabelled()), (Floats{1, 2, 3, 4}));
    EXPECT_EQ(ValuesOf(text + end + "5,6", Unlabelled()),
              (Floats{1, 2, 3, 4, 5, 6}));
  }
}

TEST(CsvTableTest, FirstLine_SepOfExcel_SetsTheSeparator) {
  EXPECT_EQ(ValuesOf("sep=;\r\na;b\r\n1;2\r\n", Unlabelled()), (Floats{1, 2}));
  EXPECT_EQ(ValuesOf("\xEF\xBB\xBFsep=\t\na\tb\n1\t2\n", Unlabelled()),
            (Floats{1, 2}));
}

TEST(CsvTableTest, File_IsUtf16_ErrorNamesIt) {
  const std::string text(
      "\xFF\xFE"
      "a\0,\0b\0\n\0",
      10);
  ExpectRefused(text, Unlabelled(), "is UTF-16 text");
  ExpectRefused(text.substr(2), Unlabelled(), "is UTF-16 text");
}

// As in the UCI's files.
TEST(CsvTableTest, Separator_Blanks_AnyNumberSeparates) {
  CsvOptions options = Unlabelled();
  options.separator = ' ';
  EXPECT_EQ(ValuesOf("  1.5e-1  -2 \t3\n 4 5   6  \n", options),
            (Floats{0.15f, -2, 3, 4, 5, 6}));
  EXPECT_EQ(ValuesOf("a b\n\"1\"  \"2\" \n", options), (Floats{1, 2}));
  ExpectRefused("a b\n\"1\"2\n", options, "text follows a closing quote");
}

TEST(CsvTableTest, Decimal_Comma_IsRead) {
  CsvOptions options = Unlabelled();
  options.separator = ';';
  options.decimal = ',';
  EXPECT_EQ(ValuesOf("a;b\n1,5;-2e3\n,5;1,25e-1\n", options),
            (Floats{1.5f, -2000, .5f, .125f}));
  ExpectRefused("a;b\n1.5;2\n", options, "'1.5' is not a number");
  options.separator = ',';
  ExpectRefused("a,b\n1,2\n", options, "is the separator and the decimal");
}

TEST(CsvTableTest, Comment_ToTheEndOfTheLine_IsSkipped) {
  CsvOptions options = Unlabelled();
  options.comment = '#';
  EXPECT_EQ(
      ValuesOf("# made by hand\na,b\n  # more\n1,2 # one\n\"3\",\"4\" #\n",
               options),
      (Floats{1, 2, 3, 4}));
  options.categorical = {{"a", true, false}};
  EXPECT_EQ(Open("a,b\n\"#x\",1\n", options)
                .source()
                ->Description()
                .encoding.columns.at(0)
                .categories,
            (Names{"#x"}));
}

TEST(CsvTableTest, Truth_InAValue_IsOneOrZero) {
  EXPECT_EQ(ValuesOf("a,b,c\nTrue,FALSE,1\nfalse,true,0\n", Unlabelled()),
            (Floats{1, 0, 1, 0, 1, 0}));
}

TEST(CsvTableTest, Columns_TakenByNameOrNumber_AreInThatOrder) {
  const std::string text = "id,a,b,kind\n9,1,2,x\n8,3,4,y\n";
  CsvOptions options;
  options.take = {"b", "1"};
  EXPECT_EQ(ValuesOf(text, options), (Floats{2, 1, 4, 3}));
  EXPECT_EQ(NamesIn(text, options), (Names{"b", "a"}));
  options.take = {"-2", "a"};
  EXPECT_EQ(ValuesOf(text, options), (Floats{2, 1, 4, 3}));
  options.take = {"c"};
  ExpectRefused(text, options, "\"columns\" has 'c', but no column");
  options.take = {"a", "1"};
  ExpectRefused(text, options, "\"columns\" has column 2 ('a') twice");
  options.take = {"kind"};
  ExpectRefused(text, options, "the column of the label is 'kind'");
}

TEST(CsvTableTest, Columns_Dropped_AreNotInX) {
  const std::string text = "id,a,note,kind\n9,1,old,x\n8,3,,y\n";
  CsvOptions options;
  options.drop = {"id", "note"};
  EXPECT_EQ(ValuesOf(text, options), (Floats{1, 3}));
  EXPECT_EQ(NamesIn(text, options), (Names{"a"}));
  options.drop = {"id", "kind"};
  ExpectRefused(text, options, "\"drop\" has the column of the label");
  options.drop = {"id", "a", "note"};
  ExpectRefused(text, options, "\"drop\" leaves no column");
  for (const std::string again : {"id", "0"}) {
    options.drop = {"id", again};
    ExpectRefused(text, options, "\"drop\" has column 1 ('id') twice");
  }
  CsvOptions numbered = Unlabelled();
  numbered.header = false;
  numbered.drop = {"0"};
  EXPECT_EQ(ValuesOf("text,2,3\nmore,5,6\n", numbered), (Floats{2, 3, 5, 6}));
}

TEST(CsvTableTest, Categorical_OneHot_HasAValueForEachCategory) {
  const std::string text = "a,colour,b\n1,red,7\n2,blue,8\n3,red,9\n4,Z,0\n";
  // Sorted by bytes: Z, blue, red.
  EXPECT_EQ(
      ValuesOf(text, Categorical({"colour"})),
      (Floats{1, 0, 0, 1, 7, 2, 0, 1, 0, 8, 3, 0, 0, 1, 9, 4, 1, 0, 0, 0}));
  EXPECT_EQ(ValuesOf(text, Categorical({"1"})).size(), 20u);
  EXPECT_EQ(ValuesOf("c\nx\nx\n", Categorical({"c"})), (Floats{1, 1}));
  ExpectRefused(text, Unlabelled(), "'red' is not a number");
  ExpectRefused(text, Categorical({"colours"}),
                "\"categorical\" has 'colours', but no column has this name");
  CsvOptions label = Categorical({"b"});
  label.has_label = true;
  ExpectRefused(text, label, "\"categorical\" has column 3 ('b'), which is no");
}

TEST(CsvTableTest, Categorical_Index_CountsTheSortedCategories) {
  const std::string text = "a,colour\n1,red\n2,blue\n3,red\n4,Z\n";
  EXPECT_EQ(ValuesOf(text, Categorical({"colour"}, /*one_hot=*/false)),
            (Floats{1, 2, 2, 1, 3, 2, 4, 0}));
}

TEST(CsvTableTest, Categorical_NumbersAsText_AreCategories) {
  EXPECT_EQ(ValuesOf("zip,b\n010,1\n10,2\n010,3\n", Categorical({"zip"})),
            (Floats{1, 0, 1, 0, 1, 2, 1, 0, 3}));
}

TEST(CsvTableTest, Categorical_WithoutAHeader_IsFoundByNumber) {
  CsvOptions options = Categorical({"0"});
  const Floats values = {1, 0, 5, 0, 1, 6};
  EXPECT_EQ(ValuesOf("ant,5\nbee,6\n", options), values);
  EXPECT_EQ(ValuesOf("insect,legs\nant,5\nbee,6\n", options), values);
  // Text alone may be names; a header is usual.
  EXPECT_EQ(ValuesOf("x\nant\nbee\n", Categorical({"0"})),
            (Floats{1, 0, 0, 1}));
}

TEST(CsvTableTest, Categories_OfTrainingData_EncodeOtherData) {
  CsvOptions known = TrainedOn("a,c\n1,x\n2,y\n3,z\n", Categorical({"c"}));
  EXPECT_EQ(ValuesOf("c,a\ny,5\n", known), (Floats{5, 0, 1, 0}));
  ExpectRefused(
      "c,a\nw,5\n", known,
      "line 2, column 1 ('c'): 'w' is none of the model's categories: "
      "'x', 'y', 'z'");
  ExpectRefused("c,a\n,5\n", known, "'' is none of the model's categories");
  EXPECT_EQ(ValuesOf("5,y\n6,x\n", known), (Floats{5, 0, 1, 0, 6, 1, 0, 0}));
}

TEST(CsvTableTest, Categories_Unknown_AreTheLastOne) {
  CsvOptions options = Unlabelled();
  options.categorical = {{"c", true, true}};
  EXPECT_EQ(ValuesOf("c,a\nx,1\ny,2\n", options),
            (Floats{1, 0, 0, 1, 0, 1, 0, 2}));
  CsvOptions known = TrainedOn("c,a\nx,1\ny,2\n", options);
  EXPECT_EQ(ValuesOf("c,a\nw,1\n,2\n", known),
            (Floats{0, 0, 1, 1, 0, 0, 1, 2}));
  options.categorical = {{"c", false, true}};
  known = TrainedOn("c,a\nx,1\ny,2\n", options);
  EXPECT_EQ(ValuesOf("c,a\nw,1\ny,2\n", known), (Floats{2, 1, 1, 2}));
}

CsvOptions WithMissing(Missing kind, float value = 0) {
  CsvOptions options = Unlabelled();
  options.missing.kind = kind;
  options.missing.value = value;
  return options;
}

TEST(CsvTableTest, Missing_EachRule_DoesWhatItSays) {
  const std::string text = "a,b\n1,2\n,4\n5,NA\n7,nan\nNULL,6\n";
  ExpectRefused(text, Unlabelled(),
                "line 3, column 1 ('a'): '' is not a number; "
                "if the value is missing, choose what to do by \"missing\"");
  EXPECT_EQ(ValuesOf(text, WithMissing(Missing::kDrop)), (Floats{1, 2}));
  EXPECT_EQ(ValuesOf(text, WithMissing(Missing::kConstant, -1)),
            (Floats{1, 2, -1, 4, 5, -1, 7, -1, -1, 6}));
  const float a = static_cast<float>((1.0 + 5 + 7) / 3);
  EXPECT_EQ(ValuesOf(text, WithMissing(Missing::kMean)),
            (Floats{1, 2, a, 4, 5, 4, 7, 4, a, 6}));
  CsvOptions both = WithMissing(Missing::kConstant, 9);
  both.missing_by_column["a"].kind = Missing::kDrop;
  EXPECT_EQ(ValuesOf(text, both), (Floats{1, 2, 5, 9, 7, 9}));
  ExpectRefused("a,b\n,1\n,2\n", WithMissing(Missing::kMean),
                "column 1 ('a'): has no value, so it has no mean");
  ExpectRefused("a,b\n,1\n3,\n", WithMissing(Missing::kDrop),
                "no rows of numbers: each has a missing value");
}

TEST(CsvTableTest, Missing_NaValues_AreMissingToo) {
  CsvOptions options = WithMissing(Missing::kConstant, 0);
  options.na_values = {"?", "-999"};
  EXPECT_EQ(ValuesOf("a,b\n?,2\n-999,-999.0\n3,4\n", options),
            (Floats{0, 2, 0, 0, 3, 4}));
  // Without a rule it is an error, not a number.
  options.missing.kind = Missing::kError;
  ExpectRefused("a,b\n1,2\n-999,1\n", options, "'-999' is not a number");
}

TEST(CsvTableTest, Missing_NaValuesWithACommaInTraining_AreMissingWithAPoint) {
  CsvOptions options = WithMissing(Missing::kConstant, 7);
  options.na_values = {"-9,5"};
  options.separator = ';';
  options.decimal = ',';
  CsvOptions known = TrainedOn("a;b\n1,5;2\n-9,5;3\n", options);
  EXPECT_EQ(ValuesOf("a,b\n-9.5,2\n", known), (Floats{7, 2}));
}

TEST(CsvTableTest, Missing_OfText_IsACategoryOrLeavesTheRowOut) {
  CsvOptions options = Categorical({"c"});
  const std::string text = "c,a\nx,1\n,2\nNA,3\n";
  ExpectRefused(text, options, "'' is a missing value");
  EXPECT_EQ(ValuesOf("c,a\nx,1\nNA,3\n", options), (Floats{0, 1, 1, 1, 0, 3}));
  options.missing.kind = Missing::kMean;
  EXPECT_EQ(ValuesOf(text, options), (Floats{0, 1, 1, 1, 0, 2, 1, 0, 3}));
  options.missing.kind = Missing::kDrop;
  EXPECT_EQ(ValuesOf(text, options), (Floats{1, 1}));
}

TEST(CsvTableTest, Missing_LabelOfADroppedRow_IsLeftOutToo) {
  CsvOptions options;
  options.missing.kind = Missing::kDrop;
  options.weight_name = "w";
  const std::string text = "a,w,kind\n1,2,x\n,3,y\n4,5,NA\n6,7,z\n";
  EXPECT_EQ(ValuesOf(text, options), (Floats{1, 6}));
  const Dataset d = Open(text, options);
  EXPECT_EQ(d.source()->Description().classes, (Names{"x", "z"}));
  ASSERT_NE(d.parts().weights, nullptr);
  EXPECT_EQ(*d.parts().weights, (Floats{2, 7}));
}

TEST(CsvTableTest, Missing_InOtherData_IsFilledAsInTraining) {
  CsvOptions known = TrainedOn("a,b\n1,2\n3,4\n", WithMissing(Missing::kMean));
  EXPECT_EQ(ValuesOf("a,b\n,NA\n7,8\n", known), (Floats{2, 3, 7, 8}));
  known = TrainedOn("a,b\n1,2\n3,\n", WithMissing(Missing::kDrop));
  EXPECT_EQ(ValuesOf("a,b\n,5\n7,8\n", known), (Floats{7, 8}));
  // A prediction for each row.
  known.for_prediction = true;
  ExpectRefused("a,b\n1,5\n,8\n", known,
                "line 3, column 1 ('a'): '' is a "
                "missing value, with which training leaves out a row");
}

// 'z' is of a row that training left out, so the model has no such category.
TEST(CsvTableTest, Missing_CategoryOfADroppedRow_IsNotNeeded) {
  const std::string text = "c,a\nx,1\nz,\ny,2\n";
  CsvOptions options = WithMissing(Missing::kDrop);
  options.categorical = {{"c", true, false}};
  const CsvOptions known = TrainedOn(text, options);
  EXPECT_EQ(ValuesOf(text, known), (Floats{1, 0, 1, 0, 1, 2}));
  EXPECT_EQ(ValuesOf("a,c\n,z\n2,y\n", known), (Floats{0, 1, 2}));
  ExpectRefused(
      "c,a\nx,1\nz,3\n", known,
      "line 3, column 1 ('c'): 'z' is none of the model's categories");
}

TEST(CsvTableTest, Prediction_LabelOfAnyText_IsNotRead) {
  CsvOptions options;
  options.values = 1;
  options.for_prediction = true;
  options.classes = {"x", "y"};
  EXPECT_EQ(ValuesOf("a,kind\n1,z\n2,\n", options), (Floats{1, 2}));
}

TEST(CsvTableTest, Categories_TooManyForAModelFile_AreRefused) {
  std::string text = "name,a\n";
  for (int i = 0; i < 60000; ++i) text += "n" + std::to_string(i) + ",1\n";
  ExpectRefused(text, Categorical({"name"}), "more than a model file keeps");
  ExpectRefused("c,a\n\xff\xfe,1\n", Categorical({"c"}), "is not UTF-8");
}

TEST(CsvTableTest, Encoding_OfAColumnThatIsNotThere_IsRefused) {
  CsvOptions options = Unlabelled();
  options.encoding.emplace().columns[2].fill = 1.f;
  ExpectRefused("a,b\n1,2\n", options,
                "has 2 columns of values, but the model has an encoding for "
                "column 3");
}

TEST(CsvTableTest, Comment_AfterBlanks_IsIgnored) {
  CsvOptions options = Unlabelled();
  options.separator = ' ';
  options.comment = '#';
  EXPECT_EQ(ValuesOf("a b\n1 2 # note\n3 4#\n", options), (Floats{1, 2, 3, 4}));
}

TEST(CsvTableTest, FirstRow_OfDroppedTextGapOrTruth_IsARow) {
  CsvOptions options = Categorical({"-1"});
  options.drop = {"0"};
  EXPECT_EQ(ValuesOf("id0,0.5,red\nid1,0.6,red\n", options),
            (Floats{0.5f, 1, 0.6f, 1}));
  const CsvOptions known = TrainedOn("id0,0.5,red\nid1,0.6,blue\n", options);
  EXPECT_EQ(ValuesOf("id7,1,red\nid8,2,blue\n", known),
            (Floats{1, 0, 1, 2, 1, 0}));
  EXPECT_EQ(ValuesOf("true,1\nfalse,2\n", Unlabelled()), (Floats{1, 1, 0, 2}));
  EXPECT_EQ(ValuesOf(",1\n3,2\n", WithMissing(Missing::kConstant, 7)),
            (Floats{7, 1, 3, 2}));
}

TEST(CsvTableTest, Columns_TakenWithoutNames_AreTakenInOtherDataToo) {
  CsvOptions options = Unlabelled();
  options.take = {"2", "0"};
  const CsvOptions known = TrainedOn("1,2,3\n4,5,6\n", options);
  EXPECT_EQ(ValuesOf("7,8,9\n", known), (Floats{9, 7}));
  // Two columns of one name are found by their order too.
  const CsvOptions same = TrainedOn("a,a,b\n1,2,3\n4,5,6\n", [&] {
    CsvOptions all = options;
    all.take = {"2", "1", "0"};
    return all;
  }());
  EXPECT_EQ(ValuesOf("a,a,b\n7,8,9\n", same), (Floats{9, 8, 7}));
}

// A column is found by its name if the file has one such name, and by its
// number if the file has two.
TEST(CsvTableTest, Columns_NameOfADroppedColumn_AreFoundInFilesWithBothOrOne) {
  CsvOptions options = Unlabelled();
  options.drop = {"0"};
  const CsvOptions known = TrainedOn("b,a,b\n9,1,2\n9,4,5\n", options);
  EXPECT_EQ(ValuesOf("b,a,b\n9,1,2\n", known), (Floats{1, 2}));
  EXPECT_EQ(ValuesOf("b,a\n2,1\n", known), (Floats{1, 2}));
  ExpectRefused("b,b,a\n2,2,1\n", known, "several columns are named 'b'");
}

// As a model that is trained further on columns at other places.
TEST(CsvTableTest, Columns_OtherThanInTraining_EqualTheOptions) {
  CsvOptions options = Unlabelled();
  options.drop = {"0"};
  CsvOptions known = TrainedOn("1,2,3\n4,5,6\n", options);
  EXPECT_EQ(ValuesOf("7,8,9\n", known), (Floats{8, 9}));
  known.drop = {"2"};
  EXPECT_EQ(ValuesOf("7,8,9\n", known), (Floats{7, 8}));
  known.drop.clear();
  known.take = {"2", "0"};
  EXPECT_EQ(ValuesOf("7,8,9\n", known), (Floats{9, 7}));
  known.take = {"2"};
  ExpectRefused("7,8,9\n", known,
                "\"columns\" has 1 columns of 3, but the model takes 2");
}

TEST(CsvTableTest, Columns_TakenWithTheLastAsLabel_NeedNoLabel) {
  CsvOptions options;
  options.take = {"2", "0"};
  CsvOptions known = TrainedOn("1,2,3,0\n4,5,6,1\n", options);
  known.has_label = known.for_prediction = true;
  known.values = 2;
  EXPECT_EQ(ValuesOf("7,8,9\n", known), (Floats{9, 7}));
  EXPECT_EQ(ValuesOf("7,8,9,1\n", known), (Floats{9, 7}));
}

TEST(CsvTableTest, Key_NameAndNumberOfTwoColumns_IsRefused) {
  CsvOptions options = Unlabelled();
  options.header = true;
  options.drop = {"1"};
  ExpectRefused(
      "1,2,3\n4,5,6\n", options,
      "'1', which is the name of one column and the number of another");
}

TEST(CsvTableTest, Missing_NaValuesInLabelsAndText_AreMissing) {
  CsvOptions options;
  options.missing.kind = Missing::kDrop;
  options.na_values = {"-999", "-999"};
  EXPECT_EQ(ValuesOf("a,y\n1,-999.0\n2,5\n", options), (Floats{2}));
  EXPECT_EQ(TrainedOn("a,y\n1,2\n2,5\n", options).encoding->na_values,
            (Names{"-999"}));
  options.missing.kind = Missing::kMean;
  ExpectRefused("a,y\n1,-999\n2,5\n", options, "'-999' is a missing label");
  CsvOptions text = Categorical({"c"});
  text.na_values = {"?"};
  ExpectRefused("c,a\nx,1\n?,2\n", text, "'?' is a missing value");
}

TEST(CsvTableTest, Missing_InMoreColumnsThanAModelKeeps_IsRefused) {
  std::string names, row;
  for (int i = 0; i < 10000; ++i) {
    names += (i > 0 ? ",c" : "c") + std::to_string(i);
    row += i > 0 ? ",1" : "1";
  }
  ExpectRefused(names + "\n" + row + "\n", WithMissing(Missing::kMean),
                "more than a model file keeps");
}

}  // namespace
}  // namespace ringlet
