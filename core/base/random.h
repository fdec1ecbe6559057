// Random numbers that are a function of what they are for.
//
// Public. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011): four 32-bit words for a 128-bit counter and a 64-bit key.
// Nothing is stored, so a resumed run draws what an undisturbed run would, and
// threads need no shared state.

#ifndef RINGLET_CORE_BASE_RANDOM_H_
#define RINGLET_CORE_BASE_RANDOM_H_

#include <array>
#include <cstdint>

namespace ringlet {

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  // One stream of numbers for each (seed, stream).
  Philox(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  // The four words at `position` of this stream.
  Block At(uint64_t position) const {
    Block c = {Low(position), High(position), Low(stream_), High(stream_)};
    uint32_t k0 = Low(seed_), k1 = High(seed_);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
      c = {High(p1) ^ c[1] ^ k0, Low(p1), High(p0) ^ c[3] ^ k1, Low(p0)};
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return c;
  }

  // In [0, 1), 24 bits: every value is a float exactly.
  static float Unit(uint32_t word) {
    return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
  }

 private:
  static uint32_t Low(uint64_t v) { return static_cast<uint32_t>(v); }
  static uint32_t High(uint64_t v) { return static_cast<uint32_t>(v >> 32); }

  uint64_t seed_;
  uint64_t stream_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_RANDOM_H_
