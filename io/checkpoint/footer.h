// The footer that a checkpoint has beyond safetensors, for its reader and its
// writer.
//
// Internal to io/checkpoint. docs/checkpoint_format.md has the format. The last
// tensor, kFooterName, of U8:
//
//   OFFSET SIZE
//    0      8   kFooterMagic
//    8      8   bytes of the whole file
//   16      4   CRC32C of all before the first tensor's bytes
//   20    4 * n CRC32C of each tensor but this one, in the order of their bytes

#ifndef RINGLET_IO_CHECKPOINT_FOOTER_H_
#define RINGLET_IO_CHECKPOINT_FOOTER_H_

#include <cstddef>

namespace ringlet {

constexpr char kFooterName[] = "ringlet.footer";
constexpr char kFooterMagic[] = "rgltftr1";  // 8 bytes; the 1 is its version
constexpr char kFormatVersion[] = "1";
constexpr size_t kFooterFixedBytes = 20;  // before the tensors' checksums

constexpr size_t kPieceBytes = 256 << 10;  // read or written at once

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_FOOTER_H_
