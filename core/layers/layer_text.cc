// The values of a layer's fields as text. Ranks compare it and backups keep it,
// so the text of a value may not change.

#include <cmath>
#include <string>
#include <type_traits>

#include "../base/number_text.h"
#include "constraints.h"
#include "layer_table.h"
#include "setting_names.h"

namespace ringlet {
namespace {

// Returns a layer within another: its class, and the fields that a backup
// keeps.
std::string InnerText(const Layer& layer) {
  std::string text = ClassName(layer);
  for (const LayerField& field : ClassOf(layer).fields) {
    const std::string value = ValueText(field, layer);
    if (field.saved == nullptr || value.empty()) continue;
    text += std::string(" ") + field.saved + (*field.saved != 0 ? " " : "");
    text += value;
  }
  return text;
}

struct Text {
  const LayerField& field;
  const Layer& layer;

  std::string operator()(int64_t Layer::*member) const {
    if (field.unless_one && layer.*member == 1) return "";
    if (field.or_zero && layer.*member == 0) return "";
    return std::to_string(layer.*member);
  }
  std::string operator()(int64_t (Layer::*member)[4]) const {
    const int64_t(&b)[4] = layer.*member;
    const bool is_1d = ClassOf(layer).axes == 1;
    return (is_1d ? ""
                  : std::to_string(b[0]) + "," + std::to_string(b[1]) + ",") +
           std::to_string(b[2]) + "," + std::to_string(b[3]);
  }
  std::string operator()(uint64_t Layer::*member) const {
    return std::to_string(layer.*member);
  }
  std::string operator()(int64_t (Layer::*member)[2]) const {
    const int64_t(&pair)[2] = layer.*member;
    const bool is_1d = ClassOf(layer).axes == 1;
    if (field.unless_one && pair[1] == 1 && (is_1d || pair[0] == 1)) return "";
    if (field.or_null && pair[1] < 0) return "";
    return (is_1d ? "" : std::to_string(pair[0]) + "x") +
           std::to_string(pair[1]);
  }
  std::string operator()(float Layer::*member) const {
    if (field.or_null && std::isinf(layer.*member)) return "";
    if (field.unless_zero && layer.*member == 0) return "";
    return ShortestText(layer.*member);
  }
  std::string operator()(bool Layer::*member) const {
    if (field.written_if_set) return layer.*member ? "true" : "";
    return layer.*member ? "" : "false";
  }
  // A setting with names.
  template <typename T>
  auto operator()(T Layer::*member) const
      -> decltype(std::string(NameOf(layer.*member))) {
    return NameOf(layer.*member);
  }
  std::string operator()(FloatRange Layer::*member) const {
    const FloatRange& range = layer.*member;
    return range.is_none
               ? ""
               : ShortestText(range.lower) + " to " + ShortestText(range.upper);
  }
  std::string operator()(Activation Layer::*member) const {
    return layer.*member == ringlet::kLinear ? ""
                                             : ActivationName(layer.*member);
  }
  std::string operator()(Regularizer Layer::*member) const {
    const Regularizer& r = layer.*member;
    return r.empty() ? ""
                     : "l1 " + ShortestText(r.l1) + " l2 " + ShortestText(r.l2);
  }
  std::string operator()(Constraint Layer::*member) const {
    return ConstraintText(layer.*member);
  }
  template <typename T>
  std::string operator()(std::vector<T> Layer::*member) const {
    std::string text;
    for (const T value : layer.*member) {
      text += text.empty() ? "" : " ";
      if constexpr (std::is_integral_v<T>) {
        text += std::to_string(value);
      } else {
        text += ShortestText(value);
      }
    }
    return text;
  }
  std::string operator()(Shape Layer::*member) const {
    if (field.or_null && (layer.*member).rank() == 0) return "";
    return (layer.*member).ToString();
  }
  std::string operator()(std::shared_ptr<const Layer> Layer::*member) const {
    const Layer* const inner = (layer.*member).get();
    return inner == nullptr ? "" : InnerText(*inner);
  }
  template <typename Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

}  // namespace

std::string ValueText(const LayerField& field, const Layer& layer) {
  return std::visit(Text{field, layer}, field.value);
}

}  // namespace ringlet
