// The header file of a model in C.

#ifndef RINGLET_IO_EXPORT_C_C_HEADER_H_
#define RINGLET_IO_EXPORT_C_C_HEADER_H_

#include <string>

#include "../../files/atomic_file.h"
#include "../../files/file_system.h"
#include "c_interface.h"

namespace ringlet {

// "model.h" of "model.c".
std::string CHeaderPath(const std::string& path);

// The declarations, and the numbers of inputs, outputs and classes.
std::string CHeaderText(const CInterface& c);

// kInvalidArgument if the file at `path` exists, is not empty and does not
// begin with `mark`: ringlet did not write it.
Status CheckReplaceable(FileSystem* files, const std::string& path,
                        const std::string& mark);

// Writes `text` to `file`; commit it after the C file. kInvalidArgument if
// ringlet did not write the file at `path`.
Status OpenCHeader(FileSystem* files, const std::string& path,
                   const std::string& text, AtomicFile* file);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_HEADER_H_
