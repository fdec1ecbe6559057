// Names and sizes of a WireDtype (core/base/collective.h).
//
// Internal.

#ifndef RINGLET_NET_WIRE_WIRE_DTYPE_H_
#define RINGLET_NET_WIRE_WIRE_DTYPE_H_

#include <cstdint>
#include <string>

#include "../../core/base/collective.h"
#include "../../core/base/status.h"

namespace ringlet {

// "float32" and so on; "unknown" for a value from elsewhere. Static storage.
const char* WireDtypeName(WireDtype dtype);
// How many bytes each of `floats` takes in an all-reduce.
int WireBytesPerFloat(WireDtype dtype, int64_t floats);
// By name, in any case.
Status WireDtypeFromName(const std::string& name, WireDtype* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_WIRE_DTYPE_H_
