// JobKeys: the secret by which the workers of a job know each other.
//
// Internal. In a place of its own, for links and files both need it. Whoever
// reads the keys puts them into memory that is wiped in the end; all others
// hold the one copy by a shared pointer.

#ifndef RINGLET_CORE_BASE_JOB_KEY_H_
#define RINGLET_CORE_BASE_JOB_KEY_H_

#include <cstdint>

namespace ringlet {

struct JobKey {
  uint8_t bytes[32];
};

// The first one is spoken with; each is answered. Two while keys rotate.
struct JobKeys {
  static constexpr int kMost = 2;

  JobKey keys[kMost];
  int count = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_JOB_KEY_H_
