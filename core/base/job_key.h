// JobKeys: the secret that the workers of a job share.
//
// Links and sealed files use it. The reader of a key file puts the keys into
// memory that is wiped at the end. All users of the keys have shared pointers
// to this one copy.

#ifndef RINGLET_CORE_BASE_JOB_KEY_H_
#define RINGLET_CORE_BASE_JOB_KEY_H_

#include <cstdint>

namespace ringlet {

struct JobKey {
  uint8_t bytes[32];
};

// A worker sends with the first key and answers to each. There are two while
// keys rotate.
struct JobKeys {
  static constexpr int kMax = 2;

  JobKey keys[kMax];
  int count = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_JOB_KEY_H_
