#include "crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace ringlet {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t c = byte;
    for (int bit = 0; bit < 8; ++bit) {
      c = (c & 1) != 0 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
    }
    table[byte] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

using Implementation = uint32_t (*)(const void*, size_t, uint32_t);

#if defined(__x86_64__)

// One stream of 8 bytes every 3 cycles: several times the speed of any disk or
// network here.
__attribute__((target("sse4.2"))) uint32_t HardwareCrc32c(const void* data,
                                                          size_t bytes,
                                                          uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t c = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    c = _mm_crc32_u64(c, word);
  }
  auto c32 = static_cast<uint32_t>(c);
  for (; bytes > 0; --bytes, ++p) c32 = _mm_crc32_u8(c32, *p);
  return ~c32;
}

bool HasHardware() { return __builtin_cpu_supports("sse4.2"); }

#elif defined(__aarch64__)

__attribute__((target("+crc"))) uint32_t HardwareCrc32c(const void* data,
                                                        size_t bytes,
                                                        uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint32_t c = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    c = __builtin_aarch64_crc32cx(c, word);
  }
  for (; bytes > 0; --bytes, ++p) c = __builtin_aarch64_crc32cb(c, *p);
  return ~c;
}

bool HasHardware() { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; }

#else

uint32_t HardwareCrc32c(const void* data, size_t bytes, uint32_t crc) {
  return PortableCrc32c(data, bytes, crc);
}

bool HasHardware() { return false; }

#endif

}  // namespace

uint32_t PortableCrc32c(const void* data, size_t bytes, uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint32_t c = ~crc;
  for (; bytes > 0; --bytes, ++p) c = (c >> 8) ^ kTable[(c ^ *p) & 0xff];
  return ~c;
}

uint32_t Crc32c(const void* data, size_t bytes, uint32_t crc) {
  static const Implementation implementation =
      HasHardware() ? HardwareCrc32c : PortableCrc32c;
  return implementation(data, bytes, crc);
}

}  // namespace ringlet
