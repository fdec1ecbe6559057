// FormatPath: file names with {epoch:02d} in them.
//
// Internal to io/.

#ifndef RINGLET_IO_CHECKPOINT_FORMAT_PATH_H_
#define RINGLET_IO_CHECKPOINT_FORMAT_PATH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/status.h"

namespace ringlet {

struct PathField {
  std::string name;
  bool whole = false;  // an integer of Python
  int64_t integer = 0;
  double number = 0;
};

// What Python's text.format(**fields) gives, for this part of its language:
//   {name}            an integer, or the shortest float that reads back (repr)
//   {name:[0][W]d}    an integer; d may be left out
//   {name:[0][W].Nf}  likewise e and g; N may be left out
//   {{ }}             braces
// W and N are at most 99. kInvalidArgument has Keras's text with the reason.
Status FormatPath(const std::string& text, const std::vector<PathField>& fields,
                  std::string* path);

// Whether FormatPath can read `text`, whatever the fields.
Status CheckPathFormat(const std::string& text);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_FORMAT_PATH_H_
