// Names and sizes of a WireDtype (ringlet/collective.h).

#ifndef RINGLET_NET_WIRE_WIRE_DTYPE_H_
#define RINGLET_NET_WIRE_WIRE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

// "float32" and so on; "unknown" for a value from elsewhere. Static storage.
const char* WireDtypeName(WireDtype dtype);
// The bytes of a packed number.
constexpr size_t PackedBytesPerFloat(WireDtype dtype) {
  return dtype == WireDtype::kFloat32 ? 4 : 2;
}
// The bytes of each of `floats` in an all-reduce, where short vectors are never
// packed.
int WireBytesPerFloat(WireDtype dtype, int64_t floats);
// Finds a type by its name, in upper or lower case.
Status WireDtypeFromName(const std::string& name, WireDtype* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_WIRE_DTYPE_H_
