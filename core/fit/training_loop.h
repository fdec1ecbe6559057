// TrainingLoop: a training loop of one's own that outlives lost workers.
//
// Public. Model::Fit in pieces: what lies between two steps, between epochs and
// around them is the program's own. A step is a whole one, of all replicas that
// this worker computes, so that it may take over those of others; custom losses
// and layers (custom_layer.h) say what is in it. In a job of several workers
// every rank makes the same calls. The usual loop, which is an elastic job's
// (StrategyOptions::min_workers) as well as one worker's:
//
//   Status Train(TrainingLoop* loop) {
//     RINGLET_RETURN_IF_ERROR(loop->Begin());
//     while (loop->HasEpoch()) {
//       while (loop->HasStep()) RINGLET_RETURN_IF_ERROR(loop->Step());
//       …  // of the epoch: loop->logs()
//       RINGLET_RETURN_IF_ERROR(loop->EndEpoch());
//     }
//     return loop->End();
//   }
//
//   TrainingLoop loop(&model, dataset, options);
//   Status status;
//   do {
//     status = Train(&loop);
//   } while (loop.Recovers(&status));
//
// After a loss Train runs again, from where epoch() and step() say: the last
// step that any worker had made. What it did behind the last Step or EndEpoch
// it then does again, or another worker does: so it asks the loop where it is,
// keeps nothing between steps that the loop does not, and does not change the
// weights. What a step needs, such as a learning rate, it sets before each Step
// from what the loop says. A state that goes with the steps is a Callback's.
//
// Once a call has failed all others but Recovers do nothing, and return its
// error.

#ifndef RINGLET_CORE_FIT_TRAINING_LOOP_H_
#define RINGLET_CORE_FIT_TRAINING_LOOP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "../base/status.h"
#include "../data/dataset.h"
#include "../model/model.h"
#include "fit.h"

namespace ringlet {

class Fitter;

class TrainingLoop {
 public:
  // Of a compiled model, which outlives it and stays where it is. `options` are
  // those of Fit, callbacks, validation and backups too, but no progress is
  // shown.
  TrainingLoop(Model* model, const Dataset& dataset, const FitOptions& options);
  // One that is left before its End has failed, and tells the others.
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // The workers compare what they were asked for, and take up the state of the
  // run: the start, a backup, or that of the worker that has gone furthest.
  // First, and where Recovers says true; after the end another run begins.
  Status Begin();
  // Another epoch is to be trained, or the rest of one. Not where a callback
  // has stopped the run, or the data have ended.
  bool HasEpoch() const;
  // Of that epoch another step.
  bool HasStep() const;
  // Trains a step, or with local updates a round of them. Where a callback of
  // any worker stops the run, or another worker waits to take part, no step is
  // made: after OK HasStep() is false then.
  Status Step();
  // Between two steps of an epoch, before the model is used otherwise, as by
  // Evaluate: it has memory for one reader of data. The next Step reads on.
  void CloseData();
  // Once it has no more steps: validates, and epoch() becomes the next.
  Status EndEpoch();
  // All workers have trained to the end.
  Status End();
  // Of what Train has returned: true where a worker was lost, or waits to take
  // part, and those that are there have met again: Train is to run once more.
  // Else *status is how the run has ended; an error was told to the others. OK
  // without End is an error.
  bool Recovers(Status* status);

  // Where the run is, each from 0: what the next Step trains.
  int64_t epoch() const;
  int64_t step() const;
  // Whether this worker prints, and writes what all share; who is lost may be
  // followed by another.
  bool chief() const;
  // Loss and metrics of the epoch so far, over all workers; after EndEpoch
  // those of the one that ended, with its validation.
  const Logs& logs() const { return logs_; }

 private:
  enum class State : uint8_t {
    kIdle,    // no run, or it has ended
    kAgain,   // Begin is to be called once more
    kTrains,  // from Begin on
    kFailed,  // with failed_
    kEnded,   // by End
  };
  bool HasPart() const;  // of an epoch, to be trained or ended
  Status Check(bool may, const char* call) const;
  Status BeginEpoch();
  Status Note(const Status& status);

  Model* const model_;
  const Dataset dataset_;
  const FitOptions options_;
  std::unique_ptr<Fitter> fitter_;  // of the last first Begin
  Logs logs_;
  std::vector<int64_t> epochs_;  // that this worker has completed
  State state_ = State::kIdle;
  Status failed_;
  bool in_epoch_ = false;  // the callbacks know of it
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_TRAINING_LOOP_H_
