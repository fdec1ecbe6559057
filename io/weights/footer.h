// The footer of a checkpoint, for its reader and its writer. Plain safetensors
// files have none.
//
// docs/checkpoint_format.md has the format. It is the last tensor, kFooterName,
// of type U8:
//
//   OFFSET SIZE
//    0      8   kFooterMagic
//    8      8   bytes of the whole file
//   16      4   CRC32C of all before the first tensor's bytes
//   20    4 * n CRC32C of each other tensor, in the order of their bytes

#ifndef RINGLET_IO_WEIGHTS_FOOTER_H_
#define RINGLET_IO_WEIGHTS_FOOTER_H_

#include <cstddef>

namespace ringlet {

constexpr char kFooterName[] = "ringlet.footer";
constexpr char kFooterMagic[] = "rgltftr1";  // 8 bytes; the 1 is its version
constexpr char kFormatVersion[] = "1";
// The bytes before the tensors' checksums.
constexpr size_t kFooterFixedBytes = 20;

constexpr size_t kPieceBytes = 256 << 10;  // the bytes of one read or write

}  // namespace ringlet

#endif  // RINGLET_IO_WEIGHTS_FOOTER_H_
