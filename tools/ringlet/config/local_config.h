// The fields of "strategy" that only mode "local" has.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_LOCAL_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_LOCAL_CONFIG_H_

#include <cstdint>
#include <string>

#include "io/keras/field_reader.h"
#include "ringlet/local_updates.h"

namespace ringlet {

constexpr int64_t kMaxLocalSteps = 1000000;

// If `is_local` is false, they may only have their defaults.
void ReadLocal(FieldReader* fields, bool is_local, LocalUpdates* local);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_LOCAL_CONFIG_H_
