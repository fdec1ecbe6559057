#include "number_list_json.h"

#include <cfloat>
#include <cmath>
#include <string>
#include <utility>

namespace ringlet {
namespace {

// False if a number is not accepted, or the list is empty.
template <typename Take>
bool ForEach(const Json& json, const Take& take) {
  if (!json.is_array()) return take(json);
  for (Json m = json.first(); m; m = m.next()) {
    if (!take(m)) return false;
  }
  return json.size() > 0;
}

}  // namespace

void ReadNumbers(const char* key, const Interval& range, FieldReader* fields,
                 std::vector<float>* numbers) {
  const std::string takes =
      ToString(range) + ", or a list with one for each channel";
  const Json json = fields->Take(
      key, takes, numbers->empty() ? "null" : AsJson(numbers->front()));
  if (!json) return;
  std::vector<float> values;
  const bool all = ForEach(json, [&](const Json& m) {
    if (!m.is_number() || !(std::fabs(m.number()) <= FLT_MAX)) return false;
    values.push_back(static_cast<float>(m.number()));
    return range.Holds(m.number());
  });
  if (!all) return fields->MustBe(key, takes);
  *numbers = std::move(values);
}

void ReadAxes(const char* key, FieldReader* fields,
              std::vector<int64_t>* axes) {
  const char kTakes[] = "the number of an axis, or a list of them";
  const Json json =
      fields->Take(key, kTakes, axes->empty() ? "null" : AsJson(axes->front()));
  if (!json) return;
  std::vector<int64_t> values;
  const bool all = ForEach(json, [&](const Json& m) {
    int64_t axis = 0;
    if (!m.ToInt64(&axis)) return false;
    values.push_back(axis);
    return true;
  });
  if (!all) return fields->MustBe(key, kTakes);
  *axes = std::move(values);
}

void ReadFloatRange(const LayerField& field, FieldReader* fields,
                    FloatRange* numbers) {
  const std::string takes = TakenRanges(field);
  const std::string standard =
      "[" + AsJson(numbers->lower) + ", " + AsJson(numbers->upper) + "]";
  const Json json =
      fields->Take(field.name, takes, numbers->is_none ? "null" : standard);
  if (!json) return;
  std::vector<float> read;
  const bool all = ForEach(json, [&](const Json& m) {
    if (!m.is_number() || !(std::fabs(m.number()) <= FLT_MAX)) return false;
    read.push_back(static_cast<float>(m.number()));
    return read.size() <= 2;
  });
  const size_t count =
      json.is_array() || field.form == RangeForm::kPair ? 2 : 1;
  if (!all || read.size() != count) return fields->MustBe(field.name, takes);
  const bool is_symmetric = field.form == RangeForm::kSymmetric && count == 1;
  FloatRange range = is_symmetric ? FloatRange(read[0])
                                  : FloatRange(read.front(), read.back());
  if (field.form == RangeForm::kMargins) {
    range.lower = read.front();
    range.upper = read.back();
  }
  if (!Takes(field, range)) return fields->MustBe(field.name, takes);
  *numbers = range;
}

void WriteNumbers(JsonWriter* w, const std::vector<float>& numbers) {
  numbers.size() == 1 ? w->Float(numbers[0]) : w->List(numbers);
}

void WriteAxes(JsonWriter* w, const std::vector<int64_t>& axes) {
  axes.size() == 1 ? w->Int(axes[0]) : w->List(axes);
}

}  // namespace ringlet
