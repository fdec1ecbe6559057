// The description of the data in the file of a model.

#include "io/checkpoint/data_description.h"
#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "io/keras/compile_json.h"

namespace ringlet {
namespace {

using Role = TableColumn::Role;

// "dropped 'id', 0 'a', label 'y'"
std::string TextOf(const std::vector<TableColumn>& columns) {
  std::string text;
  for (const TableColumn& column : columns) {
    text += text.empty() ? "" : ", ";
    text += column.role == Role::kValue   ? std::to_string(column.value)
            : column.role == Role::kLabel ? "label"
                                          : "other";
    if (column.role == Role::kWeight) text += "'s weight";
    text += " '" + column.name + "'";
  }
  return text;
}

TEST(ModelFileTest, DataDescription_Columns_AreReadAsWritten) {
  const auto column = [](Role role, int64_t value, const char* name) {
    return TableColumn{name, role, value};
  };
  const std::vector<TableColumn> tables[] = {
      {},
      {column(Role::kLabel, -1, ""), column(Role::kValue, 0, ""),
       column(Role::kDropped, -1, ""), column(Role::kValue, 1, "")},
      {column(Role::kValue, 1, "a"), column(Role::kLabel, -1, "y"),
       column(Role::kWeight, -1, "w"), column(Role::kValue, 0, "b")},
      {column(Role::kValue, 0, ""), column(Role::kValue, 1, ""),
       column(Role::kLabel, -1, "")},
  };
  for (const std::vector<TableColumn>& columns : tables) {
    DataDescription d, read;
    d.columns = columns;
    EXPECT_OK(DataDescriptionFromJson(ToJson(d), 2, &read));
    EXPECT_EQ(TextOf(read.columns), TextOf(columns)) << ToJson(d);
  }
}

// Names without a table do not say where the columns are.
TEST(ModelFileTest, DataDescription_NoTable_ColumnsAreUnknown) {
  DataDescription read;
  EXPECT_OK(DataDescriptionFromJson(R"({"columns": ["a", "b"], "label": "y"})",
                                    2, &read));
  EXPECT_TRUE(read.columns.empty());
}

TEST(ModelFileTest, DataDescription_Windows_AreReadAsWritten) {
  DataDescription d, read;
  d.group = "person";
  d.windows.emplace();
  TimeseriesOptions& windows = *d.windows;
  windows.sequence_length = 4;
  windows.sequence_stride = 3;
  windows.sampling_rate = 2;
  windows.target_offset = 9;
  windows.target_length = 5;
  windows.target_columns = {2, 0};
  const std::string text = ToJson(d);
  ASSERT_OK(DataDescriptionFromJson(text, 12, &read));
  ASSERT_TRUE(read.windows.has_value());
  EXPECT_EQ(ToJson(read), text);
  EXPECT_EQ(read.windows->sequence_length, 4);
  EXPECT_EQ(read.windows->target_columns, windows.target_columns);
  EXPECT_EQ(read.group, "person");
  // The number of values is not a multiple of a row's.
  EXPECT_TRUE(Contains(DataDescriptionFromJson(text, 13, &read),
                       "windows.sequence_length is 4"));
  // A name that the file cannot have is not "", which would mean no groups.
  d.group = "\xff";
  ASSERT_OK(DataDescriptionFromJson(ToJson(d), 12, &read));
  EXPECT_EQ(read.group, "?");
  ASSERT_OK(DataDescriptionFromJson("{}", 12, &read));
  EXPECT_FALSE(read.windows.has_value());
}

TEST(ModelFileTest, DataDescription_WrongWindows_AreRefused) {
  const std::string good =
      R"({"windows": {"sequence_length": 2, "sequence_stride": 1,
          "sampling_rate": 1, "target_offset": 0, "target_length": 0,
          "target_columns": [0], "group": ""}})";
  DataDescription read;
  ASSERT_OK(DataDescriptionFromJson(good, 4, &read));
  for (const auto& [from, to] : {
           std::pair<const char*, const char*>{"\"sequence_length\": 2",
                                               "\"sequence_length\": 0"},
           {"\"sequence_length\": 2", "\"sequence_length\": 2e10"},
           {"\"sampling_rate\": 1", "\"sampling_rate\": -1"},
           {"\"sampling_rate\": 1", "\"sampling_rate\": 0.5"},
           {"\"target_offset\": 0, ", ""},
           {"[0]", "[-1]"},
           {"[0]", "[2000000]"},
           {"[0]", "[\"a\"]"},
           {"[0]", "7"},
       }) {
    EXPECT_FALSE(
        DataDescriptionFromJson(Replaced(good, from, to), 4, &read).ok())
        << to;
  }
}

TEST(ModelFileTest, DataDescription_WrongTable_IsRefused) {
  for (const char* text : {
           R"({"table": 1})",
           R"({"table": [{"role": "value", "first": 0, "count": 0}]})",
           R"({"table": [{"role": "value", "first": 1, "count": 1}]})",
           R"({"table": [{"role": "value", "count": 1}]})",
           R"({"table": [{"role": "value", "first": 0, "count": 9999999}]})",
           R"({"table": [{"role": "key", "count": 1}]})",
           R"({"table": [{"role": "value", "first": 0, "count": 1},
                         {"role": "label", "count": 2}]})",
           R"({"columns": ["a", "b"],
               "table": [{"role": "value", "first": 0, "count": 1}]})",
       }) {
    DataDescription read;
    EXPECT_FALSE(DataDescriptionFromJson(text, 3, &read).ok()) << text;
  }
}

// The description of a model's file, or no value.
std::optional<DataDescription> SavedAndLoaded(
    const std::optional<DataDescription>& description) {
  TempFolder folder;
  const std::string path = folder / "m";
  auto model = TinyModel();
  if (description) model->set_data_description(*description);
  EXPECT_OK(SaveModel(model.get(), path));
  std::unique_ptr<Model> loaded;
  EXPECT_OK(LoadModel(path, &loaded));
  if (loaded == nullptr || loaded->data_description() == nullptr) return {};
  return *loaded->data_description();
}

TEST(ModelFileTest, DataDescription_NoneIsSet_FileHasNone) {
  EXPECT_EQ(TinyModel()->data_description(), nullptr);
  EXPECT_FALSE(SavedAndLoaded(std::nullopt).has_value());
}

TEST(ModelFileTest, DataDescription_SavedAndLoaded_HasScaleColumnsAndClasses) {
  const DataDescription saved = {Scale(1.0f / 255, -0.1f),
                                 {{"id", Role::kDropped, -1},
                                  {"\"n\"", Role::kValue, 1},
                                  {"length, mm", Role::kValue, 0},
                                  {"", Role::kValue, 2},
                                  {"n", Role::kValue, 3},
                                  {"la\"bel", Role::kLabel, -1},
                                  {"w", Role::kWeight, -1},
                                  {"", Role::kDropped, -1},
                                  {"", Role::kDropped, -1}},
                                 {"épée", "猫\n"},
                                 {}};
  const auto loaded = SavedAndLoaded(saved);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->scale.factor, saved.scale.factor);
  EXPECT_EQ(loaded->scale.offset, saved.scale.offset);
  EXPECT_EQ(TextOf(loaded->columns), TextOf(saved.columns));
  EXPECT_EQ(loaded->classes, saved.classes);
}

TEST(ModelFileTest, DataDescription_SavedAndLoaded_HasTheEncoding) {
  DataDescription saved;
  TableEncoding& encoding = saved.encoding;
  encoding.columns[0].categories = {"", "a\"b", "猫"};
  encoding.columns[2].fill = 0.1f;
  encoding.columns[7].categories = {"x"};
  encoding.columns[7].one_hot = false;
  encoding.columns[7].has_unknown_category = encoding.columns[7].drop = true;
  encoding.na_values = {"?", "-999"};
  encoding.drop_unlabelled = true;
  encoding.decimal = ',';
  const auto loaded = SavedAndLoaded(saved);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->encoding.na_values, encoding.na_values);
  EXPECT_TRUE(loaded->encoding.drop_unlabelled);
  EXPECT_EQ(loaded->encoding.decimal, ',');
  ASSERT_EQ(loaded->encoding.columns.size(), 3u);
  for (const auto& [place, column] : encoding.columns) {
    const TableEncoding::Column& same = loaded->encoding.columns.at(place);
    EXPECT_EQ(same.categories, column.categories);
    EXPECT_EQ(same.one_hot, column.one_hot);
    EXPECT_EQ(same.has_unknown_category, column.has_unknown_category);
    EXPECT_EQ(same.fill, column.fill);
    EXPECT_EQ(same.drop, column.drop);
  }
}

TEST(ModelFileTest, DataDescription_SavedAndLoaded_HasTheVocabulary) {
  DataDescription saved;
  saved.text.emplace();
  saved.text->split = TextVectorization::Split::kCharacter;
  saved.text->standardize = TextVectorization::Standardize::kLower;
  saved.text->output_sequence_length = 7;
  saved.text->vocabulary = {"\n", "猫", "\""};
  const auto loaded = SavedAndLoaded(saved);
  ASSERT_TRUE(loaded.has_value());
  ASSERT_TRUE(loaded->text.has_value());
  EXPECT_EQ(loaded->text->split, saved.text->split);
  EXPECT_EQ(loaded->text->standardize, saved.text->standardize);
  EXPECT_EQ(loaded->text->output_sequence_length, 7);
  EXPECT_EQ(loaded->text->vocabulary, saved.text->vocabulary);
  EXPECT_EQ(loaded->vocabulary_digest, "");
}

// The columns keep their roles.
void ExpectNoNamesInTheFile(const DataDescription& description) {
  const auto loaded = SavedAndLoaded(description);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->scale.factor, 1);
  std::vector<TableColumn> unnamed = description.columns;
  for (TableColumn& column : unnamed) column.name.clear();
  EXPECT_EQ(TextOf(loaded->columns), TextOf(unnamed));
  EXPECT_TRUE(loaded->classes.empty());
}

TEST(ModelFileTest, DataDescription_TextThatNoFileCanHave_IsLeftOut) {
  const std::string latin1 = "caf\xe9", invalid = "\xff",
                    has_nul = std::string("a\0b", 3);
  ExpectNoNamesInTheFile({Scale(NAN),
                          {{latin1, Role::kValue, 1},
                           {"b", Role::kValue, 0},
                           {invalid, Role::kLabel, -1},
                           {has_nul, Role::kDropped, -1}},
                          {has_nul},
                          {}});
}

TEST(ModelFileTest, DataDescription_TooManyBytesOfNames_AreLeftOut) {
  std::vector<std::string> names(40000);
  std::vector<TableColumn> columns;
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = "gene of 20 letters " + std::to_string(i);
    columns.push_back({names[i], Role::kValue, static_cast<int64_t>(i)});
  }
  columns.push_back({names[0] + "\x80", Role::kLabel, -1});
  ExpectNoNamesInTheFile({Scale(), columns, names, {}});
  ExpectNoNamesInTheFile(
      {Scale(),
       {{"", Role::kValue, 0}, {std::string(300000, '"'), Role::kLabel, -1}},
       {},
       {}});
}

// A loaded model has only its digest, also in a file that it is saved to.
TEST(ModelFileTest, DataDescription_VocabularyTooLarge_IsADigest) {
  TempFolder folder;
  const std::string path = folder / "m";
  std::vector<std::string> large(60000);
  for (size_t i = 0; i < large.size(); ++i) large[i] = std::to_string(i);
  for (const std::vector<std::string>& tokens :
       {large, std::vector<std::string>{"caf\xe9"}}) {
    std::unique_ptr<Model> model = TinyModel();
    DataDescription data;
    data.text.emplace();
    data.text->output_sequence_length = 3;
    data.text->vocabulary = tokens;
    model->set_data_description(data);
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(SaveModel(model.get(), path));
      ASSERT_OK(LoadModel(path, &model));
      const DataDescription& read = *model->data_description();
      ASSERT_TRUE(read.text.has_value());
      EXPECT_TRUE(read.text->vocabulary.empty());
      EXPECT_EQ(read.vocabulary_digest, VocabularyDigest(tokens));
    }
  }
}

TEST(ModelFileTest, DataDescription_WrongText_IsRefused) {
  const std::string right = R"({"text": {"standardize": "lower",
      "split": "character", "output_sequence_length": 4,
      "vocabulary": ["a", "b"]}})";
  DataDescription read;
  EXPECT_OK(DataDescriptionFromJson(right, 4, &read));
  const std::pair<const char*, const char*> changes[] = {
      {"\"lower\"", "\"upper\""},
      {"\"lower\"", "1"},
      {"\"character\"", "null"},
      {": 4", ": 0"},
      {": 4", ": 99999999"},
      {"\"b\"", "\"a\""},
      {"\"b\"", "1"},
      {"[\"a\", \"b\"]", "[]"},
      {"\"vocabulary\"", "\"words\""}};
  for (const auto& [from, to] : changes) {
    std::string wrong = right;
    wrong.replace(wrong.find(from), std::string(from).size(), to);
    EXPECT_FALSE(DataDescriptionFromJson(wrong, 4, &read).ok()) << wrong;
  }
}

}  // namespace
}  // namespace ringlet
