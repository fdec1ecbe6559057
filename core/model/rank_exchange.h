// RankExchange: what every GradientExchange of several ranks has.
//
// Internal to core/: the gather of the ranks' reports, the sums that layers ask
// for in a pass, and the sums that are on their way.

#ifndef RINGLET_CORE_MODEL_RANK_EXCHANGE_H_
#define RINGLET_CORE_MODEL_RANK_EXCHANGE_H_

#include <vector>

#include "gradient_exchange.h"

namespace ringlet {

class RankExchange : public GradientExchange {
 public:
  bool sums() const override { return true; }
  bool failed() const override { return !status_.ok(); }
  Status Sum(float* values, int64_t count) override;
  void Drop() override;
  Status StartReport(const void* mine, size_t bytes, void* all) override;
  Status FinishReport() override;

 protected:
  // Of a step with so many gradients, and so many numbers that it changes state
  // by.
  RankExchange(Collective* collective, int64_t count, int64_t changes,
               const StepTimer* timer);

  // The sum of number `index` of the step's is there.
  virtual void Arrived(size_t /*index*/) {}
  // A sum of the step's was started, or could not be.
  void Started(const Status& status, Collective::Ticket ticket);
  // For all that was started. The first error stays until Drop.
  Status WaitForAll() { return WaitFor(&tickets_); }
  // The same for these alone, which are gone then.
  Status WaitFor(std::vector<Collective::Ticket>* tickets);

  Collective& collective_;
  const int64_t bucket_, exact_bucket_;  // numbers
  const StepTimer& timer_;
  std::vector<Collective::Ticket> tickets_;  // of the sums on their way
  Status status_;                            // of this step's sums

 private:
  Collective::Ticket report_ = 0;
  bool reporting_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_RANK_EXCHANGE_H_
