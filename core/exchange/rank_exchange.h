// RankExchange: the common part of every GradientExchange of several ranks.
//
// It gathers the ranks' reports, computes the sums that layers need within a
// pass, and keeps the tickets of started sums.

#ifndef RINGLET_CORE_EXCHANGE_RANK_EXCHANGE_H_
#define RINGLET_CORE_EXCHANGE_RANK_EXCHANGE_H_

#include <vector>

#include "gradient_exchange.h"

namespace ringlet {

class RankExchange : public GradientExchange {
 public:
  bool sums() const override { return true; }
  bool failed() const override { return !status_.ok(); }
  Status Sum(float* values, int64_t count) override;
  void Drop() override;
  Status StartReport(const void* report, size_t bytes, void* reports) override;
  Status FinishReport() override;

 protected:
  // The exchange of a step with `count` gradients and `changes` state changes.
  RankExchange(Collective* collective, int64_t count, int64_t changes,
               const StepTimer* timer);

  // Called when the step's sum number `index` has arrived.
  virtual void OnSumArrived(size_t /*index*/) {}
  // Records that a sum of the step was started, or the error of the attempt.
  void RecordStart(const Status& status, Collective::Ticket ticket);
  // Waits for all started sums. The first error stays until Drop.
  Status WaitForAll() { return WaitFor(&tickets_); }
  // Waits for these tickets only, and clears them.
  Status WaitFor(std::vector<Collective::Ticket>* tickets);

  Collective& collective_;
  const int64_t bucket_, unrounded_bucket_;  // numbers
  const StepTimer& timer_;
  std::vector<Collective::Ticket> tickets_;  // the tickets of the started sums
  Status status_;                            // the result of this step's sums

 private:
  Collective::Ticket report_ = 0;
  bool reporting_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_RANK_EXCHANGE_H_
