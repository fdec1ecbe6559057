// LabelledFiles: files with one example each, and their labels. An example is a
// picture or a sound.

#ifndef RINGLET_IO_READERS_FILES_LABELLED_FILES_H_
#define RINGLET_IO_READERS_FILES_LABELLED_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "picture_list.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

struct LabelledFiles {
  std::string name;  // the name of the folder or table
  std::vector<std::string> paths;
  ExampleSpec y = {DType::kUint8, {0}};
  std::vector<unsigned char> labels;  // the values of y
  std::vector<std::string> classes;
  std::vector<float> weights;  // empty if none
  // If true, a missing file is left out as a damaged one.
  bool may_be_gone = false;

  // Keeps the examples of `order`, in this order.
  void Select(const std::vector<size_t>& order);
};

// A file is decoded when it is read, or once at the start.
class LabelledFilesSource : public Source {
 public:
  // `noun` is a word for messages, such as "pictures".
  LabelledFilesSource(LabelledFiles files, const LabelledFilesOptions& options,
                      const char* noun)
      : files_(std::move(files)),
        in_memory_(options.in_memory),
        skip_damaged_(options.skip_damaged),
        noun_(noun) {}

  // Reads all files, if the options ask for it.
  Status Open();

  int64_t size() const override {
    return static_cast<int64_t>(files_.paths.size());
  }
  ExampleSpec y() const override { return files_.y; }
  DataDescription Description() const override {
    DataDescription files;
    files.classes = files_.classes;
    return files;
  }
  std::string ExamplePath(int64_t index) const override {
    return files_.paths[static_cast<size_t>(index)];
  }
  std::string name() const override { return files_.name; }
  Status Read(const int64_t* index, int count, void* x, void* y) override;
  const std::vector<float>& weights() const { return files_.weights; }

 protected:
  // Writes the x of a file.
  virtual Status Decode(const std::string& path, unsigned char* x) const = 0;

 private:
  Status DecodeAll();
  // Reads a file again; an error if it was changed since it was first read.
  Status Reread(size_t at, unsigned char* x);

  LabelledFiles files_;
  const bool in_memory_, skip_damaged_;
  const char* const noun_;
  // The bytes of all x; empty if read on request.
  std::vector<unsigned char> cache_;
  // If there is no cache, a hash of each file's size and time, or zero if the
  // file has not been read yet.
  std::vector<std::atomic<uint64_t>> versions_;
};

// The files of a folder, or of a CSV's column of paths, with their labels. The
// folder `except` in it is not a class.
Result<LabelledFiles> FilesOfFolder(const MediaKind& kind,
                                    const std::string& directory,
                                    const LabelledFilesOptions& options,
                                    const std::string& except = "");
Result<LabelledFiles> FilesOfCsv(const std::string& path,
                                 const std::string& column,
                                 const LabelledFilesOptions& options,
                                 const CsvOptions& table);
// The files at `paths`, without labels.
Result<LabelledFiles> FilesOfPaths(const MediaKind& kind,
                                   const std::vector<std::string>& paths);

// The files of a list, with the labels of the list in the mode of the options.
// `name` is the name of their folder.
Result<LabelledFiles> FilesOfList(const FileList& list, const std::string& name,
                                  const LabelledFilesOptions& options);
// Makes the dataset of a list. A file that is gone is left out as a damaged one
// is.
Dataset ImageDatasetOfList(const FileList& list, const std::string& name,
                           const ImageOptions& options);
Dataset AudioDatasetOfList(const FileList& list, const std::string& name,
                           const AudioOptions& options);

// Checks the options, and keeps the files of the subset.
Status SelectSubset(const MediaKind& kind, const LabelledFilesOptions& options,
                    LabelledFiles* files);

// Makes the dataset of a source, or of its error.
Dataset MakeDataset(const std::shared_ptr<LabelledFilesSource>& source);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_FILES_LABELLED_FILES_H_
