// Finds the safetensors files of a folder, in the order in which they were
// written.

#ifndef RINGLET_TOOLS_RINGLET_RUN_MODEL_FILES_H_
#define RINGLET_TOOLS_RINGLET_RUN_MODEL_FILES_H_

#include <ctime>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "ringlet/status.h"

namespace ringlet {

// A safetensors file, plain or sealed.
struct ModelFile {
  std::string path;
  timespec written = {};

  // The older first. Among files of the same moment the greater number is
  // newer: "m-10".
  bool operator<(const ModelFile& other) const;
};

// True if `path` is a ModelCheckpoint's filepath with fields such as {epoch}.
bool HasPathFields(const std::string& path);

// Lists the files of a folder, or the files that a ModelCheckpoint's filepath
// can name, the oldest first. Temporary files are left out. kInvalidArgument if
// the name of the folder has fields.
Status ListModelFiles(FileSystem* files, const std::string& folder_or_filepath,
                      std::vector<ModelFile>* found);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_RUN_MODEL_FILES_H_
