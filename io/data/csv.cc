// One pass. Whether the first line holds names or numbers may only be known
// from the second, so it waits in first_ until then. A line and the number of
// columns are bounded, so that a file without line ends ends with an error.

#include "csv.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "../../core/base/message.h"
#include "../files/file_kind.h"
#include "../files/input_file.h"
#include "array_source.h"
#include "class_names.h"

namespace ringlet {
namespace {

constexpr size_t kLongestLine = 16 << 20;  // bytes
constexpr size_t kMostColumns = 1 << 20;

// Lines of a file, without their ends.
class LineReader {
 public:
  explicit LineReader(InputFile* file) : file_(file) {}

  // *more is false at the end of the file.
  Status Next(std::string* line, bool* more) {
    line->clear();
    *more = true;
    for (;;) {
      const size_t end = buffer_.find('\n', at_);
      if (end != std::string::npos) {
        line->append(buffer_, at_, end - at_);
        at_ = end + 1;
        break;
      }
      line->append(buffer_, at_, std::string::npos);
      if (line->size() > kLongestLine) {
        return Corruption("%s: line %" PRId64 " is longer than %zu bytes",
                          file_->path().c_str(), number_ + 1, kLongestLine);
      }
      buffer_.resize(64 << 10);
      at_ = 0;
      size_t got = 0;
      RINGLET_RETURN_IF_ERROR(
          file_->ReadSome(&buffer_[0], buffer_.size(), &got));
      buffer_.resize(got);
      if (got > 0) continue;
      if (line->empty()) {
        *more = false;
        return Status();
      }
      break;
    }
    ++number_;
    if (number_ == 1 && line->compare(0, 3, "\xEF\xBB\xBF") == 0) {
      line->erase(0, 3);  // a byte order mark
    }
    if (!line->empty() && line->back() == '\r') line->pop_back();
    return Status();
  }

  int64_t number() const { return number_; }  // of the last line, from 1

 private:
  InputFile* const file_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

// [begin, end) without blanks and quotes around it.
std::string_view Trim(std::string_view field) {
  const auto outside = [](char c) { return c == ' ' || c == '\t' || c == '"'; };
  while (!field.empty() && outside(field.front())) field.remove_prefix(1);
  while (!field.empty() && outside(field.back())) field.remove_suffix(1);
  return field;
}

void SplitFields(std::string_view line, char separator,
                 std::vector<std::string_view>* fields) {
  fields->clear();
  for (;;) {
    const size_t end = line.find(separator);
    fields->push_back(Trim(line.substr(0, end)));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

// The whole of `field` as a float32; a float64 too small for it becomes zero.
// False where it is no number, or too large.
bool ParseNumber(std::string_view field, float* value) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') {
    field.remove_prefix(1);
  }
  const char* const end = field.data() + field.size();
  auto parsed = std::from_chars(field.data(), end, *value);
  if (parsed.ec == std::errc::result_out_of_range) {
    // Too small or too large; a float64 tells.
    double wide = 0;
    parsed = std::from_chars(field.data(), end, wide);
    if (std::fabs(wide) > 1) return false;
    *value = static_cast<float>(wide);
  }
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// Of any size, also one that fits no float32.
bool IsNumber(std::string_view field) {
  float value;
  if (ParseNumber(field, &value)) return true;
  double wide;
  const char* const end = field.data() + field.size();
  return std::from_chars(field.data(), end, wide).ptr == end && !field.empty();
}

using Fields = std::vector<std::string_view>;

class CsvReader {
 public:
  CsvReader(const std::string& path, const CsvOptions& options)
      : path_(path), options_(options), has_label_(options.has_label) {}

  Status Read(std::shared_ptr<Source>* source) {
    InputFile file;
    RINGLET_RETURN_IF_ERROR(file.Open(path_));
    LineReader lines(&file);
    std::string line;
    bool more = true;
    Fields fields;
    while (true) {
      RINGLET_RETURN_IF_ERROR(lines.Next(&line, &more));
      if (!more) break;
      if (Trim(line).empty()) continue;
      SplitFields(line, options_.separator, &fields);
      if (columns_ > 0) {
        RINGLET_RETURN_IF_ERROR(TakeFirst(&fields));
        RINGLET_RETURN_IF_ERROR(Row(fields, lines.number()));
        continue;
      }
      RINGLET_RETURN_IF_ERROR(Begin(fields, lines.number()));
      first_number_ = lines.number();
      if (!HoldsNames(fields)) first_ = line;
    }
    RINGLET_RETURN_IF_ERROR(TakeFirst(nullptr));
    if (rows_ == 0) {
      return Corruption("%s: no rows of numbers", path_.c_str());
    }
    Finish(source);
    return Status();
  }

 private:
  // The first line says how many columns there are and which is the label.
  Status Begin(const Fields& fields, int64_t line) {
    columns_ = fields.size();
    RINGLET_RETURN_IF_ERROR(CountColumns());
    if (!has_label_ && columns_ <= kMostColumns) {
      label_ = -1;
      return Status();
    }
    if (columns_ < 2 || columns_ > kMostColumns) {
      return Corruption("%s: line %" PRId64
                        ": %zu columns; needs a label and at least one value "
                        "(is '%c' the separator?)",
                        path_.c_str(), line, columns_, options_.separator);
    }
    const int64_t n = static_cast<int64_t>(columns_);
    if (options_.label_name.empty()) {
      const int64_t column = options_.label_column;
      label_ = column < 0 ? column + n : column;
      if (label_ >= 0 && label_ < n) return Status();
      return InvalidArgument("%s: the label is column %d of %zu columns",
                             path_.c_str(), options_.label_column, columns_);
    }
    const auto found =
        std::find(fields.begin(), fields.end(), options_.label_name);
    if (!options_.header.value_or(true) || found == fields.end()) {
      return InvalidArgument("%s: line %" PRId64 ": no column named '%s'",
                             path_.c_str(), line, options_.label_name.c_str());
    }
    label_ = found - fields.begin();
    return Status();
  }

  // With options_.values the number of columns tells whether there is a label.
  Status CountColumns() {
    if (options_.values == 0) return Status();
    const bool named =
        !options_.label_name.empty() || options_.label_column != -1;
    const int64_t n = static_cast<int64_t>(columns_);
    has_label_ = n == options_.values + 1;
    if (has_label_ || (n == options_.values && !named)) return Status();
    return InvalidArgument(
        "%s: has %zu columns; the model takes %" PRId64
        " and, beside them, one of a label%s",
        path_.c_str(), columns_, options_.values,
        named ? ", which --label or the RUN.json names" : "");
  }

  bool IsLabel(size_t column) const {
    return static_cast<int64_t>(column) == label_;
  }

  // Of the first line. Whether what looks like a row is one may be left to
  // TakeFirst.
  bool HoldsNames(const Fields& fields) {
    if (options_.header) return *options_.header;
    if (!options_.label_name.empty()) return true;
    constexpr size_t kLeastCounted = 3;  // "0,1" is as likely a row
    bool counted = columns_ >= kLeastCounted, names = false, numbers = false;
    for (size_t i = 0; i < columns_; ++i) {
      const bool number = IsNumber(fields[i]);
      names |= !number && !IsLabel(i);
      numbers |= number;
      counted = counted && (!number || fields[i] == std::to_string(i));
    }
    // As a row with a gap begins: "5.1,NA,1.4,0".
    if (names && numbers) TellMixed();
    if (counted && !names) {
      Tell("counts its columns and is read as names", "false");
    }
    return names || counted;
  }

  void TellMixed() const {
    Tell("holds text beside numbers and is read as names, not as data",
         "false");
  }

  void Tell(const char* what, const char* otherwise) const {
    Notice("note: %s: line %" PRId64
           " %s; where that is wrong say \"header\": %s in RUN.json "
           "(evaluate, predict: --%sheader)",
           path_.c_str(), first_number_, what, otherwise,
           otherwise[0] == 'f' ? "no-" : "");
  }

  // The first line as a row, unless `next`, the row after it, shows that it
  // holds a name where labels are numbers.
  Status TakeFirst(const Fields* next) {
    if (first_.empty()) return Status();
    const std::string line = std::move(first_);
    first_.clear();
    Fields fields;
    SplitFields(line, options_.separator, &fields);
    if (!options_.header) {
      const size_t label = static_cast<size_t>(label_);
      if (label_ >= 0 && next != nullptr && label < next->size() &&
          !IsNumber(fields[label]) && IsNumber((*next)[label])) {
        TellMixed();
        return Status();
      }
      Tell("holds numbers and is read as data, not as names", "true");
    }
    return Row(fields, first_number_);
  }

  Status Row(const Fields& fields, int64_t line) {
    if (fields.size() != columns_) {
      return Corruption("%s: line %" PRId64
                        " has %zu fields, the first had %zu",
                        path_.c_str(), line, fields.size(), columns_);
    }
    if (rows_ == 0 && label_ >= 0) {
      named_labels_ = !fields[static_cast<size_t>(label_)].empty() &&
                      !IsNumber(fields[static_cast<size_t>(label_)]);
    }
    for (size_t i = 0; i < columns_; ++i) {
      const std::string_view field = fields[i];
      if (IsLabel(i) && named_labels_) {
        RINGLET_RETURN_IF_ERROR(NamedLabel(field, line));
        continue;
      }
      float value = 0;
      if (!ParseNumber(field, &value)) {
        return Corruption("%s: line %" PRId64
                          ", column %zu: '%.40s' is not a "
                          "number that fits float32",
                          path_.c_str(), line, i + 1,
                          std::string(field).c_str());
      }
      std::vector<unsigned char>& to = IsLabel(i) ? y_ : x_;
      const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
      to.insert(to.end(), bytes, bytes + sizeof(value));
    }
    ++rows_;
    return Status();
  }

  Status NamedLabel(std::string_view field, int64_t line) {
    const std::string name(field);
    if (name.empty() || IsNumber(name)) {
      return Corruption("%s: line %" PRId64 ", column %" PRId64
                        ": the label '%.40s' is no name as those before",
                        path_.c_str(), line, label_ + 1, name.c_str());
    }
    classes_.push_back(names_.Add(name));
    if (classes_.back() >= 0) return Status();
    return Corruption("%s: line %" PRId64 ", column %" PRId64
                      ": more than %zu different labels; these are no classes",
                      path_.c_str(), line, label_ + 1, ClassNumbers::kMost);
  }

  void Finish(std::shared_ptr<Source>* source) {
    std::vector<std::string> names;
    if (named_labels_) {
      names = names_.Sort(classes_.data(), rows_);
      const auto* bytes = reinterpret_cast<unsigned char*>(classes_.data());
      y_.assign(bytes, bytes + classes_.size() * sizeof(classes_[0]));
      TellClassNames(path_, names);
    }
    const int64_t labels = has_label_ ? 1 : 0;
    *source = std::make_shared<ArraySource>(
        rows_,
        ExampleArray{
            path_,
            {DType::kFloat32, {static_cast<int64_t>(columns_) - labels}},
            std::move(x_)},
        ExampleArray{path_,
                     {named_labels_ ? DType::kInt32 : DType::kFloat32,
                      has_label_ ? Shape() : Shape({0})},
                     std::move(y_)},
        std::move(names));
  }

  const std::string path_;
  const CsvOptions options_;
  bool has_label_;
  size_t columns_ = 0;
  int64_t label_ = 0;  // the column; -1: none
  std::string first_;  // the first line, where it is not known to hold names
  int64_t first_number_ = 1;
  int64_t rows_ = 0;
  bool named_labels_ = false;
  std::vector<int32_t> classes_;  // of named labels
  ClassNumbers names_;
  std::vector<unsigned char> x_, y_;
};

}  // namespace

Dataset CsvDataset(const std::string& path, const CsvOptions& options) {
  std::shared_ptr<Source> source;
  const Status status = CsvReader(path, options).Read(&source);
  if (status.ok()) return Dataset(std::move(source));
  return Dataset(OtherKind(FileSystem::Posix(), path,
                           {FileKind::Format::kCsv, FileKind::Format::kGzip},
                           status));
}

}  // namespace ringlet
