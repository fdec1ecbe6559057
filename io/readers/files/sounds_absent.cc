// Replaces the reader of sound in a build without it.

#include "../../../core/base/left_out.h"
#include "../../sound/wav.h"
#include "labelled_files.h"
#include "ringlet/readers.h"

namespace ringlet {

Status ReadSoundFormat(const std::string& path, WavFormat*) {
  return LeftOut(path, "sound");
}

Dataset WavDataset(const std::string& path) {
  return Dataset(LeftOut(path, "sound"));
}
Dataset AudioDatasetFromDirectory(const std::string& directory,
                                  const AudioOptions&) {
  return Dataset(LeftOut(directory, "sound"));
}
Dataset AudioDataset(const std::vector<std::string>& paths,
                     const AudioOptions&) {
  return Dataset(LeftOut(paths.empty() ? "sound" : paths[0], "sound"));
}
Dataset AudioDatasetOfList(const FileList&, const std::string& name,
                           const AudioOptions&) {
  return Dataset(LeftOut(name, "sound"));
}
Dataset AudioDatasetFromCsv(const std::string& path, const std::string&,
                            const AudioOptions&, const CsvOptions&) {
  return Dataset(LeftOut(path, "sound"));
}

}  // namespace ringlet
