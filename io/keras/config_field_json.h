// The JSON of a setting of a loss, a metric or an optimizer.

#ifndef RINGLET_IO_KERAS_CONFIG_FIELD_JSON_H_
#define RINGLET_IO_KERAS_CONFIG_FIELD_JSON_H_

#include "../../core/objective/config_field.h"
#include "keras_json.h"

namespace ringlet {

void ReadField(const FieldFacts& field, void* object, FieldReader* fields);
void WriteField(const FieldFacts& field, const void* object, JsonWriter* w);

template <typename T>
void ReadFields(const FieldTable<T>& table, T* object, FieldReader* fields) {
  for (const ConfigField<T>& field : table) ReadField(field, object, fields);
}
template <typename T>
void WriteFields(const FieldTable<T>& table, const T& object, JsonWriter* w) {
  for (const ConfigField<T>& field : table) WriteField(field, &object, w);
}

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_CONFIG_FIELD_JSON_H_
