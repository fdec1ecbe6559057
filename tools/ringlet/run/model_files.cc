#include "model_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <tuple>

#include "core/base/text.h"
#include "io/files/atomic_file.h"
#include "io/files/file_kind.h"
#include "io/files/path.h"

namespace ringlet {

bool ModelFile::operator<(const ModelFile& other) const {
  const auto key = [](const ModelFile& file) {
    return std::make_tuple(file.written.tv_sec, file.written.tv_nsec,
                           file.path.size(), file.path);
  };
  return key(*this) < key(other);
}

bool HasPathFields(const std::string& path) {
  const size_t first = path.find('{'), last = path.rfind('}');
  return first != std::string::npos && last != std::string::npos &&
         first < last;
}

Status ListModelFiles(FileSystem* files, const std::string& folder_or_filepath,
                      std::vector<ModelFile>* found) {
  std::string folder = folder_or_filepath, begin, end, only;
  if (!IsFolder(folder)) {
    folder = FolderOf(folder_or_filepath);
    if (folder.find('{') != std::string::npos) {
      return InvalidArgument(
          "%s: its folder has fields; give the folder of one file",
          Printable(folder_or_filepath).c_str());
    }
    const std::string name = FileNameOf(folder_or_filepath);
    const bool has_fields = HasPathFields(name);
    begin = name.substr(0, has_fields ? name.find('{') : std::string::npos);
    end = has_fields ? name.substr(name.rfind('}') + 1) : "";
    only = has_fields ? "" : name;
  }
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(files->List(folder, &names));
  if (!EndsWith(folder, "/")) folder += "/";
  found->clear();
  for (const std::string& name : names) {
    const std::string path = folder + name;
    struct stat file = {};
    FileKind kind;
    if ((!only.empty() && name != only) ||
        name.size() < begin.size() + end.size() || !StartsWith(name, begin) ||
        !EndsWith(name, end) || !AtomicFile::TargetOf(name).empty() ||
        stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode) ||
        !FindFileKind(files, path, &kind).ok() ||
        (kind.format != FileKind::Format::kSafetensors &&
         kind.format != FileKind::Format::kSealed)) {
      continue;
    }
    found->push_back({path, file.st_mtim});
  }
  std::sort(found->begin(), found->end());
  return Status();
}

}  // namespace ringlet
