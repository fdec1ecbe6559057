// Fuzz entry: any bytes as a CSV file, with and without a header, and as a
// table with text and gaps; in memory and on disk.

#include <string>

#include "fuzz_file.h"
#include "ringlet/readers.h"

namespace {

using namespace ringlet;

std::string Examples(Source* source) {
  std::string all;
  std::string x(source->x().bytes(), '\0'), y(source->y().bytes(), '\0');
  for (int64_t i = 0; i < source->size(); ++i) {
    RINGLET_CHECK(source->Read(&i, 1, x.data(), y.data()).ok());
    all += x + y;
  }
  return all;
}

void Check(const std::string& path, CsvOptions options) {
  const Dataset memory = CsvDataset(path, options);
  CheckDataset(memory);
  options.in_memory = false;
  const Dataset disk = CsvDataset(path, options);
  CheckDataset(disk);
  // (A compressed file is refused on disk.)
  if (!disk.Batch(1).status().ok()) return;
  RINGLET_CHECK(memory.Batch(1).status().ok());
  RINGLET_CHECK(Examples(memory.source().get()) ==
                Examples(disk.source().get()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const FuzzFile file(data, size);
  CsvOptions options;
  Check(file.path(), options);
  options.header = false;
  options.label_column = 0;
  Check(file.path(), options);
  options.header.reset();
  options.categorical = {{"-1", true, false}, {"1", false, true}};
  options.missing.kind = CsvOptions::Missing::kMean;
  options.comment = '#';
  Check(file.path(), options);
  options.missing.kind = CsvOptions::Missing::kDrop;
  options.separator = ' ';
  options.decimal = ',';
  Check(file.path(), options);
  return 0;
}
