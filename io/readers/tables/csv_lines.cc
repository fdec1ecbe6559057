#include "csv_lines.h"

#include <cinttypes>
#include <string_view>
#include <utility>

#include "csv_columns.h"
#include "csv_records.h"
#include "table_encoder.h"
#include "table_source.h"

namespace ringlet {

struct CsvLines::Columns {
  Columns(const std::string& name, const CsvOptions& options)
      : places(name, options), encoder(name, options, places) {}
  CsvColumns places;
  TableEncoder encoder;
};

CsvLines::CsvLines(const std::string& name, const CsvOptions& options)
    : name_(name), options_(options) {}

CsvLines::~CsvLines() = default;

std::shared_ptr<Source> CsvLines::source() const { return source_; }

std::string CsvLines::text() const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (columns_->places.value_index(i) == 0) return std::string(fields_[i]);
  }
  return "";
}

Status CsvLines::Next(const std::string& line, Kind* kind) {
  ++line_;
  if (line.size() > kLongest) {
    return Corruption("%s: line %" PRId64 " is longer than %zu bytes",
                      name_.c_str(), line_, kLongest);
  }
  std::string_view text = line;
  if (line_ == 1 && text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  // A blank or tab at an end may be a separator beside an empty field.
  const std::string_view trimmed = Trim(text);
  *kind = Kind::kBlank;
  if (trimmed.empty() ||
      (options_.comment != '\0' && trimmed[0] == options_.comment)) {
    return Status();
  }
  if (line_ == 1 && RecordReader::ReadSeparator(text, &options_.separator)) {
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(
      RecordReader::SplitLine(
          std::string(text),
          {options_.separator, options_.decimal, options_.comment}, &texts_)
          .Annotate("%s: line %" PRId64, name_.c_str(), line_));
  fields_.clear();
  for (const std::string& field : texts_) fields_.push_back(Trim(field));
  const bool first = columns_ == nullptr;
  bool is_row = true;
  if (first) RINGLET_RETURN_IF_ERROR(Begin(&columns_, &is_row));
  *kind = is_row ? Kind::kExample : Kind::kNames;
  const Status status = is_row ? Row() : Status();
  if (first && !status.ok()) {
    columns_.reset();
    source_.reset();
  }
  return status;
}

// The first line decides alone if it has names.
Status CsvLines::Begin(std::unique_ptr<Columns>* columns, bool* is_row) const {
  auto new_columns = std::make_unique<Columns>(name_, options_);
  RINGLET_RETURN_IF_ERROR(new_columns->places.Begin(fields_, line_));
  RINGLET_RETURN_IF_ERROR(new_columns->places.Decide(fields_, nullptr, is_row));
  RINGLET_RETURN_IF_ERROR(new_columns->encoder.Begin());
  *columns = std::move(new_columns);
  return Status();
}

Status CsvLines::Row() {
  const CsvColumns& places = columns_->places;
  if (fields_.size() != places.count()) {
    return Corruption("%s: line %" PRId64 " has %zu fields, the first had %zu",
                      name_.c_str(), line_, fields_.size(), places.count());
  }
  if (source_ == nullptr) {
    Table table;
    table.path = name_;
    table.rows = 1;
    table.columns = places.num_values();
    table.cells.resize(static_cast<size_t>(table.columns) * sizeof(float));
    table.encoding = columns_->encoder.encoding();
    table.y = {name_, {DType::kFloat32, {0}}, {}};
    source_ = std::make_shared<TableSource>(std::move(table));
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    const int64_t value = places.value_index(i);
    bool kept = true;
    if (value < 0) continue;
    RINGLET_RETURN_IF_ERROR(columns_->encoder.Encode(
        i, fields_[i], line_, source_->cells() + value, &kept));
  }
  return columns_->encoder.CheckCategories(fields_, line_, source_->cells());
}

}  // namespace ringlet
