// Fuzz entry: any bytes as a model in ONNX, and as the other file of its
// elements. Whatever they are, there is an error that names the file, or
// weights that lie within these.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "io/weights/onnx_weights.h"
#include "tests/support/simulated_file_system.h"

namespace {

using namespace ringlet;

constexpr char kPath[] = "d/file", kOther[] = "d/file.data";

void Check(const Status& status) {
  RINGLET_CHECK(status.ok() || status.code() == Code::kCorruption ||
                status.code() == Code::kInvalidArgument ||
                status.code() == Code::kNotFound ||
                status.code() == Code::kUnimplemented);
  RINGLET_CHECK(status.ok() || std::string(status.message()).find(kPath) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SimulatedFileSystem files;
  std::unique_ptr<File> file;
  files.MakeDirectory("d").IgnoreError();
  for (const char* path : {kPath, kOther}) {
    files.Create(path, &file).IgnoreError();
    RINGLET_CHECK(file->Write(data, size).ok());
  }
  OnnxWeights reader;
  const Status opened = reader.Open(&files, kPath);
  Check(opened);
  if (!opened.ok()) return 0;
  for (const StoredTensor& tensor : reader.tensors()) {
    if (!tensor.unread.empty()) {
      RINGLET_CHECK(reader.Read(tensor, nullptr).code() ==
                    Code::kInvalidArgument);
      continue;
    }
    const size_t bytes = static_cast<size_t>(tensor.shape.elements()) *
                         SizeOf(DTypeOf(tensor.storage));
    // F16 as float32, each of one byte in int32_data.
    RINGLET_CHECK(bytes <= 4 * size);
    std::vector<char> elements(bytes);
    Check(reader.Read(tensor, elements.data()));
  }
  return 0;
}
