// ReadIdx and OpenIdx: the arrays of IDX files.

#ifndef RINGLET_IO_READERS_ARRAYS_IDX_H_
#define RINGLET_IO_READERS_ARRAYS_IDX_H_

#include <memory>
#include <string>

#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

// Reads all elements of a file. The first dimension is the number of examples.
Status ReadIdx(const std::string& path, NpyArray* array);

// Opens images (or any x) in one file and as many labels in another.
Status OpenIdx(const std::string& images, const std::string& labels,
               const ArrayOptions& options, std::shared_ptr<Source>* source);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_ARRAYS_IDX_H_
