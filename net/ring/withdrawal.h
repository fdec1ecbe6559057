// Withdrawal: tells the other workers of a job that this one cannot take part.
//
// Internal to net/. While one lives it tries to reach every other rank and says
// why; those that wait for this worker then end at once with that reason. One
// that is not there yet is tried again. The destructor waits until all have
// heard it, at most until kWithdrawSeconds after the beginning.

#ifndef RINGLET_NET_RING_WITHDRAWAL_H_
#define RINGLET_NET_RING_WITHDRAWAL_H_

#include <memory>

#include "../../core/base/status.h"
#include "ring_collective.h"

namespace ringlet {

constexpr double kWithdrawSeconds = 5;

class Withdrawal {
 public:
  virtual ~Withdrawal() = default;

  // Null where there is nobody to tell, or no way: this cannot fail.
  static std::unique_ptr<Withdrawal> Begin(const RingOptions& options,
                                           const Status& why);

 protected:
  Withdrawal() = default;
};

// RingCollective::Open, which goes on to tell the others where this rank is the
// first to know of an error that no wait mends.
Status OpenRing(const RingOptions& options, std::unique_ptr<Collective>* out,
                std::unique_ptr<Withdrawal>* withdrawal);

}  // namespace ringlet

#endif  // RINGLET_NET_RING_WITHDRAWAL_H_
