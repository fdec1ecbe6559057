// Regularizers in Keras's configuration JSON.

#ifndef RINGLET_IO_KERAS_REGULARIZER_JSON_H_
#define RINGLET_IO_KERAS_REGULARIZER_JSON_H_

#include "keras_json.h"
#include "ringlet/layers.h"

namespace ringlet {

// Reads the field `key`; keeps *regularizer if it is absent or null.
void ReadRegularizer(const char* key, FieldReader* fields,
                     Regularizer* regularizer);
void WriteRegularizer(JsonWriter* w, const Regularizer& r);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_REGULARIZER_JSON_H_
