// Fuzz entry: any bytes as a safetensors file, and as an index of such files.
// Whatever they are, there is an error that names the file, or tensors that lie
// within it.

#include <cstddef>
#include <cstdint>

#include "io/weights/safetensors.h"
#include "io/weights/safetensors_index.h"
#include "weights_file.h"

namespace {

using namespace ringlet;

// A file of one tensor, a: a float32.
constexpr char kShard[] =
    "\x37\0\0\0\0\0\0\0"
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} "
    "1234";

void CheckIndex(SimulatedFileSystem* files, const AllowedErrors& errors) {
  WriteFuzzed(kShard, sizeof(kShard) - 1, files, "d/a");
  SafetensorsIndex index;
  const Status opened = index.Open(files, kPath);
  errors.Check(opened);
  if (!opened.ok()) return;
  for (const StoredTensor& tensor : index.tensors()) {
    float element = 0;
    RINGLET_CHECK(tensor.name == "a" && index.Find("a") == &tensor);
    RINGLET_CHECK(index.Read(tensor, &element).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllowedErrors errors = {
      {Code::kCorruption, Code::kNotFound, Code::kUnimplemented}};
  SimulatedFileSystem files;
  WriteFuzzed(data, size, &files);
  CheckIndex(&files, errors);
  SafetensorsReader reader;
  const Status opened = reader.Open(&files, kPath);
  errors.Check(opened);
  if (!opened.ok()) return 0;
  errors.Check(reader.Verify());
  size_t stored = 0;  // tensors do not overlap
  for (const StoredTensor& tensor : reader.tensors()) {
    stored += static_cast<size_t>(tensor.bytes);
  }
  RINGLET_CHECK(stored <= size);
  ReadTensors(reader, 2 * size, errors);  // F16 as float32
  return 0;
}
