// ArrayPath: a file and, if it holds several arrays, the name of one.

#ifndef RINGLET_IO_READERS_ARRAY_PATH_H_
#define RINGLET_IO_READERS_ARRAY_PATH_H_

#include <unistd.h>

#include <cstring>
#include <string>

namespace ringlet {

struct ArrayPath {
  std::string file;
  std::string name;  // "": none is given
};

// "mnist.npz" and "x_train" of "mnist.npz:x_train". A file that has the whole
// text as its name comes first.
inline ArrayPath SplitArrayPath(const std::string& path) {
  for (const char* end : {".npz:", ".npy:", ".npy.gz:"}) {
    const size_t at = path.rfind(end);
    if (at == std::string::npos) continue;
    if (access(path.c_str(), F_OK) == 0) break;
    const size_t colon = at + std::strlen(end) - 1;
    return {path.substr(0, colon), path.substr(colon + 1)};
  }
  return {path, ""};
}

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_ARRAY_PATH_H_
