// Fuzz entry: any bytes as a model.json of TensorFlow.js, beside two shards of
// 40 and 10 bytes. Whatever they are, there is an error that names the file or
// a shard, or weights that lie within the shards.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "io/weights/tfjs_weights.h"
#include "tests/support/simulated_file_system.h"

namespace {

using namespace ringlet;

constexpr char kPath[] = "d/model.json";
constexpr size_t kShardBytes = 40;

void Write(SimulatedFileSystem* files, const char* path, const void* data,
           size_t size) {
  std::unique_ptr<File> file;
  files->Create(path, &file).IgnoreError();
  RINGLET_CHECK(file->Write(data, size).ok());
}

void Check(const Status& status) {
  RINGLET_CHECK(status.ok() || status.code() == Code::kCorruption ||
                status.code() == Code::kInvalidArgument ||
                status.code() == Code::kNotFound);
  RINGLET_CHECK(status.ok() || std::string(status.message()).find("d/") == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SimulatedFileSystem files;
  files.MakeDirectory("d").IgnoreError();
  Write(&files, kPath, data, size);
  const std::string shard(kShardBytes, '\x3f');
  Write(&files, "d/w.bin", shard.data(), kShardBytes);
  Write(&files, "d/v.bin", shard.data(), 10);
  TfjsWeights reader;
  const Status opened = reader.Open(&files, kPath);
  Check(opened);
  if (!opened.ok()) return 0;
  for (const StoredTensor& tensor : reader.tensors()) {
    if (!tensor.unread.empty()) {
      RINGLET_CHECK(reader.Read(tensor, nullptr).code() ==
                    Code::kInvalidArgument);
      continue;
    }
    std::vector<char> elements(static_cast<size_t>(tensor.shape.elements()) *
                               SizeOf(DTypeOf(tensor.storage)));
    Check(reader.Read(tensor, elements.data()));
  }
  return 0;
}
