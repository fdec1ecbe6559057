// CRC32C: the checksum of frames, checkpoints and event files.
//
// The Castagnoli polynomial 0x1EDC6F41, reflected, initial and final value all
// ones (RFC 3720, appendix B.4): Crc32c("123456789") = 0xE3069283.

#ifndef RINGLET_CORE_BASE_CRC32C_H_
#define RINGLET_CORE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace ringlet {

// The checksum of `bytes` bytes that follow earlier bytes with the checksum
// `crc`. Uses the processor's instructions if it has them.
uint32_t Crc32c(const void* data, size_t bytes, uint32_t crc = 0);

// The reference implementation, byte by byte from a table, for tests and other
// processors.
uint32_t PortableCrc32c(const void* data, size_t bytes, uint32_t crc = 0);

// TFRecord's mask, so that a checksum of data that contain checksums is still
// useful (tensorboard's record_writer.py).
inline uint32_t MaskCrc32c(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_CRC32C_H_
