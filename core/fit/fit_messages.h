// FitMessages: what a fit says to people besides its progress.
//
// Internal to core/. Lines of `out` are the chief's, unless verbose is kSilent;
// warnings go to stderr, from the chief.

#ifndef RINGLET_CORE_FIT_FIT_MESSAGES_H_
#define RINGLET_CORE_FIT_FIT_MESSAGES_H_

#include <cstdint>

#include "../data/batch_loader.h"
#include "../data/dataset.h"
#include "../model/model.h"
#include "../model/replica_shares.h"
#include "callback.h"
#include "fit.h"

namespace ringlet {

// Once a process: more threads than cores. Results are the same, and later.
void WarnOfThreads(int threads);

class FitMessages {
 public:
  // All outlive it. `number`: see FitPlan.
  FitMessages(const Model* model, int64_t number, const FitOptions* options)
      : model_(*model), number_(number), options_(*options) {}

  // Whether the chief shows the progress.
  bool shows(const FitState& fit) const {
    return fit.chief && options_.verbose != Verbose::kSilent;
  }
  // The fit goes on once the ranks have met: after the loss of one, whether or
  // not the status names it, or where all agreed to let another in.
  void MeetAnew(const Status& status, bool lets_in) const;
  // After a break, of the process or of the job.
  void WhereItGoesOn(const FitState& fit) const;
  void EpochBegins(const FitState& fit) const;
  // The workers are given as many replicas as they are fast.
  void Shares(const FitState& fit, const ReplicaShares& shares) const;
  // As many as are worth the exchange: what these two take, in nanoseconds.
  void RoundSteps(const FitState& fit, int64_t step, int64_t exchange) const;
  // Of a round of so many replicas some were late, or `missed` were, and it was
  // computed again.
  void LeftOut(const FitState& fit, int drawn, int late, int missed) const;

  // Once a fit: values that networks do not learn from, most often because of a
  // scale that was meant as a divisor.
  void NoteRange(const FitState& fit, const Batch& batch);
  // Of an epoch's end: the hint that the training has diverged, once.
  void NoteDivergence(const FitState& fit, const Logs& logs);
  // At the end of the fit: what it has come to.
  void WarnOfDivergence(const FitState& fit) const;
  void RanOut(const FitState& fit) const;

 private:
  const Model& model_;
  const int64_t number_;
  const FitOptions& options_;
  bool looked_at_range_ = false;
  // The epoch, from 1, since which the loss is not finite; 0: it is.
  int64_t diverged_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FIT_MESSAGES_H_
