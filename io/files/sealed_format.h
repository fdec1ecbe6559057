// What readers of other formats know of sealed files.

#ifndef RINGLET_IO_FILES_SEALED_FORMAT_H_
#define RINGLET_IO_FILES_SEALED_FORMAT_H_

#include <string>

#include "ringlet/status.h"

namespace ringlet {

// True if a file that begins with these 8 bytes is sealed.
bool IsSealed(const void* first_bytes);
// The error of a reader for a sealed file.
Status MissingKeyError(const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_SEALED_FORMAT_H_
