// Storage: how the elements of a tensor stand in a file.
//
// Internal to io. Elements are little-endian; F16 and BF16 are float32 in
// memory.

#ifndef RINGLET_IO_DATA_STORAGE_H_
#define RINGLET_IO_DATA_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "../../core/base/saveable.h"
#include "../../core/base/shape.h"

namespace ringlet {

const char* NameOf(Storage storage);  // "F32"
size_t SizeOf(Storage storage);
Storage StorageOf(DType dtype);  // the exact one
DType DTypeOf(Storage storage);  // in memory

// True where a file may name it so; *storage is then that one.
bool StorageNamed(const std::string& name, Storage* storage);
// Whether elements in memory are the file's bytes.
bool SameInMemory(Storage storage);
// Of all elements; -1 beyond 2^53.
int64_t StoredBytes(const Shape& shape, Storage storage);

// Between memory and a file, on a host of either byte order. `bytes` is of
// count * SizeOf(storage) bytes.
void EncodeElements(Storage storage, const void* elements, size_t count,
                    unsigned char* bytes);
void DecodeElements(Storage storage, const unsigned char* bytes, size_t count,
                    void* elements);

struct StoredTensor {
  std::string name;
  Storage storage = Storage::kF32;
  Shape shape;
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
  uint32_t crc = 0;  // CRC32C as the footer has it; 0 in a plain file
  std::string unread;  // what it is, where that cannot be read: "I8"
};

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_STORAGE_H_
