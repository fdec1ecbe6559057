// Bytes as a file of weights in a simulated file system, and what its reader
// may return.

#ifndef RINGLET_TESTS_FUZZ_WEIGHTS_FILE_H_
#define RINGLET_TESTS_FUZZ_WEIGHTS_FILE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "io/readers/tensor_file.h"
#include "tests/support/simulated_file_system.h"

namespace ringlet {

constexpr char kPath[] = "d/file";

inline void WriteFuzzed(const void* data, size_t size,
                        SimulatedFileSystem* files, const char* path = kPath) {
  std::unique_ptr<File> file;
  files->MakeFolder("d").IgnoreError();
  files->Create(path, &file).IgnoreError();
  RINGLET_CHECK(file->Write(data, size).ok());
}

// The codes that a reader may return. The messages begin with `start`: the
// file, or its folder if the file names other files.
struct AllowedErrors {
  std::vector<Code> codes;
  const char* start = kPath;

  void Check(const Status& status) const {
    if (status.ok()) return;
    RINGLET_CHECK(std::count(codes.begin(), codes.end(), status.code()) > 0);
    RINGLET_CHECK(std::string(status.message()).find(start) == 0);
  }
};

// Reads all tensors, none of which may have more than `most` bytes in memory.
inline void ReadTensors(const TensorFile& file, size_t most,
                        const AllowedErrors& errors) {
  for (const StoredTensor& tensor : file.tensors()) {
    if (!tensor.unread.empty()) {
      RINGLET_CHECK(file.Read(tensor, nullptr).code() ==
                    Code::kInvalidArgument);
      continue;
    }
    const size_t bytes = static_cast<size_t>(tensor.shape.elements()) *
                         SizeOf(DTypeOf(tensor.storage));
    RINGLET_CHECK(bytes <= most);
    std::vector<char> elements(bytes);
    errors.Check(file.Read(tensor, elements.data()));
  }
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_FUZZ_WEIGHTS_FILE_H_
