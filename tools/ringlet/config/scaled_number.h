// Numbers with a unit: "64M", "20K".

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_SCALED_NUMBER_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_SCALED_NUMBER_H_

#include <cstdint>
#include <string>

namespace ringlet {

// Parses a whole number. One of the units K, M, G and T may follow; each is
// `step` times the previous one. Returns false if the text is not such a
// number, or the value is less than 1 or too large.
bool ReadScaled(const std::string& text, int64_t step, int64_t* value);

// Parses a number of bytes with ReadScaled: K is 1024, and a B may follow the
// unit: "64M", "64MB".
bool ReadByteCount(const std::string& text, int64_t* bytes);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_SCALED_NUMBER_H_
