// How readers of other formats recognize a sealed file, and their error for it.

#ifndef RINGLET_IO_FILES_SEALED_FORMAT_H_
#define RINGLET_IO_FILES_SEALED_FORMAT_H_

#include <cstring>
#include <string>

#include "ringlet/status.h"

namespace ringlet {

constexpr char kSealedMagic[] = "RINGSEAL";

// True if a file that begins with these 8 bytes is sealed.
inline bool IsSealed(const void* first_bytes) {
  return std::memcmp(first_bytes, kSealedMagic, 8) == 0;
}

// Returns the error of a reader for a sealed file.
inline Status MissingKeyError(const std::string& path) {
  return Error(
      Code::kUnimplemented,
      "%s: is sealed: give its key, RINGLET_KEY_FILE=FILE (in C++ SealedFiles)",
      path.c_str());
}

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_SEALED_FORMAT_H_
