// Finds changes of files that are read in parts, or opened again.

#ifndef RINGLET_IO_FILES_FILE_VERSION_H_
#define RINGLET_IO_FILES_FILE_VERSION_H_

#include <sys/stat.h>

#include <cstdint>

#include "file_system.h"
#include "ringlet/status.h"

namespace ringlet {

FileVersion VersionOf(const struct stat& info);

// kCorruption if the file is a different one from `before`, or was written to
// since then. Call it after a read: a write changes the version before the
// content.
Status CheckUnchanged(File* file, const FileVersion& before);

// Computes the checksum of a file's begin and end, and of blocks between them.
Status ChecksumParts(File* file, int64_t bytes, uint32_t* sample);
// As CheckUnchanged. If only the time of the last write has changed, as after
// touch(1), compares ChecksumParts with `sample`; if it is equal, *before gets
// the new time.
Status CheckUnchanged(File* file, uint32_t sample, FileVersion* before);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_FILE_VERSION_H_
