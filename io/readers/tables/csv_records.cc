// A record is one line, or several if a quoted field has line ends. Its text
// is in record_, and ranges_ has the fields in it; the Fields of Next are
// views of it, which the next call ends. The bytes are hostile: a record
// without an end stops at kLongestRecord. Numbers are parsed without the
// locale.

#include "csv_records.h"

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <utility>

#include "../../../core/base/number_text.h"
#include "../../../core/base/text.h"

namespace ringlet {
namespace {

constexpr size_t kLongestRecord = 16 << 20;  // bytes

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

bool ParsePoint(std::string_view field, float* value) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') {
    field.remove_prefix(1);
  }
  // If the value is infinite, and the text has no word for that such as "inf",
  // the number is too large.
  return ParseDecimal(field, value) &&
         (!std::isinf(*value) || std::isalpha(field.back()) != 0);
}

// "1.5" of "1,5"; empty for a field with a point.
std::string WithPoint(std::string_view field, char decimal) {
  if (field.find('.') != std::string_view::npos) return "";
  std::string text(field);
  std::replace(text.begin(), text.end(), decimal, '.');
  return text;
}

}  // namespace

RecordReader::RecordReader(InputFile* file, const CsvDialect& dialect)
    : RecordReader(
          file->path(),
          [file](void* data, size_t bytes, size_t* got) {
            return file->ReadSome(data, bytes, got);
          },
          dialect, 64 << 10, 0) {}

RecordReader::RecordReader(const std::string& path, Read read,
                           const CsvDialect& dialect, size_t piece,
                           int64_t begin)
    : path_(path),
      read_(std::move(read)),
      dialect_(dialect),
      piece_(piece),
      begin_(begin),
      read_to_(begin),
      lines_(begin > 0 ? 1 : 0) {}

// Appends the next line without its end to record_. *has_line is false if no
// line is left.
Status RecordReader::AppendLine(bool* has_line) {
  *has_line = false;
  for (;;) {
    if (at_ == buffer_.size()) {
      if (!read_) break;
      buffer_.resize(piece_);
      at_ = 0;
      size_t got = 0;
      RINGLET_RETURN_IF_ERROR(read_(&buffer_[0], buffer_.size(), &got));
      buffer_.resize(got);
      read_to_ += static_cast<int64_t>(got);
      newline_ = 0;
      if (got == 0) break;
    }
    if (skip_newline_) {
      skip_newline_ = false;
      if (buffer_[at_] == '\n') {
        ++at_;
        continue;
      }
    }
    *has_line = true;
    if (newline_ <= at_) {
      newline_ = std::min(buffer_.find('\n', at_), buffer_.size());
    }
    std::string_view text(buffer_);
    text = text.substr(at_, newline_ - at_);
    const size_t cr = text.find('\r');
    const bool ends = cr != std::string_view::npos || newline_ < buffer_.size();
    text = text.substr(0, cr);
    record_.append(text);
    at_ += text.size();
    if (record_.size() > kLongestRecord) {
      return Corruption("%s: line %" PRId64 " is longer than %zu bytes%s",
                        path_.c_str(), line_, kLongestRecord,
                        lines_ + 1 > line_ ? "; is a quote not closed?" : "");
    }
    if (!ends) continue;
    skip_newline_ = buffer_[at_++] == '\r';
    break;
  }
  if (*has_line) ++lines_;
  return Status();
}

Status RecordReader::CheckFirstLine() {
  if (record_.compare(0, 3, "\xEF\xBB\xBF") == 0) {
    record_.erase(0, 3);  // a byte order mark
  }
  if (record_.compare(0, 2, "\xFF\xFE") != 0 &&
      record_.compare(0, 2, "\xFE\xFF") != 0 &&
      record_.find('\0') == std::string::npos) {
    return Status();
  }
  return Corruption(
      "%s: is UTF-16 text, or no text; save it as UTF-8 (iconv -f UTF-16 -t "
      "UTF-8)",
      path_.c_str());
}

bool RecordReader::ReadSeparator(std::string_view line, char* separator) {
  constexpr std::string_view kSep = "sep=";
  if (line.size() != kSep.size() + 1 || line.substr(0, kSep.size()) != kSep) {
    return false;
  }
  *separator = line.back();
  return true;
}

// True for a blank line, and for a line with only a comment.
bool RecordReader::IsSkipped() const {
  const std::string_view text = Trim(record_);
  return text.empty() ||
         (dialect_.comment != '\0' && text.front() == dialect_.comment);
}

Status RecordReader::Next(Fields* fields, bool* has_record) {
  for (;;) {
    record_.clear();
    line_ = lines_ + 1;
    begin_ = read_to_ - static_cast<int64_t>(buffer_.size() - at_);
    RINGLET_RETURN_IF_ERROR(AppendLine(has_record));
    if (!*has_record) return Status();
    if (line_ == 1) {
      RINGLET_RETURN_IF_ERROR(CheckFirstLine());
      if (ReadSeparator(record_, &dialect_.separator)) continue;
    }
    if (!IsSkipped()) break;
  }
  RINGLET_RETURN_IF_ERROR(
      Split().Annotate("%s: line %" PRId64, path_.c_str(), line_));
  fields->clear();
  for (const auto& [begin, end] : ranges_) {
    fields->push_back(
        Trim(std::string_view(record_).substr(begin, end - begin)));
  }
  return Status();
}

Status RecordReader::SplitLine(const std::string& line,
                               const CsvDialect& dialect,
                               std::vector<std::string>* fields) {
  RecordReader reader("", nullptr, dialect, 0, 0);
  reader.record_ = line;
  reader.lines_ = 1;
  fields->clear();
  RINGLET_RETURN_IF_ERROR(reader.Split());
  for (const auto& [begin, end] : reader.ranges_) {
    fields->push_back(reader.record_.substr(begin, end - begin));
  }
  return Status();
}

Status RecordReader::Split() {
  ranges_.clear();
  for (size_t at = 0;;) {
    const size_t begin = SkipBlanks(at);
    // Blanks at the end separate nothing.
    const bool ends =
        begin == record_.size() ||
        (dialect_.comment != '\0' && record_[begin] == dialect_.comment);
    if (blanks() && ends && !ranges_.empty()) break;
    if (begin < record_.size() && record_[begin] == '"') {
      RINGLET_RETURN_IF_ERROR(ParseQuoted(begin, &at));
    } else {
      ParsePlain(begin, &at);
    }
    if (at == record_.size()) break;
    ++at;  // the separator
  }
  return Status();
}

size_t RecordReader::SkipBlanks(size_t at) const {
  const char separator = blanks() ? '\0' : dialect_.separator;
  while (at < record_.size() && IsBlank(record_[at]) &&
         record_[at] != separator) {
    ++at;
  }
  return at;
}

// Moves *at to the separator after the field, or to the end.
void RecordReader::ParsePlain(size_t begin, size_t* at) {
  size_t end = blanks() ? record_.find_first_of(" \t", begin)
                        : record_.find(dialect_.separator, begin);
  end = std::min(end, record_.size());
  if (dialect_.comment != '\0') {
    const void* const comment =
        std::memchr(&record_[begin], dialect_.comment, end - begin);
    if (comment != nullptr) {
      end = static_cast<size_t>(static_cast<const char*>(comment) -
                                record_.data());
      record_.resize(end);
    }
  }
  *at = end;
  while (end > begin && IsBlank(record_[end - 1])) --end;
  ranges_.emplace_back(begin, end);
}

// Parses the field in the quotes that begin at `begin`, and moves its text
// there.
Status RecordReader::ParseQuoted(size_t begin, size_t* at) {
  size_t end = begin, i = begin + 1;
  for (;; record_[end++] = record_[i++]) {
    if (i == record_.size()) {
      const int64_t line = lines_;
      bool has_line = false;
      record_ += '\n';
      RINGLET_RETURN_IF_ERROR(AppendLine(&has_line));
      if (!has_line) {
        return Corruption("the quote of column %zu, on line %" PRId64
                          ", is not closed",
                          ranges_.size() + 1, line);
      }
    }
    if (record_[i] != '"') continue;
    ++i;
    if (i == record_.size() || record_[i] != '"') break;
  }
  ranges_.emplace_back(begin, end);
  const size_t next = SkipBlanks(i);
  if (dialect_.comment != '\0' && next < record_.size() &&
      record_[next] == dialect_.comment) {
    record_.resize(next);
  }
  *at = blanks() ? i : next;
  const bool ends = next == record_.size() ||
                    (blanks() ? next > i : record_[next] == dialect_.separator);
  if (ends) {
    if (next == record_.size()) *at = next;
    return Status();
  }
  return Corruption(
      "text follows a closing quote; a quote within quotes is written twice");
}

std::string BeginningOf(std::string_view field) {
  return Printable(std::string(field.substr(0, 40)));
}

std::string_view Trim(std::string_view field) {
  while (!field.empty() && IsBlank(field.front())) field.remove_prefix(1);
  while (!field.empty() && IsBlank(field.back())) field.remove_suffix(1);
  return field;
}

std::string CsvField(const std::string& text, char separator) {
  std::string field;
  for (const char c : text) {
    if (c == '"') field += c;
    field += c == '\r' || c == '\n' ? ' ' : c;
  }
  const char* const separators = separator == ' ' ? " \t" : &separator;
  const size_t count = separator == ' ' ? 2 : 1;
  const bool plain =
      field == text && Trim(text).size() == text.size() &&
      text.find_first_of(separators, 0, count) == std::string::npos &&
      !(text.empty() && separator == ' ');
  return plain ? field : '"' + field + '"';
}

bool ParseNumber(std::string_view field, float* value, char decimal) {
  if (decimal == '.') return ParsePoint(field, value);
  return ParsePoint(WithPoint(field, decimal), value);
}

bool ParseBool(std::string_view field, float* value) {
  *value = 1;
  if (field == "true" || field == "True" || field == "TRUE") return true;
  *value = 0;
  return field == "false" || field == "False" || field == "FALSE";
}

bool IsNumber(std::string_view field, char decimal) {
  if (decimal != '.') return IsNumber(WithPoint(field, decimal));
  float value;
  return ParsePoint(field, &value) || ParseDecimal(field, &value);
}

}  // namespace ringlet
