// NpyLayout: how an array's elements stand in an NPY file, and what they
// become.
//
// Internal to io/. The header of
// numpy/lib/format.py, versions 1 to 3; element types b1, i1 to i8, u1 to u8,
// f2, f4, f8 and, as labels, text (S, U), in either byte order, in C or in
// Fortran order.

#ifndef RINGLET_IO_DATA_NPY_LAYOUT_H_
#define RINGLET_IO_DATA_NPY_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/shape.h"
#include "../../core/base/status.h"
#include "storage.h"

namespace ringlet {

struct NpyLayout {
  char kind = 'f';        // numpy's: b, i, u, f; text is S (bytes) or U (UCS-4)
  int64_t width = 4;      // bytes of an element in the file
  bool reversed = false;  // not in the machine's byte order
  bool fortran = false;   // the first index varies fastest
  Shape shape;

  bool is_text() const { return kind == 'S' || kind == 'U'; }
  // Of the numbers in memory: the smallest DType that holds all of a type's
  // values, but for u8, whose largest are refused. Not of text.
  Storage storage() const;  // kF16, the file's, where memory has kFloat32
  DType dtype() const { return DTypeOf(storage()); }
  // Whether the file's bytes are those in memory.
  bool native() const;
  int64_t stored_bytes() const { return shape.elements() * width; }
};

// Reads the header of a file of `total` bytes from its first `size`. The
// elements begin at *data_at; there are no more than what follows has room
// for. Errors begin with `where`.
Status ParseNpyHeader(const std::string& where, const unsigned char* bytes,
                      size_t size, int64_t total, NpyLayout* layout,
                      int64_t* data_at);

// The same by its parts. Checks the first 8 bytes; the header's length takes
// *length_bytes more.
Status CheckNpyStart(const std::string& where, const unsigned char* start,
                     size_t* length_bytes);
Status NpyHeaderLength(const std::string& where, const unsigned char* bytes,
                       size_t length_bytes, size_t* length);
// `most_left`: bytes that can follow the header.
Status ParseNpyDictionary(const std::string& where, const std::string& header,
                          int64_t most_left, NpyLayout* layout);

// From `stored`, layout.stored_bytes() bytes, to `elements`, as many as the
// shape has, of layout.dtype(), in C order. kInvalidArgument: a u8 beyond
// int64.
Status DecodeNumbers(const std::string& where, const NpyLayout& layout,
                     const unsigned char* stored, void* elements);

// The class number (class_names.h) of each element's text, in C order; names
// are UTF-8, without the zeros behind them.
Status DecodeClassNumbers(const std::string& where, const NpyLayout& layout,
                          const unsigned char* stored, int32_t* numbers,
                          std::vector<std::string>* names);

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_NPY_LAYOUT_H_
