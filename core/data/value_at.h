// ValueAt: an element of an array of any type.

#ifndef RINGLET_CORE_DATA_VALUE_AT_H_
#define RINGLET_CORE_DATA_VALUE_AT_H_

#include <cstdint>

#include "ringlet/shape.h"

namespace ringlet {

// Element i of `raw` as a double; exact for every type but large int64.
double ValueAt(DType dtype, const unsigned char* raw, int64_t i);

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_VALUE_AT_H_
