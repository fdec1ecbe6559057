// FNV-1a with 64 bits: a hash with the same value on every machine.
//
// It separates texts; it does not withstand attacks.

#ifndef RINGLET_CORE_BASE_FNV1A_H_
#define RINGLET_CORE_BASE_FNV1A_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringlet {

class Fnv1a {
 public:
  void Add(const void* data, size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) {
      value_ = (value_ ^ at[i]) * UINT64_C(0x100000001b3);
    }
  }
  // Includes the NUL, so that the hash depends on where a text ends.
  void Add(const std::string& text) { Add(text.c_str(), text.size() + 1); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = UINT64_C(0xcbf29ce484222325);
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_FNV1A_H_
