// IDX: the files of MNIST and its relatives, plain or .gz.
//
// Public. Format: two zero bytes, a type (0x08 uint8, 0x0C int32, 0x0D float32,
// 0x0E float64), the number of dimensions, each dimension as a big-endian
// uint32, then the elements, big-endian (Yann LeCun's MNIST page).

#ifndef RINGLET_IO_DATA_IDX_H_
#define RINGLET_IO_DATA_IDX_H_

#include <memory>
#include <string>
#include <vector>

#include "../../core/base/status.h"
#include "../../core/data/dataset.h"
#include "../../core/data/source.h"

namespace ringlet {

struct IdxOptions {
  // False: examples are read from the file when they are asked for, which
  // takes no memory. Plain files only; labels are always in memory.
  bool in_memory = true;
};

// Images (or any x) from one file and labels from another, of equal counts.
// Elements stay in the file's type.
Status OpenIdx(const std::string& images, const std::string& labels,
               const IdxOptions& options, std::shared_ptr<Source>* source);

// The same as a Dataset; an error is kept in it.
Dataset IdxDataset(const std::string& images, const std::string& labels,
                   const IdxOptions& options = {});
// Several pairs of files, one after another. FileStarts() tells them apart.
Dataset IdxDataset(const std::vector<std::string>& images,
                   const std::vector<std::string>& labels,
                   const IdxOptions& options = {});

// One whole file. The first dimension counts the examples.
struct IdxArray {
  DType dtype = DType::kUint8;
  Shape shape;
  std::vector<unsigned char> data;  // native byte order
};
Status ReadIdx(const std::string& path, IdxArray* array);

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_IDX_H_
