// FitMessages: the messages of a fit to users, besides its progress.
//
// The chief prints lines on `out`, unless verbose is kSilent, and warnings on
// stderr.

#ifndef RINGLET_CORE_FIT_FIT_MESSAGES_H_
#define RINGLET_CORE_FIT_FIT_MESSAGES_H_

#include <cstdint>

#include "../exchange/replica_assignment.h"
#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"

namespace ringlet {

// Warns once in a process of more threads than cores. Results are the same, but
// slower.
void WarnOfThreads(int threads);

class FitMessages {
 public:
  // All arguments outlive the FitMessages. FitPlan explains `number`.
  FitMessages(const Model* model, int64_t number, const FitOptions* options)
      : model_(*model), number_(number), options_(*options) {}

  // True if the chief shows the progress.
  bool prints_progress(const FitState& fit) const {
    return fit.chief && options_.verbose != Verbose::kSilent;
  }
  // Reports that the fit will continue when a new view has formed. The reason
  // is a loss, with or without a rank in the status, or an agreement to admit
  // another worker.
  void ReportNewView(const Status& status, bool admits_joiner) const;
  // Returns the error of a fit that ends with a lost worker. Call it after the
  // callbacks have saved.
  Status PermanentLossError(const FitState& fit, const Status& status) const;
  // Reports the position at which the fit continues after a break of the
  // process or of the job.
  void ReportResume(const FitState& fit) const;
  void PrintEpoch(const FitState& fit) const;
  // Reports how many replicas each worker has by its speed.
  void ReportAssignment(const FitState& fit,
                        const ReplicaAssignment& assignment) const;
  // Reports the chosen steps of a round, with the times of a step and an
  // exchange in nanoseconds.
  void ReportRoundSteps(const FitState& fit, int64_t step,
                        int64_t exchange) const;
  // Reports that `late` of a round's `sampled` replicas were late. Or reports
  // that `missed` replicas were late, and that the round was computed again for
  // this reason.
  void ReportLeftOut(const FitState& fit, int sampled, int late,
                     int missed) const;

  // Reports once in a fit inputs that networks do not learn from. The usual
  // cause is a scale that was meant as a divisor, or images as targets, which a
  // scale does not change.
  void ReportRange(const FitState& fit, const Batch& batch);
  // Reports that this fit has the same orders of examples as the previous fit.
  void ReportSameOrder(const FitState& fit) const;
  // Reports once, at an epoch's end, that the training has diverged.
  void ReportDivergence(const FitState& fit, const Logs& logs);
  // Warns at the end of a fit that has diverged.
  void WarnOfDivergence(const FitState& fit) const;
  void WarnDataEnded(const FitState& fit) const;

 private:
  void WarnOfImageTargets(const FitState& fit, const Batch& batch) const;

  const Model& model_;
  const int64_t number_;
  const FitOptions& options_;
  bool checked_range_ = false;
  // The epoch, from 1, since which the loss is not finite; 0 if it is finite.
  int64_t diverged_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FIT_MESSAGES_H_
