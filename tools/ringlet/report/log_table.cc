// A log has no mark of its format: a file is one if its first field is "epoch".
// The separator is the byte behind it.

#include "log_table.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "core/base/number_text.h"
#include "core/base/text.h"
#include "io/files/input_file.h"

namespace ringlet {
namespace {

constexpr char kDigest[] = "weights_digest";
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// NaN for a field that is not a number, such as "NA".
double NumberOf(std::string_view field) {
  double value = 0;
  return ParseDecimal(field, &value) ? value : kNaN;
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
    const bool follows = epoch == epoch_ && base_ + step > last_;
    if (last_ >= 0 && !follows) base_ = last_ + 1;
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

Status NotALog(const std::string& path) {
  return InvalidArgument("%s: is not a log of CSVLogger or StepLogger",
                         path.c_str());
}

Status ReadHeader(const Fields& fields, LogTable* table) {
  if (fields.empty() || fields[0] != "epoch" ||
      (fields.size() > 2 && fields[2] == "replica")) {
    return NotALog(table->path);
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

// A log's file, and the reader of its records.
class LogFile {
 public:
  // kInvalidArgument if it does not begin with "epoch" and a separator.
  Status Open(const std::string& path) {
    RINGLET_RETURN_IF_ERROR(file_.Open(path));
    RINGLET_RETURN_IF_ERROR(file_.ReadSome(head_, sizeof(head_), &head_bytes_));
    if (std::string_view(head_, head_bytes_).substr(0, 5) != "epoch" ||
        head_bytes_ < sizeof(head_) || !MaySeparate(head_[5])) {
      return NotALog(path);
    }
    CsvDialect dialect;
    dialect.separator = head_[5];
    const auto read = [this](void* data, size_t bytes, size_t* got) {
      return Read(data, bytes, got);
    };
    reader_ = std::make_unique<RecordReader>(path, read, dialect, 64 << 10, 0);
    return Status();
  }
  RecordReader* reader() { return reader_.get(); }

 private:
  // The name must not be a part of another name, such as "epochs", or the end
  // of a line.
  static bool MaySeparate(char c) {
    return c == '\t' || (c >= ' ' && c <= '/' && c != '"' && c != '\'') ||
           c == ':' || c == ';' || c == '|' || c == '^';
  }
  // Reads the bytes of head_ again, and then the rest of the file.
  Status Read(void* data, size_t bytes, size_t* got) {
    if (given_ == head_bytes_) return file_.ReadSome(data, bytes, got);
    *got = std::min(bytes, head_bytes_ - given_);
    std::memcpy(data, head_ + given_, *got);
    given_ += *got;
    return Status();
  }

  InputFile file_;
  char head_[6];
  size_t head_bytes_ = 0, given_ = 0;
  std::unique_ptr<RecordReader> reader_;
};

}  // namespace

Status ReadLogTable(const std::string& path, RecordReader* reader,
                    LogTable* table) {
  table->path = path;
  Fields fields;
  bool has_row = false;
  RINGLET_RETURN_IF_ERROR(reader->Next(&fields, &has_row));
  RINGLET_RETURN_IF_ERROR(ReadHeader(fields, table));
  const size_t width = fields.size();
  RowPlace place;
  for (;;) {
    RINGLET_RETURN_IF_ERROR(reader->Next(&fields, &has_row));
    if (!has_row) return Status();
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

bool IsLogTable(const std::string& path) {
  LogFile file;
  LogTable table;
  Fields fields;
  bool has_row = false;
  return file.Open(path).ok() && file.reader()->Next(&fields, &has_row).ok() &&
         ReadHeader(fields, &table).ok();
}

Status ReadLogTable(const std::string& path, LogTable* table) {
  LogFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(path));
  return ReadLogTable(path, file.reader(), table);
}

}  // namespace ringlet
