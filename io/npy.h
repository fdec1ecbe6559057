// NPY: numpy's array files.
//
// Public. Format versions 1 to 3, C order, little or big endian; element types
// u1, i4, i8, f4, f8 (numpy/lib/format.py).

#ifndef RINGLET_IO_NPY_H_
#define RINGLET_IO_NPY_H_

#include <string>
#include <vector>

#include "../core/dataset.h"
#include "../core/shape.h"
#include "../core/status.h"

namespace ringlet {

struct NpyArray {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<unsigned char> data;  // native byte order
};

Status ReadNpy(const std::string& path, NpyArray* array);

// The header alone, of a file of `total` bytes that is read by other means:
// `bytes` are its first `size`. array->data stay empty; they begin at *data_at,
// and their byte order is not the machine's where *reversed. The array's size
// is at most what follows. Errors begin with `where`.
Status ParseNpyHeader(const std::string& where, const unsigned char* bytes,
                      size_t size, int64_t total, NpyArray* array,
                      bool* reversed, int64_t* data_at);

// What a file of such an array has before its data, which are little-endian.
std::string NpyHeader(DType dtype, const Shape& shape);

// `data` holds shape.elements() elements.
Status WriteNpy(const std::string& path, DType dtype, const Shape& shape,
                const void* data);

// The first dimension of both counts the examples. An error is kept in the
// dataset.
Dataset NpyDataset(const std::string& x, const std::string& y);

}  // namespace ringlet

#endif  // RINGLET_IO_NPY_H_
