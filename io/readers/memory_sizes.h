// The memory that data files need after reading.
//
// For IDX and NPY the header gives it; a CSV is read. If data are not in
// memory, these are the bytes of an array of labels.

#ifndef RINGLET_IO_READERS_MEMORY_SIZES_H_
#define RINGLET_IO_READERS_MEMORY_SIZES_H_

#include <cstdint>
#include <string>

#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

Status IdxBytesInMemory(const std::string& path, const ArrayOptions& options,
                        uint64_t* bytes);
Status NpyBytesInMemory(const std::string& path, const ArrayOptions& options,
                        uint64_t* bytes);
Status CsvBytesInMemory(const std::string& path, const CsvOptions& options,
                        uint64_t* bytes);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_MEMORY_SIZES_H_
