// Readers: data sets from IDX, NPY and CSV files.
//
// Public. Each gives a Dataset, which keeps what was wrong with a file; files
// may be .gz. A reader of your own is a Source (core/data/source.h).

#ifndef RINGLET_IO_DATA_READERS_H_
#define RINGLET_IO_DATA_READERS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../core/base/shape.h"
#include "../../core/base/status.h"
#include "../../core/data/dataset.h"
#include "../../core/data/source.h"

namespace ringlet {

// IDX: the files of MNIST and its relatives. Format: two zero bytes, a type
// (0x08 uint8, 0x0C int32, 0x0D float32, 0x0E float64), the number of
// dimensions, each dimension as a big-endian uint32, then the elements,
// big-endian (Yann LeCun's MNIST page).

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
// Without labels: an input, or what one output is to give, for Zip.
Dataset IdxDataset(const std::string& x);
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

// NPY: numpy's array files. Format versions 1 to 3, in C or Fortran order,
// little or big endian (numpy/lib/format.py). float16 becomes float32 in
// memory, bool uint8, int8, int16 and uint16 int32, uint32 and uint64 int64 (a
// uint64 that does not fit is an error); the other numbers stay what they are.
// Text (<U5, |S5) is read as labels: a class's number is its place among the
// sorted names.

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

// An array of one number an example, for Dataset::SampleWeight: of (n) or
// (n, 1).
Status ReadSampleWeights(const std::string& path, std::vector<float>* weights);

// The first dimension of both counts the examples. Where `y` is text a line on
// stderr says which class has which number. An error is kept in the dataset.
Dataset NpyDataset(const std::string& x, const std::string& y);
// Without labels: an input, or what one output is to give, for Zip.
Dataset NpyDataset(const std::string& x);

// CSV: rows of numbers, one example a row. Fields are decimal numbers in the C
// locale, all rows of one length; CRLF and LF, with or without a byte order
// mark. One column is the label, or none; labels may be names instead of
// numbers.

struct CsvOptions {
  char separator = ',';
  // Whether the first line holds names. Without a value it does, unless its
  // fields (a text label's aside) are all numbers: then it is read as data, and
  // a line on stderr says so. "0,1,2", as pandas names columns without names,
  // is taken for names. A line of text and numbers is read as names, and a line
  // says so too: it may be a row with a gap.
  std::optional<bool> header;
  // False: all columns are values, and y has no bytes.
  bool has_label = true;
  // Where not 0: the label is there in rows of one column more than these, and
  // is not in rows of as many.
  int64_t values = 0;
  // The label's column by name (needs a header) or, where that is empty, by
  // number from 0; a negative number counts from the end.
  std::string label_name;
  int label_column = -1;
  // The column of the examples' weights (Dataset::SampleWeight), likewise; it
  // is none of x. Without name and number there is none.
  std::string weight_name;
  std::optional<int> weight_column;
};

// x is (columns) float32 without the label; that is y, a float32 (class numbers
// are whole). Where the labels are names y is the int32 of a class, its place
// among the sorted names, and a line on stderr says which class has which
// number. An error is kept in the dataset.
Dataset CsvDataset(const std::string& path, const CsvOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_READERS_H_
