// Numbers with a unit: "64M", "20K".

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_SCALED_NUMBER_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_SCALED_NUMBER_H_

#include <cstdint>
#include <string>

namespace ringlet {

// Parses a whole number with a unit behind it, of K, M, G and T, each `step`
// times the one before, or without one. False: it is none, less than 1 or too
// large.
bool ReadScaled(const std::string& text, int64_t step, int64_t* value);

// The same for bytes: K is 1024, and a B may follow: "64M", "64MB".
bool ReadByteCount(const std::string& text, int64_t* bytes);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_SCALED_NUMBER_H_
