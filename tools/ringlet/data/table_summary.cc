// The dialect is guessed from the first kMaxTried records: the first separator
// that gives each record the same number of fields, two or more. The types of
// columns are the columns of all records. Only a guess that the reader accepts
// (CsvColumns) becomes the summary.

#include "table_summary.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "../command_line.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "io/readers/tables/csv_columns.h"
#include "io/readers/tables/table_encoder.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

constexpr size_t kMaxTried = 100;  // records

// Reads the first records; *regular: all have the same number of fields.
Status ReadBeginning(const std::string& path, const CsvDialect& dialect,
                     std::vector<std::vector<std::string>>* records,
                     bool* regular) {
  records->clear();
  *regular = true;
  InputFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(path));
  RecordReader reader(&file, dialect);
  Fields fields;
  for (bool has_record = true; records->size() < kMaxTried;) {
    RINGLET_RETURN_IF_ERROR(reader.Next(&fields, &has_record));
    if (!has_record) break;
    records->emplace_back(fields.begin(), fields.end());
    if (records->back().size() != records->front().size()) *regular = false;
  }
  return Status();
}

// The comma is tried after the other separators except the blank, since a comma
// may be a decimal point.
Status ChooseDialect(const std::string& path, CsvDialect* dialect) {
  std::vector<std::vector<std::string>> records;
  for (const char separator : {';', '\t', '|', ',', ' '}) {
    CsvDialect tried;
    tried.separator = separator;
    bool regular = false;
    const Status read = ReadBeginning(path, tried, &records, &regular);
    if (read.code() != Code::kOk && read.code() != Code::kCorruption) {
      return read;
    }
    if (!read.ok() || !regular || records.empty() || records[0].size() < 2) {
      continue;
    }
    *dialect = tried;
    int64_t commas = 0, points = 0;
    for (const std::vector<std::string>& fields : records) {
      for (const std::string& field : fields) {
        const bool point = IsNumber(field);
        points += point && field.find('.') != std::string::npos;
        commas += !point && separator != ',' && IsNumber(field, ',');
      }
    }
    if (commas > points) dialect->decimal = ',';
    return Status();
  }
  return Status();  // one column
}

void AddField(std::string_view field, int64_t row, char decimal,
              ColumnSummary* column) {
  if (IsMissing(field)) {
    ++column->missing;
    column->is_row_number = false;
    return;
  }
  float number = 0;
  const bool is_number =
      ParseNumber(field, &number, decimal) || ParseBool(field, &number);
  const auto keep = [&](std::set<std::string>* values) {
    if (values->size() <= ColumnSummary::kMaxKept) values->emplace(field);
  };
  keep(&column->values);
  if (!is_number) {
    ++column->texts;
    column->is_row_number = false;
    keep(&column->text_values);
    return;
  }
  const double value = double{number};
  const bool first = column->numbers++ == 0;
  column->least = first ? value : std::min(column->least, value);
  column->largest = first ? value : std::max(column->largest, value);
  column->whole = column->whole && value == std::floor(value);
  const double before = static_cast<double>(row);
  column->is_row_number = column->is_row_number && value >= before &&
                          value <= before + 1 &&
                          value - column->least == before;
}

std::string ListValues(const std::set<std::string>& values) {
  constexpr size_t kMaxListed = 8;
  std::string list;
  size_t count = 0;
  for (const std::string& value : values) {
    if (count++ == kMaxListed) return list + ", ...";
    list += (count > 1 ? ", " : "") + Printable(value.substr(0, 20));
  }
  return list;
}

std::string RangeText(const ColumnSummary& column) {
  return ShortestText(static_cast<float>(column.least)) + " to " +
         ShortestText(static_cast<float>(column.largest));
}

std::string DescribeColumn(const ColumnSummary& column) {
  const size_t count = column.values.size();
  const std::string values =
      column.has_too_many_values()
          ? "more than " + std::to_string(column.kMaxKept)
          : std::to_string(count);
  std::string text;
  if (column.numbers + column.texts == 0) return "no values";
  if (column.texts == 0) {
    text = "numbers, " + RangeText(column) + ", " + values + " different";
  } else if (column.numbers == 0) {
    text = "text, " + values + " different: " + ListValues(column.values);
  } else {
    text = "numbers, " + RangeText(column) +
           ", and text: " + ListValues(column.text_values);
  }
  if (column.missing > 0) {
    text += "; " + std::to_string(column.missing) + " missing";
  }
  return text;
}

}  // namespace

Status SummarizeTable(const std::string& path, TableSummary* summary) {
  *summary = TableSummary();
  RINGLET_RETURN_IF_ERROR(ChooseDialect(path, &summary->dialect));
  CsvOptions options;
  options.has_label = false;
  options.separator = summary->dialect.separator;
  options.decimal = summary->dialect.decimal;
  CsvColumns columns(path, options);
  InputFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(path));
  RecordReader reader(&file, summary->dialect);
  Fields fields;
  for (bool has_record = true;;) {
    RINGLET_RETURN_IF_ERROR(reader.Next(&fields, &has_record));
    if (!has_record) break;
    if (!columns.begun()) {
      RINGLET_RETURN_IF_ERROR(columns.Begin(fields, reader.line()));
      bool is_row = false;
      RINGLET_RETURN_IF_ERROR(columns.Decide(fields, nullptr, &is_row));
      summary->has_names = !is_row;
      summary->columns.resize(fields.size());
      for (size_t i = 0; i < fields.size() && !is_row; ++i) {
        summary->columns[i].name = std::string(fields[i]);
      }
      if (!is_row) continue;
    }
    if (fields.size() != summary->columns.size()) {
      return Corruption(
          "%s: line %" PRId64 " has %zu fields, the first had %zu",
          path.c_str(), reader.line(), fields.size(), summary->columns.size());
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      AddField(fields[i], summary->rows, summary->dialect.decimal,
               &summary->columns[i]);
    }
    ++summary->rows;
  }
  if (summary->rows > 0) return Status();
  return Corruption("%s: no rows", path.c_str());
}

std::string ToText(const std::string& path, const TableSummary& summary) {
  const char separator = summary.dialect.separator;
  std::string text =
      path + ": CSV, " + std::to_string(summary.rows) + " rows, " +
      std::to_string(summary.columns.size()) + " columns, separator '" +
      (separator == '\t' ? "\\t" : std::string(1, separator)) + "'" +
      (summary.dialect.decimal == ',' ? ", decimal comma" : "") +
      (summary.has_names ? "" : ", without names") + "\n";
  size_t width = 0;
  for (const ColumnSummary& column : summary.columns) {
    width = std::max(width, Printable(column.name.substr(0, 30)).size());
  }
  for (size_t i = 0; i < summary.columns.size(); ++i) {
    const ColumnSummary& column = summary.columns[i];
    std::string name = Printable(column.name.substr(0, 30));
    name.resize(width, ' ');
    text += FormatText("%4zu  ", i) + name + (width > 0 ? "  " : "") +
            DescribeColumn(column) + "\n";
  }
  return text + "a RUN.json for it: ringlet init " + ShellWord(path) +
         " --label COLUMN > run.json\n";
}

}  // namespace ringlet
