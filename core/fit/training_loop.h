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
// weights. A state that goes with the steps is a Callback's.

#ifndef RINGLET_CORE_FIT_TRAINING_LOOP_H_
#define RINGLET_CORE_FIT_TRAINING_LOOP_H_

#include <cstdint>
#include <memory>

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
  // One that is left in the middle has failed, and tells the others.
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // The workers compare what they were asked for, and take up the state of the
  // run: the start, a backup, or that of the worker that has gone furthest.
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
  // Once it has no more steps: validates, and epoch() becomes the next.
  Status EndEpoch();
  // All workers have trained to the end.
  Status End();
  // Of what Train has returned: true where a worker was lost, or waits to take
  // part, and those that are there have met again: Train is to run once more.
  // Else *status is how the run has ended; an error was told to the others.
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
  Status BeginEpoch();

  Model* const model_;
  const Dataset dataset_;
  const FitOptions options_;
  std::unique_ptr<Fitter> fitter_;  // of the last first Begin
  Logs logs_;
  int64_t epochs_ = 0;     // that this worker has completed
  bool in_epoch_ = false;  // the callbacks know of it
  bool running_ = false;   // from the first Begin to the end
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_TRAINING_LOOP_H_
