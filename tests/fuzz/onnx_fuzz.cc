// Fuzz entry: any bytes as a model in ONNX, and as the other file of its
// elements. Whatever they are, there is an error that names the file, or
// weights that lie within these.

#include <cstddef>
#include <cstdint>

#include "io/weights/onnx_weights.h"
#include "weights_file.h"

using namespace ringlet;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllowedErrors errors = {{Code::kCorruption, Code::kInvalidArgument,
                                 Code::kNotFound, Code::kUnimplemented}};
  SimulatedFileSystem files;
  WriteFuzzed(data, size, &files);
  WriteFuzzed(data, size, &files, "d/file.data");
  OnnxWeights reader;
  const Status opened = reader.Open(&files, kPath);
  errors.Check(opened);
  // F16 as float32, each of one byte in int32_data.
  if (opened.ok()) ReadTensors(reader, 4 * size, errors);
  return 0;
}
