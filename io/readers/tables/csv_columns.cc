// Columns are assigned in one of three ways (AssignColumns): by the names of
// the training data, by its places, or by the options alone. Begin assigns as
// if the first record were a row, since HoldsNames needs the places, and again
// if that record has names.

#include "csv_columns.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <map>
#include <set>
#include <utility>

#include "../../../core/base/text.h"
#include "../files/class_names.h"
#include "table_encoder.h"

namespace ringlet {
namespace {

constexpr size_t kMaxColumns = 1 << 20;
constexpr char kLabelOfTraining[] =
    "the label of training; give the column of the label (--label, or "
    "\"label\" in RUN.json)";

// Parses a whole number; false for other texts.
bool ParseInt(const std::string& text, int64_t* value) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// Returns the column with this number, of `count`; -1: there is none. Negative
// numbers count from the end.
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
    return "; \"separator\": \"" + shown + "\" (--separator) would give more";
  }
  return "";
}

}  // namespace

Status CsvColumns::Begin(const Fields& first, int64_t line) {
  first_line_ = line;
  if (first.size() > kMaxColumns || (needs_label() && first.size() < 2)) {
    return Corruption(
        "%s: line %" PRId64
        ": %zu columns; needs a label and at least one value (is '%c' the "
        "separator?%s)",
        path_.c_str(), line, first.size(), options_.separator,
        first.size() == 1 ? OtherSeparator(first[0]).c_str() : "");
  }
  columns_.resize(first.size());
  // HoldsNames needs the places of columns without names.
  const Status unnamed = AssignColumns(nullptr);
  if (!unnamed.ok()) {
    Clear(nullptr);
    for (size_t i = 0; i < count(); ++i) AddValue(i, num_values_);
    if (options_.has_label) label_ = static_cast<int64_t>(count()) - 1;
  }
  RINGLET_RETURN_IF_ERROR(CheckNotAmbiguous(first));
  return HoldsNames(first) ? AssignColumns(&first) : unnamed;
}

void CsvColumns::Clear(const Fields* names) {
  columns_.assign(count(), TableColumn());
  named_ = names != nullptr;
  by_name_.clear();
  for (size_t i = 0; i < count() && named_; ++i) {
    columns_[i].name = std::string((*names)[i]);
    by_name_.emplace(columns_[i].name, i);
  }
  label_ = weight_ = -1;
  num_values_ = 0;
  absent_.clear();
}

void CsvColumns::AddValue(size_t column, int64_t value) {
  columns_[column].role = Role::kValue;
  columns_[column].value = value;
  ++num_values_;
}

// Gives each column its role, and each value its place in an example. `names`
// are the columns' names; null: they have none.
Status CsvColumns::AssignColumns(const Fields* names) {
  Clear(names);
  if (named_ && !ValueNames(trained_).empty()) {
    RINGLET_RETURN_IF_ERROR(AssignColumnsByName());
  } else if (!trained_.empty() && ChoosesAsInTraining()) {
    RINGLET_RETURN_IF_ERROR(AssignColumnsAsInTraining());
  } else {
    RINGLET_RETURN_IF_ERROR(AssignColumnsByOptions());
  }
  if (label_ >= 0) columns_[static_cast<size_t>(label_)].role = Role::kLabel;
  if (weight_ >= 0) columns_[static_cast<size_t>(weight_)].role = Role::kWeight;
  return Status();
}

// --- the label and the weights -----------------------------------------------

// Finds a column by its name or, if that is empty, by its number.
Status CsvColumns::FindGiven(const char* what, const std::string& name,
                             int64_t number, int64_t* column) const {
  const int64_t n = static_cast<int64_t>(count());
  if (name.empty()) {
    *column = number < 0 ? number + n : number;
    if (*column >= 0 && *column < n) return Status();
    return InvalidArgument(
        "%s: %s is column %" PRId64
        " of %zu columns; give another (in RUN.json, or by --label)",
        path_.c_str(), what, number, count());
  }
  const size_t same = by_name_.count(name);
  if (same > 1) return SeveralError(name, what);
  if (same == 0) {
    return InvalidArgument("%s: line %" PRId64 ": no column named '%s' for %s",
                           path_.c_str(), first_line_, name.c_str(), what);
  }
  *column = static_cast<int64_t>(by_name_.find(name)->second);
  return Status();
}

Status CsvColumns::FindGivenColumns(bool label, bool weight) {
  if (weight) {
    RINGLET_RETURN_IF_ERROR(FindGiven("sample_weight", options_.weight_name,
                                      options_.weight_column.value_or(-1),
                                      &weight_));
  }
  if (label) {
    RINGLET_RETURN_IF_ERROR(FindGiven("the label", options_.label_name,
                                      options_.label_column.value_or(-1),
                                      &label_));
  }
  return Status();
}

Status CsvColumns::CheckWeight() const {
  const bool values = count() > (label_ >= 0 ? 2 : 1);
  if (weight_ < 0 || (weight_ != label_ && values)) return Status();
  return InvalidArgument("%s: sample_weight: its column is %s", path_.c_str(),
                         weight_ == label_ ? "the label too" : "the only one");
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
  const size_t same = by_name_.count(column);
  const int64_t number = ColumnNumber(column, count());
  if (same == 1) {
    *found = by_name_.find(column)->second;
    if (number < 0 || static_cast<size_t>(number) == *found) return Status();
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
      same > 1 ? "several columns have this name"
      : named_ ? "no column has this name"
               : "the columns have no names; give numbers from 0");
}

std::string CsvColumns::Describe(size_t column) const {
  std::string text = "column " + std::to_string(column + 1);
  const std::string& name = columns_[column].name;
  if (named_ || !name.empty()) text += " ('" + BeginningOf(name) + "')";
  return text;
}

Status CsvColumns::ValueColumnError(const char* what, int64_t column) const {
  const std::string& name = columns_[static_cast<size_t>(column)].name;
  return InvalidArgument("%s: %s is %s, a value of the model", path_.c_str(),
                         what,
                         named_ ? ("'" + BeginningOf(name) + "'").c_str()
                                : std::to_string(column).c_str());
}

// --- by name -----------------------------------------------------------------

// All columns of the training data that are values must be there.
Status CsvColumns::AssignColumnsByName() {
  // A label that is not needed is found by name only: if it is absent, its
  // number may be the number of a value.
  const auto is_there = [&](const std::string& name, Role role) {
    return !name.empty() &&
           (by_name_.count(name) > 0 || !HasRoleInTraining(role, name, {}));
  };
  const bool label =
      options_.has_label && label_is_given() &&
      (needs_label() || is_there(options_.label_name, Role::kLabel));
  const bool weight =
      has_weight() && (!options_.for_prediction || options_.weight_column ||
                       is_there(options_.weight_name, Role::kWeight));
  RINGLET_RETURN_IF_ERROR(FindGivenColumns(label, weight));
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (trained_[i].role != Role::kValue) continue;
    size_t column = 0;
    RINGLET_RETURN_IF_ERROR(FindTrainingColumn(
        i,
        "which the model was trained on; one column must have "
        "this name",
        &column));
    if (IsLabel(column))
      return ValueColumnError("the column of the label", label_);
    if (IsWeight(column)) {
      return ValueColumnError("the column of sample_weight", weight_);
    }
    AddValue(column, trained_[i].value);
  }
  if (needs_label() && !label_is_given()) {
    RINGLET_RETURN_IF_ERROR(FindLabelByName());
  }
  RINGLET_RETURN_IF_ERROR(CheckChoice());
  if (options_.values == 0) PrintIgnoredColumns();
  return CheckWeight();
}

// If `take` or `drop` is given, it must choose the columns that training used.
// A column number may count the columns of this file or of the training file.
Status CsvColumns::CheckChoice() const {
  if (ChoosesAsInTraining()) return Status();
  const int64_t taken = static_cast<int64_t>(options_.take.size());
  const bool takes = taken > 0;
  bool same = !takes || taken == num_values_;
  for (size_t i = 0; i < options_.take.size() && same; ++i) {
    size_t column = 0;
    same = Find("columns", options_.take[i], &column).ok() &&
           columns_[column].value == static_cast<int64_t>(i);
  }
  for (size_t i = 0; i < options_.drop.size() && same; ++i) {
    size_t column = 0;
    const int64_t at = TrainingColumnOfKey(options_.drop[i]);
    same = at >= 0 ? trained_[static_cast<size_t>(at)].value < 0
                   : Find("drop", options_.drop[i], &column).ok() &&
                         columns_[column].value < 0;
  }
  if (same) return Status();
  return InvalidArgument(
      "%s: \"%s\" is another choice than in training; the model takes, in this "
      "order: %s; leave \"%s\" out",
      path_.c_str(), takes ? "columns" : "drop",
      ListNames(ValueNames(trained_)).c_str(), takes ? "columns" : "drop");
}

// The column with the name of a column of the training data. If several columns
// have the name, it is the column at the same place among them, provided the
// training data had as many.
Status CsvColumns::FindTrainingColumn(size_t index, const char* what,
                                      size_t* column) const {
  const std::string& name = trained_[index].name;
  const size_t same = by_name_.count(name);
  const auto is_same = [&](const TableColumn& c) { return c.name == name; };
  const bool at_place = same > 1 && index < count() &&
                        columns_[index].name == name &&
                        static_cast<size_t>(std::count_if(
                            trained_.begin(), trained_.end(), is_same)) == same;
  if (same > 0) *column = at_place ? index : by_name_.find(name)->second;
  const bool used = same > 0 && columns_[*column].value >= 0;
  if (same > 0 && !used && (same == 1 || at_place)) return Status();
  const std::string only = count() == 1 ? columns_[0].name : "";
  return InvalidArgument(
      "%s: line %" PRId64 ": %s named '%s', %s%s", path_.c_str(), first_line_,
      same == 0   ? "no column is"
      : same == 1 ? "only one column is"
                  : "several columns are",
      BeginningOf(name).c_str(), what, OtherSeparator(only).c_str());
}

// The label of the training data or, if that has no name, the only column that
// the training did not have.
Status CsvColumns::FindLabelByName() {
  const int64_t trained = TrainingColumnOfRole(Role::kLabel);
  if (trained >= 0 && !trained_[static_cast<size_t>(trained)].name.empty()) {
    size_t column = 0;
    RINGLET_RETURN_IF_ERROR(FindTrainingColumn(static_cast<size_t>(trained),
                                               kLabelOfTraining, &column));
    label_ = static_cast<int64_t>(column);
    return Status();
  }
  int others = 0;
  for (size_t i = 0; i < count(); ++i) {
    if (columns_[i].value >= 0 || IsWeight(i)) continue;
    label_ = static_cast<int64_t>(i);
    ++others;
  }
  if (others == 1) return Status();
  return InvalidArgument(
      "%s: line %" PRId64
      ": %s; give the column of the label (--label, or \"label\" in RUN.json)",
      path_.c_str(), first_line_,
      others > 1 ? "any of several columns may be the label"
                 : "has the model's values, but no column for the label");
}

void CsvColumns::PrintIgnoredColumns() const {
  std::set<std::string_view> known;
  for (const TableColumn& column : trained_) known.insert(column.name);
  std::vector<std::string> ignored;
  for (size_t i = 0; i < count(); ++i) {
    const TableColumn& column = columns_[i];
    if (column.value >= 0 || IsLabel(i) || IsWeight(i)) continue;
    if (known.count(column.name) == 0) ignored.push_back(column.name);
  }
  if (ignored.empty()) return;
  Notice("note: %s: ignores columns that the model does not take: %s",
         path_.c_str(), ListNames(ignored).c_str());
}

// --- by place ----------------------------------------------------------------

// Returns a column of the training data by its name or its number; -1: none.
int64_t CsvColumns::TrainingColumnOfKey(const std::string& key) const {
  const auto same = [&](const TableColumn& c) { return c.name == key; };
  const auto found = std::find_if(trained_.begin(), trained_.end(), same);
  if (key.empty() || found == trained_.end()) {
    return ColumnNumber(key, trained_.size());
  }
  return found - trained_.begin();
}

int64_t CsvColumns::CountTrainingColumns(Role role) const {
  const auto same = [&](const TableColumn& c) { return c.role == role; };
  return std::count_if(trained_.begin(), trained_.end(), same);
}

int64_t CsvColumns::TrainingColumnOfRole(Role role) const {
  const auto same = [&](const TableColumn& c) { return c.role == role; };
  const auto found = std::find_if(trained_.begin(), trained_.end(), same);
  return found == trained_.end() ? -1 : found - trained_.begin();
}

// True if the name or the number is of the training data's column of that role.
bool CsvColumns::HasRoleInTraining(Role role, const std::string& name,
                                   const std::optional<int>& number) const {
  const int64_t column = TrainingColumnOfKey(
      name.empty() ? std::to_string(number.value_or(-1)) : name);
  return column >= 0 && trained_[static_cast<size_t>(column)].role == role;
}

// True if options_.take and drop give the values of the training data.
bool CsvColumns::ChoosesAsInTraining() const {
  const auto is = [&](const std::string& key, Role role, int64_t value) {
    const int64_t at = TrainingColumnOfKey(key);
    return at >= 0 && trained_[static_cast<size_t>(at)].role == role &&
           trained_[static_cast<size_t>(at)].value == value;
  };
  for (size_t i = 0; i < options_.take.size(); ++i) {
    const int64_t value = static_cast<int64_t>(i);
    if (!is(options_.take[i], Role::kValue, value)) return false;
  }
  for (const std::string& key : options_.drop) {
    if (!is(key, Role::kDropped, -1)) return false;
  }
  const auto counted = [&](const std::vector<std::string>& keys, Role role) {
    return keys.empty() ||
           CountTrainingColumns(role) == static_cast<int64_t>(keys.size());
  };
  return counted(options_.take, Role::kValue) &&
         counted(options_.drop, Role::kDropped);
}

// Lays out the columns of the training data without the roles `absent`. A label
// or weights that the options place elsewhere are moved there. False: the file
// has another number of columns.
bool CsvColumns::LayOut(const std::set<Role>& absent,
                        std::vector<TableColumn>* layout) const {
  layout->clear();
  for (const TableColumn& column : trained_) {
    const bool elsewhere = (column.role == Role::kLabel && label_ >= 0) ||
                           (column.role == Role::kWeight && weight_ >= 0);
    if (!elsewhere && absent.count(column.role) == 0) layout->push_back(column);
  }
  const std::pair<int64_t, Role> given[] = {{label_, Role::kLabel},
                                            {weight_, Role::kWeight}};
  for (const auto& [place, role] :
       {std::min(given[0], given[1]), std::max(given[0], given[1])}) {
    if (place < 0) continue;
    if (place > static_cast<int64_t>(layout->size())) return false;
    layout->insert(layout->begin() + place, TableColumn{"", role, -1});
  }
  return layout->size() == count();
}

// The file has the columns of the training data in their order. A label that is
// not needed and weights that are not given may be absent.
Status CsvColumns::AssignColumnsAsInTraining() {
  const bool own_label = options_.has_label && label_is_given() &&
                         !HasRoleInTraining(Role::kLabel, options_.label_name,
                                            options_.label_column);
  const bool own_weight =
      has_weight() && !HasRoleInTraining(Role::kWeight, options_.weight_name,
                                         options_.weight_column);
  RINGLET_RETURN_IF_ERROR(FindGivenColumns(own_label, own_weight));
  const int64_t label = TrainingColumnOfRole(Role::kLabel);
  if (needs_label() && label < 0 && label_ < 0) {
    label_ = static_cast<int64_t>(count()) - 1;
  }
  if (named_ && label >= 0 && label_ < 0 && options_.has_label) {
    const std::string& name = trained_[static_cast<size_t>(label)].name;
    size_t column = 0;
    if (!name.empty() && (needs_label() || by_name_.count(name) > 0)) {
      RINGLET_RETURN_IF_ERROR(FindTrainingColumn(static_cast<size_t>(label),
                                                 kLabelOfTraining, &column));
      label_ = static_cast<int64_t>(column);
    }
  }
  std::vector<TableColumn> layout, other;
  const std::set<Role> all_absent[] = {
      {}, {Role::kWeight}, {Role::kLabel}, {Role::kLabel, Role::kWeight}};
  for (const std::set<Role>& absent : all_absent) {
    const bool weights_needed = has_weight() && !options_.for_prediction;
    if ((needs_label() && absent.count(Role::kLabel) > 0) ||
        (weights_needed && absent.count(Role::kWeight) > 0) ||
        !LayOut(absent, &other)) {
      continue;
    }
    const auto same = [](const TableColumn& a, const TableColumn& b) {
      return a.value == b.value;
    };
    if (layout.empty()) layout = other;
    if (!std::equal(layout.begin(), layout.end(), other.begin(), same)) {
      return LayoutError(/*ambiguous=*/true);
    }
  }
  if (layout.empty()) return LayoutError(/*ambiguous=*/false);
  PrintAbsent(Role::kLabel, "the label", layout);
  PrintAbsent(Role::kWeight, "the weights", layout);
  for (size_t i = 0; i < count(); ++i) {
    if (!named_) columns_[i].name = layout[i].name;
    if (layout[i].value >= 0) AddValue(i, layout[i].value);
    const int64_t place = static_cast<int64_t>(i);
    if (layout[i].role == Role::kLabel && options_.has_label) label_ = place;
    if (layout[i].role == Role::kWeight && has_weight()) weight_ = place;
  }
  return CheckWeight();
}

// Decide prints it: a file that lacks another column looks the same.
void CsvColumns::PrintAbsent(Role role, const char* what,
                             const std::vector<TableColumn>& layout) {
  const int64_t trained = TrainingColumnOfRole(role);
  const auto same = [&](const TableColumn& c) { return c.role == role; };
  if (trained < 0 || std::any_of(layout.begin(), layout.end(), same)) return;
  absent_ += (absent_.empty() ? "" : " and ") + std::string(what) +
             ", column " + std::to_string(trained + 1) + " there";
}

Status CsvColumns::LayoutError(bool ambiguous) const {
  const int64_t dropped = CountTrainingColumns(Role::kDropped);
  std::string text =
      std::to_string(CountTrainingColumns(Role::kValue)) + " values";
  if (dropped > 0) text += ", " + std::to_string(dropped) + " not taken";
  for (const auto& [role, what] :
       {std::pair(Role::kLabel, ", the label is column "),
        std::pair(Role::kWeight, ", the weights are column ")}) {
    const int64_t column = TrainingColumnOfRole(role);
    if (column >= 0) text += what + std::to_string(column + 1);
  }
  const std::vector<std::string> names = ValueNames(trained_);
  const std::string advice =
      ambiguous ? "the label or the weights may be absent: give both"
      : names.empty()
          ? "give the same columns in this order, or \"columns\" or \"drop\" "
            "for this file in RUN.json"
          : "give the same columns, or a first line with the names of those "
            "that are there; the model takes " +
                ListNames(names);
  return InvalidArgument("%s: line %" PRId64
                         " has %zu columns, the training data had %zu (%s); %s",
                         path_.c_str(), first_line_, count(), trained_.size(),
                         text.c_str(), advice.c_str());
}

// --- by the options ----------------------------------------------------------

// Assigns the columns of a file without training data, or with other columns of
// x than the training data had.
Status CsvColumns::AssignColumnsByOptions() {
  RINGLET_RETURN_IF_ERROR(
      FindGivenColumns(options_.has_label && label_is_given(), has_weight()));
  if (options_.has_label && !label_is_given()) {
    const int64_t trained = TrainingColumnOfRole(Role::kLabel);
    const bool same = trained >= 0 && trained_.size() == count();
    label_ = same ? trained : static_cast<int64_t>(count()) - 1;
  }
  RINGLET_RETURN_IF_ERROR(options_.take.empty() ? AssignRemainingColumns()
                                                : AssignListedColumns());
  RINGLET_RETURN_IF_ERROR(CheckWeight());
  const int64_t values = CountTrainingColumns(Role::kValue);
  if (trained_.empty() || values == num_values_) return Status();
  return InvalidArgument(
      "%s: %s %" PRId64 " columns of %zu, but the model takes %" PRId64
      " (the training data had %zu columns)",
      path_.c_str(),
      options_.take.empty() ? "\"drop\" leaves" : "\"columns\" has",
      num_values_, count(), values, trained_.size());
}

// With options_.values, decides by the number of columns if the file has a
// label.
Status CsvColumns::CheckHasLabel(size_t dropped) {
  if (options_.values == 0 || !options_.has_label) return Status();
  const int64_t n = static_cast<int64_t>(count() - dropped) -
                    static_cast<int64_t>(weight_ >= 0 ? 1 : 0);
  if (n == options_.values + 1) return Status();
  label_ = -1;
  if (n == options_.values && label_may_be_absent()) return Status();
  return InvalidArgument(
      "%s: line %" PRId64 " has %zu columns; the model takes %" PRId64
      " and one more for a label%s",
      path_.c_str(), first_line_, count(), options_.values,
      label_is_given() ? ", which --label or the RUN.json names" : "");
}

// Makes values of all columns but the label, the weight and those to drop.
Status CsvColumns::AssignRemainingColumns() {
  std::set<size_t> dropped;
  for (const std::string& key : options_.drop) {
    size_t column = 0;
    RINGLET_RETURN_IF_ERROR(Find("drop", key, &column));
    if (dropped.insert(column).second) continue;
    return InvalidArgument("%s: \"drop\" has %s twice", path_.c_str(),
                           Describe(column).c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckHasLabel(dropped.size()));
  for (size_t i = 0; i < count(); ++i) {
    if (dropped.count(i) == 0) {
      if (!IsLabel(i) && !IsWeight(i)) AddValue(i, num_values_);
    } else if (IsLabel(i) || IsWeight(i)) {
      return InvalidArgument("%s: \"drop\" has the column of the %s",
                             path_.c_str(),
                             IsLabel(i) ? "label" : "sample weights");
    }
  }
  if (num_values_ > 0) return Status();
  return InvalidArgument("%s: \"drop\" leaves no column of values",
                         path_.c_str());
}

// Makes values of the columns in options_.take, in that order.
Status CsvColumns::AssignListedColumns() {
  for (const std::string& key : options_.take) {
    size_t column = 0;
    RINGLET_RETURN_IF_ERROR(Find("columns", key, &column));
    if (columns_[column].value >= 0) {
      return InvalidArgument("%s: \"columns\" has %s twice", path_.c_str(),
                             Describe(column).c_str());
    }
    if (IsLabel(column) && label_may_be_absent()) label_ = -1;
    if (IsLabel(column)) {
      return ValueColumnError("the column of the label", label_);
    }
    if (IsWeight(column)) {
      return ValueColumnError("the column of sample_weight", weight_);
    }
    AddValue(column, num_values_);
  }
  return Status();
}

// --- names or a row ----------------------------------------------------------

// True if the fields have the names of all columns of the training data. Names
// such as "0", "1" could also be the numbers of a row, so they do not suffice.
bool CsvColumns::NamesTrainingColumns(const Fields& fields) const {
  const std::vector<std::string> values = ValueNames(trained_);
  bool counted = true;
  for (size_t i = 0; i < values.size(); ++i) {
    counted = counted && values[i] == std::to_string(i);
  }
  const std::set<std::string_view> names(fields.begin(), fields.end());
  const int64_t label = TrainingColumnOfRole(Role::kLabel);
  const std::string name =
      label < 0 ? "" : trained_[static_cast<size_t>(label)].name;
  const bool has_label =
      !name.empty() && !IsNumber(name) && names.count(name) > 0;
  if (counted && !has_label) return false;
  return std::all_of(
      values.begin(), values.end(),
      [&](const std::string& value) { return names.count(value) > 0; });
}

// True if the column may have text in a row.
bool CsvColumns::IsText(size_t column) const {
  if (IsLabel(column)) return true;
  if (options_.encoding) {
    const auto& known = options_.encoding->columns;
    const auto found = known.find(columns_[column].value);
    return found != known.end() && !found->second.categories.empty();
  }
  for (const CsvOptions::Categorical& text : options_.categorical) {
    if (ColumnNumber(text.column, count()) == static_cast<int64_t>(column)) {
      return true;
    }
  }
  return false;
}

// True if an option has the name of a column.
bool CsvColumns::NamesAColumn() const {
  const auto is_name = [](const std::string& column) {
    int64_t number = 0;
    return !ParseInt(column, &number);
  };
  if (!options_.label_name.empty() || !options_.weight_name.empty()) {
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
  bool counted = count() >= kMinCounted, names = false, numbers = false;
  bool only_text = true;
  for (size_t i = 0; i < count(); ++i) {
    float truth = 0;
    const bool number = IsNumber(first[i], options_.decimal) ||
                        ParseBool(first[i], &truth) ||
                        (MayPermitMissing() && IsMissing(first[i]));
    const bool used = columns_[i].value >= 0 || IsLabel(i) || IsWeight(i);
    names |= used && !number && !IsText(i);
    numbers |= used && number;
    only_text = only_text && (!used || IsText(i));
    // "0,1,2,label": in a line that counts the columns only the label may be no
    // number.
    counted =
        counted && (first[i] == std::to_string(i) || (IsLabel(i) && !number));
  }
  if (only_text && !numbers) {
    PrintReading("has only text and is read as names, not as data", "false");
    return true;
  }
  // A row with a gap looks the same: "5.1,NA,1.4,0".
  if (names && numbers) PrintMixedRecord();
  if (counted && !names) {
    PrintReading("counts its columns and is read as names", "false");
  }
  return names || counted;
}

// True if the options may permit missing values.
bool CsvColumns::MayPermitMissing() const {
  return options_.missing.kind != CsvOptions::Missing::kError ||
         !options_.missing_by_column.empty() ||
         (options_.encoding && !options_.encoding->columns.empty());
}

// Names "0", "1" and so on, in another order, look as a row does.
Status CsvColumns::CheckNotAmbiguous(const Fields& first) const {
  const std::vector<std::string> columns = ValueNames(trained_);
  if (options_.header || columns.empty() || NamesTrainingColumns(first)) {
    return Status();
  }
  const std::set<std::string_view> fields(first.begin(), first.end());
  bool in_order = count() >= 3;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (fields.count(columns[i]) == 0) return Status();
    in_order = in_order && i < count() && first[i] == columns[i];
  }
  if (in_order) return Status();
  return InvalidArgument(
      "%s: line %" PRId64
      " may have the names of the columns, or be a row; say \"header\": true "
      "or false in RUN.json (evaluate, predict: --header or --no-header)",
      path_.c_str(), first_line_);
}

void CsvColumns::PrintMixedRecord() const {
  PrintReading("holds text beside numbers and is read as names, not as data",
               "false");
}

void CsvColumns::PrintReading(const char* what, const char* otherwise) const {
  if (is_silent_) return;
  Notice("note: %s: line %" PRId64
         " %s; if that is wrong, say \"header\": %s in RUN.json (evaluate, "
         "predict: --%sheader)",
         path_.c_str(), first_line_, what, otherwise,
         otherwise[0] == 'f' ? "no-" : "");
}

Status CsvColumns::Decide(const Fields& first, const Fields* second,
                          bool* is_row) {
  RINGLET_RETURN_IF_ERROR(DecideNames(first, second, is_row));
  if (absent_.empty() || is_silent_) return Status();
  Notice(
      "note: %s: has %zu columns, the training data had %zu; it is read as "
      "without %s; check that it lacks no other",
      path_.c_str(), count(), trained_.size(), absent_.c_str());
  return Status();
}

Status CsvColumns::DecideNames(const Fields& first, const Fields* second,
                               bool* is_row) {
  *is_row = !named_;
  if (named_ || options_.header) return Status();
  // If the label's column has text in the first line and a number in the
  // second, the first line has the names.
  const size_t label = static_cast<size_t>(label_);
  if (label_ >= 0 && second != nullptr && label < second->size() &&
      !IsNumber(first[label], options_.decimal) &&
      IsNumber((*second)[label], options_.decimal)) {
    PrintMixedRecord();
    *is_row = false;
    return AssignColumns(&first);
  }
  PrintReading("holds numbers and is read as data, not as names", "true");
  return Status();
}

}  // namespace ringlet
