// Fuzz entry: any bytes as a CSV file, with and without a header.

#include "fuzz_file.h"
#include "io/data/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ringlet::FuzzFile file(data, size);
  ringlet::CsvOptions options;
  ringlet::CheckDataset(ringlet::CsvDataset(file.path(), options));
  options.header = false;
  options.label_column = 0;
  ringlet::CheckDataset(ringlet::CsvDataset(file.path(), options));
  return 0;
}
