#include "csv_columns.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <map>
#include <set>

#include "../../core/base/text.h"
#include "class_names.h"
#include "table_encoder.h"

namespace ringlet {
namespace {

constexpr size_t kMaxColumns = 1 << 20;

// A whole number; false for other texts.
bool ParseInt(const std::string& text, int64_t* value) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// The column with this number, of `count`; -1: there is none. Negative numbers
// count from the end.
int64_t ColumnNumber(const std::string& text, size_t count) {
  const int64_t n = static_cast<int64_t>(count);
  int64_t number = 0;
  if (!ParseInt(text, &number) || number < -n || number >= n) return -1;
  return number < 0 ? number + n : number;
}

// A separator that would give several columns.
std::string OtherSeparator(std::string_view field) {
  for (const char c : {';', '\t', '|', ' ', ','}) {
    if (field.find(c) == std::string_view::npos) continue;
    const std::string shown = c == '\t' ? "\\t" : std::string(1, c);
    return "; \"separator\": \"" + shown + "\" would give more";
  }
  return "";
}

}  // namespace

Status CsvColumns::Begin(const Fields& first, int64_t line) {
  first_line_ = line;
  count_ = first.size();
  if (count_ <= kMaxColumns) {
    RINGLET_RETURN_IF_ERROR(DecideHasLabel(/*unnamed=*/false));
  }
  if (count_ > kMaxColumns || (has_label_ && count_ < 2)) {
    return Corruption(
        "%s: line %" PRId64
        ": %zu columns; needs a label and at least one value (is '%c' the "
        "separator?%s)",
        path_.c_str(), line, count_, options_.separator,
        count_ == 1 ? OtherSeparator(first[0]).c_str() : "");
  }
  if (has_weight()) {
    RINGLET_RETURN_IF_ERROR(
        FindGiven(first, "sample_weight", options_.weight_name,
                  options_.weight_column.value_or(-1), &weight_));
  }
  if (has_label_) RINGLET_RETURN_IF_ERROR(FindLabel(first));
  // HoldsNames needs the places of columns without names.
  PlaceByNumbers();
  RINGLET_RETURN_IF_ERROR(CheckNotAmbiguous(first));
  RINGLET_RETURN_IF_ERROR(Place(HoldsNames(first) ? &first : nullptr));
  return CheckWeight();
}

// As Place of a file without names, with numbers as keys.
void CsvColumns::PlaceByNumbers() {
  value_indices_.assign(count_, -1);
  int64_t next = 0;
  const std::vector<std::string> taken = TakenKeys();
  for (const std::string& key : taken) {
    const int64_t column = ColumnNumber(key, count_);
    if (column >= 0) value_indices_[static_cast<size_t>(column)] = next++;
  }
  std::set<int64_t> dropped;
  for (const std::string& key : options_.drop) {
    dropped.insert(ColumnNumber(key, count_));
  }
  for (size_t i = 0; i < count_ && taken.empty(); ++i) {
    const bool value = !IsLabel(i) && !IsWeight(i) &&
                       dropped.count(static_cast<int64_t>(i)) == 0;
    if (value) value_indices_[i] = next++;
  }
}

// The label's name in training data, if the names of the columns are not known;
// "": it is found by number too, or unknown.
std::string CsvColumns::TrainedLabelName() const {
  int64_t number = 0;
  const bool is_name = options_.training_columns.empty() &&
                       !ParseInt(options_.training_label, &number);
  return is_name ? options_.training_label : "";
}

// True if the number `place` is that of a column of this file which is none of
// the values.
bool CsvColumns::HasLabelAt(const std::string& place) const {
  const int64_t label = ColumnNumber(place, count_);
  const std::vector<std::string> taken = TakenKeys();
  return label >= 0 &&
         std::none_of(taken.begin(), taken.end(), [&](const std::string& key) {
           return ColumnNumber(key, count_) == label;
         });
}

// The column of the training data's label by the number of values before it,
// for a file without names; -1: not known, or outside.
int64_t CsvColumns::TrainedLabel() const {
  if (options_.training_label_place < 0 || !TakenKeys().empty() ||
      !options_.drop.empty() || !TrainedLabelName().empty()) {
    return -1;
  }
  int64_t column = options_.training_label_place;
  if (weight_ >= 0 && weight_ <= column) ++column;
  return column < static_cast<int64_t>(count_) ? column : -1;
}

int64_t CsvColumns::label_place() const {
  int64_t place = 0, next = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (value_indices_[i] < 0) continue;
    if (value_indices_[i] != next++) return -1;
    if (static_cast<int64_t>(i) < label_) ++place;
  }
  return label_ < 0 ? -1 : place;
}

// The label that is given, or else that of the training data, or else the last
// column. PlaceTrainedOn finds it by name.
Status CsvColumns::FindLabel(const Fields& first) {
  std::string name = options_.label_name;
  int64_t number = options_.label_column.value_or(-1);
  if (!label_is_given() && options_.training_columns.empty()) {
    name = TrainedLabelName();
    if (!ParseInt(options_.training_label, &number)) number = -1;
  }
  const int64_t trained = label_is_given() ? -1 : TrainedLabel();
  if (trained >= 0) number = trained;
  return FindGiven(first, "the label", name, number, &label_);
}

// The columns of x by the options or, without names, by the training data.
std::vector<std::string> CsvColumns::TakenKeys() const {
  if (!options_.take.empty()) return options_.take;
  std::vector<std::string> keys;
  if (!options_.encoding || !options_.drop.empty()) return keys;
  for (const int64_t column : options_.encoding->taken) {
    keys.push_back(std::to_string(column));
  }
  return keys;
}

std::vector<int64_t> CsvColumns::taken() const {
  std::vector<int64_t> columns;
  const bool all = options_.drop.empty() && TakenKeys().empty();
  if (value_names_.empty() ? all : !SharesNames()) return columns;
  columns.resize(static_cast<size_t>(num_values_));
  for (size_t i = 0; i < count_; ++i) {
    if (value_indices_[i] < 0) continue;
    columns[static_cast<size_t>(value_indices_[i])] = static_cast<int64_t>(i);
  }
  return columns;
}

// A column by its name or, if that is empty, by its number.
Status CsvColumns::FindGiven(const Fields& first, const char* what,
                             const std::string& name, int64_t number,
                             int64_t* column) const {
  const int64_t n = static_cast<int64_t>(count_);
  if (name.empty()) {
    *column = number < 0 ? number + n : number;
    if (*column >= 0 && *column < n) return Status();
    return InvalidArgument("%s: %s is column %" PRId64 " of %zu columns",
                           path_.c_str(), what, number, count_);
  }
  const auto found = std::find(first.begin(), first.end(), name);
  if (!options_.header.value_or(true) || found == first.end()) {
    return InvalidArgument("%s: line %" PRId64 ": no column named '%s' for %s",
                           path_.c_str(), first_line_, name.c_str(), what);
  }
  *column = found - first.begin();
  if (std::find(found + 1, first.end(), name) == first.end()) return Status();
  return SeveralError(name, what);
}

Status CsvColumns::SeveralError(const std::string& name,
                                const char* what) const {
  return InvalidArgument("%s: line %" PRId64
                         ": several columns are named '%s'; give the number "
                         "of that for %s",
                         path_.c_str(), first_line_, BeginningOf(name).c_str(),
                         what);
}

Status CsvColumns::Find(const char* key, const std::string& column,
                        size_t* found) const {
  const size_t same =
      static_cast<size_t>(std::count(names_.begin(), names_.end(), column));
  const int64_t number = ColumnNumber(column, count_);
  if (same == 1) {
    *found = static_cast<size_t>(
        std::find(names_.begin(), names_.end(), column) - names_.begin());
    if (number < 0 || Is(*found, number)) return Status();
    return InvalidArgument(
        "%s: line %" PRId64
        ": \"%s\" has '%s', which is the name of one column and the number of "
        "another",
        path_.c_str(), first_line_, key, BeginningOf(column).c_str());
  }
  if (same == 0 && number >= 0) {
    *found = static_cast<size_t>(number);
    return Status();
  }
  return InvalidArgument(
      "%s: line %" PRId64 ": \"%s\" has '%s', but %s", path_.c_str(),
      first_line_, key, BeginningOf(column).c_str(),
      same > 1  ? "several columns have this name"
      : named() ? "no column has this name"
                : "the columns have no names; give numbers from 0");
}

std::string CsvColumns::Describe(size_t column) const {
  std::string text = "column " + std::to_string(column + 1);
  if (named()) text += " ('" + BeginningOf(names_[column]) + "')";
  return text;
}

Status CsvColumns::CheckWeight() const {
  const bool values = count_ > (has_label_ ? 2 : 1);
  if (!has_weight() || (weight_ != label_ && values)) return Status();
  return InvalidArgument("%s: sample_weight: its column is %s", path_.c_str(),
                         weight_ == label_ ? "the label too" : "the only one");
}

// With options_.values, decides by the number of columns if the file has a
// label. `unnamed`: the file has no names.
Status CsvColumns::DecideHasLabel(bool unnamed) {
  if (options_.values == 0) return Status();
  if (options_.training_columns.empty() && !TakenKeys().empty()) {
    has_label_ = label_is_last()
                     ? HasLabelAt("-1")
                     : label_is_given() || HasLabelAt(options_.training_label);
    return Status();
  }
  const std::set<std::string> dropped(options_.drop.begin(),
                                      options_.drop.end());
  const int64_t left_out =
      static_cast<int64_t>((has_weight() ? 1 : 0) + dropped.size());
  const int64_t n = static_cast<int64_t>(count_) - left_out;
  has_label_ = n == options_.values + 1;
  const bool may_be_without = !label_is_given() || label_is_last();
  if (has_label_ || (n == options_.values && may_be_without)) return Status();
  // Names may tell the columns apart.
  if (!options_.training_columns.empty() && !unnamed) return Status();
  return InvalidArgument(
      "%s: line %" PRId64 " has %zu columns; the model takes %" PRId64
      " and one more for a label%s",
      path_.c_str(), first_line_, count_, options_.values,
      label_is_given() ? ", which --label or the RUN.json names" : "");
}

// Finds the place of each column in an example's values. `names` are the
// columns'; null: they have none.
Status CsvColumns::Place(const Fields* names) {
  names_.clear();
  if (names != nullptr) names_.assign(names->begin(), names->end());
  value_indices_.assign(count_, -1);
  value_names_.clear();
  num_values_ = 0;
  if (named() && !options_.training_columns.empty()) {
    RINGLET_RETURN_IF_ERROR(PlaceTrainedOn());
  } else if (!TakenKeys().empty()) {
    RINGLET_RETURN_IF_ERROR(PlaceTaken());
  } else {
    RINGLET_RETURN_IF_ERROR(PlaceCounted());
  }
  if (HasSameNames()) {
    Notice(
        "note: %s: two columns have the same name, so that the model finds "
        "its columns by their order",
        path_.c_str());
    value_names_.clear();
  }
  const bool by_name = !value_names_.empty();
  const bool last = label_ + 1 == static_cast<int64_t>(count_);
  label_text_ = label_ < 0 ? ""
                : by_name  ? names_[static_cast<size_t>(label_)]
                : last     ? "-1"
                           : std::to_string(label_);
  return Status();
}

// True if two values have one name, or the label has that of another column, so
// that these cannot be found by name later.
bool CsvColumns::HasSameNames() const {
  if (!options_.training_columns.empty()) return false;  // found by name here
  const std::set<std::string_view> values(value_names_.begin(),
                                          value_names_.end());
  return values.size() < value_names_.size() ||
         (named() && label_ >= 0 &&
          std::count(names_.begin(), names_.end(),
                     names_[static_cast<size_t>(label_)]) > 1);
}

// True if a value has the name of a column that is none. Then its number finds
// it in a file with both, see PlaceOf.
bool CsvColumns::SharesNames() const {
  const std::multiset<std::string_view> all(names_.begin(), names_.end());
  return std::any_of(
      value_names_.begin(), value_names_.end(),
      [&](const std::string& name) { return all.count(name) > 1; });
}

// The column of value `index` of the training data by its number, if it has the
// same name here; -1: not known.
int64_t CsvColumns::PlaceOf(size_t index) const {
  if (!options_.encoding || index >= options_.encoding->taken.size()) return -1;
  const int64_t column = options_.encoding->taken[index];
  const bool same =
      column >= 0 && column < static_cast<int64_t>(count_) &&
      names_[static_cast<size_t>(column)] == options_.training_columns[index];
  return same ? column : -1;
}

// All columns but the label, the weight and those to drop.
Status CsvColumns::PlaceCounted() {
  RINGLET_RETURN_IF_ERROR(DecideHasLabel(/*unnamed=*/true));
  if (!has_label_) label_ = -1;
  std::set<size_t> dropped;
  for (const std::string& key : options_.drop) {
    size_t column = 0;
    RINGLET_RETURN_IF_ERROR(Find("drop", key, &column));
    if (IsLabel(column) || IsWeight(column)) {
      return InvalidArgument("%s: \"drop\" has the column of the %s",
                             path_.c_str(),
                             IsLabel(column) ? "label" : "sample weights");
    }
    if (dropped.insert(column).second) continue;
    return InvalidArgument("%s: \"drop\" has %s twice", path_.c_str(),
                           Describe(column).c_str());
  }
  for (size_t i = 0; i < count_; ++i) {
    if (IsLabel(i) || IsWeight(i) || dropped.count(i) > 0) continue;
    value_indices_[i] = num_values_++;
    if (named()) value_names_.push_back(names_[i]);
  }
  if (num_values_ > 0) return Status();
  return InvalidArgument("%s: \"drop\" leaves no column of values",
                         path_.c_str());
}

// The columns of options_.take, in that order.
Status CsvColumns::PlaceTaken() {
  if (!has_label_) label_ = -1;
  for (const std::string& key : TakenKeys()) {
    size_t column = 0;
    RINGLET_RETURN_IF_ERROR(Find("columns", key, &column));
    if (value_indices_[column] >= 0) {
      return InvalidArgument("%s: \"columns\" has %s twice", path_.c_str(),
                             Describe(column).c_str());
    }
    if (IsLabel(column))
      return ValueColumnError("the column of the label", column);
    if (IsWeight(column))
      return ValueColumnError("the column of sample_weight", column);
    value_indices_[column] = num_values_++;
    if (named()) value_names_.push_back(names_[column]);
  }
  return Status();
}

// The columns of options_.training_columns, in that order.
Status CsvColumns::PlaceTrainedOn() {
  std::multimap<std::string_view, size_t> columns;
  for (size_t i = 0; i < count_; ++i) columns.emplace(names_[i], i);
  for (const std::string& name : options_.training_columns) {
    const size_t same = columns.count(name);
    const int64_t place = PlaceOf(static_cast<size_t>(num_values_));
    if (same == 0 || (same > 1 && place < 0)) {
      return InvalidArgument("%s: line %" PRId64
                             ": %s named '%s', which the model was trained on",
                             path_.c_str(), first_line_,
                             same == 0 ? "no column is" : "several columns are",
                             BeginningOf(name).c_str());
    }
    const size_t column =
        same > 1 ? static_cast<size_t>(place) : columns.find(name)->second;
    if (!options_.label_name.empty() && name == options_.label_name) {
      return ValueColumnError("the column of the label", column);
    }
    if (IsWeight(column))
      return ValueColumnError("the column of sample_weight", column);
    value_indices_[column] = num_values_++;
  }
  value_names_ = options_.training_columns;
  std::vector<int64_t> others;
  for (size_t i = 0; i < count_; ++i) {
    if (value_indices_[i] < 0 && !IsWeight(i)) {
      others.push_back(static_cast<int64_t>(i));
    }
  }
  RINGLET_RETURN_IF_ERROR(ChooseLabel(others));
  if (options_.values == 0) NoteIgnored(others);
  return Status();
}

void CsvColumns::NoteIgnored(const std::vector<int64_t>& others) const {
  std::vector<std::string> ignored;
  for (const int64_t i : others) {
    if (i != label_) ignored.push_back(names_[static_cast<size_t>(i)]);
  }
  if (ignored.empty()) return;
  Notice("note: %s: ignores columns that the model does not take: %s",
         path_.c_str(), ListNames(ignored).c_str());
}

Status CsvColumns::ValueColumnError(const char* what, size_t column) const {
  const std::string name = named() ? "'" + BeginningOf(names_[column]) + "'"
                                   : std::to_string(column);
  return InvalidArgument("%s: %s is %s, a value of the model", path_.c_str(),
                         what, name.c_str());
}

// `others` are the columns that are no values of the model. The label is the
// given one, or else the one of the training data, or else the only other.
Status CsvColumns::ChooseLabel(const std::vector<int64_t>& others) {
  // With a number of values the label may be absent.
  if (options_.values != 0) has_label_ = label_is_given() && label_ >= 0;
  if (!has_label_) label_ = -1;
  if (!has_label_) return Status();
  if (label_is_given()) {
    const size_t label = static_cast<size_t>(label_);
    return value_indices_[label] < 0
               ? Status()
               : ValueColumnError("the column of the label", label);
  }
  label_ = -1;
  for (const int64_t i : others) {
    const bool usual =
        names_[static_cast<size_t>(i)] == options_.training_label;
    const bool only = options_.training_label.empty() && others.size() == 1;
    if (usual && label_ >= 0) {
      return SeveralError(options_.training_label, "the label");
    }
    if (usual || only) label_ = i;
  }
  if (label_ >= 0) return Status();
  return InvalidArgument(
      "%s: line %" PRId64
      ": %s; give the column of the label (--label, or \"label\" in RUN.json)",
      path_.c_str(), first_line_,
      options_.training_label.empty()
          ? "any of several columns may be the label"
          : ("no column is named '" + BeginningOf(options_.training_label) +
             "', the label of training")
                .c_str());
}

// True if the fields have the names of all columns of the training data. Names
// such as "0", "1" could also be the numbers of a row, so they do not suffice.
bool CsvColumns::NamesTrainingColumns(const Fields& fields) const {
  const std::vector<std::string>& columns = options_.training_columns;
  bool counted = true;
  for (size_t i = 0; i < columns.size(); ++i) {
    counted = counted && columns[i] == std::to_string(i);
  }
  const std::set<std::string_view> names(fields.begin(), fields.end());
  const std::string& label = options_.training_label;
  const bool has_label =
      !label.empty() && !IsNumber(label) && names.count(label) > 0;
  if (columns.empty() || (counted && !has_label)) return false;
  return std::all_of(
      columns.begin(), columns.end(),
      [&](const std::string& name) { return names.count(name) > 0; });
}

// True if the column may have text in a row.
bool CsvColumns::IsText(size_t column) const {
  if (IsLabel(column)) return true;
  if (options_.encoding) {
    const auto& known = options_.encoding->columns;
    const auto found = known.find(value_indices_[column]);
    return found != known.end() && !found->second.categories.empty();
  }
  for (const CsvOptions::Categorical& text : options_.categorical) {
    if (Is(column, ColumnNumber(text.column, count_))) return true;
  }
  return false;
}

// True if an option has the name of a column.
bool CsvColumns::NamesAColumn() const {
  const auto is_name = [](const std::string& column) {
    int64_t number = 0;
    return !ParseInt(column, &number);
  };
  if (!options_.label_name.empty() || !options_.weight_name.empty() ||
      (has_label_ && !label_is_given() && !TrainedLabelName().empty())) {
    return true;
  }
  if (std::any_of(options_.take.begin(), options_.take.end(), is_name) ||
      std::any_of(options_.drop.begin(), options_.drop.end(), is_name)) {
    return true;
  }
  for (const auto& text : options_.categorical) {
    if (is_name(text.column)) return true;
  }
  return false;
}

// True if the first record has names. Decide may find later that a possible row
// has them.
bool CsvColumns::HoldsNames(const Fields& first) const {
  if (options_.header) return *options_.header;
  if (NamesTrainingColumns(first) || NamesAColumn()) return true;
  constexpr size_t kMinCounted = 3;  // "0,1" may as well be a row
  bool counted = count_ >= kMinCounted, names = false, numbers = false;
  bool only_text = true;
  for (size_t i = 0; i < count_; ++i) {
    float truth = 0;
    const bool number = IsNumber(first[i], options_.decimal) ||
                        ParseBool(first[i], &truth) ||
                        (MayHaveRule() && IsMissing(first[i]));
    const bool used = value_indices_[i] >= 0 || IsLabel(i) || IsWeight(i);
    names |= used && !number && !IsText(i);
    numbers |= used && number;
    only_text = only_text && (!used || IsText(i));
    // "0,1,2,label": in a line that counts the columns only the label may be no
    // number.
    counted =
        counted && (first[i] == std::to_string(i) || (IsLabel(i) && !number));
  }
  if (only_text && !numbers) {
    Note("has only text and is read as names, not as data", "false");
    return true;
  }
  // A row with a gap looks the same: "5.1,NA,1.4,0".
  if (names && numbers) NoteMixed();
  if (counted && !names) {
    Note("counts its columns and is read as names", "false");
  }
  return names || counted;
}

// True if a missing value may be no error.
bool CsvColumns::MayHaveRule() const {
  return options_.missing.kind != CsvOptions::Missing::kError ||
         !options_.missing_by_column.empty() ||
         (options_.encoding && !options_.encoding->columns.empty());
}

// Names "0", "1" and so on, in another order, look as a row does.
Status CsvColumns::CheckNotAmbiguous(const Fields& first) const {
  const std::vector<std::string>& columns = options_.training_columns;
  if (options_.header || columns.empty() || NamesTrainingColumns(first)) {
    return Status();
  }
  const std::set<std::string_view> fields(first.begin(), first.end());
  bool in_order = count_ >= 3;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (fields.count(columns[i]) == 0) return Status();
    in_order = in_order && i < count_ && first[i] == columns[i];
  }
  if (in_order) return Status();
  return InvalidArgument(
      "%s: line %" PRId64
      " may have the names of the columns, or be a row; say \"header\": true "
      "or false in RUN.json (evaluate, predict: --header or --no-header)",
      path_.c_str(), first_line_);
}

void CsvColumns::NoteMixed() const {
  Note("holds text beside numbers and is read as names, not as data", "false");
}

void CsvColumns::Note(const char* what, const char* otherwise) const {
  Notice("note: %s: line %" PRId64
         " %s; if that is wrong, say \"header\": %s in RUN.json (evaluate, "
         "predict: --%sheader)",
         path_.c_str(), first_line_, what, otherwise,
         otherwise[0] == 'f' ? "no-" : "");
}

Status CsvColumns::Decide(const Fields& first, const Fields* second,
                          bool* is_row) {
  *is_row = !named();
  if (named() || options_.header) return Status();
  // If the label's column has text in the first line and a number in the
  // second, the first line has the names.
  const size_t label = static_cast<size_t>(label_);
  if (label_ >= 0 && second != nullptr && label < second->size() &&
      !IsNumber(first[label], options_.decimal) &&
      IsNumber((*second)[label], options_.decimal)) {
    NoteMixed();
    *is_row = false;
    return Place(&first);
  }
  Note("holds numbers and is read as data, not as names", "true");
  return Status();
}

}  // namespace ringlet
