// The folder and the name in a path, a path beside another, and its kind.

#ifndef RINGLET_IO_FILES_PATH_H_
#define RINGLET_IO_FILES_PATH_H_

#include <sys/stat.h>

#include <string>

namespace ringlet {

// The folder in a path: "." of "a", "/" of "/a", "b" of "b/a".
inline std::string FolderOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The name in a path: "a" of "b/a".
inline std::string FileNameOf(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

// A path relative to a folder: "data/x.npy" and "/tmp/run" give
// "/tmp/run/data/x.npy".
inline std::string PathIn(const std::string& folder, const std::string& path) {
  return path[0] == '/' || folder == "." ? path : folder + "/" + path;
}

// True for a link to a folder too.
inline bool IsFolder(const std::string& path) {
  struct stat about;
  return stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

// True for a pipe or a device too; false for a missing file.
inline bool IsFile(const std::string& path) {
  struct stat about;
  return stat(path.c_str(), &about) == 0 && !S_ISDIR(about.st_mode);
}

// The file `name` in the folder of `path`, or below it. Empty if the name leads
// out of this folder: an absolute one, or one with "..". The file may be a
// link: download caches have links to files elsewhere.
inline std::string PathBeside(const std::string& path,
                              const std::string& name) {
  const bool outside =
      ("/" + name + "/").find("/../") != std::string::npos || name[0] == '/';
  if (name.empty() || outside || name.find('\0') != std::string::npos) {
    return "";
  }
  return path.substr(0, path.rfind('/') + 1) + name;  // npos + 1 is 0
}

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_PATH_H_
