// Withdrawal: reports to the other workers of a job that this worker cannot
// take part.
//
// While it exists it tries to reach every other worker and sends the reason.
// Workers that wait for this worker then end immediately with that reason. A
// worker without an answer is tried again. The destructor waits until all have
// the reason, at most until kWithdrawSeconds after the beginning.

#ifndef RINGLET_NET_RING_WITHDRAWAL_H_
#define RINGLET_NET_RING_WITHDRAWAL_H_

#include <memory>

#include "ring_collective.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr double kWithdrawSeconds = 5;

class Withdrawal {
 public:
  virtual ~Withdrawal() = default;

  // Null if there is no other worker, or it cannot be reached. Cannot fail.
  static std::unique_ptr<Withdrawal> Begin(const RingOptions& options,
                                           const Status& why);

 protected:
  Withdrawal() = default;
};

// RingCollective::Open. If this worker finds a permanent error first,
// *withdrawal then reports it to the other workers.
Status OpenRing(const RingOptions& options, std::unique_ptr<Collective>* out,
                std::unique_ptr<Withdrawal>* withdrawal);

}  // namespace ringlet

#endif  // RINGLET_NET_RING_WITHDRAWAL_H_
