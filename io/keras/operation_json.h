// Arithmetic on tensors in functional models: x + 3, 1 - x, x * y, x / 255,
// x ** 2.
//
// Keras 3 writes an operation such as TrueDivide, and tf.keras a TFOpLambda
// with the name of a function. Either becomes a layer: a Rescaling, or for two
// tensors Add, Subtract or Multiply. A square is the Multiply of x with itself.

#ifndef RINGLET_IO_KERAS_OPERATION_JSON_H_
#define RINGLET_IO_KERAS_OPERATION_JSON_H_

#include "layer_json.h"

namespace ringlet {

// True for an operation: an object that is not a layer in Keras.
bool IsOperation(const KerasObject& object);
// Reads the operation's fields except its name.
Status ReadOperation(const KerasObject& object, FieldReader* fields,
                     LayerEntry* entry);

// Reads a number, or a list with a number for each channel, which may be in
// lists of one element: [[[1, 2]]]. False for anything else.
bool ReadConstant(const Json& json, CallReference* constant);

// Chooses the layer for an operation, or for an Add, Subtract or Multiply with
// a number. Call it once the calls have been read. It removes the numbers from
// the calls.
Status FinishOperation(LayerEntry* entry);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_OPERATION_JSON_H_
