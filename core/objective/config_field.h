// ConfigField: a setting of a loss, a metric or an optimizer (the class T),
// which is a field of the class's config in Keras. Fields that all losses, all
// metrics or all optimizers have, such as the name, are not ConfigFields.
//
// JSON in both directions (io/keras/config_field_json.h), docs/reference.md,
// the fingerprint and the checks read the tables of fields.

#ifndef RINGLET_CORE_OBJECTIVE_CONFIG_FIELD_H_
#define RINGLET_CORE_OBJECTIVE_CONFIG_FIELD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "../base/interval.h"
#include "ringlet/status.h"

namespace ringlet {

enum class FieldType : uint8_t {
  kFloat,
  kInt,  // up to 2^31 - 1
  kBool,
  kClass,       // std::optional<int>: any whole number, or null
  kWord,        // an enum of one byte: the index of a word
  kOnlyNumber,  // one accepted number
  kOnlyFalse,
  kOnlyNull,
};

enum class FieldForm : uint8_t {
  kPlain,
  kOrNull,    // a float below 0, an int below `low` and `null_word` mean null
  kRequired,  // JSON must have it
  kOnlyRead,
  kOfRinglet,  // as kOrNull; Keras lacks it, so it is written only if it is set
};

// The part of a ConfigField that does not depend on T. `object` points to a T.
struct FieldFacts {
  template <typename Value>
  Value& In(void* object) const {
    return *static_cast<Value*>(member(object));
  }
  template <typename Value>
  const Value& In(const void* object) const {
    return In<Value>(const_cast<void*>(object));
  }
  bool or_null() const {
    return form == FieldForm::kOrNull || form == FieldForm::kOfRinglet;
  }

  const char* name;  // the name in Keras
  FieldType type;
  FieldForm form;
  int8_t null_word = -1;  // the index that means null
  int low = 0;            // the least int, or the only accepted number
  void* (*member)(void* object) = nullptr;  // null for the kOnly types
  Interval range = kAnyNumber;              // the range of a float
  const char* words = "";                   // separated by blanks
};

template <typename T>
struct ConfigField : FieldFacts {};

// The fields of a class, in the order of writing.
template <typename T>
struct FieldTable {
  constexpr FieldTable() = default;
  template <size_t n>
  constexpr FieldTable(const ConfigField<T> (&fields)[n])  // NOLINT: implicit
      : first(fields), count(n) {}
  const ConfigField<T>* begin() const { return first; }
  const ConfigField<T>* end() const { return first + count; }
  const ConfigField<T>* first = nullptr;
  size_t count = 0;
};

template <typename T, typename Value>
T OwnerOf(Value T::*member);
template <auto member>
using FieldOf = ConfigField<decltype(OwnerOf(member))>;
template <auto member>
void* MemberOf(void* object) {
  return &(static_cast<decltype(OwnerOf(member))*>(object)->*member);
}

template <auto member>
constexpr FieldOf<member> FloatField(const char* name, const Interval& range,
                                     FieldForm form = FieldForm::kPlain) {
  return {{name, FieldType::kFloat, form, -1, 0, MemberOf<member>, range}};
}
template <auto member>
constexpr FieldOf<member> IntField(const char* name, int low,
                                   FieldForm form = FieldForm::kPlain) {
  return {{name, FieldType::kInt, form, -1, low, MemberOf<member>}};
}
template <auto member>
constexpr FieldOf<member> WordField(const char* name, const char* words,
                                    int8_t null_word = -1) {
  return {{name, FieldType::kWord,
           null_word < 0 ? FieldForm::kPlain : FieldForm::kOrNull, null_word, 0,
           MemberOf<member>, kAnyNumber, words}};
}
template <auto member>
constexpr FieldOf<member> BoolField(const char* name) {
  return {{name, FieldType::kBool, FieldForm::kPlain, -1, 0, MemberOf<member>}};
}
template <auto member>
constexpr FieldOf<member> ClassField(const char* name) {
  return {
      {name, FieldType::kClass, FieldForm::kOrNull, -1, 0, MemberOf<member>}};
}
template <typename T>
constexpr ConfigField<T> OnlyField(const char* name, FieldType type,
                                   int number = 0,
                                   FieldForm form = FieldForm::kPlain) {
  return {{name, type, form, -1, number}};
}

// Returns the value as text; "" for a class that is not set, and for a field
// that accepts only one value.
std::string ValueText(const FieldFacts& field, const void* object);
// Returns an error if the number in `object` is not permitted. The message
// begins with `subject`, and has `quote` before and after the field's name.
Status CheckField(const FieldFacts& field, const void* object,
                  const char* subject, const char* quote = "");

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_CONFIG_FIELD_H_
