#include "file_version.h"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "../../core/base/crc32c.h"
#include "../../core/base/time_units.h"

namespace ringlet {

FileVersion VersionOf(const struct stat& info) {
  FileVersion version;
  version.device = static_cast<uint64_t>(info.st_dev);
  version.inode = static_cast<uint64_t>(info.st_ino);
  version.bytes = static_cast<int64_t>(info.st_size);
  version.written_ns =
      int64_t{info.st_mtim.tv_sec} * kSecond + int64_t{info.st_mtim.tv_nsec};
  return version;
}

Status CheckUnchanged(File* file, const FileVersion& before) {
  FileVersion now;
  RINGLET_RETURN_IF_ERROR(file->Version(&now));
  std::string change;
  if (now.device != before.device || now.inode != before.inode) {
    change = "another file has its name now";
  } else if (now.bytes != before.bytes) {
    change = "it had " + std::to_string(before.bytes) + " bytes and has " +
             std::to_string(now.bytes);
  } else if (now.written_ns != before.written_ns) {
    change = "it was written to, though its size is the same";
  } else {
    return Status();
  }
  return Corruption(
      "%s: was changed while it is in use: %s; start again, and leave the file "
      "alone until the end (a copy is safe)",
      file->path().c_str(), change.c_str());
}

Status ChecksumParts(File* file, int64_t bytes, uint32_t* sample) {
  constexpr int64_t kBlocks = 16;
  unsigned char block[4096];
  *sample = 0;
  const int64_t size = std::min(bytes, static_cast<int64_t>(sizeof(block)));
  for (int64_t i = 0; i < kBlocks; ++i) {
    const int64_t at = (bytes - size) / (kBlocks - 1) * i;
    const int64_t begin = i == kBlocks - 1 ? bytes - size : at;
    RINGLET_RETURN_IF_ERROR(
        file->Read(begin, block, static_cast<size_t>(size)));
    *sample = Crc32c(block, static_cast<size_t>(size), *sample);
  }
  return Status();
}

Status CheckUnchanged(File* file, uint32_t sample, FileVersion* before) {
  const Status unchanged = CheckUnchanged(file, *before);
  if (unchanged.code() != Code::kCorruption) return unchanged;
  FileVersion now;
  RINGLET_RETURN_IF_ERROR(file->Version(&now));
  uint32_t sample_now = 0;
  if (now.bytes != before->bytes ||
      !ChecksumParts(file, now.bytes, &sample_now).ok() ||
      sample_now != sample) {
    return unchanged;
  }
  FileVersion touched = *before;
  touched.written_ns = now.written_ns;
  RINGLET_RETURN_IF_ERROR(CheckUnchanged(file, touched));
  *before = touched;
  return Status();
}

}  // namespace ringlet
