// The C function must encode a row as TableEncoder does (io/readers/tables):
// the same order of values, the same fill, the same refusals. The description
// comes from a model file, so Make checks each place before it is an index.

#include "c_table.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>

#include "../../../core/base/number_text.h"
#include "../../readers/tables/missing_numbers.h"
#include "c_helpers.h"

namespace ringlet {
namespace {

using Column = TableEncoding::Column;

// Returns the value in place of a missing value. Without a value the row is
// refused.
std::optional<float> FillOf(const Column& column) {
  if (column.drop) return std::nullopt;
  if (column.categories.empty()) return column.fill;
  const auto& texts = column.categories;
  const auto missing = std::find(texts.begin(), texts.end(), "");
  if (missing == texts.end() && !column.has_unknown_category) {
    return std::nullopt;
  }
  return static_cast<float>(missing - texts.begin());
}

}  // namespace

bool CTable::IsNeeded(const DataDescription& data) {
  return !data.encoding.columns.empty() ||
         !MissingNumbers(data.encoding).empty();
}

Status CTable::Make(const DataDescription& data, int64_t values) {
  values_ = values;
  names_ = ValueNames(data.columns);
  for (const float number : MissingNumbers(data.encoding)) {
    if (std::isfinite(number)) missing_numbers_.push_back(number);
  }
  int64_t more = 0;  // values beyond one for each column
  for (const auto& [place, column] : data.encoding.columns) {
    more += column.width() - 1;
    if (!column.fill || std::isfinite(*column.fill)) continue;
    return InvalidArgument(
        "the value that replaces a missing number is not finite");
  }
  const int64_t count =
      names_.empty() ? values - more : static_cast<int64_t>(names_.size());
  const auto& columns = data.encoding.columns;
  const int64_t first = columns.empty() ? 0 : columns.begin()->first,
                last = columns.empty() ? 0 : columns.rbegin()->first;
  if (count + more != values || first < 0 || last >= count) {
    return InvalidArgument(
        "the description of the model's training data does not fit: %" PRId64
        " columns, with an encoding up to column %" PRId64 ", make %" PRId64
        " values, and the model's input has %" PRId64,
        count, last + 1, count + more, values);
  }
  columns_.resize(static_cast<size_t>(count));
  for (const auto& [place, column] : data.encoding.columns) {
    columns_[static_cast<size_t>(place)] = column;
  }
  return Status();
}

std::string CTable::NamesOf(const std::string& prefix) const {
  return "const char* const " + prefix + "_columns[" +
         std::to_string(names_.size()) + "]";
}

std::string CTable::CategoriesOf(const std::string& prefix,
                                 size_t column) const {
  return "const char* const " + prefix + "_categories_" +
         std::to_string(column) + "[" +
         std::to_string(columns_[column].categories.size()) + "]";
}

std::string CTable::Declarations(const std::string& prefix) const {
  std::string text = "/* `in` has a number for each column, NAN";
  for (const float number : missing_numbers_) {
    text += " or " + ShortestText(number);
  }
  text += " where it is missing. */\n";
  if (!names_.empty()) text += "extern " + NamesOf(prefix) + ";\n";
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (column.categories.empty()) continue;
    text += "/* in[" + std::to_string(i) + "] is the index of its text";
    if (column.has_unknown_category) {
      text +=
          "; " + std::to_string(column.categories.size()) + ": another text";
    }
    text += ". */\nextern " + CategoriesOf(prefix, i) + ";\n";
  }
  return text + "\n";
}

std::string CTable::Definitions(const std::string& prefix) const {
  std::string text;
  if (!names_.empty()) text += CStrings(NamesOf(prefix), names_);
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].categories.empty()) continue;
    text += CStrings(CategoriesOf(prefix, i), columns_[i].categories);
  }
  return text;
}

// Lines that set `missing` for a column of numbers.
std::string CTable::MissingNumberTests() const {
  std::string text;
  for (const float number : missing_numbers_) {
    text += "    if (n == 0 && v == " + CNumber(number) + ") missing = 1;\n";
  }
  return text;
}

std::string CTable::Encoder() const {
  const std::string count = std::to_string(columns_.size());
  const auto array = [&](const char* name,
                         const std::function<std::string(const Column&)>& of) {
    std::string text = std::string("  static const ") + name + "[] = {";
    for (size_t i = 0; i < columns_.size(); ++i) {
      text += (i == 0 ? "" : i % 8 == 0 ? ",\n    " : ", ") + of(columns_[i]);
    }
    return text + "};\n";
  };
  return "\nstatic float row[" + std::to_string(values_) +
         "];\n\nstatic int encode(const float* in) {\n" +
         array("int categories",
               [](const Column& c) {
                 return std::to_string(
                     c.categories.empty() ? 0 : c.num_categories());
               }) +
         array("int one_hot",
               [](const Column& c) { return std::to_string(c.one_hot); }) +
         array("int may_be_missing",
               [](const Column& c) {
                 return std::to_string(FillOf(c).has_value());
               }) +
         array("float fill",
               [](const Column& c) { return CNumber(FillOf(c).value_or(0)); }) +
         "  float* x = row;\n  int i, k;\n  for (i = 0; i < " + count +
         R"(; ++i) {
    const int n = categories[i];
    float v = in[i];
    int missing = v != v;
)" + MissingNumberTests() +
         R"(    if (missing && !may_be_missing[i]) return 1;
    if (missing) v = fill[i];
    if (n == 0) {
      if (!(v - v == 0)) return 1;
      *x++ = v;
    } else if (!(v >= 0 && v < (float)n)) {
      return 1;
    } else if (one_hot[i]) {
      for (k = 0; k < n; ++k) *x++ = k == (int)v ? 1.0f : 0.0f;
    } else {
      *x++ = (float)(int)v;
    }
  }
  return 0;
}
)";
}

std::string CStrings(const std::string& array,
                     const std::vector<std::string>& texts) {
  std::string text = "\n" + array + " = {\n";
  for (const std::string& each : texts) text += "  " + CString(each) + ",\n";
  return text + "};\n";
}

}  // namespace ringlet
