// Fitter: one call of Model::Fit, or the parts of it for a TrainingLoop.
//
// Events come in the order of Keras 3's trainer. Every rank makes the same
// calls of the collective in the same order. Each decision about a call is the
// same on all ranks (StopRequests, FitPlan::Agree), or is an error that Abort
// reports to the other ranks.

#ifndef RINGLET_CORE_FIT_FITTER_H_
#define RINGLET_CORE_FIT_FITTER_H_

#include <cstdint>
#include <memory>

#include "../model/model_parts.h"
#include "../recovery/recovery.h"
#include "check_pace.h"
#include "fit_messages.h"
#include "fit_plan.h"
#include "interrupts.h"
#include "non_chief_output.h"
#include "progress.h"
#include "replica_balancer.h"
#include "ringlet/dataset.h"
#include "ringlet/fit.h"
#include "ringlet/model.h"
#include "ringlet/status.h"
#include "run_state.h"
#include "stop_requests.h"

namespace ringlet {

class Fitter {
 public:
  // All arguments outlive the Fitter.
  Fitter(Model* model, const Dataset& dataset, const FitOptions& options);

  Status Run(History* history);

  // The parts of Run. Call Check once. Then call the parts from Begin on, in
  // the order of TrainAll, until one fails or End returns. Repeat these while
  // Recover returns true. Then call CloseRun.
  Status Check();
  Status Begin();
  // True if another epoch, or the rest of one, must be trained.
  bool HasEpoch() const;
  Status BeginEpoch();
  bool HasStep() const {
    return !epoch_ends_early_ && fit_.step < fit_.steps_per_epoch;
  }
  // Trains one step, or a round of steps, unless all ranks leave the epoch
  // here, to stop or to form a new view. `progress` may be null.
  Status StepOrLeaveEpoch(Progress* progress);
  // Call it when an epoch has no more steps. The model's memory can then be
  // used otherwise.
  void CloseData() { loader_.reset(); }
  // *logs becomes the logs of the epoch.
  Status EndEpoch(Progress* progress, Logs* logs);
  Status End();
  // True after a loss if the run continues; the workers have then formed a view
  // again. Otherwise *status is the result of the run.
  bool Recover(Status* status);
  // After a loss: decides which state in memory counts.
  void KeepStateOfLoss();
  // Ends the run after `epochs` completed epochs: its output and its record.
  void CloseRun(const Status& status, int64_t epochs);

  const FitState& fit() const { return fit_; }

 private:
  void Reset();
  Status TrainAll(History* history);
  Status SetUp();
  Status TrainEpoch(History* history);
  // Replaces the entry of an epoch that was trained again.
  static void RecordEpoch(int64_t epoch, const Logs& logs, History* history);
  // Trains the next batch, or a round from it on, with the callbacks of a step.
  // *applied: see Stepper::Train.
  Status TrainNextBatch(bool* applied);
  Status WithStep(const Status& status) const;  // adds the step
  // Notifies of the step's end, and moves the position to the next one.
  Status AdvancePosition(const DataPosition& next);
  // After a step: the check, the agreement on stops and the save point.
  Status ReachStepBoundary();
  // Trains one step, or a round of steps: *batch becomes the last one.
  Status TrainStepOrRound(Batch* batch, bool* applied);
  void RecordContributors();
  int64_t RoundSteps() const;  // 1 without local updates
  // Chooses the length of a round from the measured times, if it is not chosen
  // yet. On all ranks.
  Status ChooseRoundSteps();
  Status MeasureRounds(int64_t* chosen);
  // Ends the rounds of an interrupted fit, on all ranks.
  Status EndInterruptedRounds();
  Status OpenLoader();
  Status HandleStepGivenUp();
  Status FormNewView();
  // Stops the run, with a warning, if no data are left for the next epoch.
  void StopIfDataEnded();
  Status Validate(Logs* logs);
  Status SavePoint(bool epoch_ended);
  Status MakeInterruptedStatus();
  Status MissingStateError() const;
  // Model::CheckReplicas and its consequences (fitter_checks.cc).
  void SetUpChecks();
  RecoveryMode ModeOfRecovery() const;
  Status CheckReplicasAtBegin();
  Status CheckReplicasAtStep();
  Status CheckReplicas();
  bool checks_by_time() const {
    return options_.check_replicas_every == kCheckByTime &&
           recovery_.verifies();
  }
  // Returns the steps between two checks, if checks_by_time() is false.
  int64_t StepsBetweenChecks() const;
  Status ChooseCheckPace();
  void RecordCheck(const Status& status);
  void AbortOtherRanks(const Status& status);
  void NotifyReturn(const Status& status);
  void RecordSignal();

  // Calls `method` of every callback.
  template <typename... Parameters, typename... Arguments>
  Status NotifyCallbacks(Status (Callback::*method)(FitState&, Parameters...),
                         Arguments&&... arguments);

  bool alone() const { return model_->collective()->size() == 1; }

  Model* const model_;
  const ModelParts parts_;
  const Dataset& dataset_;
  const FitOptions& options_;
  FitPlan plan_;
  FitState fit_;
  FitMessages messages_;
  ReplicaBalancer balancer_;
  NonChiefOutput non_chief_output_;
  RunState state_{&fit_, /*live=*/true};
  RunState state_but_model_{&fit_, /*live=*/true,
                            /*model=*/false};
  Recovery recovery_;
  StopRequests requests_;
  // Not null if a callback saves on signals.
  std::unique_ptr<Interrupts> signals_;
  std::unique_ptr<BatchLoader> loader_;  // null if the epoch has no steps
  // True if the ranks leave the epoch before its last step.
  bool epoch_ends_early_ = false;
  Logs step_logs_;   // the logs of the last step
  Logs epoch_logs_;  // the logs of the last epoch
  CheckPace check_pace_;
  int64_t next_check_event_ = 0;       // a time
  bool all_ranks_have_error_ = false;  // all have the error that ends the fit
  bool round_steps_chosen_ = false;  // ChooseRoundSteps was called in this view
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FITTER_H_
