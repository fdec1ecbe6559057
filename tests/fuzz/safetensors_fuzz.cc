// Fuzz entry: any bytes as a safetensors file, and as an index of such files.
// Whatever they are, there is an error that names the file, or tensors that lie
// within it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "io/weights/safetensors.h"
#include "io/weights/safetensors_index.h"
#include "tests/support/simulated_file_system.h"

namespace {

using namespace ringlet;

constexpr char kPath[] = "d/file";
// Of one tensor, a: a float32.
constexpr char kShard[] =
    "\x37\0\0\0\0\0\0\0"
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} "
    "1234";

void Put(SimulatedFileSystem* files, const char* path, const void* data,
         size_t size) {
  std::unique_ptr<File> file;
  files->MakeDirectory("d").IgnoreError();
  files->Create(path, &file).IgnoreError();
  RINGLET_CHECK(file->Write(data, size).ok());
}

void Check(const Status& status) {
  RINGLET_CHECK(status.ok() || status.code() == Code::kCorruption ||
                status.code() == Code::kNotFound ||
                status.code() == Code::kUnimplemented);
  RINGLET_CHECK(status.ok() || std::string(status.message()).find(kPath) == 0);
}

void CheckIndex(SimulatedFileSystem* files) {
  Put(files, "d/a", kShard, sizeof(kShard) - 1);
  SafetensorsIndex index;
  const Status opened = index.Open(files, kPath);
  Check(opened);
  if (!opened.ok()) return;
  for (const StoredTensor& tensor : index.tensors()) {
    float element = 0;
    RINGLET_CHECK(tensor.name == "a" && index.Find("a") == &tensor);
    RINGLET_CHECK(index.Read(tensor, &element).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SimulatedFileSystem files;
  Put(&files, kPath, data, size);
  CheckIndex(&files);
  SafetensorsReader reader;
  const Status opened = reader.Open(&files, kPath);
  Check(opened);
  if (!opened.ok()) return 0;
  Check(reader.Verify());
  int64_t bytes = 0;
  for (const StoredTensor& tensor : reader.tensors()) {
    const size_t count = static_cast<size_t>(tensor.shape.elements());
    bytes += static_cast<int64_t>(count * SizeOf(tensor.storage));
    RINGLET_CHECK(bytes <= static_cast<int64_t>(size));
    std::vector<char> elements(count * SizeOf(DTypeOf(tensor.storage)));
    Check(reader.Read(tensor, elements.data()));
  }
  return 0;
}
