// Replaces the decoders and readers of pictures in a build without them.

#include "../../../core/base/left_out.h"
#include "../../pictures/picture.h"
#include "labelled_files.h"
#include "ringlet/readers.h"

namespace ringlet {

Status ReadPictureSize(const std::string& path, Picture*) {
  return LeftOut(path, "pictures");
}

Dataset ImageDatasetFromDirectory(const std::string& directory,
                                  const ImageOptions&) {
  return Dataset(LeftOut(directory, "pictures"));
}
Dataset ImageDataset(const std::vector<std::string>& paths,
                     const ImageOptions&) {
  return Dataset(LeftOut(paths.empty() ? "pictures" : paths[0], "pictures"));
}
Dataset ImageDatasetOfList(const FileList&, const std::string& name,
                           const ImageOptions&) {
  return Dataset(LeftOut(name, "pictures"));
}
Dataset ImageDatasetFromCsv(const std::string& path, const std::string&,
                            const ImageOptions&, const CsvOptions&) {
  return Dataset(LeftOut(path, "pictures"));
}

}  // namespace ringlet
