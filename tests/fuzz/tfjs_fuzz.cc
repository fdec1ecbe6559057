// Fuzz entry: any bytes as a model.json of TensorFlow.js, beside two shards of
// 40 and 10 bytes. Whatever they are, there is an error that names the file or
// a shard, or weights that lie within the shards.

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/weights/tfjs_weights.h"
#include "weights_file.h"

using namespace ringlet;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllowedErrors errors = {
      {Code::kCorruption, Code::kInvalidArgument, Code::kNotFound}, "d/"};
  SimulatedFileSystem files;
  const std::string shard(40, '\x3f');
  WriteFuzzed(data, size, &files);
  WriteFuzzed(shard.data(), 40, &files, "d/w.bin");
  WriteFuzzed(shard.data(), 10, &files, "d/v.bin");
  TfjsWeights reader;
  const Status opened = reader.Open(&files, kPath);
  errors.Check(opened);
  // A quantized byte is a float32. model.json may be a shard too.
  if (opened.ok()) ReadTensors(reader, 4 * (size + 50), errors);
  return 0;
}
