// Fields of layers that are one number or a list of numbers.

#ifndef RINGLET_IO_KERAS_NUMBER_LIST_JSON_H_
#define RINGLET_IO_KERAS_NUMBER_LIST_JSON_H_

#include <cstdint>
#include <vector>

#include "../../core/base/interval.h"
#include "../../core/base/json.h"
#include "../../core/layers/layer_table.h"
#include "field_reader.h"
#include "ringlet/layers.h"

namespace ringlet {

// Reads finite numbers in `range`, at least one.
void ReadNumbers(const char* key, const Interval& range, FieldReader* fields,
                 std::vector<float>* numbers);
void ReadAxes(const char* key, FieldReader* fields, std::vector<int64_t>* axes);
void ReadFloatRange(const LayerField& field, FieldReader* fields,
                    FloatRange* numbers);

// Writes a list of one number as the number.
void WriteNumbers(JsonWriter* w, const std::vector<float>& numbers);
void WriteAxes(JsonWriter* w, const std::vector<int64_t>& axes);

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_NUMBER_LIST_JSON_H_
