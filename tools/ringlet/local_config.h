// The fields of "strategy" that only mode "local" has.
//
// Internal to tools/ringlet/.

#ifndef RINGLET_TOOLS_RINGLET_LOCAL_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_LOCAL_CONFIG_H_

#include <cstdint>
#include <string>

#include "core/model/local_updates.h"
#include "io/keras/field_reader.h"

namespace ringlet {

constexpr int64_t kMostLocalSteps = 1000000;

// Without mode "local" they may say their defaults. `attendance`: the path of
// that, as it is given; "": none.
void ReadLocal(FieldReader* fields, bool is_local, LocalUpdates* local,
               std::string* attendance);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_LOCAL_CONFIG_H_
