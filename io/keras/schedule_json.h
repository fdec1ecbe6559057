// Learning rates in Keras's configuration JSON.

#ifndef RINGLET_IO_KERAS_SCHEDULE_JSON_H_
#define RINGLET_IO_KERAS_SCHEDULE_JSON_H_

#include "keras_json.h"
#include "ringlet/optimizers.h"

namespace ringlet {

// Reads the field "learning_rate" (in Keras 2 also "lr"), a number or a
// schedule; keeps *rate if it is absent. Keras 2's "decay" makes a number an
// InverseTimeDecay over steps.
void ReadLearningRate(FieldReader* fields, LearningRate* rate);
void WriteLearningRate(JsonWriter* w, const LearningRate& rate);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_SCHEDULE_JSON_H_
