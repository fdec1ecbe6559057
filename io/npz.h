// NPZ: numpy's files of several named arrays.
//
// Public. A zip archive, stored without compression, of NPY files
// (numpy.savez); up to 4 GiB and 65535 arrays (PKWARE APPNOTE 4.3, without
// Zip64).

#ifndef RINGLET_IO_NPZ_H_
#define RINGLET_IO_NPZ_H_

#include <cstdint>
#include <string>

#include "../core/shape.h"
#include "../core/status.h"
#include "file_system.h"

namespace ringlet {

class NpzWriter {
 public:
  Status Open(FileSystem* files, const std::string& path);
  // numpy.load(path)[name] is the array. `data` holds shape.elements()
  // elements. kInvalidArgument where the file would grow too large.
  Status Add(const std::string& name, DType dtype, const Shape& shape,
             const void* data);
  // OK: the file is there, and durable. Without it there is none.
  Status Finish();

 private:
  Status Write(const std::string& bytes);

  std::string path_;
  AtomicFile file_;
  int64_t offset_ = 0;
  int64_t count_ = 0;
  std::string directory_;  // the central directory so far
};

}  // namespace ringlet

#endif  // RINGLET_IO_NPZ_H_
