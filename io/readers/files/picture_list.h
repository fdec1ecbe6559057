// FileList: the files of a data set of pictures or of sound.

#ifndef RINGLET_IO_READERS_FILES_PICTURE_LIST_H_
#define RINGLET_IO_READERS_FILES_PICTURE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

// Pictures or sound: the files are found by their names. (FileKind of
// io/files/file_kind.h identifies a file by its bytes.)
struct MediaKind {
  const char* noun;     // "pictures"
  const char* endings;  // the endings of the names
  bool (*has_name)(const std::string& path);
};
extern const MediaKind kPictureFiles, kSoundFiles;

struct FileList {
  std::vector<std::string> paths;
  std::vector<int32_t> labels;       // class numbers; empty without labels
  std::vector<std::string> classes;  // the names, by their numbers
};

// Calls `visit` with the path of every file of the kind in `folder` and below
// it, by folders and names. The names of one folder are in memory at a time.
Status ForEachFile(const MediaKind& kind, const std::string& folder,
                   const std::function<void(const std::string& path)>& visit);

// Lists the files in `directory` and below it, by their names, as Keras's
// index_directory. With `labelled` each folder in `directory`, but not the
// folder `except`, is a class. `classes` has the permitted names in the order
// of their numbers. If it is empty, the classes are the folders' sorted names.
// A hidden folder in `directory` is not a class. Links to folders below a class
// are not followed.
//
// kInvalidArgument if there is no such file.
Status ListFiles(const MediaKind& kind, const std::string& directory,
                 bool labelled, const std::vector<std::string>& classes,
                 FileList* list, const std::string& except = "");

// There are labels if there are folders with such files.
Status ListFilesOrClasses(const MediaKind& kind, const std::string& directory,
                          FileList* list);

// True if `path` is a folder with pictures, or a picture.
bool HasPictures(const std::string& path);
// True if `path` is a folder with WAV files, or a WAV file.
bool HasSound(const std::string& path);

// The order of numpy.random.RandomState(seed).shuffle(range(count)), by which
// Keras divides the files of a folder.
std::vector<size_t> NumpyShuffled(uint32_t seed, size_t count);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_FILES_PICTURE_LIST_H_
