// Fuzz entry: any bytes as a CSV file, with and without a header, and as a
// table with text and gaps.

#include "fuzz_file.h"
#include "ringlet/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ringlet::FuzzFile file(data, size);
  ringlet::CsvOptions options;
  ringlet::CheckDataset(ringlet::CsvDataset(file.path(), options));
  options.header = false;
  options.label_column = 0;
  ringlet::CheckDataset(ringlet::CsvDataset(file.path(), options));
  options.header.reset();
  options.categorical = {{"-1", true, false}, {"1", false, true}};
  options.missing.kind = ringlet::CsvOptions::Missing::kMean;
  options.comment = '#';
  ringlet::CheckDataset(ringlet::CsvDataset(file.path(), options));
  options.missing.kind = ringlet::CsvOptions::Missing::kDrop;
  options.separator = ' ';
  options.decimal = ',';
  ringlet::CheckDataset(ringlet::CsvDataset(file.path(), options));
  return 0;
}
