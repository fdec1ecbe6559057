// SameFile: tests if two names or handles refer to one file.

#ifndef RINGLET_CORE_BASE_SAME_FILE_H_
#define RINGLET_CORE_BASE_SAME_FILE_H_

#include <sys/stat.h>

namespace ringlet {

inline bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_SAME_FILE_H_
