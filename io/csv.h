// CSV: rows of numbers, one example a row.
//
// Public. Fields are decimal numbers in the C locale, all rows of one length;
// CRLF and LF, plain or .gz, with or without a byte order mark. One column
// is the label, or none.

#ifndef RINGLET_IO_CSV_H_
#define RINGLET_IO_CSV_H_

#include <string>

#include "../core/dataset.h"

namespace ringlet {

struct CsvOptions {
  char separator = ',';
  // The first line holds names. Where it is all numbers, say so with false.
  bool header = true;
  // False: all columns are values, and y has no bytes.
  bool has_label = true;
  // The label's column by name (needs a header) or, where that is empty, by
  // number from 0; a negative number counts from the end.
  std::string label_name;
  int label_column = -1;
};

// x is (columns) float32 without the label; that is y, a float32 (class numbers
// are whole). An error is kept in the dataset.
Dataset CsvDataset(const std::string& path, const CsvOptions& options = {});

}  // namespace ringlet

#endif  // RINGLET_IO_CSV_H_
