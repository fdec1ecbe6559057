#include "weights_file.h"

#include <cstring>

namespace ringlet {
namespace {

// A zip archive begins so, an empty one too. As the length of a safetensors
// header it would be more than the limit.
Status IsZip(FileSystem* files, const std::string& path, bool* is) {
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &file));
  char start[4] = {};
  for (size_t at = 0, got = 1; at < sizeof(start) && got > 0; at += got) {
    RINGLET_RETURN_IF_ERROR(file->ReadSome(static_cast<int64_t>(at), start + at,
                                           sizeof(start) - at, &got));
  }
  *is = std::memcmp(start, "PK\3\4", 4) == 0 ||
        std::memcmp(start, "PK\5\6", 4) == 0;
  return Status();
}

}  // namespace

Status WeightsFile::Open(FileSystem* files, const std::string& path) {
  RINGLET_RETURN_IF_ERROR(IsZip(files, path, &is_npz_));
  return is_npz_ ? npz_.Open(files, path) : safetensors_.Open(files, path);
}

bool WeightsFile::is_ringlets() const {
  if (is_npz_) return false;
  const auto format = safetensors_.metadata().find("format");
  return format != safetensors_.metadata().end() && format->second == "ringlet";
}

}  // namespace ringlet
