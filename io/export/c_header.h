// The header file of a model in C.
//
// Internal to io/export.

#ifndef RINGLET_IO_EXPORT_C_HEADER_H_
#define RINGLET_IO_EXPORT_C_HEADER_H_

#include <string>

#include "ringlet/files.h"
#include "ringlet/shape.h"

namespace ringlet {

// An error if `name` cannot be the prefix of function names.
Status CheckCName(const std::string& name);

// "model.h" of "model.c".
std::string CHeaderPath(const std::string& path);

// The declarations of the functions, and the numbers of inputs and outputs.
std::string CHeaderText(const std::string& name, const Shape& in,
                        const Shape& out, bool int8);

// Writes `text` to `file`; commit it after the C file. kInvalidArgument if
// ringlet did not write the file at `path`.
Status OpenCHeader(FileSystem* files, const std::string& path,
                   const std::string& text, AtomicFile* file);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_HEADER_H_
