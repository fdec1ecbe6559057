// OpenError: the error for a file that cannot be opened.

#ifndef RINGLET_IO_FILES_OPEN_ERROR_H_
#define RINGLET_IO_FILES_OPEN_ERROR_H_

#include <string>

#include "ringlet/status.h"

namespace ringlet {

// Returns the error for a file that cannot be opened, from errno. It names the
// path, and for a missing relative path also the current folder.
Status OpenError(int error, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_OPEN_ERROR_H_
