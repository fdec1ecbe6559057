// Callback: what is told of a running fit, and may steer it.
//
// Public. Methods are called on the training thread, on every rank of a job, in
// the order in which the callbacks were given. An error ends the fit with it,
// on every rank; so does an exception that leaves an On… method (kInternal,
// with the callback's name and what()). The other methods must not throw.

#ifndef RINGLET_CORE_FIT_CALLBACK_H_
#define RINGLET_CORE_FIT_CALLBACK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/saveable.h"
#include "../base/status.h"
#include "../data/dataset.h"
#include "../model/metrics.h"

namespace ringlet {

class Disbelief;
class Model;
class UncomparedSteps;

// Names and values, in the order in which they were first set. Setting a known
// name allocates nothing.
class Logs {
 public:
  void Set(const std::string& name, double value) {
    for (auto& entry : entries_) {
      if (entry.first == name) {
        entry.second = value;
        return;
      }
    }
    entries_.emplace_back(name, value);
  }
  // Null where there is no such value.
  const double* Find(const std::string& name) const {
    for (const auto& entry : entries_) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  }
  const std::vector<std::pair<std::string, double>>& entries() const {
    return entries_;
  }
  void Clear() { entries_.clear(); }

 private:
  std::vector<std::pair<std::string, double>> entries_;
};

class Callback;

enum class Validation : uint8_t { kNever, kAfterSomeEpochs, kAfterEveryEpoch };

// A running fit: where it is, and all that a resume has to restore besides the
// model. Its spans are the position and the running metrics; between two steps
// they are the same on every rank.
struct FitState : public Saveable {
  Model* model = nullptr;
  const Dataset* dataset = nullptr;  // that it trains on
  const std::vector<std::shared_ptr<Callback>>* callbacks = nullptr;
  int64_t epochs = 0;                          // where fit ends
  int64_t steps_per_epoch = 0;                 // 0: not known
  Validation validation = Validation::kNever;  // then logs have "val_loss" …
  bool chief = true;  // prints, and writes files that all share

  // Where the next step will be: after the last step of an epoch `step` is
  // steps_per_epoch, until the epoch has ended.
  int64_t epoch = 0;
  int64_t step = 0;
  DataPosition position;
  // That the last batch was: with local updates those of a round, of which
  // OnTrainBatchBegin has the first one's number and OnTrainBatchEnd the
  // last's.
  int64_t steps_taken = 1;
  // Of a round of local updates; 0 where that is not chosen yet
  // (LocalUpdates::kAutoSteps).
  int64_t local_steps = 0;
  // The replicas of which the last round is the mean, in their order; empty
  // without local updates.
  std::vector<int> contributors;

  // Sums of this epoch's steps so far, and of the last step alone, each over
  // all ranks; in the order of Model::metric_name, and for each as many as
  // Model::first_metric_state says.
  std::vector<MetricState> metrics;
  const MetricState* step_metrics = nullptr;

  // Requests of a callback to end the fit. In a job of several ranks the
  // request of one stops all: they leave after the step in whose
  // OnTrainBatchEnd it was made. The others learn of it in the next step, which
  // they begin and give up; until then `interrupted` and `signal` read as not
  // set.
  uint8_t stop_training = 0;  // 0 or 1; saved, so a byte
  // Set by a callback before a save point: once everything was saved there,
  // on every rank, the fit ends: with kCancelled where it can be resumed
  // (Callback::RestoresAfterLoss) or no signal was the cause, otherwise with
  // kInterrupted. A fit whose last epoch has ended is not interrupted any more.
  bool interrupted = false;
  int signal = 0;  // that interrupted it, up to 31; others count as none
  // Set in OnSetup by a callback that saves on SIGINT, SIGTERM and SIGHUP:
  // until the fit returns, the first of these interrupts it (see interrupts.h).
  bool takes_signals = false;
  // What a callback has saved then, in words: "the model is in m.safetensors".
  std::string kept;
  // The newest file of the whole model that a callback has saved; "": none.
  std::string saved_model;
  // Set by a callback that restored the fit: from where.
  std::string restored_from;

  // After a worker was lost, in OnTrainBegin: the state is that of a worker
  // that lived, and nothing is to be restored …
  bool in_memory = false;
  // … or none outlived the loss: unless a callback restores one and clears
  // this, the fit ends with an error.
  bool lost = false;
  // Whose numbers the state has, and which of them a state must not have
  // (model/worker_steps.h).
  const UncomparedSteps* uncompared = nullptr;
  const Disbelief* disbelief = nullptr;
  // A worker that computes wrong was named in this run: what a part of the job
  // has saved that was away then may be of its numbers.
  bool HasNamed() const;
  // Set by a callback while it writes another state over that of the fit and
  // its model: where that is cut off the worker has neither.
  bool replacing = false;
  // … and has done so: nor is there any where a worker is lost before all
  // callbacks have begun.
  bool replaced = false;
  // It has trained already: a worker was lost since, or let in.
  bool goes_on = false;
  // Up to the first step: this worker comes to the run of others, which go on
  // without it where it alone fails (elastic jobs).
  bool comes = false;

  // "epoch 2, step 31 of 70", from 1 on: the last that was taken, and the next.
  std::string LastStep() const;
  std::string NextStep() const;

  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;
};

class Callback : public Saveable {
 public:
  // For state names and messages: "early_stopping".
  virtual const char* name() const = 0;

  // Before any other call, for all callbacks: takes what it needs of the model
  // and forgets an earlier fit. From here on AppendState gives its spans.
  virtual Status OnSetup(FitState&) { return Status(); }
  // What of it the ranks of a job must have in common, in a line: its options,
  // but no paths, which may be a machine's own.
  virtual std::string Describe() const { return name(); }
  // May restore `fit` (and its model and callbacks) to where another fit was.
  virtual Status OnTrainBegin(FitState&) { return Status(); }
  virtual Status OnTrainEnd(FitState&, const Logs&) { return Status(); }
  // Whatever way the fit ended, an error included; after OnTrainEnd.
  virtual void OnFitReturn(FitState&, const Status&) {}
  virtual Status OnEpochBegin(FitState&) { return Status(); }
  // fit.epoch is still the epoch that ended. `logs` may be added to; they go
  // into the History.
  virtual Status OnEpochEnd(FitState&, Logs*) { return Status(); }
  // fit.step is the number of the batch in its epoch, from 0, which is read
  // after this call. In a job of several the step may be given up, and then it
  // has no end: where a worker is lost, and where a rank asks to stop.
  virtual Status OnTrainBatchBegin(FitState&) { return Status(); }
  virtual Status OnTrainBatchEnd(FitState&, const Logs&) { return Status(); }
  virtual Status OnTestBegin(FitState&) { return Status(); }
  // In a job of one `fit.interrupted` breaks the validation off, before
  // OnTestEnd and the epoch's end; a resume does it again.
  virtual Status OnTestBatchEnd(FitState&) { return Status(); }
  virtual Status OnTestEnd(FitState&, const Logs&) { return Status(); }
  // After every step, once all callbacks have seen its end, and after every
  // epoch likewise: `fit` names the next step, and everything saved now resumes
  // exactly there. `epoch_ended` tells the two apart.
  virtual Status OnSavePoint(FitState&, bool /*epoch_ended*/) {
    return Status();
  }

  // Appends the names that OnEpochEnd may add to the logs. False: that is not
  // known beforehand.
  virtual bool NamesInLogs(std::vector<std::string>*) const { return false; }

  // (Of AppendState: what it gives is the same on every rank after OnSetup. A
  // state of more than 4 KB does not change in OnTrainBatchBegin: where a
  // worker is lost a step is begun a second time.)

  // Where a rank is lost: true for a callback that makes the others wait until
  // all are there again, and that restores the fit in OnTrainBegin where no
  // rank's memory holds its state any more. Without one Fit returns kPeerLost.
  virtual bool RestoresAfterLoss() const { return false; }

  // What the files are called in which it saves the whole model; "": none.
  virtual std::string SavesModelAs() const { return ""; }

  void AppendState(std::vector<StateSpan>*) override {}
  // Of its state what a worker that comes back takes from the memory of
  // another, and no backup holds: what the lost one may not have done any more.
  virtual void AppendLiveState(std::vector<StateSpan>*) {}
};

// Whether one of them does: see Callback::RestoresAfterLoss.
bool AnyRestoresAfterLoss(
    const std::vector<std::shared_ptr<Callback>>& callbacks);

// Keras's callbacks; io/checkpoint/saving_callbacks.h and io/events/loggers.h
// have those that write files. Options, rules and messages are those of Keras
// 3's callbacks/*.py. Each maker returns a new object for one model; it forgets
// what it knew when another fit begins.

// What is watched. kAuto: smaller is better for "loss" and for the metrics that
// are errors, with or without "val_"; larger for the others.
enum class MonitorMode : uint8_t { kAuto, kMin, kMax };

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int64_t patience = 0;
  int verbose = 0;
  MonitorMode mode = MonitorMode::kAuto;
  bool has_baseline = false;
  double baseline = 0;
  bool restore_best_weights = false;
  int64_t start_from_epoch = 0;
};
std::shared_ptr<Callback> EarlyStopping(
    const EarlyStoppingOptions& options = {});

struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;
  int64_t patience = 10;
  int verbose = 0;
  MonitorMode mode = MonitorMode::kAuto;
  double min_delta = 1e-4;
  int64_t cooldown = 0;
  double min_lr = 0;
};
std::shared_ptr<Callback> ReduceLROnPlateau(
    const ReduceLROnPlateauOptions& options = {});

// Sets the learning rate of each epoch (from 0) from the one before. This and
// the one above are refused where the optimizer's rate is a schedule.
std::shared_ptr<Callback> LearningRateScheduler(
    std::function<float(int64_t epoch, float learning_rate)> schedule,
    int verbose = 0);

// Stops at a loss that is not a number; with raise_error Fit returns an error.
std::shared_ptr<Callback> TerminateOnNaN(bool raise_error = false);

// Functions of one's own; those left empty are not called.
struct LambdaCallbackOptions {
  std::function<void(int64_t epoch)> on_epoch_begin;
  std::function<void(int64_t epoch, const Logs&)> on_epoch_end;
  std::function<void(const Logs&)> on_train_end;
  std::function<void()> on_train_begin;
  std::function<void(int64_t batch)> on_train_batch_begin;
  std::function<void(int64_t batch, const Logs&)> on_train_batch_end;
};
std::shared_ptr<Callback> LambdaCallback(const LambdaCallbackOptions& options);

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_CALLBACK_H_
