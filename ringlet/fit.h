// Fit, Evaluate and Predict: Keras's loops. Callback: receives the events of a
// running fit. TrainingLoop: Fit in pieces.

#ifndef RINGLET_FIT_H_
#define RINGLET_FIT_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataset.h"
#include "metrics.h"
#include "model.h"
#include "shape.h"
#include "status.h"

namespace ringlet {

// --- callbacks ---------------------------------------------------------------

// Names and values, in the order in which they were first set.
class Logs {
 public:
  void Set(const std::string& name, double value);
  // Null if there is no such value.
  const double* Find(const std::string& name) const;
  const std::vector<std::pair<std::string, double>>& entries() const {
    return entries_;
  }
  void Clear() { entries_.clear(); }

 private:
  std::vector<std::pair<std::string, double>> entries_;
};

class Callback;
struct FitDetails;  // core/fit/fit_details.h

enum class Validation : uint8_t { kNever, kAfterSomeEpochs, kAfterEveryEpoch };

// A running fit. Its spans are the position and the running metrics: all state
// of a resume besides the model, the same on every rank between two steps.
struct FitState : public Saveable {
  FitState();

  Model* model = nullptr;
  const Dataset* dataset = nullptr;  // the training data
  const std::vector<std::shared_ptr<Callback>>* callbacks = nullptr;
  int64_t epochs = 0;           // FitOptions::epochs; training ends there
  int64_t steps_per_epoch = 0;  // 0: unknown
  Validation validation = Validation::kNever;  // else logs have "val_loss"
  bool chief = true;                           // prints, writes shared files

  // The position of the next step; after an epoch's last step (epoch,
  // steps_per_epoch), until the epoch has ended.
  int64_t epoch = 0;
  int64_t step = 0;
  DataPosition position;
  // The steps of the last batch, or of a round of local updates, which has one
  // OnTrainBatchBegin and one OnTrainBatchEnd.
  int64_t steps_taken = 1;
  // Steps of a round; 0 without local updates, or before kAutoSteps has chosen.
  int64_t local_steps = 0;
  // The replicas in the mean of the last round of local updates, in order.
  std::vector<int> round_replicas;

  // Sums of this epoch's steps so far, and of the last step, over all ranks, as
  // Model::metric_name.
  std::vector<MetricState> metrics;
  const MetricState* step_metrics = nullptr;

  // Set to 1 to end the fit after this step, on all ranks; from OnEpochBegin
  // after the epoch's first step.
  uint8_t stop_training = 0;  // 0 or 1; saved, so a byte
  // A callback sets it before a save point. All callbacks then save, and the
  // fit ends on every rank: with kCancelled if it can be resumed
  // (Callback::RestoresAfterLoss) or there was no signal, else with
  // kInterrupted.
  bool interrupted = false;
  int signal = 0;  // the signal, up to 31; greater ones count as none
  // Set in OnSetup by a callback that saves on SIGINT, SIGTERM and SIGHUP: the
  // first of these signals interrupts the fit.
  bool handles_signals = false;
  // Set in OnTrainEnd by a callback that could not write its last file. The fit
  // ends with it after every callback's OnTrainEnd.
  Status save_error;
  std::shared_ptr<FitDetails> details;  // internal

  // The last step, and the next one, as "epoch 2, step 31 of 70", from 1.
  std::string LastStep() const;
  std::string NextStep() const;

  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;
};

// Receives the events of a running fit, and may control it. Methods are called
// on the training thread, on every rank of a job, in the order of the
// callbacks. An error of an On… method, or an exception (kInternal, with name()
// and what()), ends the fit on every rank. The other methods must not throw.
class Callback : public Saveable {
 public:
  // The name in state and messages: "early_stopping".
  virtual const char* name() const = 0;

  // Called first, for all callbacks: reads what it needs from the model, and
  // clears the state of an earlier fit.
  virtual Status OnSetup(FitState&) { return Status(); }
  // One line that must be equal on all ranks of a job: its options, without
  // paths.
  virtual std::string Describe() const { return name(); }
  // Its options and its path, which separate callbacks of a class in a backup.
  virtual std::string Identity() const { return Describe(); }
  // May restore `fit`, its model and its callbacks to another fit's position.
  virtual Status OnTrainBegin(FitState&) { return Status(); }
  virtual Status OnTrainEnd(FitState&, const Logs&) { return Status(); }
  // Called after OnTrainEnd, and after every error that ends the fit.
  virtual void OnFitReturn(FitState&, const Status&) {}
  virtual Status OnEpochBegin(FitState&) { return Status(); }
  // fit.epoch is still the epoch that ended. What a callback adds to `logs`
  // becomes part of the History.
  virtual Status OnEpochEnd(FitState&, Logs*) { return Status(); }
  // fit.step is the index of the batch in its epoch, from 0. The batch is read
  // after this call. A step that a job gives up, after a loss or a request to
  // stop, has no OnTrainBatchEnd.
  virtual Status OnTrainBatchBegin(FitState&) { return Status(); }
  virtual Status OnTrainBatchEnd(FitState&, const Logs&) { return Status(); }
  virtual Status OnTestBegin(FitState&) { return Status(); }
  // In a job of one worker `fit.interrupted` stops the validation here. A
  // resume repeats it.
  virtual Status OnTestBatchEnd(FitState&) { return Status(); }
  virtual Status OnTestEnd(FitState&, const Logs&) { return Status(); }
  // Called after all OnTrainBatchEnd, and after all OnEpochEnd (`epoch_ended`).
  // `fit` has the position of the next step; a state that is saved now resumes
  // exactly there.
  virtual Status OnSavePoint(FitState&, bool /*epoch_ended*/) {
    return Status();
  }

  // Appends the names that OnEpochEnd may add to the logs. False if they are
  // not known in advance.
  virtual bool NamesInLogs(std::vector<std::string>*) const { return false; }

  // True for a callback that restores the fit in OnTrainBegin if no rank has a
  // valid state. Without one a loss ends a job that is not elastic (kPeerLost).
  virtual bool RestoresAfterLoss() const { return false; }

  // The path of the saved files of the whole model; empty if there are none.
  virtual std::string SavesModelAs() const { return ""; }

  // The spans are the same on every rank after OnSetup. An elastic job that
  // rolls back restores them. State of more than 4 KB must not change in
  // OnTrainBatchBegin, since a step begins again after a loss.
  void AppendState(std::vector<StateSpan>*) override {}
  // Appends state that a donor sends and a backup lacks: what the receiver
  // needs to finish the work of a lost worker, such as an unwritten row.
  virtual void AppendLiveState(std::vector<StateSpan>*) {}
};

// Keras's callbacks; those that write files are in checkpoint.h and loggers.h.
// Options, rules and messages come from Keras 3's callbacks/*.py. Each object
// is for one model, and is reset when another fit begins.

// kAuto: smaller is better for "loss" and for metrics that are errors, with or
// without "val_"; larger for the others. NaN is never better. kInvalidArgument
// before the first step if the logs will not have `monitor`.
enum class MonitorMode : uint8_t { kAuto, kMin, kMax };

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int64_t patience = 0;
  int verbose = 0;
  MonitorMode mode = MonitorMode::kAuto;
  std::optional<double> baseline;
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

// Sets the learning rate of each epoch (from 0) from the previous one. An
// error, as ReduceLROnPlateau, if the optimizer's rate is a schedule.
std::shared_ptr<Callback> LearningRateScheduler(
    std::function<float(int64_t epoch, float learning_rate)> schedule,
    int verbose = 0);

// Stops if the loss is NaN or infinite; with raise_error Fit returns an error.
std::shared_ptr<Callback> TerminateOnNaN(bool raise_error = false);

// The program's functions; an empty one is not called.
struct LambdaCallbackOptions {
  std::function<void(int64_t epoch)> on_epoch_begin;
  std::function<void(int64_t epoch, const Logs&)> on_epoch_end;
  std::function<void(const Logs&)> on_train_end;
  std::function<void()> on_train_begin;
  std::function<void(int64_t batch)> on_train_batch_begin;
  std::function<void(int64_t batch, const Logs&)> on_train_batch_end;
};
std::shared_ptr<Callback> LambdaCallback(const LambdaCallbackOptions& options);

// --- loops -------------------------------------------------------------------

// Model::Fit, Evaluate and Predict have the order of events of Keras 3's
// trainer. In a job every rank calls the same function with the same arguments.
// Evaluate gives "loss" and the metrics. Predict gives the outputs (examples,
// output shape) in the order of the dataset, on every rank; with OwnExamples
// those of its own examples. Each Fit begins with the first pass over the data,
// so two Fits of one epoch differ from a Fit of two: give the second Shuffle
// another seed. Signals belong to the program, unless BackupAndRestore or
// SaveWhenTrained handles them.

// kAuto: the bar on a terminal, without colours if NO_COLOR is set, else the
// line.
enum class Verbose : uint8_t { kAuto, kSilent, kBar, kLine };

constexpr int64_t kCheckByTime = -1;

struct FitOptions {
  int64_t epochs = 1;
  int64_t initial_epoch = 0;
  int64_t steps_per_epoch = 0;   // 0: one pass over the dataset
  Dataset validation_data;       // none: no validation
  int64_t validation_steps = 0;  // 0: all of it
  int64_t validation_freq = 1;   // epochs between validations
  // If not empty: validation after these epochs, from 1 on.
  std::vector<int64_t> validation_epochs;
  // Weights in the loss and in weighted metrics in training. The class is the
  // target's number, or the largest of a one-hot target. Not with SampleWeight.
  ClassWeights class_weight;
  std::vector<std::shared_ptr<Callback>> callbacks;
  Verbose verbose = Verbose::kAuto;
  // For the progress of the chief, and one line at the start and one at the end
  // of the other workers.
  FILE* out = stdout;
  bool prefetch = true;  // prepare the next batch while this one computes
  // After so many steps all ranks compare their weights (Model::CheckReplicas);
  // 0: never. kCheckByTime: about every two seconds in an elastic job with
  // cross_check, else every 100 steps.
  int64_t check_replicas_every = kCheckByTime;
  // In an elastic job each check also compares the results of a pass over the
  // same examples. A faulty rank ends with kOutOfSync, and the others continue
  // from the last verified point (docs/membership.md). False: there is no such
  // pass, and no completed step is trained again after a loss.
  bool cross_check = true;
};

// The logs of each finished epoch.
struct History {
  std::vector<int64_t> epoch;
  std::vector<Logs> logs;
  // Values of `name` by epoch; NaN for an epoch without it.
  std::vector<double> Values(const std::string& name) const;
};

struct EvaluateOptions {
  int64_t steps = 0;  // 0: all of the dataset
  Verbose verbose = Verbose::kAuto;
  FILE* out = stdout;
  bool prefetch = true;
};

// --- a loop of your own ------------------------------------------------------

// TrainingLoop: Model::Fit in parts, for a user-defined training loop that
// outlives lost workers. The program has its own code between two steps,
// between epochs and around them. In a job every rank makes the same calls; the
// job is elastic (StrategyOptions::min_workers), or a worker alone:
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
//   } while (loop.Recover(&status));
//
// After a loss Train runs again, from epoch() and step(), which may be those of
// the last replica check. So Train keeps no state between steps outside the
// loop and its Callbacks, does not change the weights, and sets a step's
// settings, such as a learning rate, from epoch() and step(). After an error
// all calls but Recover do nothing, and return that error.
class TrainingLoop {
 public:
  // `model` is compiled, outlives the loop and is not moved. Callbacks,
  // validation and backups work as in Fit; there is no progress.
  TrainingLoop(Model* model, const Dataset& dataset, const FitOptions& options);
  // Before End: reports a failure to the other workers.
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // The workers compare their arguments, and load the state of the run: the
  // start, a backup, or another worker's state. Call it first, after Recover
  // has returned true, and after the end to begin another run.
  Status Begin();
  // True if an epoch, or the rest of one, must be trained: until a callback
  // stops the run, or the data end.
  bool HasEpoch() const;
  // True if that epoch has another step.
  bool HasStep() const;
  // Trains a step, with all replicas of this worker, or a round of local
  // updates. If a callback of any worker stops the run, or another worker waits
  // to join, no step is made: it returns OK, and HasStep() is then false.
  Status Step();
  // Between two steps of an epoch, before another use of the model such as
  // Evaluate: a model has memory for one reader of data.
  void CloseData();
  // When the epoch has no more steps: validates, and epoch() becomes the next
  // one.
  Status EndEpoch();
  // When all workers have trained to the end.
  Status End();
  // `status` is Train's result. True: a worker was lost, or waits to join, and
  // the workers have formed a view again: run Train once more. False: *status
  // is the result of the run, and an error has been reported to the other
  // workers. OK from Train without a call of End is an error.
  bool Recover(Status* status);

  // The position of the next Step, each from 0.
  int64_t epoch() const;
  int64_t step() const;
  // True if this worker prints, and writes shared files; may change after a
  // loss.
  bool chief() const;
  // Loss and metrics of the epoch so far, over all workers; after EndEpoch
  // those of the ended epoch, with its validation.
  const Logs& logs() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringlet

#endif  // RINGLET_FIT_H_
