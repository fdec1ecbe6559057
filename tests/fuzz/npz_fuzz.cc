// Fuzz entry: any bytes as an npz file. Whatever they are, there is an error
// that names the file, or arrays that lie within it.

#include <cstddef>
#include <cstdint>

#include "io/readers/arrays/npz.h"
#include "weights_file.h"

using namespace ringlet;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllowedErrors errors = {
      {Code::kCorruption, Code::kInvalidArgument, Code::kUnimplemented}};
  SimulatedFileSystem files;
  WriteFuzzed(data, size, &files);
  NpzReader reader;
  const Status opened = reader.Open(&files, kPath);
  errors.Check(opened);
  if (!opened.ok()) return 0;
  errors.Check(reader.Verify());
  ReadTensors(reader, size * 1032, errors);  // deflate makes no more
  return 0;
}
