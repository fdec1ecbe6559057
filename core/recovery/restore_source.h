// RestoreSource: where the state of a fit comes from.

#ifndef RINGLET_CORE_RECOVERY_RESTORE_SOURCE_H_
#define RINGLET_CORE_RECOVERY_RESTORE_SOURCE_H_

#include <cstdint>

namespace ringlet {

enum class RestoreSource : uint8_t {
  kStart,    // the model as it is; a callback may restore a backup
  kMemory,   // a member of the job had the state; no backup is needed
  kMissing,  // no member has it: without a backup the fit ends with an error
  // A callback is writing a backup over the model: a loss now leaves no state.
  kLoading,
  kBackup,  // set after a callback has restored a backup
};

}  // namespace ringlet

#endif  // RINGLET_CORE_RECOVERY_RESTORE_SOURCE_H_
