// The folder and the name in a path.

#ifndef RINGLET_IO_FILES_PATH_H_
#define RINGLET_IO_FILES_PATH_H_

#include <string>

namespace ringlet {

// "." of "a", "/" of "/a", "b" of "b/a".
inline std::string FolderOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// "a" of "b/a".
inline std::string FileNameOf(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_PATH_H_
