// Columns are assigned in one of three ways (AssignColumns): by the names of
// the training data, by its places, or by the options alone. Begin assigns as
// if the first record were a row, since CsvHeader::HasNames needs the places,
// and again if that record has names. A name in the options belongs to this
// file; a number may count the columns of this file or of the training file.

#include "csv_columns.h"

#include <algorithm>
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
  // HasNames needs the places of columns without names.
  const Status unnamed = AssignColumns(nullptr);
  if (!unnamed.ok()) {
    Clear(nullptr);
    for (size_t i = 0; i < count(); ++i) AddValue(i, num_values_);
    if (options_.has_label) label_ = static_cast<int64_t>(count()) - 1;
  }
  RINGLET_RETURN_IF_ERROR(header_.Begin(first, line));
  return header_.HasNames(first, {columns_, label_, weight_})
             ? AssignColumns(&first)
             : unnamed;
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
// are the columns' names, or null if they have none.
Status CsvColumns::AssignColumns(const Fields* names) {
  Clear(names);
  if (named_ && !trained_.ValueNames().empty()) {
    RINGLET_RETURN_IF_ERROR(AssignColumnsByName());
  } else if (!trained_.empty() && trained_.AreChosenBy(options_)) {
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

Status CsvColumns::AddOtherValue(size_t column, int64_t value) {
  if (!IsLabel(column) && !IsWeight(column)) {
    AddValue(column, value);
    return Status();
  }
  const std::string shown = named_
                                ? "'" + BeginningOf(columns_[column].name) + "'"
                                : std::to_string(column);
  return InvalidArgument(
      "%s: the column of %s is %s, a value of the model", path_.c_str(),
      IsLabel(column) ? "the label" : "sample_weight", shown.c_str());
}

// --- by name -----------------------------------------------------------------

// All columns of the training data that are values must be there.
Status CsvColumns::AssignColumnsByName() {
  // A label that is not needed is found by name only: if it is absent, its
  // number may be the number of a value.
  const auto is_there = [&](const std::string& name, Role role) {
    return !name.empty() && (Has(name) || !trained_.HasRole(role, name, {}));
  };
  const bool label =
      options_.has_label && label_is_given() &&
      (needs_label() || is_there(options_.label_name, Role::kLabel));
  const bool weight =
      has_weight() && (!options_.for_prediction || options_.weight_column ||
                       is_there(options_.weight_name, Role::kWeight));
  RINGLET_RETURN_IF_ERROR(FindGivenColumns(label, weight));
  const int64_t trained_weight = trained_.IndexOfRole(Role::kWeight);
  if (takes_trained_weight() && trained_weight >= 0 &&
      Has(trained_[trained_weight].name)) {
    RINGLET_RETURN_IF_ERROR(FindTrainingColumn(
        trained_weight, "the sample weights of training", &weight_));
  }
  for (int64_t i = 0; i < static_cast<int64_t>(trained_.size()); ++i) {
    if (trained_[i].role != Role::kValue) continue;
    int64_t column = 0;
    RINGLET_RETURN_IF_ERROR(FindTrainingColumn(
        i,
        "which the model was trained on; one column must have "
        "this name",
        &column));
    RINGLET_RETURN_IF_ERROR(
        AddOtherValue(static_cast<size_t>(column), trained_[i].value));
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
  if (trained_.AreChosenBy(options_)) return Status();
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
    const int64_t at = trained_.Find(options_.drop[i]);
    same = at >= 0 ? trained_[at].value < 0
                   : Find("drop", options_.drop[i], &column).ok() &&
                         columns_[column].value < 0;
  }
  if (same) return Status();
  return InvalidArgument(
      "%s: \"%s\" is another choice than in training; the model takes, in this "
      "order: %s; leave \"%s\" out",
      path_.c_str(), takes ? "columns" : "drop",
      ListNames(trained_.ValueNames()).c_str(), takes ? "columns" : "drop");
}

// Finds the column with the name of a column of the training data. If several
// columns have the name, it is the column at the same place among them,
// provided the training data had as many.
Status CsvColumns::FindTrainingColumn(int64_t index, const char* what,
                                      int64_t* found) const {
  const std::string& name = trained_[index].name;
  const size_t same = by_name_.count(name);
  const auto is_same = [&](const TableColumn& c) { return c.name == name; };
  const auto place = static_cast<size_t>(index);
  const bool at_place =
      same > 1 && place < count() && columns_[place].name == name &&
      static_cast<size_t>(std::count_if(trained_.all().begin(),
                                        trained_.all().end(), is_same)) == same;
  if (same > 0) {
    const size_t column = at_place ? place : by_name_.find(name)->second;
    *found = static_cast<int64_t>(column);
    const bool is_free = columns_[column].value < 0;
    if (is_free && (same == 1 || at_place)) return Status();
  }
  const std::string only = count() == 1 ? columns_[0].name : "";
  return InvalidArgument(
      "%s: line %" PRId64 ": %s named '%s', %s%s", path_.c_str(), first_line_,
      same == 0   ? "no column is"
      : same == 1 ? "only one column is"
                  : "several columns are",
      BeginningOf(name).c_str(), what, OtherSeparator(only).c_str());
}

// Finds the label of the training data or, if that has no name, the only column
// that the training did not have.
Status CsvColumns::FindLabelByName() {
  const int64_t trained = trained_.IndexOfRole(Role::kLabel);
  if (trained >= 0 && !trained_[trained].name.empty()) {
    return FindTrainingColumn(trained, kLabelOfTraining, &label_);
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
  for (const TableColumn& column : trained_.all()) known.insert(column.name);
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

// The file has the columns of the training data in their order. A label that is
// not needed and weights that are not given may be absent.
Status CsvColumns::AssignColumnsAsInTraining() {
  const bool own_label = options_.has_label && label_is_given() &&
                         !trained_.HasRole(Role::kLabel, options_.label_name,
                                           options_.label_column);
  const bool own_weight =
      has_weight() && !trained_.HasRole(Role::kWeight, options_.weight_name,
                                        options_.weight_column);
  RINGLET_RETURN_IF_ERROR(FindGivenColumns(own_label, own_weight));
  const int64_t label = trained_.IndexOfRole(Role::kLabel);
  if (needs_label() && label < 0 && label_ < 0) {
    label_ = static_cast<int64_t>(count()) - 1;
  }
  if (named_ && label >= 0 && label_ < 0 && options_.has_label) {
    const std::string& name = trained_[label].name;
    if (!name.empty() && (needs_label() || Has(name))) {
      RINGLET_RETURN_IF_ERROR(
          FindTrainingColumn(label, kLabelOfTraining, &label_));
    }
  }
  std::vector<TableColumn> layout;
  RINGLET_RETURN_IF_ERROR(FindLayout(&layout));
  PrintAbsent(Role::kLabel, "the label", layout);
  PrintAbsent(Role::kWeight, "the weights", layout);
  for (size_t i = 0; i < count(); ++i) {
    if (!named_) columns_[i].name = layout[i].name;
    if (layout[i].value >= 0) AddValue(i, layout[i].value);
    const int64_t place = static_cast<int64_t>(i);
    if (layout[i].role == Role::kLabel && options_.has_label) label_ = place;
    if (layout[i].role == Role::kWeight &&
        (has_weight() || takes_trained_weight())) {
      weight_ = place;
    }
  }
  return CheckWeight();
}

// Finds the training data's columns that the file has, by their number.
Status CsvColumns::FindLayout(std::vector<TableColumn>* layout) const {
  std::vector<TableColumn> other;
  const std::set<Role> all_absent[] = {
      {}, {Role::kWeight}, {Role::kLabel}, {Role::kLabel, Role::kWeight}};
  for (const std::set<Role>& absent : all_absent) {
    const bool weights_needed = has_weight() && !options_.for_prediction;
    if ((needs_label() && absent.count(Role::kLabel) > 0) ||
        (weights_needed && absent.count(Role::kWeight) > 0) ||
        !trained_.LayOut(absent, label_, weight_, &other) ||
        other.size() != count()) {
      continue;
    }
    if (layout->empty()) *layout = other;
    const auto same = [](const TableColumn& a, const TableColumn& b) {
      return a.value == b.value;
    };
    if (!std::equal(layout->begin(), layout->end(), other.begin(), same)) {
      return LayoutError(/*ambiguous=*/true);
    }
  }
  return layout->empty() ? LayoutError(/*ambiguous=*/false) : Status();
}

// Decide prints it: a file that lacks another column looks the same.
void CsvColumns::PrintAbsent(Role role, const char* what,
                             const std::vector<TableColumn>& layout) {
  const int64_t trained = trained_.IndexOfRole(role);
  const auto same = [&](const TableColumn& c) { return c.role == role; };
  if (trained < 0 || std::any_of(layout.begin(), layout.end(), same)) return;
  absent_ += (absent_.empty() ? "" : " and ") + std::string(what) +
             ", column " + std::to_string(trained + 1) + " there";
}

Status CsvColumns::LayoutError(bool ambiguous) const {
  const std::vector<std::string> names = trained_.ValueNames();
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
                         trained_.Describe().c_str(), advice.c_str());
}

// --- by the options ----------------------------------------------------------

// Assigns the columns of a file without training data, or with different
// columns of x than the training data had.
Status CsvColumns::AssignColumnsByOptions() {
  RINGLET_RETURN_IF_ERROR(
      FindGivenColumns(options_.has_label && label_is_given(), has_weight()));
  if (options_.has_label && !label_is_given()) {
    const int64_t trained = trained_.IndexOfRole(Role::kLabel);
    const bool same = trained >= 0 && trained_.size() == count();
    label_ = same ? trained : static_cast<int64_t>(count()) - 1;
  }
  RINGLET_RETURN_IF_ERROR(options_.take.empty() ? AssignRemainingColumns()
                                                : AssignListedColumns());
  RINGLET_RETURN_IF_ERROR(CheckWeight());
  const int64_t values = trained_.Count(Role::kValue);
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

// Makes values of all columns but the label, the weight and the dropped
// columns.
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
    RINGLET_RETURN_IF_ERROR(AddOtherValue(column, num_values_));
  }
  return Status();
}

// --- the second record -------------------------------------------------------

Status CsvColumns::Decide(const Fields& first, const Fields* second,
                          bool* is_row) {
  *is_row = !named_;
  if (!named_ && !options_.header) {
    if (second != nullptr && header_.SecondShowsNames(first, *second, label_)) {
      *is_row = false;
      RINGLET_RETURN_IF_ERROR(AssignColumns(&first));
    } else {
      header_.PrintIsRow();
    }
  }
  if (absent_.empty() || header_.is_silent()) return Status();
  Notice(
      "note: %s: has %zu columns, the training data had %zu; it is read as "
      "without %s; check that it lacks no other",
      path_.c_str(), count(), trained_.size(), absent_.c_str());
  return Status();
}

}  // namespace ringlet
