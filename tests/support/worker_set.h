// Workers({0, 2}): a set of workers as net/wire/view_frame.h has it, bit w for
// worker w.

#ifndef RINGLET_TESTS_SUPPORT_WORKER_SET_H_
#define RINGLET_TESTS_SUPPORT_WORKER_SET_H_

#include <cstdint>
#include <initializer_list>

namespace ringlet {

constexpr uint64_t Workers(std::initializer_list<int> workers) {
  uint64_t set = 0;
  for (const int worker : workers) set |= uint64_t{1} << worker;
  return set;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_WORKER_SET_H_
