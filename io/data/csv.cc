// One pass. Whether the first line holds names or numbers may only be known
// from the second, so it waits in first_ until then. A line and the number of
// columns are bounded, so that a file without line ends ends with an error.

#include "readers.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

#include "../../core/base/message.h"
#include "../files/file_kind.h"
#include "../files/input_file.h"
#include "array_source.h"
#include "class_names.h"
#include "csv_lines.h"

namespace ringlet {
namespace {

constexpr size_t kMostColumns = 1 << 20;

class CsvReader {
 public:
  CsvReader(const std::string& path, const CsvOptions& options)
      : path_(path), options_(options), has_label_(options.has_label) {}

  const std::vector<float>& weights() const { return weights_; }

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
      RINGLET_RETURN_IF_ERROR(CheckWeight());
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
    if (has_weight()) {
      RINGLET_RETURN_IF_ERROR(
          FindColumn(fields, line, "sample_weight", options_.weight_name,
                     options_.weight_column.value_or(-1), &weight_));
    }
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
    return FindColumn(fields, line, "the label", options_.label_name,
                      options_.label_column, &label_);
  }

  // Of a name, or where that is empty of a number.
  Status FindColumn(const Fields& fields, int64_t line, const char* what,
                    const std::string& name, int number, int64_t* column) {
    const int64_t n = static_cast<int64_t>(columns_);
    if (name.empty()) {
      *column = number < 0 ? number + n : number;
      if (*column >= 0 && *column < n) return Status();
      return InvalidArgument("%s: %s is column %d of %zu columns",
                             path_.c_str(), what, number, columns_);
    }
    const auto found = std::find(fields.begin(), fields.end(), name);
    if (!options_.header.value_or(true) || found == fields.end()) {
      return InvalidArgument("%s: line %" PRId64
                             ": no column named '%s' for %s",
                             path_.c_str(), line, name.c_str(), what);
    }
    *column = found - fields.begin();
    return Status();
  }

  bool has_weight() const {
    return !options_.weight_name.empty() || options_.weight_column;
  }

  Status CheckWeight() const {
    const bool values = columns_ > (has_label_ ? 2 : 1);
    if (!has_weight() || (weight_ != label_ && values)) return Status();
    return InvalidArgument(
        "%s: sample_weight: its column is %s", path_.c_str(),
        weight_ == label_ ? "the label too" : "the only one");
  }

  // With options_.values the number of columns tells whether there is a label.
  Status CountColumns() {
    if (options_.values == 0) return Status();
    const bool named =
        !options_.label_name.empty() || options_.label_column != -1;
    const int64_t n = static_cast<int64_t>(columns_) - (has_weight() ? 1 : 0);
    has_label_ = n == options_.values + 1;
    if (has_label_ || (n == options_.values && !named)) return Status();
    return InvalidArgument(
        "%s: has %zu columns; the model takes %" PRId64
        " and, beside them, one of a label%s",
        path_.c_str(), columns_, options_.values,
        named ? ", which --label or the RUN.json names" : "");
  }

  bool IsWeight(size_t column) const {
    return static_cast<int64_t>(column) == weight_;
  }
  bool IsLabel(size_t column) const {
    return static_cast<int64_t>(column) == label_;
  }

  // Of the first line. Whether what looks like a row is one may be left to
  // TakeFirst.
  bool HoldsNames(const Fields& fields) {
    if (options_.header) return *options_.header;
    if (!options_.label_name.empty() || !options_.weight_name.empty()) {
      return true;
    }
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
      if (IsWeight(i)) {
        weights_.push_back(value);
        continue;
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
    const int64_t others = (has_label_ ? 1 : 0) + (has_weight() ? 1 : 0);
    *source = std::make_shared<ArraySource>(
        rows_,
        ExampleArray{
            path_,
            {DType::kFloat32, {static_cast<int64_t>(columns_) - others}},
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
  int64_t weight_ = -1;
  std::vector<float> weights_;
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
  CsvReader reader(path, options);
  const Status status = reader.Read(&source);
  if (status.ok()) {
    const Dataset dataset(std::move(source));
    return reader.weights().empty() ? dataset
                                    : dataset.SampleWeight(reader.weights());
  }
  return Dataset(OtherKind(FileSystem::Posix(), path,
                           {FileKind::Format::kCsv, FileKind::Format::kGzip},
                           status));
}

}  // namespace ringlet
