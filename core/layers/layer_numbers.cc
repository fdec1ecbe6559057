// Checks the numbers in a layer's fields. The reader of JSON refuses all other
// numbers, so a layer with such a number could be saved but not loaded.

#include <cmath>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "../base/text.h"
#include "layer_table.h"

namespace ringlet {
namespace {

std::string RangeText(const FloatRange& range) {
  if (range.is_none) return "none";
  return FormatText("[%g, %g]", double{range.lower}, double{range.upper});
}

struct NumberCheck {
  const LayerField& field;
  const Layer& layer;

  Status operator()(float Layer::*member) const {
    return CheckNumber(layer.*member);
  }
  Status operator()(std::vector<float> Layer::*member) const {
    for (const float number : layer.*member) {
      RINGLET_RETURN_IF_ERROR(CheckNumber(number));
    }
    return Status();
  }
  Status operator()(FloatRange Layer::*member) const {
    const FloatRange& range = layer.*member;
    if (Takes(field, range)) return Status();
    return InvalidArgument("%s must be %s, not %s", field.name,
                           TakenRanges(field).c_str(),
                           RangeText(range).c_str());
  }
  Status operator()(Initializer Layer::*member) const {
    const Initializer& i = layer.*member;
    if (std::isfinite(i.a) && std::isfinite(i.b)) return Status();
    return InvalidArgument("%s must have finite numbers, not %g and %g",
                           field.name, double{i.a}, double{i.b});
  }
  template <typename Other>
  Status operator()(const Other&) const {
    return Status();
  }

 private:
  Status CheckNumber(float number) const {
    const bool is_null =
        field.or_null && number == std::numeric_limits<float>::infinity();
    if (is_null || field.range.Holds(double{number})) return Status();
    if (!std::isfinite(number)) {
      return InvalidArgument("%s must be a finite number, not %g", field.name,
                             double{number});
    }
    return InvalidArgument("%s must be %s, not %g", field.name,
                           ToString(field.range).c_str(), double{number});
  }
};

}  // namespace

std::string TakenRanges(const LayerField& field) {
  const std::string number = ToString(field.range);
  switch (field.form) {
    case RangeForm::kPair:
      return "[lower, upper]";
    case RangeForm::kMargins:
      return number + ", or [lower, upper] of numbers >= 0 with lower <= 1";
    case RangeForm::kSymmetric:
      break;
  }
  return number + ", or [lower, upper]";
}

bool Takes(const LayerField& field, const FloatRange& range) {
  if (range.is_none) return field.or_null;
  const Interval& upper_range =
      field.form == RangeForm::kMargins ? kNotNegative : field.range;
  return field.range.Holds(double{range.lower}) &&
         upper_range.Holds(double{range.upper});
}

Status CheckNumbers(const Layer& layer) {
  for (const LayerField& field : ClassOf(layer).fields) {
    RINGLET_RETURN_IF_ERROR(std::visit(NumberCheck{field, layer}, field.value));
  }
  return Status();
}

}  // namespace ringlet
