// A file is read once. So a category gets the number of its first row, and
// Finish and Renumber turn it into the order of the sorted texts, which does
// not depend on the order of rows. Rows that are left out add no category and
// no mean. What it learns becomes the model's TableEncoding, and its size is
// bounded by CheckSize.

#include "table_encoder.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <limits>

#include "../../../core/base/json.h"
#include "../../../core/base/text.h"
#include "../files/class_names.h"
#include "missing_numbers.h"

namespace ringlet {
namespace {

constexpr size_t kMaxCategories = 65536;  // the most categories of a column
// The largest encoding in a model file, in bytes.
constexpr size_t kMaxEncodingBytes = 384 << 10;
// The parts of neighbouring columns there, of about 40 bytes each.
constexpr size_t kMaxParts = 4096;
// The bytes that a column takes there besides its categories.
constexpr size_t kColumnBytes = 64;

// The cell of a text that is none of the known categories. Its row may be left
// out because of another column.
constexpr float kNoCategory = -1;

// Texts that pandas.read_csv reads as missing.
constexpr const char* kMissing[] = {
    "",     "#N/A", "#N/A N/A", "#NA",     "-1.#IND", "-1.#QNAN", "-NaN",
    "-nan", "<NA>", "1.#IND",   "1.#QNAN", "N/A",     "NA",       "NULL",
    "NaN",  "None", "n/a",      "nan",     "null",
};

}  // namespace

bool IsMissing(std::string_view field) {
  return std::find(std::begin(kMissing), std::end(kMissing), field) !=
         std::end(kMissing);
}

Status TableEncoder::Begin() {
  rules_.resize(static_cast<size_t>(columns_.num_values()));
  na_values_.insert(std::begin(kMissing), std::end(kMissing));
  const std::vector<std::string>& others =
      options_.encoding ? options_.encoding->na_values : options_.na_values;
  na_values_.insert(others.begin(), others.end());
  given_.insert(others.begin(), others.end());
  RINGLET_RETURN_IF_ERROR(options_.encoding ? BeginKnown() : BeginLearning());
  for (const float number : MissingNumbers(encoding_)) {
    na_numbers_.insert(number);
  }
  return Status();
}

Status TableEncoder::BeginKnown() {
  encoding_ = *options_.encoding;
  for (const auto& [index, column] : encoding_.columns) {
    if (index < 0 || static_cast<size_t>(index) >= rules_.size()) {
      return InvalidArgument(
          "%s: has %zu columns of values, but the model "
          "has an encoding for column %" PRId64,
          path_.c_str(), rules_.size(), index + 1);
    }
    Rule& rule = rules_[static_cast<size_t>(index)];
    rule.is_text = !column.categories.empty();
    for (const std::string& category : column.categories) {
      if (category.empty()) rule.missing = OnMissing::kCategory;
      rule.numbers.emplace(category, static_cast<int32_t>(rule.numbers.size()));
    }
    if (column.drop) rule.missing = OnMissing::kDrop;
    if (!column.fill || rule.is_text) continue;
    rule.missing = OnMissing::kFill;
    rule.fill = *column.fill;
  }
  return Status();
}

Status TableEncoder::BeginLearning() {
  encoding_.na_values.assign(given_.begin(), given_.end());
  const auto has_point = [](const std::string& text) {
    return text.find_first_of(".,") != std::string::npos;
  };
  if (std::any_of(given_.begin(), given_.end(), has_point)) {
    encoding_.decimal = options_.decimal;
  }
  encoding_.drop_unlabelled =
      options_.missing.kind == CsvOptions::Missing::kDrop;
  for (const CsvOptions::Categorical& text : options_.categorical) {
    size_t column = 0;
    RINGLET_RETURN_IF_ERROR(columns_.Find("categorical", text.column, &column));
    const int64_t value_index = columns_.value_index(column);
    if (value_index < 0) {
      return InvalidArgument(
          "%s: \"categorical\" has %s, which is not an input of the model",
          path_.c_str(), columns_.Describe(column).c_str());
    }
    Rule& rule = rules_[static_cast<size_t>(value_index)];
    rule.is_text = rule.learns = true;
    encoding_.columns[value_index].one_hot = text.one_hot;
    encoding_.columns[value_index].has_unknown_category =
        text.has_unknown_category;
  }
  std::map<size_t, CsvOptions::MissingRule> rules;
  RINGLET_RETURN_IF_ERROR(FindRules(&rules));
  for (size_t i = 0; i < columns_.count(); ++i) {
    if (columns_.value_index(i) < 0) continue;
    const auto rule = rules.find(i);
    SetMissing(columns_.value_index(i),
               rule == rules.end() ? options_.missing : rule->second);
  }
  for (size_t place = 0; place < rules_.size(); ++place) {
    const Rule& rule = rules_[place];
    if (rule.learns || rule.missing == OnMissing::kMean) {
      learning_.push_back(place);
    }
  }
  return Status();
}

void TableEncoder::SetMissing(int64_t place,
                              const CsvOptions::MissingRule& missing) {
  using Missing = CsvOptions::Missing;
  Rule& rule = rules_[static_cast<size_t>(place)];
  rule.fill = missing.value;
  if (missing.kind == Missing::kError) return;
  if (missing.kind == Missing::kDrop) {
    rule.missing = OnMissing::kDrop;
    encoding_.columns[place].drop = true;
  } else if (rule.is_text) {
    rule.missing = OnMissing::kCategory;
  } else {
    const bool mean = missing.kind == Missing::kMean;
    rule.missing = mean ? OnMissing::kMean : OnMissing::kFill;
    encoding_.columns[place].fill = missing.value;
  }
}

Status TableEncoder::FindRules(
    std::map<size_t, CsvOptions::MissingRule>* rules) const {
  for (const auto& [key, rule] : options_.missing_by_column) {
    size_t column = 0;
    RINGLET_RETURN_IF_ERROR(columns_.Find("missing", key, &column));
    if (columns_.value_index(column) < 0) {
      return InvalidArgument(
          "%s: \"missing\" has %s, which is not an input of the model",
          path_.c_str(), columns_.Describe(column).c_str());
    }
    if (!rules->emplace(column, rule).second) {
      return InvalidArgument("%s: \"missing\" has %s twice", path_.c_str(),
                             columns_.Describe(column).c_str());
    }
  }
  return Status();
}

bool TableEncoder::IsGivenMissing(std::string_view field) const {
  float number = 0;
  return given_.count(field) > 0 ||
         (!na_numbers_.empty() &&
          ParseNumber(field, &number, options_.decimal) &&
          na_numbers_.count(number) > 0);
}

Status TableEncoder::ErrorAt(size_t column, int64_t line,
                             std::string_view field,
                             const std::string& rule) const {
  return Corruption("%s: line %" PRId64 ", %s: '%s' %s", path_.c_str(), line,
                    columns_.Describe(column).c_str(),
                    BeginningOf(field).c_str(), rule.c_str());
}

Status TableEncoder::Encode(size_t column, std::string_view field, int64_t line,
                            float* cell, bool* kept) {
  return rules_[static_cast<size_t>(columns_.value_index(column))].is_text
             ? EncodeText(column, field, line, cell, kept)
             : EncodeNumber(column, field, line, cell, kept);
}

Status TableEncoder::EncodeNumber(size_t column, std::string_view field,
                                  int64_t line, float* cell, bool* kept) {
  const Rule& rule = rules_[static_cast<size_t>(columns_.value_index(column))];
  if (ParseNumber(field, cell, options_.decimal) || ParseBool(field, cell)) {
    // Without a rule the loader finds a NaN.
    const bool missing = std::isnan(*cell) ? rule.missing != OnMissing::kError
                                           : na_numbers_.count(*cell) > 0;
    if (!missing) return Status();
  } else if (na_values_.count(field) == 0) {
    return ErrorAt(column, line, field,
                   "is not a number that fits float32; a column of text must "
                   "be in \"categorical\" of RUN.json, or in \"drop\"");
  }
  return EncodeMissing(rule, column, field, line, cell, kept);
}

Status TableEncoder::EncodeMissing(const Rule& rule, size_t column,
                                   std::string_view field, int64_t line,
                                   float* cell, bool* kept) const {
  *cell = std::numeric_limits<float>::quiet_NaN();
  if (rule.missing == OnMissing::kFill) *cell = rule.fill;
  if (rule.missing == OnMissing::kDrop) *kept = false;
  if (rule.missing == OnMissing::kError) {
    return ErrorAt(column, line, field,
                   "is not a number; if the value is missing, choose what to "
                   "do by \"missing\" in RUN.json");
  }
  if (*kept || !options_.for_prediction) return Status();
  return ErrorAt(column, line, field,
                 "is a missing value, with which training leaves out a row; "
                 "give only complete rows");
}

Status TableEncoder::EncodeText(size_t column, std::string_view field,
                                int64_t line, float* cell, bool* kept) {
  const int64_t value_index = columns_.value_index(column);
  Rule& rule = rules_[static_cast<size_t>(value_index)];
  const bool has_rule = rule.missing != OnMissing::kError;
  if (field.empty() || given_.count(field) > 0 ||
      (has_rule && na_values_.count(field) > 0)) {
    if (rule.missing == OnMissing::kDrop) {
      return EncodeMissing(rule, column, field, line, cell, kept);
    }
    if (!has_rule && rule.learns) {
      return ErrorAt(column, line, field,
                     "is a missing value; choose what to do by \"missing\" in "
                     "RUN.json");
    }
    field = "";
  }
  auto found = rule.numbers.find(field);
  if (found == rule.numbers.end()) {
    if (!rule.learns) {
      const TableEncoding::Column& known = encoding_.columns.at(value_index);
      *cell = known.has_unknown_category
                  ? static_cast<float>(known.categories.size())
                  : kNoCategory;
      return Status();
    }
    if (rule.numbers.size() == kMaxCategories) {
      return ErrorAt(column, line, field,
                     "is one more than 65536 different texts; they are no "
                     "categories");
    }
    const int32_t number = static_cast<int32_t>(rule.numbers.size());
    found = rule.numbers.emplace(std::string(field), number).first;
  }
  *cell = static_cast<float>(found->second);
  return Status();
}

Status TableEncoder::CheckCategories(
    const std::vector<std::string_view>& fields, int64_t line,
    const float* cells) const {
  for (size_t i = 0; i < fields.size(); ++i) {
    const int64_t value_index = columns_.value_index(i);
    if (value_index < 0 || !rules_[static_cast<size_t>(value_index)].is_text ||
        cells[value_index] != kNoCategory) {
      continue;
    }
    return ErrorAt(i, line, fields[i],
                   "is none of the model's categories: " +
                       ListNames(encoding_.columns.at(value_index).categories));
  }
  return Status();
}

Status TableEncoder::CheckLabel(std::string_view label, int64_t line,
                                bool* kept) const {
  const bool is_missing = IsGivenMissing(label);
  if (encoding_.drop_unlabelled) {
    if (is_missing || na_values_.count(label) > 0) *kept = false;
    return Status();
  }
  if (!is_missing) return Status();
  return ErrorAt(static_cast<size_t>(columns_.label()), line, label,
                 "is a missing label; \"missing\": \"drop\" leaves out such "
                 "rows");
}

std::string TableEncoder::DescribeColumn(size_t place) const {
  size_t column = 0;
  while (columns_.value_index(column) != static_cast<int64_t>(place)) ++column;
  return path_ + ": " + columns_.Describe(column);
}

// Categories of rows that were left out are none.
void TableEncoder::Learn(const float* cells) {
  for (const size_t place : learning_) {
    Rule& rule = rules_[place];
    if (rule.is_text) {
      const auto number = static_cast<size_t>(cells[place]);
      if (number >= rule.sorted.size()) rule.sorted.resize(number + 1, -1);
      rule.sorted[number] = 0;
    } else if (!std::isnan(cells[place])) {
      rule.sum += double{cells[place]};
      ++rule.known;
    }
  }
}

Status TableEncoder::SortCategories(size_t place) {
  Rule& rule = rules_[place];
  rule.learns = false;
  rule.sorted.resize(rule.numbers.size(), -1);
  std::vector<std::string>& categories =
      encoding_.columns.at(static_cast<int64_t>(place)).categories;
  for (auto& [text, number] : rule.numbers) {
    int32_t& index = rule.sorted[static_cast<size_t>(number)];
    number = std::max(index, 0);
    if (index < 0) continue;
    number = index = static_cast<int32_t>(categories.size());
    if (ValidUtf8Bytes(text) != text.size() ||
        text.find('\0') != std::string::npos) {
      return Corruption("%s: '%s' is not UTF-8, so a model cannot keep it",
                        DescribeColumn(place).c_str(),
                        BeginningOf(text).c_str());
    }
    categories.push_back(text);
  }
  return Status();
}

Status TableEncoder::FillMean(size_t place) {
  Rule& rule = rules_[place];
  rule.missing = OnMissing::kFill;
  rule.fill = static_cast<float>(rule.sum / static_cast<double>(rule.known));
  if (!std::isfinite(rule.fill)) {
    return Corruption("%s: %s", DescribeColumn(place).c_str(),
                      rule.known == 0 ? "has no value, so it has no mean"
                                      : "its mean is not finite");
  }
  encoding_.columns.at(static_cast<int64_t>(place)).fill = rule.fill;
  return Status();
}

void TableEncoder::Renumber(float* cells, int64_t rows) const {
  for (int64_t r = 0; r < rows; ++r, cells += rules_.size()) {
    for (const size_t place : learning_) {
      float& cell = cells[place];
      const Rule& rule = rules_[place];
      if (rule.is_text) {
        cell = static_cast<float>(rule.sorted[static_cast<size_t>(cell)]);
      } else if (std::isnan(cell)) {
        cell = rule.fill;
      }
    }
  }
}

// A model file has its text as JSON in JSON.
Status TableEncoder::CheckSize() const {
  size_t parts = 0, bytes = 0;
  int64_t next = 0;
  for (const TableColumn& column : columns_.columns()) {
    parts += column.value == next ? 0 : 1;
    next = column.value + 1;
  }
  if (parts > kMaxParts) {
    return InvalidArgument(
        "%s: takes its columns in %zu parts, and a model file keeps %zu; order "
        "or remove columns in the file",
        path_.c_str(), parts, kMaxParts);
  }
  const auto add = [&bytes](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::string once = JsonWriter().String(text).text();
      bytes += JsonWriter().String(once).text().size();
    }
  };
  add(encoding_.na_values);
  for (const auto& [place, column] : encoding_.columns) {
    add(column.categories);
    bytes += kColumnBytes;
    if (bytes <= kMaxEncodingBytes) continue;
    return InvalidArgument(
        "%s: categories and rules for missing values up to this column are "
        "more than a model file keeps (384 KiB); drop columns of names, or "
        "give \"missing\" for single columns",
        DescribeColumn(static_cast<size_t>(place)).c_str());
  }
  return Status();
}

Status TableEncoder::Finish() {
  if (options_.encoding) return Status();
  for (const size_t place : learning_) {
    RINGLET_RETURN_IF_ERROR(rules_[place].is_text ? SortCategories(place)
                                                  : FillMean(place));
  }
  return CheckSize();
}

}  // namespace ringlet
