// Reads in one pass. The second record may decide if the first one has names or
// numbers, so the first one waits in first_. The lengths of lines and the
// number of columns are limited, so that a file without line ends gives an
// error.

#include <cinttypes>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../core/base/text.h"
#include "../files/file_kind.h"
#include "../files/input_file.h"
#include "array_source.h"
#include "class_names.h"
#include "csv_columns.h"
#include "csv_records.h"
#include "memory_sizes.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"
#include "table_encoder.h"
#include "table_source.h"

namespace ringlet {
namespace {

class CsvReader {
 public:
  CsvReader(const std::string& path, const CsvOptions& options)
      : options_(options),
        columns_(table_.path, options_),
        encoder_(table_.path, options_, columns_) {
    table_.path = path;
    has_numerals_ = !options.classes.empty();
    for (size_t i = 0; i < options.classes.size(); ++i) {
      known_.emplace(options.classes[i], static_cast<int32_t>(i));
      has_numerals_ = has_numerals_ && IsNumber(options.classes[i]);
    }
  }

  const std::vector<float>& weights() const { return weights_; }

  Status Read(Table* table) {
    InputFile file;
    RINGLET_RETURN_IF_ERROR(file.Open(path()));
    if (options_.decimal == options_.separator) {
      return InvalidArgument("%s: '%c' is the separator and the decimal point",
                             path().c_str(), options_.decimal);
    }
    RecordReader records(
        &file, {options_.separator, options_.decimal, options_.comment});
    Fields fields;
    for (bool more = true;;) {
      RINGLET_RETURN_IF_ERROR(records.Next(&fields, &more));
      if (!more) break;
      if (!columns_.begun()) {
        RINGLET_RETURN_IF_ERROR(columns_.Begin(fields, records.line()));
        first_.assign(fields.begin(), fields.end());
        first_line_ = records.line();
        continue;
      }
      RINGLET_RETURN_IF_ERROR(TakeFirst(&fields));
      RINGLET_RETURN_IF_ERROR(Row(fields, records.line()));
    }
    RINGLET_RETURN_IF_ERROR(TakeFirst(nullptr));
    if (table_.rows == 0) {
      return Corruption("%s: no rows of numbers%s", path().c_str(),
                        left_out_ > 0 ? ": each has a missing value" : "");
    }
    RINGLET_RETURN_IF_ERROR(Finish());
    *table = std::move(table_);
    return Status();
  }

 private:
  const std::string& path() const { return table_.path; }

  // Reads the first record as a row, unless it has names. `second` decides.
  Status TakeFirst(const Fields* second) {
    if (first_.empty()) return Status();
    const std::vector<std::string> first = std::move(first_);
    first_.clear();
    const Fields fields(first.begin(), first.end());
    bool is_row = false;
    RINGLET_RETURN_IF_ERROR(columns_.Decide(fields, second, &is_row));
    RINGLET_RETURN_IF_ERROR(encoder_.Begin());
    return is_row ? Row(fields, first_line_) : Status();
  }

  bool reads_label() const {
    return columns_.label() >= 0 && !options_.for_prediction;
  }

  Status Row(const Fields& fields, int64_t line) {
    if (fields.size() != columns_.count()) {
      return Corruption("%s: line %" PRId64
                        " has %zu fields, the first had %zu",
                        path().c_str(), line, fields.size(), columns_.count());
    }
    const size_t row = table_.cells.size();
    const size_t values = static_cast<size_t>(columns_.num_values());
    table_.cells.resize(row + values * sizeof(float));
    auto* const cells = reinterpret_cast<float*>(table_.cells.data() + row);
    bool kept = true;
    for (size_t i = 0; i < columns_.count(); ++i) {
      if (columns_.value_index(i) >= 0) {
        RINGLET_RETURN_IF_ERROR(encoder_.Encode(
            i, fields[i], line, cells + columns_.value_index(i), &kept));
      }
    }
    const bool labelled = reads_label();
    const auto at = [&](int64_t i) { return fields[static_cast<size_t>(i)]; };
    if (labelled) {
      RINGLET_RETURN_IF_ERROR(
          encoder_.CheckLabel(at(columns_.label()), line, &kept));
    }
    if (!kept) {
      table_.cells.resize(row);
      ++left_out_;
      return Status();
    }
    if (labelled) RINGLET_RETURN_IF_ERROR(Label(at(columns_.label()), line));
    if (columns_.weight() >= 0) {
      const int64_t weight = columns_.weight();
      weights_.emplace_back();
      RINGLET_RETURN_IF_ERROR(Number(static_cast<size_t>(weight), at(weight),
                                     line, &weights_.back()));
    }
    ++table_.rows;
    return Status();
  }

  Status Number(size_t column, std::string_view field, int64_t line,
                float* value) const {
    if (ParseNumber(field, value, options_.decimal)) return Status();
    return Corruption("%s: line %" PRId64
                      ", %s: '%.40s' is not a number that fits float32",
                      path().c_str(), line, columns_.Describe(column).c_str(),
                      std::string(field).c_str());
  }

  Status Label(std::string_view field, int64_t line) {
    const size_t column = static_cast<size_t>(columns_.label());
    if (table_.rows == 0) {
      has_names_ = !field.empty() &&
                   (has_numerals_ || known_.count(std::string(field)) > 0 ||
                    !IsNumber(field, options_.decimal));
    }
    if (has_names_) return NamedLabel(field, line);
    float value = 0;
    RINGLET_RETURN_IF_ERROR(Number(column, field, line, &value));
    const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
    labels_.insert(labels_.end(), bytes, bytes + sizeof(value));
    return Status();
  }

  Status NamedLabel(std::string_view field, int64_t line) {
    const std::string name(field);
    const auto known = known_.find(name);
    if (known != known_.end()) {
      classes_.push_back(known->second);
      return Status();
    }
    const bool is_name =
        !name.empty() && (has_numerals_ || !IsNumber(name, options_.decimal));
    if (is_name && known_.empty()) {
      classes_.push_back(names_.Add(name));
      if (classes_.back() >= 0) return Status();
    }
    const std::string where =
        path() + ": line " + std::to_string(line) + ", " +
        columns_.Describe(static_cast<size_t>(columns_.label()));
    if (!is_name) {
      return Corruption(
          "%s: the label '%.40s' is a number or empty, but earlier labels are "
          "names",
          where.c_str(), name.c_str());
    }
    if (!known_.empty()) return UnknownClass(where, name, options_.classes);
    return Corruption(
        "%s: more than %zu different labels; these are no classes",
        where.c_str(), ClassNumbers::kMost);
  }

  Status Finish() {
    if (left_out_ > 0) {
      Notice("note: %s: leaves out %" PRId64 " of %" PRId64
             " rows, with missing values",
             path().c_str(), left_out_, left_out_ + table_.rows);
    }
    RINGLET_RETURN_IF_ERROR(encoder_.Finish(&table_.cells, table_.rows));
    table_.columns = columns_.num_values();
    table_.encoding = encoder_.encoding();
    table_.column_names = columns_.value_names();
    table_.label_name = columns_.label_name();
    if (has_names_) {
      const bool known = !known_.empty();
      table_.class_names =
          known ? options_.classes : names_.Sort(classes_.data(), table_.rows);
      const auto* bytes = reinterpret_cast<unsigned char*>(classes_.data());
      labels_.assign(bytes, bytes + classes_.size() * sizeof(classes_[0]));
      if (!known) PrintClassNames(path(), table_.class_names);
    }
    const DType type = has_names_ ? DType::kInt32 : DType::kFloat32;
    const bool labelled = columns_.has_label() && !options_.for_prediction;
    const Shape shape = labelled ? Shape() : Shape({0});
    table_.y = {path(), {type, shape}, std::move(labels_)};
    return Status();
  }

  const CsvOptions options_;
  Table table_;
  CsvColumns columns_;
  TableEncoder encoder_;
  std::map<std::string, int32_t> known_;  // options_.classes
  bool has_numerals_ = false;             // all of known_ are numbers
  // The first record's fields, until it is known if they are names.
  std::vector<std::string> first_;
  int64_t first_line_ = 1;
  int64_t left_out_ = 0;  // rows
  bool has_names_ = false;
  std::vector<int32_t> classes_;  // of named labels
  ClassNumbers names_;
  std::vector<unsigned char> labels_;
  std::vector<float> weights_;
};

}  // namespace

Status CsvBytesInMemory(const std::string& path, const CsvOptions& options,
                        uint64_t* bytes) {
  Table table;
  CsvReader reader(path, options);
  RINGLET_RETURN_IF_ERROR(reader.Read(&table));
  *bytes = table.cells.size() + table.y.data.size() +
           reader.weights().size() * sizeof(float);
  return Status();
}

Dataset CsvDataset(const std::string& path, const CsvOptions& options) {
  Table table;
  CsvReader reader(path, options);
  const Status status = reader.Read(&table);
  if (status.ok()) {
    const Dataset dataset(std::make_shared<TableSource>(std::move(table)));
    return reader.weights().empty() ? dataset
                                    : dataset.SampleWeight(reader.weights());
  }
  return Dataset(WrongKindError(
      FileSystem::Posix(), path,
      {FileKind::Format::kCsv, FileKind::Format::kGzip}, status));
}

}  // namespace ringlet
