// Initializers in Keras's configuration JSON.

#ifndef RINGLET_IO_KERAS_INITIALIZER_JSON_H_
#define RINGLET_IO_KERAS_INITIALIZER_JSON_H_

#include "keras_json.h"
#include "ringlet/layers.h"

namespace ringlet {

// Reads the field `key`; keeps *initializer if it is absent.
void ReadInitializer(const char* key, FieldReader* fields,
                     Initializer* initializer);
void WriteInitializer(JsonWriter* w, const Initializer& i);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_INITIALIZER_JSON_H_
