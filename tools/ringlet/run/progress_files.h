// ProgressFile: a small file for each running training of this user. `ringlet
// top` reads these files.
//
// The folder is $XDG_RUNTIME_DIR/ringlet, or ringlet-<user's number> in /tmp,
// and belongs to this user alone. A file is <process>.json, one line. The
// process of the training holds a lock of the file; a file without a lock was
// left by a killed process.

#ifndef RINGLET_TOOLS_RINGLET_RUN_PROGRESS_FILES_H_
#define RINGLET_TOOLS_RINGLET_RUN_PROGRESS_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

class ProgressFile {
 public:
  // Does nothing without the folder: training does not need it.
  ProgressFile();
  ~ProgressFile();  // removes the file
  ProgressFile(const ProgressFile&) = delete;
  ProgressFile& operator=(const ProgressFile&) = delete;
  // Replaces the line.
  void Write(const std::string& line);

 private:
  std::string path_;
  int fd_ = -1;
};

// The lines of all trainings of this user that run now. Removes files that
// killed processes have left.
std::vector<std::string> ReadProgressFiles();

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_PROGRESS_FILES_H_
