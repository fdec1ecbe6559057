// Bytes as a file that a reader can open, without a disk.

#ifndef RINGLET_TESTS_FUZZ_FUZZ_FILE_H_
#define RINGLET_TESTS_FUZZ_FUZZ_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "ringlet/dataset.h"

namespace ringlet {

class FuzzFile {
 public:
  FuzzFile(const uint8_t* data, size_t size)
      : descriptor_(memfd_create("fuzz", 0)) {
    RINGLET_CHECK(descriptor_ >= 0);
    RINGLET_CHECK(write(descriptor_, data, size) == static_cast<ssize_t>(size));
  }
  ~FuzzFile() { close(descriptor_); }
  std::string path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  const int descriptor_;
};

// Either an error that names a file, or examples that can all be read.
inline void CheckDataset(const Dataset& dataset) {
  const Dataset batched = dataset.Batch(1);
  if (!batched.status().ok()) {
    RINGLET_CHECK(std::string(batched.status().message()).find('/') !=
                      std::string::npos ||
                  dataset.status().code() != Code::kOk);
    return;
  }
  Source* source = batched.source().get();
  std::string x(source->x().bytes(), '\0'), y(source->y().bytes(), '\0');
  for (const int64_t index : {int64_t{0}, source->size() - 1}) {
    RINGLET_CHECK(source->Read(&index, 1, x.data(), y.data()).ok());
  }
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_FUZZ_FUZZ_FILE_H_
