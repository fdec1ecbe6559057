#include "log_table.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/text.h"
#include "io/files/input_file.h"

namespace ringlet {
namespace {

constexpr char kDigest[] = "weights_digest";
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// NaN for a field that is no number, such as "NA".
double NumberOf(std::string_view field) {
  double value = 0;
  const char* const end = field.data() + field.size();
  const auto parsed = std::from_chars(field.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? value : kNaN;
}

bool ReadCount(std::string_view field, int64_t* count) {
  const char* const end = field.data() + field.size();
  const auto parsed = std::from_chars(field.data(), end, *count);
  return parsed.ec == std::errc() && parsed.ptr == end && *count >= 0 &&
         *count < int64_t{1} << 53;
}

// The place of a row in its log: its epoch, or its step over all epochs. A log
// that another fit has continued counts on.
class RowPlace {
 public:
  double OfEpoch(int64_t epoch) {
    if (last_ >= 0 && base_ + epoch <= last_) base_ = last_ + 1 - epoch;
    return Place(base_ + epoch);
  }
  double OfStep(int64_t epoch, int64_t step) {
    const bool goes_on = epoch == epoch_ && base_ + step > last_;
    if (last_ >= 0 && !goes_on) base_ = last_ + 1;
    epoch_ = epoch;
    return Place(base_ + step);
  }

 private:
  double Place(int64_t place) {
    last_ = place;
    return static_cast<double>(place);
  }
  int64_t base_ = 0, last_ = -1, epoch_ = -1;
};

Status ReadHeader(const Fields& fields, LogTable* table) {
  if (fields.empty() || fields[0] != "epoch" ||
      (fields.size() > 2 && fields[2] == "replica")) {
    return InvalidArgument("%s: is no log of CSVLogger or StepLogger",
                           table->path.c_str());
  }
  table->of_steps = fields.size() > 1 && fields[1] == "step";
  for (size_t i = table->of_steps ? 2 : 1; i < fields.size(); ++i) {
    if (fields[i] == kDigest) continue;
    if (table->columns.size() == LogTable::kMaxColumns) {
      ++table->more_columns;
      continue;
    }
    LogTable::Column column;
    column.name = fields[i].substr(0, LogTable::kMaxNameBytes);
    column.field = i;
    table->columns.push_back(column);
  }
  return Status();
}

void ShowRow(double place, const Fields& fields, LogTable* table) {
  if (table->rows > static_cast<int64_t>(LogTable::kMaxShownRows)) {
    table->shown.clear();
    return;
  }
  std::vector<std::string> row = {std::to_string(static_cast<int64_t>(place))};
  for (const LogTable::Column& column : table->columns) {
    row.emplace_back(fields[column.field].substr(0, 40));
  }
  table->shown.push_back(row);
}

}  // namespace

Status ReadLogTable(const std::string& path, RecordReader* reader,
                    LogTable* table) {
  table->path = path;
  Fields fields;
  bool more = false;
  RINGLET_RETURN_IF_ERROR(reader->Next(&fields, &more));
  RINGLET_RETURN_IF_ERROR(ReadHeader(fields, table));
  const size_t width = fields.size();
  RowPlace place;
  for (;;) {
    RINGLET_RETURN_IF_ERROR(reader->Next(&fields, &more));
    if (!more) return Status();
    int64_t epoch = 0, step = 0;
    if (fields.size() != width || !ReadCount(fields[0], &epoch) ||
        (table->of_steps && !ReadCount(fields[1], &step))) {
      ++table->skipped_rows;
      continue;
    }
    const double x =
        table->of_steps ? place.OfStep(epoch, step) : place.OfEpoch(epoch);
    ++table->rows;
    for (LogTable::Column& column : table->columns) {
      column.curve.Add(x, NumberOf(fields[column.field]));
    }
    if (table->rows == 1 || !table->shown.empty()) ShowRow(x, fields, table);
  }
}

Status ReadLogTable(const std::string& path, LogTable* table) {
  InputFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(path));
  std::string head(6, '\0');
  size_t got = 0;
  RINGLET_RETURN_IF_ERROR(file.ReadSome(&head[0], head.size(), &got));
  if (got < head.size() || !StartsWith(head, "epoch")) {
    return InvalidArgument("%s: is no log of CSVLogger or StepLogger",
                           path.c_str());
  }
  CsvDialect dialect;
  dialect.separator = head[5];
  size_t given = 0;  // bytes of `head` that the reader has
  RecordReader reader(
      path,
      [&](void* data, size_t bytes, size_t* read) {
        if (given == head.size()) return file.ReadSome(data, bytes, read);
        *read = std::min(bytes, head.size() - given);
        std::memcpy(data, head.data() + given, *read);
        given += *read;
        return Status();
      },
      dialect, 64 << 10, 0);
  return ReadLogTable(path, &reader, table);
}

}  // namespace ringlet
