// The second record may decide if the first one has names or numbers, so the
// first one waits in first_. The lengths of lines and the number of columns are
// limited, so that a file without line ends gives an error.

#include "csv_reader.h"

#include <cinttypes>
#include <cstring>
#include <utility>

#include "../../../core/base/text.h"
#include "../../files/input_file.h"

namespace ringlet {

CsvReader::CsvReader(const std::string& path, const CsvOptions& options)
    : path_(path),
      options_(options),
      dialect_({options.separator, options.decimal, options.comment}),
      columns_(path_, options_),
      encoder_(path_, options_, columns_) {
  has_numerals_ = !options.classes.empty();
  is_there_.resize(options.classes.size());
  for (size_t i = 0; i < options.classes.size(); ++i) {
    known_.emplace(options.classes[i], static_cast<int32_t>(i));
    has_numerals_ = has_numerals_ && IsNumber(options.classes[i]);
  }
}

Status CsvReader::ReadAll(const std::function<void(const Row&)>& take) {
  InputFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(path_));
  version_ = file.version();
  if (file.compressed() && !options_.in_memory) return RefuseCompressed(path_);
  if (options_.decimal == options_.separator) {
    return InvalidArgument("%s: '%c' is the separator and the decimal point",
                           path_.c_str(), options_.decimal);
  }
  take_ = take;
  RecordReader records(&file, dialect_);
  Fields fields;
  for (bool has_row = true;;) {
    RINGLET_RETURN_IF_ERROR(records.Next(&fields, &has_row));
    if (!has_row) break;
    if (!columns_.begun()) {
      RINGLET_RETURN_IF_ERROR(columns_.Begin(fields, records.line()));
      first_.assign(fields.begin(), fields.end());
      first_line_ = records.line();
      first_begin_ = records.begin();
      continue;
    }
    RINGLET_RETURN_IF_ERROR(ParseFirstLine(&fields));
    RINGLET_RETURN_IF_ERROR(ParseRow(fields, records.line(), records.begin()));
  }
  RINGLET_RETURN_IF_ERROR(ParseFirstLine(nullptr));
  if (rows_ == 0) {
    return Corruption("%s: no rows of numbers%s", path_.c_str(),
                      left_out_ > 0 ? ": each has a missing value" : "");
  }
  dialect_ = records.dialect();
  take_ = nullptr;
  return Finish();
}

// Reads the first record as a row, unless it has names. `second` decides.
Status CsvReader::ParseFirstLine(const Fields* second) {
  if (first_.empty()) return Status();
  const std::vector<std::string> first = std::move(first_);
  first_.clear();
  const Fields fields(first.begin(), first.end());
  bool is_row = false;
  RINGLET_RETURN_IF_ERROR(columns_.Decide(fields, second, &is_row));
  RINGLET_RETURN_IF_ERROR(encoder_.Begin());
  return is_row ? ParseRow(fields, first_line_, first_begin_) : Status();
}

Status CsvReader::ParseRow(const Fields& fields, int64_t line, int64_t begin) {
  bool kept = true;
  RINGLET_RETURN_IF_ERROR(MakeRow(fields, line, &row_, &kept));
  ++(kept ? rows_ : left_out_);
  if (!kept) return Status();
  row_.begin = begin;
  encoder_.Learn(row_.cells.data());
  take_(row_);
  return Status();
}

Status CsvReader::MakeRow(const Fields& fields, int64_t line, Row* row,
                          bool* kept) {
  if (fields.size() != columns_.count()) {
    return Corruption("%s: line %" PRId64 " has %zu fields, the first had %zu",
                      path_.c_str(), line, fields.size(), columns_.count());
  }
  *kept = true;
  row->cells.resize(static_cast<size_t>(columns_.num_values()));
  for (size_t i = 0; i < columns_.count(); ++i) {
    const int64_t value_index = columns_.value_index(i);
    if (value_index < 0) continue;
    if (value_index == 0) row->text = fields[i];
    RINGLET_RETURN_IF_ERROR(encoder_.Encode(
        i, fields[i], line, row->cells.data() + value_index, kept));
  }
  const auto at = [&](int64_t i) { return fields[static_cast<size_t>(i)]; };
  if (reads_label()) {
    RINGLET_RETURN_IF_ERROR(
        encoder_.CheckLabel(at(columns_.label()), line, kept));
  }
  if (!*kept) return Status();
  RINGLET_RETURN_IF_ERROR(
      encoder_.CheckCategories(fields, line, row->cells.data()));
  if (reads_label()) {
    RINGLET_RETURN_IF_ERROR(ReadLabel(at(columns_.label()), line, &row->label));
  }
  return has_weights() ? Number(columns_.weight(), at(columns_.weight()), line,
                                &row->weight)
                       : Status();
}

Status CsvReader::Number(int64_t column, std::string_view field, int64_t line,
                         float* value) const {
  if (ParseNumber(field, value, options_.decimal)) return Status();
  return Corruption("%s: line %" PRId64
                    ", %s: '%.40s' is not a number that fits float32",
                    path_.c_str(), line,
                    columns_.Describe(static_cast<size_t>(column)).c_str(),
                    std::string(field).c_str());
}

Status CsvReader::ReadLabel(std::string_view field, int64_t line,
                            int32_t* label) {
  if (!has_names_) {
    has_names_ = !field.empty() &&
                 (has_numerals_ || known_.count(std::string(field)) > 0 ||
                  !IsNumber(field, options_.decimal));
  }
  if (*has_names_) return NamedLabel(field, line, label);
  float value = 0;
  RINGLET_RETURN_IF_ERROR(Number(columns_.label(), field, line, &value));
  std::memcpy(label, &value, sizeof(value));
  return Status();
}

Status CsvReader::NamedLabel(std::string_view field, int64_t line,
                             int32_t* label) {
  const std::string name(field);
  const auto known = known_.find(name);
  if (known != known_.end()) {
    *label = known->second;
    if (!is_there_.empty()) is_there_[static_cast<size_t>(*label)] = true;
    return Status();
  }
  const bool is_name =
      !name.empty() && (has_numerals_ || !IsNumber(name, options_.decimal));
  if (is_name && known_.empty()) {
    *label = names_.Add(name);
    if (*label >= 0) return Status();
  }
  const std::string where =
      path_ + ": line " + std::to_string(line) + ", " +
      columns_.Describe(static_cast<size_t>(columns_.label()));
  if (!is_name) {
    return Corruption(
        "%s: the label '%.40s' is a number or empty, but earlier labels are "
        "names",
        where.c_str(), name.c_str());
  }
  if (!known_.empty()) return UnknownClass(where, name, options_.classes);
  return Corruption("%s: more than %zu different labels; these are not classes",
                    where.c_str(), ClassNumbers::kMax);
}

Status CsvReader::Finish() {
  if (left_out_ > 0) {
    Notice("note: %s: leaves out %" PRId64 " of %" PRId64
           " rows, with missing values",
           path_.c_str(), left_out_, left_out_ + rows_);
  }
  RINGLET_RETURN_IF_ERROR(encoder_.Finish());
  if (!has_names_.value_or(false)) return Status();
  class_names_ = options_.classes;
  if (!class_names_.empty()) {
    PrintMissingClasses(path_, class_names_, is_there_);
    return Status();
  }
  class_names_ = names_.Sort(nullptr, 0);
  for (const std::string& name : class_names_) {
    known_.emplace(name, static_cast<int32_t>(known_.size()));
  }
  PrintClassNames(path_, class_names_);
  return Status();
}

void CsvReader::Renumber(float* cells, int32_t* labels) const {
  encoder_.Renumber(cells, rows_);
  if (has_names_.value_or(false) && options_.classes.empty()) {
    names_.Sort(labels, rows_);
  }
}

Table CsvReader::Describe() const {
  Table table;
  table.path = path_;
  table.columns = columns_.num_values();
  table.encoding = encoder_.encoding();
  table.header = columns_.columns();
  table.class_names = class_names_;
  const DType type =
      has_names_.value_or(false) ? DType::kInt32 : DType::kFloat32;
  const bool labelled = columns_.label() >= 0 && !options_.for_prediction;
  const Shape shape = labelled ? Shape() : Shape({0});
  table.y = {path_, {type, shape}, {}, nullptr};
  return table;
}

}  // namespace ringlet
