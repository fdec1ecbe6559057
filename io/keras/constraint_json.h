// Constraints in Keras's configuration JSON.

#ifndef RINGLET_IO_KERAS_CONSTRAINT_JSON_H_
#define RINGLET_IO_KERAS_CONSTRAINT_JSON_H_

#include "keras_json.h"
#include "ringlet/layers.h"

namespace ringlet {

// Reads the field `key`; keeps *constraint if it is absent or null.
void ReadConstraint(const char* key, FieldReader* fields,
                    Constraint* constraint);
void WriteConstraint(JsonWriter* w, const Constraint& constraint);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_CONSTRAINT_JSON_H_
