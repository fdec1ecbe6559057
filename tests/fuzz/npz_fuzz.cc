// Fuzz entry: any bytes as an npz file. Whatever they are, there is an error
// that names the file, or arrays that lie within it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "io/readers/npz.h"
#include "tests/support/simulated_file_system.h"

namespace {

using namespace ringlet;

constexpr char kPath[] = "d/file";

void Check(const Status& status) {
  RINGLET_CHECK(status.ok() || status.code() == Code::kCorruption ||
                status.code() == Code::kInvalidArgument ||
                status.code() == Code::kUnimplemented);
  RINGLET_CHECK(status.ok() || std::string(status.message()).find(kPath) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SimulatedFileSystem files;
  std::unique_ptr<File> file;
  files.MakeDirectory("d").IgnoreError();
  files.Create(kPath, &file).IgnoreError();
  RINGLET_CHECK(file->Write(data, size).ok());
  NpzReader reader;
  const Status opened = reader.Open(&files, kPath);
  Check(opened);
  if (!opened.ok()) return 0;
  Check(reader.Verify());
  for (const StoredTensor& tensor : reader.tensors()) {
    const size_t bytes = static_cast<size_t>(tensor.shape.elements()) *
                         SizeOf(DTypeOf(tensor.storage));
    RINGLET_CHECK(bytes <= size * 1032);  // deflate makes no more
    std::vector<char> elements(bytes);
    Check(reader.Read(tensor, elements.data()));
  }
  return 0;
}
