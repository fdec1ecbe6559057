// NpyLayout: the layout of an array's elements in an NPY file and in memory.
//
// numpy/lib/format.py describes the header, versions 1 to 3. Element types are
// b1, i1 to i8, u1 to u8, f2, f4, f8 and, for labels, text (S, U), in either
// byte order, in C or in Fortran order; or one such field of a structured
// array.

#ifndef RINGLET_IO_READERS_ARRAYS_NPY_LAYOUT_H_
#define RINGLET_IO_READERS_ARRAYS_NPY_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../storage.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

struct NpyLayout {
  char kind = 'f';        // numpy's: b, i, u, f; text is S (bytes) or U (UCS-4)
  int64_t width = 4;      // bytes of an element in the file
  bool reversed = false;  // not in the machine's byte order
  bool fortran = false;   // the first index varies fastest
  Shape shape;
  // For a field of a structured array: the bytes of a record, the bytes before
  // the field, and the field's elements in a record. `record` is zero without
  // records.
  int64_t record = 0, before = 0, per_record = 1;
  std::string unread;  // the type, if its elements cannot be read: "'|O'"

  bool is_text() const { return kind == 'S' || kind == 'U'; }
  // The type of the numbers in memory: the smallest DType with all values of
  // the file's type. u8 values above int64 are refused. Not for text.
  Storage storage() const;  // kF16 in the file is kFloat32 in memory
  DType dtype() const { return DTypeOf(storage()); }
  // True if elements have the same bytes in the file and in memory.
  bool native() const;
  int64_t stored_bytes() const {
    return record > 0 ? shape.elements() / per_record * record
                      : shape.elements() * width;
  }
};

// Parses the header of a file of `total` bytes from its first `size`. The
// elements begin at *data_at. The file has room for all elements of the shape.
// Errors begin with `where`.
Status ParseNpyHeader(const std::string& where, const unsigned char* bytes,
                      size_t size, int64_t total, NpyLayout* layout,
                      int64_t* data_at);

// The parts of ParseNpyHeader. CheckNpyStart checks the first 8 bytes; the
// header's length has *length_bytes more.
Status CheckNpyStart(const std::string& where, const unsigned char* start,
                     size_t* length_bytes);
Status NpyHeaderLength(const std::string& where, const unsigned char* bytes,
                       size_t length_bytes, size_t* length);
// The text of the header in UTF-8. `start` is as for CheckNpyStart. Before
// version 3 a header is in Latin-1.
std::string NpyHeaderText(const unsigned char* start,
                          const std::string& header);
// At most `most_left` bytes can follow the header. `field` is the array's name
// in a structured array, or "".
Status ParseNpyDictionary(const std::string& where, const std::string& header,
                          int64_t most_left, NpyLayout* layout,
                          const std::string& field = "");

// Converts `stored`, layout.stored_bytes() bytes, to `elements` in C order, one
// for each element of the shape, of type layout.dtype(). kInvalidArgument for a
// u8 beyond int64.
Status DecodeNumbers(const std::string& where, const NpyLayout& layout,
                     const unsigned char* stored, void* elements);

// Converts each element's text to a class number (class_names.h), in C order.
// Names are UTF-8, without trailing zeros.
Status DecodeClassNumbers(const std::string& where, const NpyLayout& layout,
                          const unsigned char* stored, int32_t* numbers,
                          std::vector<std::string>* names);

// The header of an npy file; the data after it are little-endian.
std::string NpyHeader(DType dtype, const Shape& shape);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_ARRAYS_NPY_LAYOUT_H_
