// Fitter: one call of Model::Fit, or what a TrainingLoop makes of its pieces.
//
// Internal to core/. The order of events is that of Keras 3's trainer. Every
// rank runs the same calls of the collective in the same order: whatever
// decides on one is the same on all ranks (StopRequests, FitPlan::Agree), or an
// error that Abort tells the others.

#ifndef RINGLET_CORE_FIT_FITTER_H_
#define RINGLET_CORE_FIT_FITTER_H_

#include <cstdint>
#include <memory>

#include "../base/status.h"
#include "../data/batch_loader.h"
#include "../data/dataset.h"
#include "../model/model.h"
#include "callback.h"
#include "fit.h"
#include "fit_messages.h"
#include "fit_plan.h"
#include "interrupts.h"
#include "progress.h"
#include "recovery.h"
#include "stop_requests.h"
#include "worker_lines.h"

namespace ringlet {

class Fitter {
 public:
  // All outlive it.
  Fitter(Model* model, const Dataset& dataset, const FitOptions& options);

  Status Run(History* history);

  // The pieces of it: Check once; then as TrainAll calls them, from Begin on,
  // until one fails or End has not, and so again while Recovers says so; then
  // Ended.
  Status Check();
  Status Begin();
  // Another epoch is to be trained, or the rest of one.
  bool HasEpoch();
  Status BeginEpoch();
  bool HasStep() const { return !leaves_ && fit_.step < fit_.steps_per_epoch; }
  // One step, or a round of them; or the ranks leave the epoch here, where they
  // stop or meet anew. `progress` may be null.
  Status TakeStep(Progress* progress);
  // Once an epoch has no more steps: the model's memory may be used otherwise.
  void CloseData() { loader_.reset(); }
  // *logs becomes the epoch's.
  Status EndEpoch(Progress* progress, Logs* logs);
  Status End();
  // After a loss that the run outlives: once the workers have met again. Else
  // *status is what the run ends with.
  bool Recovers(Status* status);
  // `epochs` were completed.
  void Ended(const Status& status, int64_t epochs);

  const FitState& fit() const { return fit_; }

 private:
  void Reset();
  Status TrainAll(History* history);
  Status SetUp();
  Status Epoch(History* history);
  // In the place of what it was, where it was trained again.
  static void NoteEpoch(int64_t epoch, const Logs& logs, History* history);
  // *taken: see Stepper::Train.
  Status Step(bool* taken);
  Status AtStep(const Status& status) const;  // says in which it happened
  Status StepMade(const DataPosition& next);
  Status StepEnded();
  Status Train(Batch* batch, bool* taken);
  void NoteContributors();
  int64_t RoundSteps() const;  // with local updates; else 1
  // Where they are to be chosen from the link and are not yet; all ranks.
  Status ChooseRoundSteps();
  Status TryRounds(int64_t* chosen);
  // The fit ends here, on all ranks.
  Status EndRoundsForGood();
  Status OpenLoader();
  void BeginShares();  // the ranks have met
  // Where all ranks are between two steps: *moved says whether replicas have
  // another worker now.
  Status ShareBySpeed(bool* moved);
  bool DealBySteps(ReplicaShares* next);
  Status DealByRounds(ReplicaShares* next, bool* moved);
  void TellOfShares();
  Status StepGivenUp();
  Status MeetAnew();
  Status Validate(Logs* logs);
  Status SavePoint(bool epoch_ended);
  Status InterruptedStatus();
  Status NobodyHasTheState() const;
  // Model::CheckReplicas, and what follows from it (fitter_checks.cc).
  void SetUpChecks();
  Status CheckAtBegin();
  Status CheckAtStep();
  bool checks() const;  // they compare at all
  Status CheckReplicas();
  void Proven();
  // Where rounds scatter their state: what an elastic job goes back to.
  Status TakePoint();
  void KeepState();
  void TellOthers(const Status& status);
  void FitReturns(const Status& status);
  void NoteSignal();

  // Calls `method` of every callback.
  template <typename... Parameters, typename... Arguments>
  Status Tell(Status (Callback::*method)(FitState&, Parameters...),
              Arguments&&... arguments);

  bool alone() const { return model_->collective()->size() == 1; }

  Model* const model_;
  const Dataset& dataset_;
  const FitOptions& options_;
  const FitPlan plan_;
  FitState fit_;
  FitMessages messages_;
  WorkerLines lines_;
  Recovery recovery_;
  StopRequests requests_;
  std::unique_ptr<Interrupts> signals_;  // where a callback saves on signals
  std::unique_ptr<BatchLoader> loader_;  // while an epoch has steps
  bool leaves_ = false;                  // the epoch, before its last step
  Logs logs_;                            // after a step
  Logs last_;                            // of the last epoch
  bool agreed_ = false;  // the error that ends the fit is every rank's
  bool chose_ = false;   // ChooseRoundSteps since the ranks have met
  int64_t met_at_ = 0;   // iterations as they met
  int64_t told_at_ = 0;  // when a line told of a move since then; below 0: none
  ReplicaShares told_;   // as of that line, or as they met
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FITTER_H_
