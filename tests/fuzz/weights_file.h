// Bytes as a file of weights in a simulated file system, and what its reader
// may return.

#ifndef RINGLET_TESTS_FUZZ_WEIGHTS_FILE_H_
#define RINGLET_TESTS_FUZZ_WEIGHTS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/check.h"
#include "tests/support/simulated_file_system.h"

namespace ringlet {

constexpr char kPath[] = "d/file";

inline void WriteFuzzed(const uint8_t* data, size_t size,
                        SimulatedFileSystem* files) {
  std::unique_ptr<File> file;
  files->MakeDirectory("d").IgnoreError();
  files->Create(kPath, &file).IgnoreError();
  RINGLET_CHECK(file->Write(data, size).ok());
}

// No error, or one that names the file and blames its content.
inline void CheckRead(const Status& status) {
  RINGLET_CHECK(status.ok() || status.code() == Code::kCorruption ||
                status.code() == Code::kInvalidArgument ||
                status.code() == Code::kUnimplemented);
  RINGLET_CHECK(status.ok() || std::string(status.message()).find(kPath) == 0);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_FUZZ_WEIGHTS_FILE_H_
