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
  // Null if there is none.
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

// A running fit. Its spans are all state of a resume besides the model, and the
// same on every rank between two steps.
struct FitState : public Saveable {
  FitState();

  Model* model = nullptr;
  const Dataset* dataset = nullptr;  // the training data
  const std::vector<std::shared_ptr<Callback>>* callbacks = nullptr;
  int64_t epochs = 0;                          // as FitOptions
  int64_t steps_per_epoch = 0;                 // zero if unknown
  Validation validation = Validation::kNever;  // otherwise logs have "val_loss"
  bool chief = true;                           // prints, writes shared files

  // The next step. After an epoch's last step it is (epoch,
  // steps_per_epoch), until the epoch has ended.
  int64_t epoch = 0;
  int64_t step = 0;
  DataPosition position;
  // The steps of the last batch, or of a round of local updates, which has one
  // OnTrainBatchBegin and one OnTrainBatchEnd.
  int64_t steps_taken = 1;
  // The steps of a round; 0 without local updates, or before kAutoSteps has
  // chosen.
  int64_t local_steps = 0;
  // The replicas in the mean of the last round of local updates, in order.
  std::vector<int> round_replicas;

  // Sums of the epoch so far, and of the last step, over all ranks.
  std::vector<MetricState> metrics;
  const MetricState* step_metrics = nullptr;

  // 1 ends the fit after this step, on all ranks; from OnEpochBegin after the
  // epoch's first step.
  uint8_t stop_training = 0;  // 0 or 1; saved, so a byte
  // A callback sets it before a save point. All callbacks then save, and the
  // fit ends on every rank. The error is kCancelled if the fit can be resumed
  // (Callback::RestoresAfterLoss) or there was no signal; otherwise it is
  // kInterrupted.
  bool interrupted = false;
  int signal = 0;  // its number, 1 to 31; all others mean none
  // Set in OnSetup by a callback that saves on SIGINT, SIGTERM and SIGHUP. The
  // first of these signals interrupts the fit.
  bool handles_signals = false;
  // Set in OnTrainEnd by a callback with an unwritten last file. The fit ends
  // with it after every callback's OnTrainEnd.
  Status save_error;
  std::shared_ptr<FitDetails> details;  // internal

  // Returns a text such as "epoch 2, step 31 of 70". Numbers count from 1.
  std::string LastStep() const;
  std::string NextStep() const;

  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;
};

// Receives the events of a fit on the training thread of every rank, in the
// order of the callbacks. An error of an On… method, or an exception
// (kInternal, with name() and what()), ends the fit on every rank. Other
// methods must not throw.
class Callback : public Saveable {
 public:
  // The name in state and messages: "early_stopping".
  virtual const char* name() const = 0;

  // Called first, for all callbacks, to clear an earlier fit's state.
  virtual Status OnSetup(FitState&) { return Status(); }
  // The callback's options in one line, without paths. The line is equal on all
  // ranks.
  virtual std::string Describe() const { return name(); }
  // The options and the path, by which a backup distinguishes callbacks of one
  // class.
  virtual std::string Identity() const { return Describe(); }
  // May restore the fit, the model and the callbacks to another position.
  virtual Status OnTrainBegin(FitState&) { return Status(); }
  virtual Status OnTrainEnd(FitState&, const Logs&) { return Status(); }
  // Called at the end of a run, and after every error in it, also after a loss
  // from which the fit then continues. Not called for arguments that Fit
  // refuses at its beginning.
  virtual void OnFitReturn(FitState&, const Status&) {}
  virtual Status OnEpochBegin(FitState&) { return Status(); }
  // fit.epoch is the epoch that has ended. Values that a callback adds to
  // `logs` are in the History.
  virtual Status OnEpochEnd(FitState&, Logs*) { return Status(); }
  // fit.step is the index in the epoch, from 0; the batch is read later. A step
  // that a job gives up has no OnTrainBatchEnd.
  virtual Status OnTrainBatchBegin(FitState&) { return Status(); }
  virtual Status OnTrainBatchEnd(FitState&, const Logs&) { return Status(); }
  virtual Status OnTestBegin(FitState&) { return Status(); }
  // If it sets `fit.interrupted`, the validation of a job of one worker stops.
  // A resumed run repeats the validation.
  virtual Status OnTestBatchEnd(FitState&) { return Status(); }
  virtual Status OnTestEnd(FitState&, const Logs&) { return Status(); }
  // Follows all OnTrainBatchEnd, and all OnEpochEnd (`epoch_ended`). A
  // state that is saved now resumes at the position of the fit.
  virtual Status OnSavePoint(FitState&, bool /*epoch_ended*/) {
    return Status();
  }

  // Appends the names that OnEpochEnd may add. False if unknown.
  virtual bool NamesInLogs(std::vector<std::string>*) const { return false; }

  // True if OnTrainBegin restores a fit of which no rank has a valid state.
  // Without such a callback, the loss of a worker ends a job that is not
  // elastic (kPeerLost).
  virtual bool RestoresAfterLoss() const { return false; }

  // The path at which the callback saves the whole model; empty if it saves
  // none.
  virtual std::string SavesModelAs() const { return ""; }

  // The same on every rank after OnSetup. An elastic job that rolls back
  // restores it. More than 4 KB must not change in OnTrainBatchBegin, since a
  // step begins again after a loss.
  void AppendState(std::vector<StateSpan>*) override {}
  // Appends the state that a donor sends in addition to a backup's state. With
  // it another worker finishes the work of a lost worker, such as an unwritten
  // row.
  virtual void AppendLiveState(std::vector<StateSpan>*) {}
};

// Keras 3's callbacks/*.py. Callbacks that write files are in checkpoint.h and
// loggers.h. Each object belongs to one model. A new fit resets it.

// kAuto minimizes "loss" and metrics that are errors, with or without "val_",
// and maximizes all other values. NaN is never better. kInvalidArgument before
// the first step if the logs will not have `monitor`.
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

// Maps each epoch (from 0) and the previous learning rate to the next. As in
// ReduceLROnPlateau, a schedule is an error.
std::shared_ptr<Callback> LearningRateScheduler(
    std::function<float(int64_t epoch, float learning_rate)> schedule,
    int verbose = 0);

// Stops at a loss of NaN or infinity. With raise_error this is an error.
std::shared_ptr<Callback> TerminateOnNaN(bool raise_error = false);

// An empty function is not called.
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

// Model::Fit, Evaluate and Predict have Keras 3's order of events. Every rank
// of a job makes the same call. Evaluate gives "loss" and the metrics. Predict
// gives the outputs (examples, output shape) in the dataset's order, on every
// rank; with OwnExamples its own examples. Each Fit begins with the first pass
// over the data: give a second Fit's Shuffle another seed. Signals belong to
// the program, unless BackupAndRestore or SaveWhenTrained handles them.

// kAuto shows a bar on a terminal (without colours if NO_COLOR is set),
// otherwise a line.
enum class Verbose : uint8_t { kAuto, kSilent, kBar, kLine };

constexpr int64_t kCheckByTime = -1;

struct FitOptions {
  int64_t epochs = 1;
  int64_t initial_epoch = 0;
  int64_t steps_per_epoch = 0;   // zero means one pass
  Dataset validation_data;       // may be empty
  int64_t validation_steps = 0;  // zero means all
  int64_t validation_freq = 1;   // epochs between validations
  // If not empty, validation follows these epochs, from 1 on.
  std::vector<int64_t> validation_epochs;
  // The weights of classes in the loss and the weighted metrics of the
  // training. The class is the target's number, or the index of the largest
  // value of a one-hot target. An error together with SampleWeight.
  ClassWeights class_weight;
  std::vector<std::shared_ptr<Callback>> callbacks;
  Verbose verbose = Verbose::kAuto;
  // Gets the chief's progress, and other workers' first and last lines.
  FILE* out = stdout;
  bool prefetch = true;  // reads the next batch during a step
  // The number of steps between two comparisons of all ranks' weights
  // (Model::CheckReplicas). Zero means never. kCheckByTime means about every
  // two seconds in an elastic job with cross_check, and every 100 steps in
  // other jobs.
  int64_t check_replicas_every = kCheckByTime;
  // Each check of an elastic job also compares a pass over the same examples. A
  // faulty rank ends with kOutOfSync, and the other ranks continue from the
  // last verified point (docs/membership.md). Without it no completed step is
  // trained again after a loss.
  bool cross_check = true;
};

// The logs of each finished epoch.
struct History {
  std::vector<int64_t> epoch;
  std::vector<Logs> logs;
  // The values of `name` by epoch; NaN for an epoch without it.
  std::vector<double> Values(const std::string& name) const;
};

struct EvaluateOptions {
  int64_t steps = 0;  // zero means all
  Verbose verbose = Verbose::kAuto;
  FILE* out = stdout;
  bool prefetch = true;
};

// --- a loop of your own ------------------------------------------------------

// Model::Fit in parts, for a user-defined loop that outlives lost workers, with
// code of its own between steps and epochs. Every rank of an elastic job
// (StrategyOptions::min_workers), or a worker alone, makes the same calls:
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
// After a loss Train runs again, from epoch() and step(), which may belong to
// the last check. So Train keeps no state between steps outside the loop and
// its Callbacks, does not change the weights, and sets a learning rate from
// epoch() and step(). After an error all calls but Recover return it.
class TrainingLoop {
 public:
  // `model` is compiled, outlives the loop and is not moved. There is no
  // progress; all else is as in Fit.
  TrainingLoop(Model* model, const Dataset& dataset, const FitOptions& options);
  // If End has not returned, reports a failure to the other workers.
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // Compares the workers' arguments, and loads the state of the run: the
  // initial state, a backup, or the state of another worker. Call it at the
  // start, and after each Recover: after true to continue, after false to begin
  // another run.
  Status Begin();
  // True until the last epoch has ended, a callback stops the run, or the data
  // end.
  bool HasEpoch() const;
  bool HasStep() const;
  // Trains all replicas of this worker, or a round of local updates. If a
  // callback stops the run, or a worker waits to join, Step trains nothing and
  // returns OK. HasStep() is then false.
  Status Step();
  // Call it before another use of the model between steps, as Evaluate.
  void CloseData();
  // Validates after the last step, and begins the next epoch().
  Status EndEpoch();
  // Call it after the last epoch.
  Status End();
  // `status` is Train's result. True if the workers have formed a view again
  // after a loss or a join: run Train once more. Otherwise *status is the
  // result of the run. If it is an error, the other ranks get it too. OK
  // without a call of End becomes an error.
  bool Recover(Status* status);

  // The position of the next Step, from 0.
  int64_t epoch() const;
  int64_t step() const;
  // True if this worker prints and writes shared files; a loss may change it.
  bool chief() const;
  // The logs of the present epoch, over all workers. After EndEpoch: the logs
  // of the epoch that has ended, with its validation.
  const Logs& logs() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringlet

#endif  // RINGLET_FIT_H_
