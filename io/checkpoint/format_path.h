// FormatPath: replaces fields such as {epoch:02d} in file names.

#ifndef RINGLET_IO_CHECKPOINT_FORMAT_PATH_H_
#define RINGLET_IO_CHECKPOINT_FORMAT_PATH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

struct PathField {
  std::string name;
  bool whole = false;  // an integer of Python
  int64_t integer = 0;
  double number = 0;
};

// Formats like Python's text.format(**fields), for this part of its language:
//
//   {name}            an integer, or the shortest float that reads back (repr)
//   {name:[0][W]d}    an integer; d may be left out
//   {name:[0][W].Nf}  likewise e and g; N may be left out
//   {{ }}             braces
//
// W and N are at most 99. kInvalidArgument has Keras's text with the reason.
Status FormatPath(const std::string& text, const std::vector<PathField>& fields,
                  std::string* path);

// Fails if FormatPath cannot parse `text` for any fields.
Status CheckPathFormat(const std::string& text);

// The field names in `text`, in order, up to the first replacement that cannot
// be parsed.
std::vector<std::string> PathFieldNames(const std::string& text);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_FORMAT_PATH_H_
