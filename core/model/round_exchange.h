// RoundExchange: what the ranks send each other of a round of local updates.
//
// Internal to core/. A GradientExchange whose Finish may be made in two parts,
// with the next round in between: Start, from where on what the replicas have
// changed is on its way, and Collect. Drop lets go of the round under way, and
// not of what travels.

#ifndef RINGLET_CORE_MODEL_ROUND_EXCHANGE_H_
#define RINGLET_CORE_MODEL_ROUND_EXCHANGE_H_

#include <vector>

#include "rank_exchange.h"

namespace ringlet {

class RoundExchange : public RankExchange {
 public:
  using RankExchange::RankExchange;

  // After Ready of the last replica, and of all ranks; what travelled before
  // was collected. The replicas' contributions are free after it.
  virtual Status Start() = 0;
  // The mean of what was started: of as many numbers as a contribution has.
  virtual Status Collect(float* mean) = 0;
  // What travels is of no use any more; waits for it.
  virtual void Abandon() {
    for (const Collective::Ticket ticket : travelling_) {
      collective_.Wait(ticket).IgnoreError();
    }
    travelling_.clear();
  }

 protected:
  // What was started since the last Wait is on its way until Collect.
  void Travels() { travelling_.swap(tickets_); }

  std::vector<Collective::Ticket> travelling_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_ROUND_EXCHANGE_H_
