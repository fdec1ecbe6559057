// CJsonMutex: one parser at a time.
//
// Internal. cJSON notes the place of each parse, failed or not, in one global
// variable of the process. Nobody reads it here, but io and net write it, from
// any thread: each holds this mutex while cJSON parses.

#ifndef RINGLET_CORE_BASE_CJSON_LOCK_H_
#define RINGLET_CORE_BASE_CJSON_LOCK_H_

#include <mutex>

namespace ringlet {

inline std::mutex& CJsonMutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_CJSON_LOCK_H_
