// Storage: the type of a tensor's elements in a file.
//
// Elements are little-endian; F16 and BF16 are float32 in memory.

#ifndef RINGLET_IO_READERS_STORAGE_H_
#define RINGLET_IO_READERS_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

const char* StorageName(Storage storage);  // "F32"
size_t SizeOf(Storage storage);
Storage StorageOf(DType dtype);  // the exact one
DType DTypeOf(Storage storage);  // the type in memory

// True if a file may use this name; *storage becomes its type.
bool StorageNamed(const std::string& name, Storage* storage);
// True if elements in memory have the file's bytes.
bool SameInMemory(Storage storage);
// Bytes of all elements; -1 beyond 2^53.
int64_t StoredBytes(const Shape& shape, Storage storage);

// Converts between memory and a file, on a host of either byte order. `bytes`
// has count * SizeOf(storage) bytes.
void EncodeElements(Storage storage, const void* elements, size_t count,
                    unsigned char* bytes);
void DecodeElements(Storage storage, const unsigned char* bytes, size_t count,
                    void* elements);

struct StoredTensor {
  std::string name;
  Storage storage = Storage::kF32;
  Shape shape;
  int64_t offset = 0;  // the place in the file
  int64_t bytes = 0;
  uint32_t crc = 0;    // CRC32C from the footer; 0 in a plain file
  std::string unread;  // the type, if it cannot be read: "I8"
};

// Returns kResourceExhausted if the tensor has more than `max_bytes` bytes, in
// the file at `path` or as float32 in memory. Call it before the memory is
// allocated: a 32-bit size_t would overflow.
Status CheckAddressable(const std::string& path, const StoredTensor& tensor,
                        uint64_t max_bytes = SIZE_MAX / 2);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_STORAGE_H_
