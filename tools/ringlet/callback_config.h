// The callbacks of a RUN.json.
//
// Internal to tools/ringlet/.

#ifndef RINGLET_TOOLS_RINGLET_CALLBACK_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CALLBACK_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/fit/callback.h"
#include "io/keras/field_log.h"

namespace ringlet {

struct RunConfig;

// A list of {"class_name": "EarlyStopping", "config": {…}} or names, with
// Keras's fields, into config->callbacks. Relative paths are relative to
// `folder`. Needs the config's disks.
Status ReadCallbacks(const Json& json, const std::string& path,
                     const std::string& folder, RunConfig* config);

// Those that are refused, which JSON cannot hold, too.
std::vector<ClassInfo> DescribeCallbacks();

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CALLBACK_CONFIG_H_
