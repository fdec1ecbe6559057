// The error for a feature that this build leaves out.
//
// If a feature is left out, a file *_absent.cc replaces its sources. The
// functions in that file return this error.

#ifndef RINGLET_CORE_BASE_LEFT_OUT_H_
#define RINGLET_CORE_BASE_LEFT_OUT_H_

#include <string>

#include "ringlet/status.h"

namespace ringlet {

// `what` needs `feature`. `option` is meson's option with this feature.
inline Status LeftOut(const std::string& what, const char* feature,
                      const char* option = "-Dfeatures") {
  return Error(Code::kUnimplemented,
               "%s: this program was built without the feature \"%s\"; use one "
               "with it (meson's %s)",
               what.c_str(), feature, option);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_LEFT_OUT_H_
