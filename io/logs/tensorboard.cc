// Files are created at the first event. A full disk gives a warning and never
// ends a training. Only the chief writes. The state has the count of batches,
// so that a resumed fit continues its steps. A chief that is lost after a batch
// may not have recorded it; then the next chief does.

#include "ringlet/loggers.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "../../core/base/text.h"
#include "../../core/fit/evaluation.h"
#include "../../core/fit/fit_details.h"
#include "event_file.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

bool IsFullDisk(const Status& status) {
  const int error = status.os_error();
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

// An event file that reports its failures on stderr: one message each time that
// writing begins to fail, and one if events are lost.
class Writer {
 public:
  // A full disk gives a warning, since it may have space later. All else is an
  // error.
  Status Open(const std::string& folder, const TensorBoardOptions& options) {
    has_warned_ = false;
    const Status status =
        file_.Open(options.log_dir + folder, options.clock, options.files);
    if (!IsFullDisk(status)) return status;
    Warn(status);
    return Status();
  }
  // Creates the file if there is none. False if this fails.
  bool EnsureOpen(const std::string& folder,
                  const TensorBoardOptions& options) {
    if (!file_.is_open()) {
      Warn(file_.Open(options.log_dir + folder, options.clock, options.files));
    }
    return file_.is_open();
  }
  void Scalar(const std::string& tag, int64_t step, double value) {
    Warn(file_.AddScalar(tag, step, value));
  }
  void Histogram(const std::string& tag, int64_t step, const float* values,
                 int64_t count) {
    Warn(file_.AddHistogram(tag, step, values, count));
  }
  void Flush() {
    if (!file_.is_open()) return;
    const Status status = file_.Flush();
    Warn(status);
    has_warned_ = !status.ok();
  }
  void Close() {
    has_warned_ = false;
    Warn(file_.Close());
  }

 private:
  void Warn(const Status& status) {
    if (status.ok() || has_warned_) return;
    Notice("warning: tensorboard: %s", status.message());
    has_warned_ = true;
  }

  EventFile file_;
  bool has_warned_ = false;
};

class TensorBoardCallback final : public Callback {
 public:
  explicit TensorBoardCallback(const TensorBoardOptions& options)
      : options_(options) {}

  const char* name() const override { return "tensorboard"; }
  std::string Identity() const override {
    return Describe() + options_.log_dir;
  }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  Status OnSetup(FitState& fit) override {
    if (options_.log_dir.empty()) {
      return InvalidArgument("log_dir is empty; name a folder");
    }
    if (options_.histogram_freq < 0 || options_.update_freq < 0) {
      return InvalidArgument("histogram_freq and update_freq must be >= 0");
    }
    train_batch_ = due_batch_ = 0;
    if (!fit.details->after_loss) own_batch_ = 0;
    epoch_begin_ = -1;
    Close();
    return Status();
  }

  Status OnTrainBegin(FitState& fit) override {
    if (!fit.chief) return Status();
    const Status opened = train_.Open("/train", options_);
    if (!opened.ok() && !fit.details->after_loss) return opened;
    // Errors of a new chief's disk do not end the run.
    const bool opens = opened.ok() || OpenTrain();
    if (opens && fit.details->in_memory()) AddLastBatch(fit);
    return Status();
  }

  Status OnEpochBegin(FitState& fit) override {
    BeginEpoch(fit);
    return Status();
  }

  Status OnTrainBatchBegin(FitState& fit) override {
    if (epoch_begin_ < 0) BeginEpoch(fit);  // resumed within the epoch
    batch_begin_ = options_.clock->MonotonicNanos();
    return Status();
  }

  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override {
    const int64_t every = options_.update_freq, before = train_batch_;
    train_batch_ += fit.steps_taken;
    if (every == TensorBoardOptions::kEpoch ||
        train_batch_ / every == before / every) {
      return Status();
    }
    due_batch_ = train_batch_;
    if (!fit.chief || !OpenTrain()) return Status();
    if (options_.write_steps_per_second) {
      train_.Scalar("batch_steps_per_second", train_batch_,
                    Rate(fit.steps_taken, batch_begin_));
    }
    AddBatch(logs);
    return Status();
  }

  Status OnTestEnd(FitState& fit, const Logs& logs) override {
    if (!fit.chief || !OpenValidation()) return Status();
    for (const auto& [name, value] : logs.entries()) {
      validation_.Scalar("evaluation_" + name + "_vs_iterations",
                         fit.model->iterations(), value);
    }
    validation_.Flush();
    return Status();
  }

  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    if (!fit.chief) return Status();
    AddEpoch(fit, *logs);
    const int64_t every = options_.histogram_freq;
    if (every > 0 && fit.epoch % every == 0 && OpenTrain()) AddHistograms(fit);
    train_.Flush();
    validation_.Flush();
    epoch_begin_ = -1;
    return Status();
  }

  void OnFitReturn(FitState&, const Status&) override { Close(); }

  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back(
        {"callback/tensorboard/train_batch", DType::kInt64, {}, &train_batch_});
  }
  void AppendLiveState(std::vector<StateSpan>* spans) override {
    spans->push_back(
        {"callback/tensorboard/due_batch", DType::kInt64, {}, &due_batch_});
  }
  Status StateLoaded() override {
    if (train_batch_ >= 0) return Status();
    return Corruption("callback/tensorboard/train_batch is %" PRId64
                      "; it must not be negative",
                      train_batch_);
  }

 private:
  void BeginEpoch(const FitState& fit) {
    epoch_begin_ = options_.clock->MonotonicNanos();
    iterations_before_ = fit.model->iterations();
  }

  // Steps per second since `begin`; 0 if no time has passed.
  double Rate(int64_t steps, int64_t begin) const {
    const int64_t nanos = options_.clock->MonotonicNanos() - begin;
    return nanos > 0
               ? static_cast<double>(steps) * 1e9 / static_cast<double>(nanos)
               : 0;
  }

  void AddBatch(const Logs& logs) {
    for (const auto& [name, value] : logs.entries()) {
      train_.Scalar("batch_" + name, train_batch_, value);
    }
    train_.Flush();
    own_batch_ = train_batch_;
  }

  // Records the last batch if it was due and this process has not recorded it.
  // An epoch's last batch comes before the next epoch begins.
  void AddLastBatch(const FitState& fit) {
    if (fit.step == 0 || due_batch_ != train_batch_ ||
        own_batch_ == train_batch_) {
      return;
    }
    Logs logs;
    SetEpochMetrics(*fit.model, fit.metrics, &logs);
    AddBatch(logs);
  }

  void AddEpoch(const FitState& fit, const Logs& logs) {
    const bool trains = OpenTrain();
    for (const auto& [name, value] : logs.entries()) {
      if (StartsWith(name, "val_")) {
        if (!OpenValidation()) continue;
        validation_.Scalar("epoch_" + name.substr(4), fit.epoch, value);
      } else if (name != "learning_rate" && trains) {
        train_.Scalar("epoch_" + name, fit.epoch, value);
      }
    }
    if (!trains) return;
    train_.Scalar("epoch_learning_rate", fit.epoch, fit.model->LearningRate());
    if (options_.write_steps_per_second && epoch_begin_ >= 0) {
      train_.Scalar(
          "epoch_steps_per_second", fit.epoch,
          Rate(fit.model->iterations() - iterations_before_, epoch_begin_));
    }
  }

  void AddHistograms(const FitState& fit) {
    for (const Variable& v : fit.model->variables()) {
      train_.Histogram(v.path + "/histogram", fit.epoch,
                       fit.model->weights() + v.offset, v.size());
    }
  }

  bool OpenTrain() { return train_.EnsureOpen("/train", options_); }
  bool OpenValidation() {
    return validation_.EnsureOpen("/validation", options_);
  }

  void Close() {
    train_.Close();
    validation_.Close();
  }

  const TensorBoardOptions options_;
  Writer train_, validation_;
  int64_t train_batch_ = 0;  // the batches of the fit, also before a resume
  int64_t due_batch_ = 0;    // the last that was due
  int64_t own_batch_ = 0;    // the last that this process recorded in this fit
  int64_t batch_begin_ = 0;
  int64_t epoch_begin_ = -1;  // negative if unknown
  int64_t iterations_before_ = 0;
};

}  // namespace

std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options) {
  return std::make_shared<TensorBoardCallback>(options);
}

}  // namespace ringlet
