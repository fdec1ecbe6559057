// Finds changes of files that are read in parts, or opened again.

#ifndef RINGLET_IO_FILES_FILE_VERSION_H_
#define RINGLET_IO_FILES_FILE_VERSION_H_

#include <sys/stat.h>

#include "ringlet/files.h"
#include "ringlet/status.h"

namespace ringlet {

FileVersion VersionOf(const struct stat& info);

// kCorruption if the file is another one than `before`, or was written to since
// then. Call it after a read: a write changes the version before the content.
Status CheckUnchanged(File* file, const FileVersion& before);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_FILE_VERSION_H_
