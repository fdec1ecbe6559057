#include "file_version.h"

#include <cinttypes>
#include <string>

namespace ringlet {

FileVersion VersionOf(const struct stat& info) {
  FileVersion version;
  version.device = static_cast<uint64_t>(info.st_dev);
  version.inode = static_cast<uint64_t>(info.st_ino);
  version.bytes = static_cast<int64_t>(info.st_size);
  version.written_ns =
      int64_t{info.st_mtim.tv_sec} * 1000000000 + int64_t{info.st_mtim.tv_nsec};
  return version;
}

Status CheckUnchanged(File* file, const FileVersion& before) {
  FileVersion now;
  RINGLET_RETURN_IF_ERROR(file->Version(&now));
  std::string what;
  if (now.device != before.device || now.inode != before.inode) {
    what = "another file has its name now";
  } else if (now.bytes != before.bytes) {
    what = "it had " + std::to_string(before.bytes) + " bytes and has " +
           std::to_string(now.bytes);
  } else if (now.written_ns != before.written_ns) {
    what = "it was written to, though its size is the same";
  } else {
    return Status();
  }
  return Corruption(
      "%s: was changed while it is in use: %s; start again, and leave the file "
      "alone until the end (a copy is safe)",
      file->path().c_str(), what.c_str());
}

}  // namespace ringlet
