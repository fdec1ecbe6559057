// Learning rates in Keras's configuration JSON.
//
// Internal to io/ and tools/.

#ifndef RINGLET_IO_KERAS_SCHEDULE_JSON_H_
#define RINGLET_IO_KERAS_SCHEDULE_JSON_H_

#include "../../core/model/optimizers.h"
#include "keras_json.h"

namespace ringlet {

// The field "learning_rate", a number or a schedule; leaves *rate where it is
// absent.
void ReadLearningRate(FieldReader* fields, LearningRate* rate);
void WriteLearningRate(JsonWriter* w, const LearningRate& rate);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_SCHEDULE_JSON_H_
