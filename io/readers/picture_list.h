// PictureList: the files of a data set of pictures.

#ifndef RINGLET_IO_READERS_PICTURE_LIST_H_
#define RINGLET_IO_READERS_PICTURE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

struct PictureList {
  std::vector<std::string> paths;
  std::vector<int32_t> labels;       // class numbers; empty: without labels
  std::vector<std::string> classes;  // by their numbers
};

// Lists the pictures in `directory` and below it, by the names of files, as
// Keras's index_directory. With `labelled` each folder in `directory` is a
// class. `classes`: the permitted names in the order of their numbers; if it is
// empty, the folders' sorted names. A hidden folder in `directory` is no class.
// Links to folders below a class are not followed.
//
// kInvalidArgument if there is no picture.
Status ListPictures(const std::string& directory, bool labelled,
                    const std::vector<std::string>& classes, PictureList* list);

// With labels if there are folders with pictures, else without.
Status ListPicturesOrClasses(const std::string& directory, PictureList* list);

// True if `path` is a folder with pictures, or a picture.
bool HasPictures(const std::string& path);

// The order of numpy.random.RandomState(seed).shuffle(range(count)), by which
// Keras divides the files of a folder.
std::vector<size_t> NumpyShuffled(uint32_t seed, size_t count);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_PICTURE_LIST_H_
