// WireDtype: what the floats of a long all-reduce are while they travel.
//
// Public. Half the bytes for a third to an eighth of the digits: where the
// network is what training waits for. Each number is rounded to nearest, ties
// to even, at every hop; sums are made in float32, in the ring's fixed order,
// and the sum that a rank owns is rounded before anybody gets it, so all ranks
// end with the same bits. Vectors of at most 8 KiB travel as float32 always.

#ifndef RINGLET_NET_WIRE_WIRE_DTYPE_H_
#define RINGLET_NET_WIRE_WIRE_DTYPE_H_

#include <cstdint>
#include <string>

#include "../../core/base/status.h"

namespace ringlet {

// Values are part of the wire's format.
enum class WireDtype : uint8_t {
  kFloat32 = 0,
  kBfloat16 = 1,  // float32's range, 8 bits of precision
  kFloat16 = 2,   // IEEE 754 binary16, 11 bits; beyond 65,504 infinity
};

// "float32" and so on; "unknown" for a value from elsewhere. Static storage.
const char* WireDtypeName(WireDtype dtype);
// How many bytes each of `floats` takes in an all-reduce.
int WireBytesPerFloat(WireDtype dtype, int64_t floats);
// By name, in any case.
Status WireDtypeFromName(const std::string& name, WireDtype* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_WIRE_DTYPE_H_
