#include "crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
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

#if defined(__x86_64__) || defined(__aarch64__)

// The instruction takes one cycle and its result comes after three, so three
// blocks are summed at the same time. Then the sums are combined: appending
// zeros to a message is linear in its sum, with a table for each four bits of
// it.
constexpr size_t kBlock = 1024;
constexpr size_t kLine = 64;  // bytes of a cache line

constexpr std::array<std::array<uint32_t, 16>, 8> MakeShift() {
  std::array<uint32_t, 32> basis{};  // the result for each bit
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t c = uint32_t{1} << bit;
    for (size_t i = 0; i < kBlock; ++i) c = (c >> 8) ^ kTable[c & 0xff];
    basis[bit] = c;
  }
  std::array<std::array<uint32_t, 16>, 8> shift{};
  for (int four = 0; four < 8; ++four) {
    for (uint32_t value = 0; value < 16; ++value) {
      for (int bit = 0; bit < 4; ++bit) {
        if ((value >> bit & 1) != 0)
          shift[four][value] ^= basis[4 * four + bit];
      }
    }
  }
  return shift;
}
constexpr std::array<std::array<uint32_t, 16>, 8> kShift = MakeShift();

inline uint64_t Shift(uint64_t c) {
  uint64_t shifted = 0;
  for (const auto& four : kShift) {
    shifted ^= four[c & 0xf];
    c >>= 4;
  }
  return shifted;
}

inline uint64_t Load(const unsigned char* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

// Prefetches a line of a later block, which may be after the data. Processors
// predict one run of addresses in a page, so three runs were read from memory
// at a third of the speed.
inline void Prefetch(const unsigned char* p, size_t blocks, size_t line) {
  const auto address = reinterpret_cast<uintptr_t>(p) + blocks * kBlock + line;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): may be after the data
  __builtin_prefetch(reinterpret_cast<const void*>(address));
}

#if defined(__x86_64__)
#define RINGLET_CRC_TARGET "sse4.2"
#define RINGLET_CRC_8(c, word) _mm_crc32_u64(c, word)
#define RINGLET_CRC_1(c, byte) _mm_crc32_u8(static_cast<uint32_t>(c), byte)
bool HasHardware() { return __builtin_cpu_supports("sse4.2"); }
#else
#define RINGLET_CRC_TARGET "+crc"
#define RINGLET_CRC_8(c, word) \
  __builtin_aarch64_crc32cx(static_cast<uint32_t>(c), word)
#define RINGLET_CRC_1(c, byte) \
  __builtin_aarch64_crc32cb(static_cast<uint32_t>(c), byte)
bool HasHardware() { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; }
#endif

__attribute__((target(RINGLET_CRC_TARGET))) uint32_t HardwareCrc32c(
    const void* data, size_t bytes, uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t c = ~crc;
  for (; bytes >= 3 * kBlock; bytes -= 3 * kBlock, p += 3 * kBlock) {
    uint64_t c1 = 0;
    uint64_t c2 = 0;
    for (size_t line = 0; line < kBlock; line += kLine) {
      for (size_t ahead = 3; ahead < 6; ++ahead) Prefetch(p, ahead, line);
      for (size_t i = line; i < line + kLine; i += 8) {
        c = RINGLET_CRC_8(c, Load(p + i));
        c1 = RINGLET_CRC_8(c1, Load(p + kBlock + i));
        c2 = RINGLET_CRC_8(c2, Load(p + 2 * kBlock + i));
      }
    }
    c = Shift(Shift(c) ^ c1) ^ c2;
  }
  for (; bytes >= 8; bytes -= 8, p += 8) c = RINGLET_CRC_8(c, Load(p));
  for (; bytes > 0; --bytes, ++p) c = RINGLET_CRC_1(c, *p);
  return ~static_cast<uint32_t>(c);
}

#if defined(__x86_64__)

// x^n modulo the polynomial, as a factor of _mm512_clmulepi64_epi128: the bit
// of x^0 is the highest.
constexpr int64_t PowerOfX(int n) {
  uint32_t c = 0x80000000u;
  for (; n > 0; --n) c = (c & 1) != 0 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
  return static_cast<int64_t>(static_cast<uint64_t>(c) << 32);
}

constexpr int kVector = 64;  // bytes

#define RINGLET_FOLD_TARGET "avx512f,vpclmulqdq,sse4.2"

// `next` plus what is equivalent to `v`, `kBytes` bytes before it. A product
// of two reflected factors lacks one power of x.
template <int kBytes>
__attribute__((target(RINGLET_FOLD_TARGET))) inline __m512i Fold(__m512i v,
                                                                 __m512i next) {
  constexpr int64_t kLow = PowerOfX(8 * kBytes + 63);
  constexpr int64_t kHigh = PowerOfX(8 * kBytes - 1);
  const __m512i factors =
      _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  const __m512i low = _mm512_clmulepi64_epi128(v, factors, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(v, factors, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96);  // all added
}

// Returns the checksum of the data. Folds its parts of 256 bytes to 64 bytes
// with the same checksum; the crc32 instruction then adds these and the
// remaining bytes.
__attribute__((target(RINGLET_FOLD_TARGET))) uint32_t FoldedCrc32c(
    const void* data, size_t bytes, uint32_t crc) {
  constexpr size_t kPart = 4 * kVector;
  if (bytes < 2 * kPart) return HardwareCrc32c(data, bytes, crc);
  const auto* p = static_cast<const unsigned char*>(data);
  __m512i v[4];
  for (int i = 0; i < 4; ++i) v[i] = _mm512_loadu_si512(p + i * kVector);
  v[0] = _mm512_xor_si512(
      v[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  for (p += kPart, bytes -= kPart; bytes >= kPart; p += kPart, bytes -= kPart) {
    for (int i = 0; i < 4; ++i) {
      v[i] = Fold<kPart>(v[i], _mm512_loadu_si512(p + i * kVector));
    }
  }
  for (int i = 1; i < 4; ++i) v[i] = Fold<kVector>(v[i - 1], v[i]);
  uint64_t words[8];
  std::memcpy(words, &v[3], sizeof(words));
  uint64_t c = 0;
  for (const uint64_t word : words) c = _mm_crc32_u64(c, word);
  return HardwareCrc32c(p, bytes, ~static_cast<uint32_t>(c));
}

bool CanFold() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("vpclmulqdq");
}

#endif

#else

uint32_t HardwareCrc32c(const void* data, size_t bytes, uint32_t crc) {
  return PortableCrc32c(data, bytes, crc);
}

bool HasHardware() { return false; }

#endif

Implementation BestImplementation() {
#if defined(__x86_64__)
  if (HasHardware() && CanFold()) return FoldedCrc32c;
#endif
  return HasHardware() ? HardwareCrc32c : PortableCrc32c;
}

}  // namespace

uint32_t PortableCrc32c(const void* data, size_t bytes, uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint32_t c = ~crc;
  for (; bytes > 0; --bytes, ++p) c = (c >> 8) ^ kTable[(c ^ *p) & 0xff];
  return ~c;
}

uint32_t Crc32c(const void* data, size_t bytes, uint32_t crc) {
  static const Implementation implementation = BestImplementation();
  return implementation(data, bytes, crc);
}

}  // namespace ringlet
