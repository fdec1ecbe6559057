// Regularizers in Keras's configuration JSON.
//
// Internal to io/ and tools/.

#ifndef RINGLET_IO_KERAS_REGULARIZER_JSON_H_
#define RINGLET_IO_KERAS_REGULARIZER_JSON_H_

#include "../../core/layers/initializers.h"
#include "keras_json.h"

namespace ringlet {

// The field `key`, which leaves *regularizer where it is absent or null.
void ReadRegularizer(const char* key, FieldReader* fields,
                     Regularizer* regularizer);
void WriteRegularizer(JsonWriter* w, const Regularizer& r);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_REGULARIZER_JSON_H_
