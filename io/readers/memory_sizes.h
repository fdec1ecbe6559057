// The bytes of memory that a file's data take once they are read.
//
// IDX and NPY files have the size in their headers. A CSV file is read to the
// end. If the options have in_memory = false, the examples stay in the file.
// Then a file of labels, one value each, still counts, and so do the weights
// and the index (CsvIndex) of a CSV file.

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
// Computes the bytes of an array without labels, which may not be text.
Status NpyExampleBytesInMemory(const std::string& path,
                               const ArrayOptions& options, uint64_t* bytes);
Status CsvBytesInMemory(const std::string& path, const CsvOptions& options,
                        uint64_t* bytes);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_MEMORY_SIZES_H_
