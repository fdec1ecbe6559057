// CSV: rows of numbers, one example a row.
//
// Public. Fields are decimal numbers in the C locale, all rows of one length;
// CRLF and LF, plain or .gz, with or without a byte order mark. One column
// is the label, or none; labels may be names instead of numbers.

#ifndef RINGLET_IO_DATA_CSV_H_
#define RINGLET_IO_DATA_CSV_H_

#include <cstdint>
#include <optional>
#include <string>

#include "../../core/data/dataset.h"

namespace ringlet {

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
};

// x is (columns) float32 without the label; that is y, a float32 (class numbers
// are whole). Where the labels are names y is the int32 of a class, its place
// among the sorted names, and a line on stderr says which class has which
// number. An error is kept in the dataset.
Dataset CsvDataset(const std::string& path, const CsvOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_CSV_H_
