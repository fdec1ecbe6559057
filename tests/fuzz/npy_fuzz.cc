// Fuzz entry: any bytes as an NPY file, x and y alike.

#include "fuzz_file.h"
#include "ringlet/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ringlet::FuzzFile file(data, size);
  ringlet::CheckDataset(ringlet::NpyDataset(file.path(), file.path()));
  return 0;
}
