// ringlet init: writes a RUN.json for a table.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../command_line.h"
#include "../data/table_summary.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/text.h"
#include "io/files/atomic_file.h"
#include "io/files/file_system.h"
#include "io/keras/field_reader.h"
#include "io/keras/keras_json.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

std::string AbsolutePath(const std::string& path) {
  char* const real = realpath(path.c_str(), nullptr);
  const std::string absolute = real == nullptr ? path : real;
  std::free(real);
  return absolute;
}

constexpr char kAbout[] =
    R"(Writes a RUN.json that trains a small model on a CSV file. Edit it as you need.
Columns of text become categories. It drops columns of row numbers, and columns
with a different text in most rows.
)";

constexpr char kMore[] = R"(
Example: ringlet init penguins.csv --label species --out run.json
         ringlet train run.json --save penguins.safetensors
)";

constexpr size_t kMaxCategories = 64;  // the most categories of a column
constexpr double kMaxClasses = 100;    // whole numbers of a label
constexpr int64_t kExamples = 96000;   // the examples of all epochs

enum class ColumnUse : uint8_t { kNumber, kCategories, kDrop };

// Returns the column's key in RUN.json: its name, or its number if it has no
// name or shares it.
std::string KeyOf(const TableSummary& table, size_t column) {
  const std::string& name = table.columns[column].name;
  const auto same = std::count_if(
      table.columns.begin(), table.columns.end(),
      [&](const ColumnSummary& other) { return other.name == name; });
  return name.empty() || same > 1 ? std::to_string(column) : AsJson(name);
}

// The data of the run: how the table is read, and as fields of RUN.json.
class RunDraft {
 public:
  RunDraft(const std::string& path, const TableSummary& table)
      : path_(path), table_(table) {}

  // The label is a column's name or number. "" means the last column.
  Status Plan(const std::string& label) {
    RINGLET_RETURN_IF_ERROR(FindLabel(label));
    options_.separator = table_.dialect.separator;
    options_.decimal = table_.dialect.decimal;
    options_.header = table_.has_names;
    options_.label_column = static_cast<int>(label_);
    bool gaps = false;
    for (size_t i = 0; i < columns().size(); ++i) {
      if (i == label_) continue;
      const ColumnSummary& column = columns()[i];
      const ColumnUse use = ChooseUse(column);
      gaps = gaps || (use != ColumnUse::kDrop && column.missing > 0);
      if (use == ColumnUse::kDrop) {
        options_.drop.push_back(std::to_string(i));
        drop_.push_back(KeyOf(table_, i));
      }
      if (use == ColumnUse::kCategories) {
        options_.categorical.push_back({std::to_string(i), /*one_hot=*/true,
                                        /*has_unknown_category=*/false});
        categorical_.push_back(KeyOf(table_, i));
      }
      if (use != ColumnUse::kNumber) continue;
      for (const std::string& text : column.text_values) {
        gaps = true;
        options_.na_values.push_back(text);
        na_values_.push_back(AsJson(text));
      }
    }
    using Missing = CsvOptions::Missing;
    if (gaps) options_.missing.kind = Missing::kMean;
    // A row without a label is of no use.
    if (columns()[label_].missing > 0) options_.missing.kind = Missing::kDrop;
    return Status();
  }

  const CsvOptions& options() const { return options_; }

  std::string Fields() const {
    std::string text =
        "\"csv\": " + AsJson(path_) + ", \"label\": " + KeyOf(table_, label_);
    const auto character = [&](const char* name, char value, char usual) {
      if (value == usual) return;
      text +=
          ", \"" + std::string(name) + "\": " + AsJson(std::string(1, value));
    };
    character("separator", options_.separator, ',');
    character("decimal", options_.decimal, '.');
    if (!table_.has_names) text += ", \"header\": false";
    AddList("drop", drop_, &text);
    AddList("categorical", categorical_, &text);
    using Missing = CsvOptions::Missing;
    if (options_.missing.kind != Missing::kError) {
      const bool mean = options_.missing.kind == Missing::kMean;
      text += std::string(",\n    \"missing\": \"") + (mean ? "mean" : "drop") +
              "\"";
    }
    AddList("na_values", na_values_, &text);
    return text;
  }

 private:
  const std::vector<ColumnSummary>& columns() const { return table_.columns; }

  static void AddList(const char* name, const std::vector<std::string>& items,
                      std::string* text) {
    if (items.empty()) return;
    *text += ",\n    \"" + std::string(name) + "\": [";
    for (size_t i = 0; i < items.size(); ++i) {
      *text += (i > 0 ? ", " : "") + items[i];
    }
    *text += "]";
  }

  Status FindLabel(const std::string& label) {
    std::vector<std::string> names;
    for (const ColumnSummary& column : columns()) names.push_back(column.name);
    const auto named = std::find(names.begin(), names.end(), label);
    const int64_t last = static_cast<int64_t>(names.size()) - 1;
    int64_t number = label.empty() ? last : ParseWholeNumber(label, last);
    if (!label.empty() && named != names.end()) number = named - names.begin();
    if (number < 0) return UnknownName("--label", "column", label, names);
    label_ = static_cast<size_t>(number);
    const ColumnSummary& column = columns()[label_];
    if (column.texts == 0 || !column.has_too_many_values()) return Status();
    return InvalidArgument(
        "%s: the label '%s' has more than %zu different texts; choose another "
        "column",
        path_.c_str(), Printable(column.name).c_str(), column.kMaxKept);
  }

  ColumnUse ChooseUse(const ColumnSummary& column) const {
    if (column.numbers + column.texts == 0) return ColumnUse::kDrop;
    if (column.texts == 0) {
      return column.is_row_number && table_.rows > 2 ? ColumnUse::kDrop
                                                     : ColumnUse::kNumber;
    }
    // A few texts among numbers mean missing values, such as "?".
    if (column.numbers > column.texts && column.text_values.size() <= 2) {
      return ColumnUse::kNumber;
    }
    const bool differs =
        column.values.size() > kMaxCategories ||
        2 * static_cast<int64_t>(column.values.size()) > table_.rows;
    return differs ? ColumnUse::kDrop : ColumnUse::kCategories;
  }

  const std::string path_;
  const TableSummary& table_;
  size_t label_ = 0;
  CsvOptions options_;
  std::vector<std::string> drop_, categorical_, na_values_;  // JSON
};

// The number of classes; 0 if the label is a quantity.
int64_t ClassesOf(const Source& source, const ColumnSummary& label) {
  const size_t names = source.Description().classes.size();
  if (names > 0) return static_cast<int64_t>(names);
  const bool numbers =
      label.whole && label.least >= 0 && label.largest < kMaxClasses;
  return numbers ? static_cast<int64_t>(label.largest) + 1 : 0;
}

std::string RunJson(const std::string& data, int64_t values, int64_t classes,
                    int64_t epochs) {
  const char* const last = classes > 0 ? ", \"activation\": \"softmax\"" : "";
  const char* const loss =
      classes > 0
          ? R"("sparse_categorical_crossentropy", "metrics": ["accuracy"])"
          : R"("mean_squared_error", "metrics": ["mean_absolute_error"])";
  return R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, )" +
         std::to_string(values) + R"(]}},
    {"class_name": "Normalization", "config": {"adapt": true}},
    {"class_name": "Dense", "config": {"units": 32, "activation": "relu"}},
    {"class_name": "Dense", "config": {"units": )" +
         std::to_string(std::max<int64_t>(classes, 1)) + last + R"(}}]}},
  "compile": {"optimizer": "adam", "loss": )" +
         loss + R"(},
  "data": {"train": {)" +
         data + R"(}},
  "fit": {"epochs": )" +
         std::to_string(epochs) + R"(, "validation_split": 0.2}
}
)";
}

Status Init(const std::string& path, const std::string& label,
            const std::string& out) {
  if (!out.empty() && access(out.c_str(), F_OK) == 0) {
    return InvalidArgument("--out %s: already exists; choose another name",
                           out.c_str());
  }
  TableSummary table;
  RINGLET_RETURN_IF_ERROR(SummarizeTable(path, &table));
  // Paths in RUN.json are relative to its folder.
  RunDraft draft(out.find('/') == std::string::npos ? path : AbsolutePath(path),
                 table);
  RINGLET_RETURN_IF_ERROR(draft.Plan(label));
  const Dataset dataset = CsvDataset(path, draft.options());
  RINGLET_RETURN_IF_ERROR(dataset.Batch(1).status());
  const Source& source = *dataset.source();
  const size_t column = static_cast<size_t>(*draft.options().label_column);
  const std::string json =
      RunJson(draft.Fields(), source.x().shape.elements(),
              ClassesOf(source, table.columns[column]),
              std::clamp<int64_t>(kExamples / source.size(), 5, 200));
  if (out.empty()) {
    std::printf("%s", json.c_str());
    return Status();
  }
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(
      file.Open(PosixFiles(), out, static_cast<int64_t>(json.size())));
  RINGLET_RETURN_IF_ERROR(file.file()->Write(json.data(), json.size()));
  RINGLET_RETURN_IF_ERROR(file.Commit(nullptr, /*replace=*/false)
                              .Annotate("--out %s", out.c_str()));
  PrintWritten(out, "a run for " + path);
  return Status();
}

}  // namespace

int InitCommand(const std::vector<std::string>& line) {
  std::string label, out;
  CommandLine flags("init", "DATA.csv", kAbout, kMore);
  flags.Text("--label", "COLUMN", &label,
             "the column to predict: a name, or a number from 0\n"
             "(default: the last)");
  flags.Text("--out", "RUN.json", &out, "write to this file (default: stdout)");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  return InputExitCode(Init(flags.arguments()[0], label, out));
}

}  // namespace ringlet
