// The order of classes and files is the order of Keras's
// image_dataset_from_directory: sorted by bytes, folder by folder. No link to a
// folder is followed, so a tree without an end cannot be listed.

#include "picture_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "../../files/atomic_file.h"
#include "../../files/file_system.h"
#include "../../files/path.h"
#include "../../pictures/picture_format.h"
#include "../../sound/wav.h"
#include "class_names.h"

namespace ringlet {

const MediaKind kPictureFiles = {
    "pictures", ".png, .jpg, .jpeg, .bmp, .ppm, .pgm, .pbm, .pnm",
    HasPictureName};
const MediaKind kSoundFiles = {"sound files", ".wav", HasSoundName};

namespace {

bool IsLink(const std::string& path) {
  struct stat about;
  return lstat(path.c_str(), &about) == 0 && S_ISLNK(about.st_mode);
}

bool IsSame(const std::string& path, const std::string& other) {
  struct stat one, two;
  return stat(path.c_str(), &one) == 0 && stat(other.c_str(), &two) == 0 &&
         one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

// Appends `folder` and all folders below it.
Status AppendFolders(const MediaKind& kind, const std::string& folder,
                     std::vector<std::string>* folders) {
  const size_t first = folders->size();
  folders->push_back(folder);
  // The loop does not recurse: a tree may be deep.
  for (size_t i = first; i < folders->size(); ++i) {
    const std::string parent = (*folders)[i];
    std::vector<std::string> names;
    RINGLET_RETURN_IF_ERROR(PosixFiles()->List(parent, &names));
    for (const std::string& name : names) {
      if (kind.has_name(name)) continue;
      const std::string path = parent + "/" + name;
      if (IsFolder(path) && !IsLink(path)) folders->push_back(path);
    }
  }
  return Status();
}

// Finds the folders in `directory`, which are its classes.
Status ListClasses(const MediaKind& kind, const std::string& directory,
                   const std::vector<std::string>& permitted,
                   const std::string& except, std::set<std::string>* classes) {
  std::vector<std::string> names;
  RINGLET_RETURN_IF_ERROR(PosixFiles()->List(directory, &names));
  for (const std::string& name : names) {
    if (name[0] == '.' || !IsFolder(directory + "/" + name)) continue;
    if (!except.empty() && IsSame(directory + "/" + name, except)) continue;
    classes->insert(name);
    const bool is_known =
        permitted.empty() ||
        std::count(permitted.begin(), permitted.end(), name) > 0;
    if (!is_known) return UnknownClass(directory, name, permitted);
  }
  if (classes->empty()) {
    return InvalidArgument(
        "%s: has no folders, which would be the classes; for %s without labels "
        "give label_mode null",
        directory.c_str(), kind.noun);
  }
  if (classes->size() > ClassNumbers::kMax) {
    return InvalidArgument(
        "%s: has %zu folders, more than the %zu classes "
        "that there may be",
        directory.c_str(), classes->size(), ClassNumbers::kMax);
  }
  return Status();
}

// `is_one` decides it by the first bytes of a file.
bool HasFiles(const MediaKind& kind, const std::string& path,
              bool (*is_one)(std::string_view)) {
  if (IsFolder(path)) {
    FileList list;
    return ListFilesOrClasses(kind, path, &list).ok();
  }
  std::unique_ptr<File> file;
  std::string head;
  return kind.has_name(path) ||
         (PosixFiles()->Open(path, &file).ok() &&
          ReadUpTo(file.get(), 0, 16, &head).ok() && is_one(head));
}

}  // namespace

Status ForEachFile(const MediaKind& kind, const std::string& folder,
                   const std::function<void(const std::string& path)>& visit) {
  std::vector<std::string> folders;
  RINGLET_RETURN_IF_ERROR(AppendFolders(kind, folder, &folders));
  std::sort(folders.begin(), folders.end());
  for (const std::string& parent : folders) {
    std::vector<std::string> names;
    RINGLET_RETURN_IF_ERROR(PosixFiles()->List(parent, &names));
    for (const std::string& name : names) {
      if (kind.has_name(name)) visit(parent + "/" + name);
    }
  }
  return Status();
}

Status ListFiles(const MediaKind& kind, const std::string& directory,
                 bool labelled, const std::vector<std::string>& classes,
                 FileList* list, const std::string& except) {
  std::string root = directory;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  const auto append = [list](const std::string& path) {
    list->paths.push_back(path);
  };
  if (labelled) {
    std::set<std::string> folders;
    RINGLET_RETURN_IF_ERROR(ListClasses(kind, root, classes, except, &folders));
    list->classes = classes;
    if (classes.empty()) list->classes.assign(folders.begin(), folders.end());
    for (size_t i = 0; i < list->classes.size(); ++i) {
      // A class may have no folder here. Its name may be no folder's: "..".
      if (folders.count(list->classes[i]) == 0) continue;
      const std::string folder = root + "/" + list->classes[i];
      RINGLET_RETURN_IF_ERROR(ForEachFile(kind, folder, append));
      list->labels.resize(list->paths.size(), static_cast<int32_t>(i));
    }
  } else {
    RINGLET_RETURN_IF_ERROR(ForEachFile(kind, root, append));
  }
  if (!list->paths.empty()) return Status();
  return InvalidArgument("%s: has no %s (%s)%s", directory.c_str(), kind.noun,
                         kind.endings, labelled ? " in its folders" : "");
}

Status ListFilesOrClasses(const MediaKind& kind, const std::string& directory,
                          FileList* list) {
  const Status labelled =
      ListFiles(kind, directory, /*labelled=*/true, {}, list);
  if (labelled.code() != Code::kInvalidArgument) return labelled;
  *list = {};
  return ListFiles(kind, directory, /*labelled=*/false, {}, list);
}

bool HasPictures(const std::string& path) {
  return HasFiles(kPictureFiles, path, LooksLikePicture);
}

bool HasSound(const std::string& path) {
  return HasFiles(kSoundFiles, path, LooksLikeWav);
}

std::vector<size_t> NumpyShuffled(uint32_t seed, size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(seed);
  for (size_t i = count; i-- > 1;) {
    uint32_t mask = static_cast<uint32_t>(i);
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    uint32_t j = 0;
    do {
      j = static_cast<uint32_t>(random()) & mask;
    } while (j > i);
    std::swap(order[i], order[j]);
  }
  return order;
}

}  // namespace ringlet
