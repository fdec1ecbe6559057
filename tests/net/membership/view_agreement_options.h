// The options of the tests' view agreements.

#ifndef RINGLET_TESTS_NET_MEMBERSHIP_VIEW_AGREEMENT_OPTIONS_H_
#define RINGLET_TESTS_NET_MEMBERSHIP_VIEW_AGREEMENT_OPTIONS_H_

#include <cstdint>

#include "../../support/nanoseconds.h"
#include "net/membership/view_agreement.h"

namespace ringlet {

constexpr int64_t kT = 1000 * kMs;  // the timeout

inline ViewAgreement::Options MakeOptions(int worker, int size,
                                          int min_workers) {
  ViewAgreement::Options options;
  options.worker = worker;
  options.size = size;
  options.min_workers = min_workers;
  options.partial_view_at = kT / 2;
  options.quiet = kT / 4;
  options.timeout = kT;
  return options;
}

inline int Members(const View& view) {
  return __builtin_popcountll(view.members);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_MEMBERSHIP_VIEW_AGREEMENT_OPTIONS_H_
