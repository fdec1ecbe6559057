// Fitter: one call of Model::Fit.
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
  // All outlive it. `number`: see FitPlan.
  Fitter(Model* model, int64_t number, const Dataset& dataset,
         const FitOptions& options);

  Status Run(History* history);

 private:
  Status RunAll(History* history);
  void Reset();
  Status TrainAll(History* history);
  Status SetUp();
  Status Epoch(History* history);
  Status Steps(Progress* progress);
  // *taken: see Stepper::Train.
  Status Step(BatchLoader* loader, Logs* logs, bool* taken);
  Status AtStep(const Status& status) const;  // says in which it happened
  Status StepEnded();
  Status Train(BatchLoader* loader, Batch* batch, bool* taken);
  int64_t RoundSteps() const;  // with local updates; else 1
  Status OpenLoader(std::unique_ptr<BatchLoader>* loader);
  // Where all ranks are between two steps: *moved says whether replicas have
  // another worker now.
  Status ShareBySpeed(bool* moved);
  Status StepGivenUp();
  Status MeetAnew();
  Status Validate(Logs* logs);
  Status SavePoint(bool epoch_ended);
  Status InterruptedStatus();
  Status CheckReplicas();
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
  Logs last_;                            // of the last epoch
  bool agreed_ = false;  // the error that ends the fit is every rank's
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_FITTER_H_
