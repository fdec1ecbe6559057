// WatchedFolder: the files of data.train, as `train --watch` finds them.

#ifndef RINGLET_TOOLS_RINGLET_WATCH_WATCHED_FOLDER_H_
#define RINGLET_TOOLS_RINGLET_WATCH_WATCHED_FOLDER_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "../config/picture_config.h"
#include "io/watch/watched_files.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

class WatchedFolder {
 public:
  WatchedFolder() = default;
  // `data` has a directory and class_names.
  explicit WatchedFolder(const PictureConfig& data);

  // The path has no slash at its end.
  const std::string& path() const { return data_.directory; }
  const std::vector<std::string>& classes() const {
    return data_.options.class_names;
  }
  // Calls `each` for every file of a class. Files may come and go meanwhile.
  // kNotFound if there is no folder.
  Status List(const std::function<void(const WatchedFile&)>& each);
  // Returns these files as data, in the order of their paths. Damaged files are
  // left out as they are read.
  PictureConfig MakePictureConfig(
      std::vector<WatchedFile> files,
      const std::vector<WatchedFile>& more = {}) const;
  // Decodes the file, as training will.
  Status Check(const WatchedFile& file, const Model& model) const;
  // Returns an error if the model cannot take the data, whichever files come.
  Status CheckFits(Model* model) const;

 private:
  // Prints a note for each folder that is not a class.
  void PrintUnusedFolders();

  PictureConfig data_;
  std::set<std::string> noted_;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_WATCH_WATCHED_FOLDER_H_
