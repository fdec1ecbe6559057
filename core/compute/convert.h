// Conversions of a source's numbers to x, in vector loops.

#ifndef RINGLET_CORE_COMPUTE_CONVERT_H_
#define RINGLET_CORE_COMPUTE_CONVERT_H_

#include <cstdint>

namespace ringlet {

// to[i] = from[i] * factor + offset.
void BytesToFloats(const unsigned char* from, int64_t n, float factor,
                   float offset, float* to);

// Like BytesToFloats, for float32 numbers at any address. Returns false if a
// result is not finite.
bool ScaleFloats(const void* from, int64_t n, float factor, float offset,
                 float* to);

}  // namespace ringlet

#endif  // RINGLET_CORE_COMPUTE_CONVERT_H_
