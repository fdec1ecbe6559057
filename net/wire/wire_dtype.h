// Names and sizes of a WireDtype (ringlet/collective.h).
//
// Internal.

#ifndef RINGLET_NET_WIRE_WIRE_DTYPE_H_
#define RINGLET_NET_WIRE_WIRE_DTYPE_H_

#include <cstdint>
#include <string>

#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

// "float32" and so on; "unknown" for a value from elsewhere. Static storage.
const char* WireDtypeName(WireDtype dtype);
// The bytes of each of `floats` in an all-reduce.
int WireBytesPerFloat(WireDtype dtype, int64_t floats);
// By name, in upper or lower case.
Status WireDtypeFromName(const std::string& name, WireDtype* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_WIRE_DTYPE_H_
