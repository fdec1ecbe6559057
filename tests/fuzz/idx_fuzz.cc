// Fuzz entry: any bytes as an IDX file, plain or gzip, images and labels alike.

#include "fuzz_file.h"
#include "ringlet/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ringlet::FuzzFile file(data, size);
  ringlet::CheckDataset(ringlet::IdxDataset(file.path(), file.path()));
  ringlet::ArrayOptions from_disk;
  from_disk.in_memory = false;
  ringlet::CheckDataset(
      ringlet::IdxDataset(file.path(), file.path(), from_disk));
  return 0;
}
