#include "config_field_json.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace ringlet {
namespace {

void ReadFloat(const FieldFacts& field, float* value, FieldReader* fields) {
  const Json json = fields->Take(field.name);
  if (!field.or_null() || !json.is_array()) {
    return fields->Float(field.name, field.range, value);
  }
  const double number = json.first().number();
  if (json.size() != 1 || json.first().kind() != Json::Kind::kNumber ||
      !field.range.Holds(number)) {
    return fields->Refuse(
        field.name, "must be " + ToString(field.range) +
                        "; for several thresholds give several metrics, each "
                        "with its own name");
  }
  *value = static_cast<float>(number);
}

// `standard` is the default. If it is larger than any int, there is no default.
int ReadInt(const FieldFacts& field, int64_t low, int64_t standard,
            FieldReader* fields) {
  fields->Int(field.name, low, std::numeric_limits<int>::max(), &standard);
  return static_cast<int>(standard);
}

void ReadWord(const FieldFacts& field, uint8_t* index, FieldReader* fields) {
  const std::vector<std::string> words = Words(field.words);
  std::string takes;
  for (const std::string& word : words) {
    takes += (takes.empty() ? "" : ", ") + AsJson(word);
  }
  const Json json =
      fields->Take(field.name, takes,
                   *index < words.size() ? AsJson(words[*index]) : "null");
  if (!json) return;
  const auto at = std::find(words.begin(), words.end(), json.text());
  if (at == words.end()) return fields->MustBe(field.name, takes);
  *index = static_cast<uint8_t>(at - words.begin());
}

}  // namespace

void ReadField(const FieldFacts& field, void* object, FieldReader* fields) {
  if (field.form == FieldForm::kRequired) fields->Require(field.name);
  if (field.or_null() && !fields->MarkOptional(field.name)) return;
  switch (field.type) {
    case FieldType::kFloat:
      return ReadFloat(field, &field.In<float>(object), fields);
    case FieldType::kInt: {
      int& value = field.In<int>(object);
      value = ReadInt(field, field.low, value, fields);
      return;
    }
    case FieldType::kClass:
      field.In<std::optional<int>>(object) =
          ReadInt(field, std::numeric_limits<int>::min(),
                  std::numeric_limits<int64_t>::max(), fields);
      return;
    case FieldType::kBool:
      return fields->Bool(field.name, &field.In<bool>(object));
    case FieldType::kWord:
      return ReadWord(field, &field.In<uint8_t>(object), fields);
    case FieldType::kOnlyNumber:
      return fields->OnlyNumber(field.name, field.low);
    case FieldType::kOnlyFalse:
      return fields->OnlyBool(field.name, false);
    case FieldType::kOnlyNull:
      return fields->OnlyNull({field.name});
  }
}

void WriteField(const FieldFacts& field, const void* object, JsonWriter* w) {
  const bool is_int = field.type == FieldType::kInt;
  const bool is_unset = is_int && field.In<int>(object) < field.low;
  const bool is_omitted = field.form == FieldForm::kOfRinglet && is_unset;
  if (field.form == FieldForm::kOnlyRead || is_omitted) return;
  w->Key(field.name);
  switch (field.type) {
    case FieldType::kFloat: {
      const float value = field.In<float>(object);
      if (!field.or_null() || !(value < 0)) return void(w->Float(value));
      break;
    }
    case FieldType::kInt:
      if (!is_unset) return void(w->Int(field.In<int>(object)));
      break;
    case FieldType::kClass: {
      const auto& number = field.In<std::optional<int>>(object);
      if (number) return void(w->Int(*number));
      break;
    }
    case FieldType::kBool:
      return void(w->Bool(field.In<bool>(object)));
    case FieldType::kWord: {
      const uint8_t index = field.In<uint8_t>(object);
      if (index != field.null_word) {
        return void(w->String(Words(field.words)[index]));
      }
      break;
    }
    case FieldType::kOnlyNumber:
      return void(w->Int(field.low));
    case FieldType::kOnlyFalse:
      return void(w->Bool(false));
    case FieldType::kOnlyNull:
      break;
  }
  w->Null();
}

}  // namespace ringlet
