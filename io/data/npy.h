// NPY: numpy's array files.
//
// Public. Format versions 1 to 3, in C or Fortran order, little or big endian
// (numpy/lib/format.py). float16 becomes float32 in memory, bool uint8, int8,
// int16 and uint16 int32, uint32 and uint64 int64 (a uint64 that does not fit
// is an error); the other numbers stay what they are. Text (<U5, |S5) is read
// as labels: a class's number is its place among the sorted names.

#ifndef RINGLET_IO_DATA_NPY_H_
#define RINGLET_IO_DATA_NPY_H_

#include <string>
#include <vector>

#include "../../core/base/shape.h"
#include "../../core/base/status.h"
#include "../../core/data/dataset.h"

namespace ringlet {

struct NpyArray {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<unsigned char> data;  // native byte order, C order
};

// Numbers; kInvalidArgument where the elements are text.
Status ReadNpy(const std::string& path, NpyArray* array);

// What a file of such an array has before its data, which are little-endian.
std::string NpyHeader(DType dtype, const Shape& shape);

// `data` holds shape.elements() elements.
Status WriteNpy(const std::string& path, DType dtype, const Shape& shape,
                const void* data);

// The first dimension of both counts the examples. Where `y` is text a line on
// stderr says which class has which number. An error is kept in the dataset.
Dataset NpyDataset(const std::string& x, const std::string& y);

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_NPY_H_
