// The error for a feature that this build leaves out.
//
// Internal. If a feature is left out, a file *_absent.cc replaces its
// sources. The functions in it return this error.

#ifndef RINGLET_CORE_BASE_LEFT_OUT_H_
#define RINGLET_CORE_BASE_LEFT_OUT_H_

#include <string>

#include "ringlet/status.h"

namespace ringlet {

// `what` needs `feature`, which is one of -Dfeatures or has an option of its
// own.
inline Status LeftOut(const std::string& what, const char* feature,
                      const char* option = "-Dfeatures") {
  return Error(Code::kUnimplemented,
               "%s: this program was built without the feature \"%s\"; use one "
               "with it (meson's %s)",
               what.c_str(), feature, option);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_LEFT_OUT_H_
