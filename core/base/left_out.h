// Parts that a build may leave out, by meson's option `families`.
//
// Internal. A family left out has a file "*_absent.cc" in place of its
// sources. Its functions return this error.

#ifndef RINGLET_CORE_BASE_LEFT_OUT_H_
#define RINGLET_CORE_BASE_LEFT_OUT_H_

#include <string>

#include "ringlet/status.h"

namespace ringlet {

inline Status LeftOut(const std::string& what, const char* family) {
  return Error(Code::kUnimplemented,
               "%s: this program was built without the family \"%s\"; use one "
               "with it (meson's -Dfamilies)",
               what.c_str(), family);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_LEFT_OUT_H_
