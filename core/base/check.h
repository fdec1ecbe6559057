// Assertions about ringlet's own invariants.
//
// Never use them for bytes from a file, a peer or the environment: those return
// a Status. A failed check prints file, line and condition, and aborts.

#ifndef RINGLET_CORE_BASE_CHECK_H_
#define RINGLET_CORE_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace ringlet {

[[noreturn]] inline void CheckFailed(const char* file, int line,
                                     const char* condition) {
  std::fprintf(stderr, "%s:%d: ringlet invariant broken: %s\n", file, line,
               condition);
  std::abort();
}

}  // namespace ringlet

#define RINGLET_CHECK(condition)                              \
  do {                                                        \
    if (!(condition)) {                                       \
      ::ringlet::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                         \
  } while (0)

#endif  // RINGLET_CORE_BASE_CHECK_H_
