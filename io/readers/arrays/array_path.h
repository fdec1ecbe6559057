// ArrayPath: a file and, if it holds several arrays, the name of one.

#ifndef RINGLET_IO_READERS_ARRAYS_ARRAY_PATH_H_
#define RINGLET_IO_READERS_ARRAYS_ARRAY_PATH_H_

#include <cstring>
#include <string>

#include "../../files/path.h"

namespace ringlet {

struct ArrayPath {
  std::string file;
  std::string name;  // "" if none is given
};

// "mnist.npz" and "x_train" of "mnist.npz:x_train". A file that has the whole
// text as its name comes first. With another ending the part before a colon
// must be a file.
inline ArrayPath SplitArrayPath(const std::string& path) {
  if (IsFile(path)) return {path, ""};
  for (const char* end : {".npz:", ".npy:", ".npy.gz:"}) {
    const size_t at = path.rfind(end);
    if (at == std::string::npos) continue;
    const size_t colon = at + std::strlen(end) - 1;
    return {path.substr(0, colon), path.substr(colon + 1)};
  }
  for (size_t colon = path.find(':'); colon != std::string::npos;
       colon = path.find(':', colon + 1)) {
    const std::string file = path.substr(0, colon);
    if (IsFile(file)) return {file, path.substr(colon + 1)};
  }
  return {path, ""};
}

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_ARRAYS_ARRAY_PATH_H_
