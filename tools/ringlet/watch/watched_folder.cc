#include "watched_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/stable_sort.h"
#include "core/base/text.h"
#include "io/files/file_system.h"
#include "io/files/path.h"
#include "io/readers/files/class_names.h"
#include "io/readers/files/picture_list.h"

namespace ringlet {
namespace {

// The name of a file below a folder, as its path has it.
std::string PathBelow(const std::string& folder, const std::string& path) {
  return path.substr(folder.size() + 1);
}

int64_t NanosOf(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

Dataset Open(const PictureConfig& data, const Model& model) {
  return OpenPictures(data, "", CsvOptions(), model, /*targets=*/true);
}

// Reads the labels of one example of each class.
Status CheckLabels(PictureConfig data, Model* model) {
  auto list = std::make_shared<FileList>();
  list->classes = data.options.class_names;
  for (size_t i = 0; i < list->classes.size(); ++i) {
    list->paths.push_back(list->classes[i]);
    list->labels.push_back(static_cast<int32_t>(i));
  }
  data.listed = list;
  data.options.in_memory = data.options.skip_damaged = false;
  LoaderOptions options;
  options.background = options.examples = false;
  std::unique_ptr<BatchLoader> loader;
  RINGLET_RETURN_IF_ERROR(
      model->OpenLoader(Open(data, *model).Batch(1), options, &loader));
  for (Batch batch; !batch.last;) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
  }
  return Status();
}

}  // namespace

WatchedFolder::WatchedFolder(const PictureConfig& data) : data_(data) {
  std::string& path = data_.directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  // The Watcher divides the files.
  data_.options.subset = ImageOptions::Subset::kAll;
  data_.options.validation_split = 0;
  data_.options.skip_damaged = true;
}

void WatchedFolder::PrintUnusedFolders() {
  std::vector<std::string> names;
  PosixFiles()->List(path(), &names).IgnoreError();
  for (const std::string& name : names) {
    const bool is_class =
        std::count(classes().begin(), classes().end(), name) > 0;
    if (name[0] == '.' || is_class || noted_.size() >= 1000 ||
        !IsFolder(path() + "/" + name) || !noted_.insert(name).second) {
      continue;
    }
    Notice("note: %s/%s: is none of \"class_names\"; its files are left out",
           path().c_str(), Printable(name).c_str());
  }
}

Status WatchedFolder::List(
    const std::function<void(const WatchedFile&)>& each) {
  if (!IsFolder(path())) {
    return NotFound("%s: the folder is not there", path().c_str());
  }
  PrintUnusedFolders();
  const MediaKind& kind = data_.is_sound ? kSoundFiles : kPictureFiles;
  for (size_t i = 0; i < classes().size(); ++i) {
    const std::string folder = path() + "/" + classes()[i];
    // The name of a class may not be the name of a folder, such as "..".
    if (classes()[i].find('/') != std::string::npos || classes()[i] == ".." ||
        !IsFolder(folder)) {
      continue;
    }
    RINGLET_RETURN_IF_ERROR(
        ForEachFile(kind, folder, [&](const std::string& file) {
          struct stat about;
          if (stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) {
            return;
          }
          each({PathBelow(path(), file), static_cast<int32_t>(i),
                int64_t{about.st_size}, NanosOf(about.st_mtim),
                NanosOf(about.st_ctim)});
        }));
  }
  return Status();
}

PictureConfig WatchedFolder::MakePictureConfig(
    std::vector<WatchedFile> files,
    const std::vector<WatchedFile>& more) const {
  files.insert(files.end(), more.begin(), more.end());
  StableSort(&files,
             [](const auto& a, const auto& b) { return a.path < b.path; });
  auto list = std::make_shared<FileList>();
  list->classes = classes();
  for (const WatchedFile& file : files) {
    list->paths.push_back(path() + "/" + file.path);
    list->labels.push_back(file.label);
  }
  PictureConfig data = data_;
  data.listed = list;
  return data;
}

Status WatchedFolder::Check(const WatchedFile& file, const Model& model) const {
  PictureConfig one = MakePictureConfig({file});
  one.options.in_memory = true;
  one.options.skip_damaged = false;
  return Open(one, model).Batch(1).status();
}

Status WatchedFolder::CheckFits(Model* model) const {
  const Dataset data = Open(MakePictureConfig({}), *model);
  if (data.source() == nullptr) return data.status().Annotate("data.train");
  if (data_.is_sound && data.source()->Description().sampling_rate == 0) {
    return InvalidArgument(
        "data.train: has no \"sampling_rate\"; with --watch it cannot be that "
        "of the first file");
  }
  const Status labels = CheckLabels(data_, model);
  if (!labels.ok()) {
    return InvalidArgument(
        "data.train.class_names: are %zu, which the model cannot learn: %s",
        classes().size(), labels.message());
  }
  const DataDescription* const before = model->data_description();
  if (before == nullptr || before->classes.empty() ||
      before->classes == classes()) {
    return Status();
  }
  return InvalidArgument(
      "data.train.class_names: are %s, but the model was trained with %s; give "
      "them in the model's order",
      ListNames(classes()).c_str(), ListNames(before->classes).c_str());
}

}  // namespace ringlet
