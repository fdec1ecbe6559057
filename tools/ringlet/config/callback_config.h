// The callbacks of a RUN.json.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_CALLBACK_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_CALLBACK_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "io/keras/field_log.h"
#include "ringlet/fit.h"

namespace ringlet {

struct RunConfig;

// Reads a list of {"class_name": "EarlyStopping", "config": {…}} or names, with
// Keras's fields, into config->callbacks. Relative paths are relative to
// `folder`. The config's disks must be set.
Status ReadCallbacks(const Json& json, const std::string& path,
                     const std::string& folder, RunConfig* config);

// Also lists the callbacks that JSON cannot describe, which are errors.
std::vector<ClassInfo> DescribeCallbacks();

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_CALLBACK_CONFIG_H_
