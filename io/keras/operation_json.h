// Arithmetic on tensors in functional models: x + 3, 1 - x, x * y, x / 255.
//
// Keras 3 writes an operation such as TrueDivide, and tf.keras a TFOpLambda
// with the name of a function. Either becomes a layer: a Rescaling, or for two
// tensors Add, Subtract or Multiply.

#ifndef RINGLET_IO_KERAS_OPERATION_JSON_H_
#define RINGLET_IO_KERAS_OPERATION_JSON_H_

#include "layer_json.h"

namespace ringlet {

// True for a class that is no layer in Keras.
bool IsOperation(const KerasObject& object);
// Reads its fields except the name.
Status ReadOperation(const KerasObject& object, FieldReader* fields,
                     LayerEntry* entry);

// True for a number, or a list of one for each channel. It may lie in lists of
// one: [[[1, 2]]].
bool ReadConstant(const Json& json, CallReference* constant);

// Makes the layer of an operation, or of an Add, Subtract or Multiply with a
// number. Call it when the calls are read; removes the numbers from them.
Status FinishOperation(LayerEntry* entry);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_OPERATION_JSON_H_
