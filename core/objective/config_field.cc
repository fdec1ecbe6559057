#include "config_field.h"

#include <optional>

#include "../base/number_text.h"

namespace ringlet {

std::string ValueText(const FieldFacts& field, const void* object) {
  switch (field.type) {
    case FieldType::kFloat:
      return ShortestText(field.In<float>(object));
    case FieldType::kInt:
      return std::to_string(field.In<int>(object));
    case FieldType::kBool:
      return field.In<bool>(object) ? "1" : "0";
    case FieldType::kWord:
      return std::to_string(field.In<uint8_t>(object));
    case FieldType::kClass: {
      const auto& number = field.In<std::optional<int>>(object);
      return number ? std::to_string(*number) : "";
    }
    case FieldType::kOnlyNumber:
    case FieldType::kOnlyFalse:
    case FieldType::kOnlyNull:
      break;
  }
  return "";
}

Status CheckField(const FieldFacts& field, const void* object,
                  const char* subject, const char* quote) {
  if (field.type == FieldType::kInt) {
    if (field.or_null() || field.In<int>(object) >= field.low) return Status();
    return InvalidArgument("%s: %s must be at least %d", subject, field.name,
                           field.low);
  }
  if (field.type != FieldType::kFloat) return Status();
  const double value{field.In<float>(object)};
  if ((field.or_null() && value < 0) || field.range.Holds(value)) {
    return Status();
  }
  return InvalidArgument("%s: %s%s%s must be %s, not %g", subject, quote,
                         field.name, quote, ToString(field.range).c_str(),
                         value);
}

}  // namespace ringlet
