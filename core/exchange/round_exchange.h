// RoundExchange: the exchange between ranks in a round of local updates.
//
// A GradientExchange that can also finish in two parts, with the next round
// between them: Start sends the replicas' changes, and Collect receives the
// mean. Drop cancels the present round, but not a started exchange.

#ifndef RINGLET_CORE_EXCHANGE_ROUND_EXCHANGE_H_
#define RINGLET_CORE_EXCHANGE_ROUND_EXCHANGE_H_

#include <vector>

#include "rank_exchange.h"

namespace ringlet {

class RoundExchange : public RankExchange {
 public:
  using RankExchange::RankExchange;

  // Call on all ranks, after OnGradientsFinal of the last replica and Collect
  // of the earlier exchange. The replicas' contributions can be overwritten
  // after it.
  virtual Status Start() = 0;
  // Waits for the mean of the started exchange. It has as many numbers as a
  // contribution.
  virtual Status Collect(float* mean) = 0;
  // Waits for a started exchange and drops its result.
  virtual void Abandon() {
    for (const Collective::Ticket ticket : in_flight_) {
      collective_.Wait(ticket).IgnoreError();
    }
    in_flight_.clear();
  }

 protected:
  // Collect will wait for the operations started since the last Wait.
  void MarkInFlight() { in_flight_.swap(tickets_); }

  std::vector<Collective::Ticket> in_flight_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_ROUND_EXCHANGE_H_
