// The C++ type of a DType's elements.

#ifndef RINGLET_CORE_DATA_ELEMENT_TYPES_H_
#define RINGLET_CORE_DATA_ELEMENT_TYPES_H_

#include <cstdint>

#include "ringlet/shape.h"

namespace ringlet {

// Calls f with a null pointer of the elements' type.
template <typename F>
void WithType(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(static_cast<const float*>(nullptr));
    case DType::kUint8:
      return f(static_cast<const uint8_t*>(nullptr));
    case DType::kInt32:
      return f(static_cast<const int32_t*>(nullptr));
    case DType::kInt64:
      return f(static_cast<const int64_t*>(nullptr));
    case DType::kFloat64:
      return f(static_cast<const double*>(nullptr));
  }
}

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_ELEMENT_TYPES_H_
