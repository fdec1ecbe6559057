#include "ringlet/readers.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <limits>
#include <utility>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "core/data/dataset_loader.h"
#include "core/data/dataset_parts.h"
#include "csv_read.h"
#include "io/readers/tables/csv_lines.h"
#include "io/readers/tables/csv_records.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

CsvOptions NoHeader() {
  CsvOptions options;
  options.header = false;
  return options;
}

CsvOptions ByNumber(int column) {
  CsvOptions options;
  options.label_column = column;
  return options;
}

CsvOptions ByName(const std::string& name) {
  CsvOptions options;
  options.label_name = name;
  return options;
}

TEST(CsvTest, WeightColumn_ByNameOrNumber_HasTheSampleWeights) {
  const DataFiles files;
  const std::string path =
      files.Write("a.csv", "w,a,b,class\n0.5,1,2,0\n2,3,4,1\n");
  for (const bool by_name : {true, false}) {
    CsvOptions options;
    if (by_name) {
      options.weight_name = "w";
    } else {
      options.weight_column = -4;
    }
    const Dataset d = CsvDataset(path, options);
    ASSERT_OK(d.Batch(1).status());
    ASSERT_NE(d.parts().weights, nullptr);
    EXPECT_EQ(*d.parts().weights, (std::vector<float>{0.5f, 2}));
    EXPECT_EQ(ReadFileTable(path, options), (CsvTable{{1, 2, 3, 4}, {0, 1}}));
  }
  EXPECT_EQ(CsvDataset(path).parts().weights, nullptr);
  CsvOptions wrong;
  wrong.weight_name = "v";
  ExpectError(CsvDataset(path, wrong).status(), Code::kInvalidArgument, path,
              "'v'");
  wrong = CsvOptions();
  wrong.weight_column = 3;
  ExpectError(CsvDataset(path, wrong).status(), Code::kInvalidArgument, path,
              "the label too");
  wrong.weight_column = 4;
  ExpectError(CsvDataset(path, wrong).status(), Code::kInvalidArgument, path,
              "column 4");
}

TEST(CsvTest, Read_Defaults_FirstLineIsNamesAndLastColumnTheLabel) {
  const DataFiles files;
  const std::string text = "a,b,class\n1,2.5,0\n-3e2,.5,1\n";
  for (const std::string& path :
       {files.Write("a.csv", text), files.Write("a.csv.gz", Gzip(text))}) {
    const Dataset d = CsvDataset(path);
    ASSERT_OK(d.Batch(1).status());
    EXPECT_EQ(d.size(), 2);
    EXPECT_EQ(files.Path(d.source()->name()), path);
    EXPECT_EQ(d.source()->x().dtype, DType::kFloat32);
    EXPECT_EQ(d.source()->x().shape, (Shape{2}));
    EXPECT_EQ(d.source()->y().dtype, DType::kFloat32);
    EXPECT_EQ(d.source()->y().shape, Shape());
    EXPECT_EQ(ReadFileTable(path, {}),
              (CsvTable{{1, 2.5f, -300, .5f}, {0, 1}}));
  }
}

TEST(CsvTest, Label_ByNumber_CountsFromEitherEnd) {
  const std::string text = "a,b,c\n1,2,3\n4,5,6\n";
  const CsvTable first = {{2, 3, 5, 6}, {1, 4}};
  const CsvTable middle = {{1, 3, 4, 6}, {2, 5}};
  const CsvTable last = {{1, 2, 4, 5}, {3, 6}};
  EXPECT_EQ(Read(text, ByNumber(0)), first);
  EXPECT_EQ(Read(text, ByNumber(-3)), first);
  EXPECT_EQ(Read(text, ByNumber(1)), middle);
  EXPECT_EQ(Read(text, ByNumber(-2)), middle);
  EXPECT_EQ(Read(text, ByNumber(2)), last);
  EXPECT_EQ(Read(text, ByNumber(-1)), last);
}

TEST(CsvTest, Label_ByName_EqualsTheColumn) {
  const std::string text = "a, \"b\" ,\"c d\"\r\n1,2,3\r\n4,5,6\r\n";
  EXPECT_EQ(Read(text, ByName("a")), (CsvTable{{2, 3, 5, 6}, {1, 4}}));
  EXPECT_EQ(Read(text, ByName("b")), (CsvTable{{1, 3, 4, 6}, {2, 5}}));
  EXPECT_EQ(Read(text, ByName("c d")), (CsvTable{{1, 2, 4, 5}, {3, 6}}));
  // The name decides, and the number is ignored.
  CsvOptions both = ByName("a");
  both.label_column = 99;
  EXPECT_EQ(Read(text, both), (CsvTable{{2, 3, 5, 6}, {1, 4}}));
}

TEST(CsvTest, Label_ColumnIsMissing_IsRefused) {
  const std::string text = "a,b,c\n1,2,3\n";
  for (const int column : {3, 100, -4, std::numeric_limits<int>::max(),
                           std::numeric_limits<int>::min()}) {
    ExpectRefused(
        text, ByNumber(column), Code::kInvalidArgument,
        "the label is column " + std::to_string(column) + " of 3 columns");
  }
  for (const char* name : {"d", "A", "a,b", " a"}) {
    ExpectRefused(text, ByName(name), Code::kInvalidArgument,
                  "line 1: no column named '" + std::string(name) + "'");
  }
  // Names need a header.
  CsvOptions options = ByName("a");
  options.header = false;
  ExpectRefused("1,2\n3,4\n", options, Code::kInvalidArgument,
                "line 1: no column named 'a'");
}

TEST(CsvTest, Header_None_FirstLineIsAnExample) {
  EXPECT_EQ(Read("1,2\n3,4\n", NoHeader()), (CsvTable{{1, 3}, {2, 4}}));
  ExpectRefused("a,b\n3,4\n", NoHeader(), Code::kCorruption,
                "line 1, column 1: 'a' is not a number");
}

constexpr char kDataNote[] =
    "line 1 holds numbers and is read as data, not as names; if that is wrong, "
    "set \"header\": true in RUN.json (evaluate, predict: --header)\n";
constexpr char kMixedNote[] =
    "line 1 holds text beside numbers and is read as names, not as data; if "
    "that is wrong, set \"header\": false in RUN.json (evaluate, predict: "
    "--no-header)\n";
constexpr char kNamesNote[] =
    "line 1 counts its columns and is read as names; if that is wrong, set "
    "\"header\": false in RUN.json (evaluate, predict: --no-header)\n";

TEST(CsvTest, Header_FirstLineOfNumbers_IsAnExampleWithAWarning) {
  CsvOptions yes, no, unlabelled;
  yes.header = true;
  no.header = false;
  unlabelled.has_label = false;
  const struct {
    const char* text;
    CsvOptions options;
    const char* note;
    CsvTable table;
  } cases[] = {
      {"1,2\n3,4\n", {}, kDataNote, {{1, 3}, {2, 4}}},
      {"1,2\n", {}, kDataNote, {{1}, {2}}},
      {"\n 1.5 ,\"2\"\n3,4\n",
       {},
       "line 2 holds numbers and is read as data, not as names; if that is "
       "wrong, set \"header\": true in RUN.json (evaluate, predict: "
       "--header)\n",
       {{1.5f, 3}, {2, 4}}},
      {"1,2\n3,4\n", no, "", {{1, 3}, {2, 4}}},
      {"1,2\n3,4\n", yes, "", {{3}, {4}}},
      {"1,2\n3,4\n", unlabelled, kDataNote, {{1, 2, 3, 4}, {}}},
      // A field that is no number, also the label's, makes the first line
      // names. It may be a row with a gap, so a note reports it.
      {"a,2\n3,4\n", {}, kMixedNote, {{3}, {4}}},
      {"1,b\n3,4\n", {}, kMixedNote, {{3}, {4}}},
      {",2\n3,4\n", {}, kMixedNote, {{3}, {4}}},
      {"1,NA,2\n3,4,5\n", {}, kMixedNote, {{3, 4}, {5}}},
      {"1,NA,2\n3,4,5\n", yes, "", {{3, 4}, {5}}},
      {"a,b\n3,4\n", {}, "", {{3}, {4}}},
      {"1,b\n3,4\n", ByName("b"), "", {{3}, {4}}},
      {"1,2\n3,4\n", ByName("2"), "", {{3}, {4}}},
      // As pandas names columns that have no names.
      {"0,1,2\n3,4,5\n", {}, kNamesNote, {{3, 4}, {5}}},
      {"0,1,2\n3,4,5\n", no, "", {{0, 1, 3, 4}, {2, 5}}},
      {"0,1,label\n3,4,5\n", {}, kNamesNote, {{3, 4}, {5}}},
      {"0,1\n3,4\n", {}, kDataNote, {{0, 3}, {1, 4}}},
      {"0,1,3\n3,4,5\n", {}, kDataNote, {{0, 1, 3, 4}, {3, 5}}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    CsvTable table;
    EXPECT_EQ(NoteOf(c.text, c.options, &table), c.note);
    EXPECT_EQ(table, c.table);
  }
}

TEST(CsvTest, Quotes_WrittenTwiceWithinQuotes_AreOne) {
  const std::string text = "a,\"say \"\"hi\"\"\",\"c,d\"\n1,2,3\n4,5,6\n";
  EXPECT_EQ(Read(text, ByName("say \"hi\"")), (CsvTable{{1, 3, 4, 6}, {2, 5}}));
  EXPECT_EQ(Read(text, ByName("c,d")), (CsvTable{{1, 2, 4, 5}, {3, 6}}));
  CsvTable table;
  std::vector<std::string> names;
  NoteOf("a,b\n1,\"x, \"\"y\"\"\"\n2, 5\" pipe\n3,\"\"\"\"\n", {}, &table,
         &names);
  EXPECT_EQ(names, (std::vector<std::string>{"\"", "5\" pipe", "x, \"y\""}));
  EXPECT_EQ(table, (CsvTable{{1, 2, 3}, {2, 1, 0}}));
  CsvOptions blank = NoHeader();
  blank.separator = ' ';
  EXPECT_EQ(Read("\"1\" 2\n3 \"4\"\n", blank), (CsvTable{{1, 3}, {2, 4}}));
}

TEST(CsvTest, Quotes_NotClosed_AreRefused) {
  for (const char* row : {"\"1,2", "1,\"2", "1,\"", "\"1\"\",2"}) {
    ExpectRefused(std::string("a,b\n") + row + "\n", {}, Code::kCorruption,
                  "line 2: the quote of column ");
  }
  ExpectRefused("\"a,b\n1,2\n", {}, Code::kCorruption,
                "line 1: the quote of column 1, on line 2, is not closed");
  ExpectRefused("a,b\n1,\"2\"3\n", {}, Code::kCorruption,
                "line 2: text follows a closing quote");
}

TEST(CsvTest, CsvField_AnyText_IsReadAsItWas) {
  for (const std::string text : {"plain", "a,b", "say \"hi\"", "\"", " blanks ",
                                 "", "a;b", "5\" pipe"}) {
    for (const char separator : {',', ';', '\t', ' '}) {
      std::string line = CsvField("first", separator);
      line += separator + CsvField(text, separator);
      std::vector<std::string> fields;
      ASSERT_OK(RecordReader::SplitLine(line, separator, &fields));
      ASSERT_EQ(fields.size(), 2u) << line;
      EXPECT_EQ(fields[1], text);
    }
  }
  EXPECT_EQ(CsvField("a\r\nb", ','), "\"a  b\"");
  EXPECT_EQ(CsvField("val_loss", ','), "val_loss");
}

TEST(CsvTest, Label_Names_BecomeClassesInTheirOrder) {
  CsvTable table;
  std::vector<std::string> names;
  const std::vector<std::string> sorted = {"Versicolor", "setosa", "virginica"};
  const char* const note =
      "labels are names, classes in their order: 0 'Versicolor', 1 'setosa', 2 "
      "'virginica'\n";
  const std::string rows =
      "1,2,virginica\n3,4,setosa\n5,6,Versicolor\n"
      "7,8,setosa\n";
  const CsvTable expected = {{1, 2, 3, 4, 5, 6, 7, 8}, {2, 1, 0, 1}};
  EXPECT_EQ(NoteOf("a,b,species\n" + rows, {}, &table, &names), note);
  EXPECT_EQ(table, expected);
  EXPECT_EQ(names, sorted);
  EXPECT_EQ(NoteOf(rows, NoHeader(), &table, &names), note);
  EXPECT_EQ(table, expected);
  // Without a header the first line is one of the rows.
  EXPECT_TRUE(Contains(NoteOf(rows, {}, &table, &names), "is read as data"));
  EXPECT_EQ(table, expected);
  EXPECT_EQ(NoteOf("c,a\nb,1\na,2\n", ByName("c"), &table, &names),
            "labels are names, classes in their order: 0 'a', 1 'b'\n");
  EXPECT_EQ(table, (CsvTable{{1, 2}, {1, 0}}));
  // Labels are all names or all numbers.
  ExpectRefused("a,b\n1,x\n2,3\n", {}, Code::kCorruption,
                "line 3, column 2 ('b'): the label '3' is a number or empty");
  ExpectRefused("a,b\n1,x\n2,\n", {}, Code::kCorruption, "line 3, column 2");
  ExpectRefused("a,b\n1,1\n2,x\n", {}, Code::kCorruption,
                "line 3, column 2 ('b'): 'x' is not a number");
  ExpectRefused(
      "a,b\n1,1e39\n", {}, Code::kCorruption,
      "line 2, column 2 ('b'): '1e39' is not a number that fits float32");
  std::string many = "a,b\n";
  for (int i = 0; i <= 65536; ++i) many += "1,n" + std::to_string(i) + "\n";
  ExpectRefused(many, {}, Code::kCorruption, "more than 65536 different");
}

TEST(CsvTest, Label_NumberOfColumns_TellsIfThereIsOne) {
  CsvOptions two;
  two.values = 2;
  CsvTable table;
  EXPECT_EQ(NoteOf("a,b\n1,2\n", two, &table), "");
  EXPECT_EQ(table, (CsvTable{{1, 2}, {}}));
  EXPECT_EQ(NoteOf("a,b,c\n1,2,3\n", two, &table), "");
  EXPECT_EQ(table, (CsvTable{{1, 2}, {3}}));
  EXPECT_EQ(NoteOf("1,2\n", two, &table), kDataNote);
  EXPECT_EQ(table, (CsvTable{{1, 2}, {}}));
  ExpectRefused("a\n1\n", two, Code::kInvalidArgument, "has 1 columns");
  ExpectRefused("a,b,c,d\n1,2,3,4\n", two, Code::kInvalidArgument,
                "has 4 columns; the model takes 2");
  two.label_name = "a";
  ExpectRefused("a,b\n1,2\n", two, Code::kInvalidArgument, "--label");
}

TEST(CsvTest, Label_None_AllColumnsAreInX) {
  CsvOptions options;
  options.has_label = false;
  const DataFiles files;
  for (const char* text : {"a,b\n1,2\n3,4\n", "a\n1\n2\n3\n4\n"}) {
    const Dataset d = CsvDataset(files.Write("a.csv", text), options);
    ASSERT_OK(d.Batch(1).status());
    const int64_t columns = text[1] == ',' ? 2 : 1;
    EXPECT_EQ(d.source()->x().shape, Shape({columns}));
    EXPECT_EQ(d.source()->y().bytes(), 0u);
    std::vector<float> x, row(static_cast<size_t>(columns));
    for (int64_t i = 0; i < d.source()->size(); ++i) {
      ASSERT_OK(d.source()->Read(&i, 1, row.data(), nullptr));
      x.insert(x.end(), row.begin(), row.end());
    }
    EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 4}));
  }
}

TEST(CsvTest, ValueNames_OfAHeader_EqualItsNames) {
  const auto names_of = [](const std::string& text) {
    const DataFiles files;
    const Dataset d = CsvDataset(files.Write("a.csv", text), {});
    EXPECT_OK(d.Batch(1).status());
    return ValueNames(d.source()->Description().columns);
  };
  EXPECT_EQ(names_of("a,b,y\n1,2,7\n"), (std::vector<std::string>{"a", "b"}));
  // The second line shows that the first one has names.
  EXPECT_EQ(names_of("1,2,y\n1,2,7\n"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(names_of("a,a,y\n1,2,7\n"), (std::vector<std::string>{"a", "a"}));
  EXPECT_TRUE(names_of("1,2,7\n").empty());
}

TEST(CsvTest, Classes_Given_NumberTheLabels) {
  CsvOptions options;
  options.classes = {"ape", "bat", "cow"};
  const DataFiles files;
  const Dataset d =
      CsvDataset(files.Write("a.csv", "x,y\n1,cow\n2,ape\n"), options);
  ASSERT_OK(d.Batch(1).status());
  EXPECT_EQ(d.source()->Description().classes, options.classes);
  std::vector<float> x;
  std::vector<int32_t> labels;
  ReadAll(d.source().get(), &x, &labels);
  EXPECT_EQ(labels, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(d.source()->Description().columns[1].name, "y");
  ExpectRefused("x,y\n1,cow\n2,dog\n", options, Code::kInvalidArgument,
                "line 3, column 2 ('y'): the label 'dog' is not one of the 3 "
                "classes: 0 'ape', 1 'bat', 2 'cow'");
}

// In the order of their texts, as labels that are text in an NPY file have it.
TEST(CsvTest, Classes_Numerals_AreNames) {
  CsvOptions options;
  options.classes = {"0", "10", "2"};
  const DataFiles files;
  const Dataset d =
      CsvDataset(files.Write("a.csv", "x,y\n1,2\n2,10\n"), options);
  ASSERT_OK(d.Batch(1).status());
  std::vector<float> x;
  std::vector<int32_t> labels;
  ReadAll(d.source().get(), &x, &labels);
  EXPECT_EQ(labels, (std::vector<int32_t>{2, 1}));
}

TEST(CsvTest, Read_ByteOrderMark_IsSkipped) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(Read(mark + "a,b\n1,2\n3,4\n", ByName("a")),
            (CsvTable{{2, 4}, {1, 3}}));
  EXPECT_EQ(Read(mark + "1,2\n3,4\n", NoHeader()), (CsvTable{{1, 3}, {2, 4}}));
  EXPECT_EQ(Read(mark + "\r\na,b\r\n1,2\r\n"), (CsvTable{{1}, {2}}));
  ExpectRefused("a,b\n" + mark + "1,2\n", {}, Code::kCorruption,
                "line 2, column 1");
}

TEST(CsvTest, Lines_AnyOrNoEnd_AreRead) {
  const CsvTable expected = {{1, 3}, {2, 4}};
  for (const char* text :
       {"a,b\n1,2\n3,4\n", "a,b\n1,2\n3,4", "a,b\r\n1,2\r\n3,4\r\n",
        "a,b\r\n1,2\r\n3,4", "a,b\n1,2\r\n3,4\n", "a,b\r\n1,2\r\n3,4\r",
        "\n\na,b\n\n1,2\n \t\n3,4\n\n\n", "\r\na,b\r\n\r\n1,2\r\n3,4\r\n\r\n",
        "a,b\n 1 ,\t2\n\"3\",\" 4 \"\n"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(Read(text), expected);
  }
}

TEST(CsvTest, Separator_AnyOther_IsRead) {
  for (const char separator : {';', '\t', ' ', '|'}) {
    CsvOptions options;
    options.separator = separator;
    std::string text = "a;b\n1;2\n3;4\n";
    for (char& c : text) c = c == ';' ? separator : c;
    EXPECT_EQ(Read(text, options), (CsvTable{{1, 3}, {2, 4}})) << separator;
  }
  ExpectRefused("a;b\n1;2\n", {}, Code::kCorruption,
                "line 1: 1 columns; needs a label and at least one value (is "
                "',' the separator?; \"separator\": \";\" (--separator) would "
                "give more)");
}

TEST(CsvTest, Numbers_AnyNotation_AreReadExactly) {
  const CsvTable table = Read(
      "0,-0,+1.5,1e3,1E-3,.5,5.,16777217,3.4028235e38,1.17549435e-38,"
      "0.1,123456789012345678901234567890,0\n",
      NoHeader());
  EXPECT_EQ(table.x,
            (std::vector<float>{0, -0.f, 1.5f, 1e3f, 1e-3f, .5f, 5, 16777216,
                                std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::min(), 0.1f,
                                123456789012345678901234567890.f}));
}

// Such numbers are rounded as a float64 would be to float32.
TEST(CsvTest, Numbers_TooSmallForFloat_AreRoundedAsFloat64Would) {
  const CsvTable table = Read(
      "1e-40,1e-46,-1e-60,1.5e-300,4.9406564584124654e-324,1\n", NoHeader());
  ASSERT_EQ(table.x.size(), 5u);
  EXPECT_EQ(table.x, (std::vector<float>{1e-40f, 0, 0, 0, 0}));
  EXPECT_TRUE(std::signbit(table.x[2]));
}

TEST(CsvTest, Numbers_TooLargeForFloat_AreRefused) {
  for (const char* text : {"1e39", "-3.5e38", "1e308", "-1e400"}) {
    ExpectRefused("1,2\n" + std::string(text) + ",1\n", NoHeader(),
                  Code::kCorruption,
                  "line 2, column 1: '" + std::string(text) +
                      "' is not a number that fits float32");
  }
}

TEST(CsvTest, Numbers_TextField_IsRefusedWithItsPlace) {
  for (const char* text : {"red", "", "1x", "1 2", "0x10", "1.2.3", "--1",
                           "+-1", "+", "-", "1e", "$5", "e5", "NA", "1_000",
                           "\xC2\xA0"
                           "1"}) {
    ExpectRefused(
        "a,b,c\n1,2,3\n\n4," + std::string(text) + ",6\n", {},
        Code::kCorruption,
        "line 4, column 2 ('b'): '" + std::string(text) + "' is not a number");
  }
  // Only the beginning of a long one is shown.
  ExpectRefused(std::string(1000, 'x') + ",1\n", NoHeader(), Code::kCorruption,
                "line 1, column 1: '" + std::string(40, 'x') + "' is not");
  ExpectRefused(std::string("1,2\n1\0,2\n", 9), NoHeader(), Code::kCorruption,
                "line 2, column 1");
}

TEST(CsvTest, Rows_OfOtherLengths_AreRefusedWithTheirLine) {
  ExpectRefused("a,b,c\n1,2,3\n4,5\n", {}, Code::kCorruption,
                "line 3 has 2 fields, the first had 3");
  ExpectRefused("a,b,c\r\n1,2,3\r\n\r\n4,5,6,7\r\n", {}, Code::kCorruption,
                "line 4 has 4 fields, the first had 3");
  ExpectRefused("a,b,c\n1,2,3,\n", {}, Code::kCorruption,
                "line 2 has 4 fields, the first had 3");
  ExpectRefused("1,2\n3\n", NoHeader(), Code::kCorruption,
                "line 2 has 1 fields, the first had 2");
}

TEST(CsvTest, File_WithoutARow_IsRefused) {
  for (const char* text : {"", "\n", "\r\n\r\n", " \n\t\n", "a,b\n", "a,b"}) {
    ExpectRefused(text, {}, Code::kCorruption, "no rows of numbers");
  }
  ExpectRefused("a\n1\n", {}, Code::kCorruption, "line 1: 1 columns");
}

TEST(CsvTest, Numbers_NaNAndInfinity_AreNamedByTheLoader) {
  const DataFiles files;
  const std::string path =
      files.Write("a.csv", "a,b,c\n1,2,0\n3,nan,1\n-inf,Infinity,NaN\n");
  const CsvTable table = ReadFileTable(path, {});
  ASSERT_EQ(table.x.size(), 6u);
  ASSERT_EQ(table.y.size(), 3u);
  EXPECT_TRUE(std::isnan(table.x[3]));
  EXPECT_EQ(table.x[4], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(table.x[5], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(table.y[2]));
  const Dataset d = CsvDataset(path).Batch(3);
  std::vector<float> x(6);
  std::vector<int32_t> y(3);
  DatasetLoader::Options options;
  options.dataset = d;
  options.x_shapes = {d.source()->x().shape};
  options.outputs.resize(1);
  options.outputs[0].num_classes = 2;
  options.x = x.data();
  options.y = y.data();
  std::unique_ptr<BatchLoader> loader;
  ASSERT_OK(DatasetLoader::Open(options, &loader));
  Batch batch;
  ExpectError(loader->Next(&batch), Code::kCorruption, "a.csv",
              "example 1, value 1 is nan");
}

TEST(CsvTest, Lines_AcrossTheBuffersEnd_AreReadWhole) {
  std::string rows;
  CsvTable expected;
  for (int i = 0; i < 20000; ++i) {
    rows += std::to_string(i) + "," + std::to_string(2 * i) + "\r\n";
    expected.x.push_back(static_cast<float>(i));
    expected.y.push_back(static_cast<float>(2 * i));
  }
  // Every place in a line is once at the end of a buffer.
  for (size_t blanks = 0; blanks < 16; ++blanks) {
    EXPECT_EQ(Read(std::string(blanks, ' ') + rows, NoHeader()), expected);
  }
}

TEST(CsvTest, Lines_BeyondTheLimit_AreRefused) {
  std::string wide;
  CsvTable expected;
  for (int i = 0; i < 200000; ++i) {
    wide += std::to_string(i) + ",";
    expected.x.push_back(static_cast<float>(i));
  }
  expected.y.push_back(7);
  EXPECT_EQ(Read(wide + "7\n", NoHeader()), expected);
  ExpectRefused("1,2\n" + std::string(17 << 20, '1') + "\n", NoHeader(),
                Code::kCorruption, "line 2 is longer than 16777216 bytes");
  ExpectRefused(std::string(17 << 20, ' '), NoHeader(), Code::kCorruption,
                "line 1 is longer than 16777216 bytes");
  ExpectRefused(std::string(2 << 20, ','), NoHeader(), Code::kCorruption,
                "line 1: 2097153 columns");
}

Status ReadOne(const std::string& path, std::string* content) {
  const Dataset d = CsvDataset(path);
  if (!d.status().ok() && d.source() == nullptr) return d.status();
  std::vector<float> x, y;
  ReadAll(d.source().get(), &x, &y);
  for (const float v : x) *content += std::to_string(v) + " ";
  for (const float v : y) *content += std::to_string(v) + " ";
  return Status();
}

TEST(CsvTest, Gzip_CutOrDamaged_IsRefused) {
  const DataFiles files;
  const std::string packed =
      Gzip("a,b,class\n1,2,0\n3,4,1\n5.5,6.25,2\n-1,-2,0\n");
  ExpectCutsAreFound(files, "a.csv.gz", packed, ReadOne, "");
  ExpectGzipDamageIsFound(files, "a.csv.gz", packed, ReadOne);
  // Once it is known to be gzip, the place is an offset.
  for (size_t n = 2; n < packed.size(); ++n) {
    const std::string path = files.Write("a.csv.gz", packed.substr(0, n));
    ExpectError(CsvDataset(path).status(), Code::kCorruption, path,
                "the gzip data end early, at offset ");
  }
}

TEST(CsvTest, Open_MissingFileOrFolder_IsRefused) {
  const DataFiles files;
  const std::string missing = files.Path("missing.csv");
  ExpectError(CsvDataset(missing).status(), Code::kNotFound, missing,
              "No such file");
  ExpectError(CsvDataset(files.root()).status(), Code::kInvalidArgument,
              files.root(), "not a regular file");
}

TEST(CsvTest, Numbers_LocaleWithADecimalComma_AreReadTheSame) {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  const char* name = nullptr;
  for (const char* german : {"de_DE.UTF-8", "de_DE.utf8", "de_DE"}) {
    if (name == nullptr) name = std::setlocale(LC_NUMERIC, german);
  }
  if (name == nullptr) GTEST_SKIP() << "no locale with a decimal comma";
  const CsvTable table = Read("1.5,2.5e-60,3\n", NoHeader());
  std::setlocale(LC_NUMERIC, before.c_str());
  EXPECT_EQ(table, (CsvTable{{1.5f, 0}, {3}}));
}

using Kind = CsvLines::Kind;

CsvOptions TwoValues() {
  CsvOptions options;
  options.values = 2;
  options.for_prediction = true;
  return options;
}

std::vector<float> ValuesOf(const CsvLines& lines) {
  std::vector<float> x(lines.source()->x().bytes() / sizeof(float));
  const int64_t first = 0;
  EXPECT_OK(lines.source()->Read(&first, 1, x.data(), nullptr));
  return x;
}

TEST(CsvLinesTest, Next_NamesRowsAndBlanks_AreDistinguished) {
  CsvOptions options = TwoValues();
  options.comment = '#';
  options.separator = ';';
  options.decimal = ',';
  CsvLines lines("port", options);
  Kind kind = Kind::kExample;
  for (const auto& [line, expected] :
       {std::pair("# of the board", Kind::kBlank),
        {" \t", Kind::kBlank},
        {"a;b", Kind::kNames},
        {"", Kind::kBlank}}) {
    ASSERT_OK(lines.Next(line, &kind)) << line;
    EXPECT_EQ(kind, expected) << line;
    EXPECT_EQ(lines.source(), nullptr);
  }
  for (const auto& [line, x] :
       {std::pair("1,5;-2", std::vector<float>{1.5f, -2}),
        {"\"3\" ; 4 # late", {3, 4}},
        {"true;1e-3", {1, 1e-3f}}}) {
    ASSERT_OK(lines.Next(line, &kind)) << line;
    EXPECT_EQ(kind, Kind::kExample);
    EXPECT_EQ(ValuesOf(lines), x);
  }
  EXPECT_EQ(lines.line(), 7);
}

TEST(CsvLinesTest, Next_AfterAWrongLine_TakesTheNext) {
  CsvOptions options = TwoValues();
  options.header = false;
  CsvLines lines("port", options);
  Kind kind = Kind::kBlank;
  const auto expect = [&](const std::string& line, const char* where) {
    ExpectError(lines.Next(line, &kind), Code::kCorruption, "port: line ",
                where);
  };
  // The end of a line that began before the program did.
  EXPECT_EQ(lines.Next("5", &kind).code(), Code::kInvalidArgument);
  expect("1,x", "line 2, column 2: 'x' is not a number");
  ASSERT_OK(lines.Next("1,2", &kind));  // fixes the columns
  expect("1,2,3", "line 4 has 3 fields, the first had 2");
  expect("1,\"2", "line 5: the quote of column 2");
  expect("1,", "line 6, column 2: ''");
  expect(std::string(CsvLines::kLongest + 1, '1'), "line 7 is longer than");
  ASSERT_TRUE(lines.Next("\xEF\xBB\xBF", &kind).code() == Code::kCorruption);
  ASSERT_OK(lines.Next("3,4", &kind));
  EXPECT_EQ(ValuesOf(lines), (std::vector<float>{3, 4}));

  CsvLines marked("port", options);
  ASSERT_OK(
      marked.Next("\xEF\xBB\xBF"
                  "5,6",
                  &kind));
  EXPECT_EQ(ValuesOf(marked), (std::vector<float>{5, 6}));
}

}  // namespace
}  // namespace ringlet
