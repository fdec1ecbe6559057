// Packing: numbers in the format of the wire.
//
// See wire_dtype.h. None of the memory need be aligned; the numbers are
// little-endian, on every processor.

#ifndef RINGLET_NET_WIRE_PACKED_FLOATS_H_
#define RINGLET_NET_WIRE_PACKED_FLOATS_H_

#include <cstddef>
#include <cstdint>

#include "ringlet/collective.h"

namespace ringlet {

// out[i] = floats[i], rounded. floats[i] becomes the receiver's value.
void PackFloats(WireDtype dtype, uint8_t* floats, size_t count, uint8_t* out);
// floats[i] = from[i].
void UnpackFloats(WireDtype dtype, const uint8_t* from, size_t count,
                  uint8_t* floats);
// floats[i] += from[i].
void AddPacked(WireDtype dtype, const uint8_t* from, size_t count,
               uint8_t* floats);
// Adds numbers of int32; a sum that does not fit wraps.
void AddIntegers(const uint8_t* from, size_t count, uint8_t* integers);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_PACKED_FLOATS_H_
