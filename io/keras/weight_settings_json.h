// Initializers, regularizers and constraints of weights in Keras's
// configuration JSON.

#ifndef RINGLET_IO_KERAS_WEIGHT_SETTINGS_JSON_H_
#define RINGLET_IO_KERAS_WEIGHT_SETTINGS_JSON_H_

#include "keras_json.h"
#include "ringlet/layers.h"

namespace ringlet {

// Each function reads the field `key`, and keeps the value if the field is
// absent. Null is an error for an initializer. For a regularizer or a
// constraint, null keeps the value.
void ReadInitializer(const char* key, FieldReader* fields,
                     Initializer* initializer);
void ReadRegularizer(const char* key, FieldReader* fields,
                     Regularizer* regularizer);
void ReadConstraint(const char* key, FieldReader* fields,
                    Constraint* constraint);

void WriteInitializer(JsonWriter* w, const Initializer& initializer);
void WriteRegularizer(JsonWriter* w, const Regularizer& regularizer);
void WriteConstraint(JsonWriter* w, const Constraint& constraint);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_WEIGHT_SETTINGS_JSON_H_
