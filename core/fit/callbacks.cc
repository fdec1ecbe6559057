// Callbacks that use the model or stop the fit, and write no files; io/ has the
// other callbacks. Every member that a resume needs is in AppendState, under a
// name of the checkpoint format, and OnSetup resets it for a new fit. Decisions
// depend only on the logs, which all ranks have. So all ranks stop, reduce and
// restore in the same way.

#include "ringlet/fit.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>

#include "../base/number_text.h"
#include "monitor.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

StateSpan Int64State(const char* name, int64_t* value) {
  return {name, DType::kInt64, {}, value};
}
StateSpan DoubleState(const char* name, double* value) {
  return {name, DType::kFloat64, {}, value};
}

std::string DescribeMonitor(const char* callback, const std::string& monitor,
                            MonitorMode mode, double min_delta) {
  return std::string(callback) + ", monitor " + monitor + ", mode " +
         std::to_string(static_cast<int>(mode)) + ", min_delta " +
         ShortestText(min_delta);
}

class EarlyStoppingCallback final : public Callback {
 public:
  explicit EarlyStoppingCallback(const EarlyStoppingOptions& options)
      : options_(options) {}

  const char* name() const override { return "early_stopping"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }

  std::string Describe() const override {
    return DescribeMonitor(name(), options_.monitor, options_.mode,
                           options_.min_delta) +
           ", patience " + std::to_string(options_.patience) + ", baseline " +
           (options_.baseline ? ShortestText(*options_.baseline) : "none") +
           ", restore_best_weights " +
           std::to_string(options_.restore_best_weights) +
           ", start_from_epoch " + std::to_string(options_.start_from_epoch);
  }

  Status OnSetup(FitState& fit) override {
    wait_ = best_epoch_ = 0;
    stopped_epoch_ = -1;
    best_ = kNone;
    has_best_weights_ = 0;
    best_weights_.clear();
    if (options_.restore_best_weights) {
      best_weights_.resize(static_cast<size_t>(fit.model->num_weights()));
    }
    return monitor_.Setup(fit, *this, Monitor::Logged::kAfterEpochs,
                          options_.monitor, options_.mode, options_.min_delta);
  }

  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    const double* value = monitor_.Find(*logs, "Early stopping");
    if (value == nullptr || fit.epoch < options_.start_from_epoch) {
      return Status();
    }
    if (options_.restore_best_weights && has_best_weights_ == 0) {
      Keep(fit);  // a state to return to if nothing improves
    }
    ++wait_;
    if (monitor_.Improves(*value, best_)) {
      best_ = *value;
      Keep(fit);
      const bool beats_baseline =
          !options_.baseline || monitor_.Improves(*value, *options_.baseline);
      if (beats_baseline) wait_ = 0;
      return Status();
    }
    if (wait_ >= options_.patience && fit.epoch > 0) {
      stopped_epoch_ = fit.epoch;
      fit.stop_training = true;
    }
    return Status();
  }

  Status OnTrainEnd(FitState& fit, const Logs&) override {
    const bool says = options_.verbose > 0 && fit.chief;
    if (stopped_epoch_ >= 0 && says) {
      Print("Epoch %" PRId64 ": early stopping\n", stopped_epoch_ + 1);
    }
    if (!options_.restore_best_weights || has_best_weights_ == 0) {
      return Status();
    }
    if (says) {
      Print("Restoring model weights from the end of the best epoch: %" PRId64
            ".\n",
            best_epoch_ + 1);
    }
    std::copy(best_weights_.begin(), best_weights_.end(), fit.model->weights());
    return Status();
  }

  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back(Int64State("callback/early_stopping/wait", &wait_));
    spans->push_back(
        Int64State("callback/early_stopping/best_epoch", &best_epoch_));
    spans->push_back(
        Int64State("callback/early_stopping/stopped_epoch", &stopped_epoch_));
    spans->push_back(DoubleState("callback/early_stopping/best", &best_));
    if (!options_.restore_best_weights) return;
    spans->push_back(Int64State("callback/early_stopping/has_best_weights",
                                &has_best_weights_));
    spans->push_back({"callback/early_stopping/best_weights",
                      DType::kFloat32,
                      {static_cast<int64_t>(best_weights_.size())},
                      best_weights_.data()});
  }

 private:
  void Keep(const FitState& fit) {
    best_epoch_ = fit.epoch;
    if (!options_.restore_best_weights) return;
    has_best_weights_ = 1;
    std::copy_n(fit.model->weights(), best_weights_.size(),
                best_weights_.data());
  }

  const EarlyStoppingOptions options_;
  Monitor monitor_;
  int64_t wait_ = 0, best_epoch_ = 0, stopped_epoch_ = -1;
  double best_ = kNone;
  int64_t has_best_weights_ = 0;
  std::vector<float> best_weights_;
};

// Keras's optimizers refuse it too, but after the first step has begun.
Status CheckRateIsNoSchedule(const Model& model) {
  if (model.optimizer().learning_rate.kind == LearningRate::Kind::kConstant) {
    return Status();
  }
  return InvalidArgument(
      "the optimizer was made with a schedule, so its learning rate cannot be "
      "set; give it a number, or leave this callback out");
}

class ReduceLROnPlateauCallback final : public Callback {
 public:
  explicit ReduceLROnPlateauCallback(const ReduceLROnPlateauOptions& options)
      : options_(options) {}

  const char* name() const override { return "reduce_lr_on_plateau"; }
  bool NamesInLogs(std::vector<std::string>* names) const override {
    names->push_back("learning_rate");
    return true;
  }

  std::string Describe() const override {
    return DescribeMonitor(name(), options_.monitor, options_.mode,
                           options_.min_delta) +
           ", factor " + ShortestText(options_.factor) + ", patience " +
           std::to_string(options_.patience) + ", cooldown " +
           std::to_string(options_.cooldown) + ", min_lr " +
           ShortestText(options_.min_lr);
  }

  Status OnSetup(FitState& fit) override {
    if (!(options_.factor < 1)) {
      return InvalidArgument(
          "ReduceLROnPlateau does not support a factor >= 1.0. Got factor=%g",
          options_.factor);
    }
    RINGLET_RETURN_IF_ERROR(CheckRateIsNoSchedule(*fit.model));
    wait_ = cooldown_ = 0;
    best_ = kNone;
    return monitor_.Setup(fit, *this, Monitor::Logged::kAfterEpochs,
                          options_.monitor, options_.mode, options_.min_delta);
  }

  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    const double old_lr = fit.model->LearningRate();
    logs->Set("learning_rate", old_lr);
    const double* value = monitor_.Find(*logs, "Learning rate reduction");
    if (value == nullptr) return Status();
    if (cooldown_ > 0) {
      --cooldown_;
      wait_ = 0;
    }
    if (monitor_.Improves(*value, best_)) {
      best_ = *value;
      wait_ = 0;
      return Status();
    }
    if (cooldown_ > 0 || ++wait_ < options_.patience) return Status();
    // Rates are floats: a rate equal to min_lr may be above it as a double.
    if (old_lr <= static_cast<float>(options_.min_lr)) return Status();
    const float new_lr =
        static_cast<float>(std::max(old_lr * options_.factor, options_.min_lr));
    fit.model->SetLearningRate(new_lr);
    if (options_.verbose > 0 && fit.chief) {
      Print("\nEpoch %" PRId64
            ": ReduceLROnPlateau reducing learning rate to %.9g.\n",
            fit.epoch + 1, new_lr);
    }
    cooldown_ = options_.cooldown;
    wait_ = 0;
    return Status();
  }

  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back(Int64State("callback/reduce_lr_on_plateau/wait", &wait_));
    spans->push_back(
        Int64State("callback/reduce_lr_on_plateau/cooldown", &cooldown_));
    spans->push_back(DoubleState("callback/reduce_lr_on_plateau/best", &best_));
  }

 private:
  const ReduceLROnPlateauOptions options_;
  Monitor monitor_;
  int64_t wait_ = 0, cooldown_ = 0;
  double best_ = kNone;
};

class LearningRateSchedulerCallback final : public Callback {
 public:
  LearningRateSchedulerCallback(std::function<float(int64_t, float)> schedule,
                                int verbose)
      : schedule_(std::move(schedule)), verbose_(verbose) {}

  const char* name() const override { return "learning_rate_scheduler"; }
  bool NamesInLogs(std::vector<std::string>* names) const override {
    names->push_back("learning_rate");
    return true;
  }

  Status OnSetup(FitState& fit) override {
    return CheckRateIsNoSchedule(*fit.model);
  }

  Status OnEpochBegin(FitState& fit) override {
    const float rate = schedule_(fit.epoch, fit.model->LearningRate());
    if (!(rate >= 0)) {
      return InvalidArgument(
          "the schedule gave a learning rate of %g for "
          "epoch %" PRId64,
          rate, fit.epoch);
    }
    fit.model->SetLearningRate(rate);
    if (verbose_ > 0 && fit.chief) {
      Print("\nEpoch %" PRId64
            ": LearningRateScheduler setting learning rate to %.9g.\n",
            fit.epoch + 1, rate);
    }
    return Status();
  }

  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    logs->Set("learning_rate", fit.model->LearningRate());
    return Status();
  }

 private:
  const std::function<float(int64_t, float)> schedule_;
  const int verbose_;
};

class TerminateOnNaNCallback final : public Callback {
 public:
  explicit TerminateOnNaNCallback(bool raise_error)
      : raise_error_(raise_error) {}
  const char* name() const override { return "terminate_on_nan"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override {
    const double* loss = logs.Find("loss");
    if (loss == nullptr || std::isfinite(*loss)) return Status();
    const bool has_no_examples =
        !fit.metrics.empty() && fit.metrics[0].count == 0;
    if (has_no_examples) return Status();
    if (raise_error_) {
      return Error(Code::kInternal,
                   "NaN or Inf loss encountered at batch %" PRId64, fit.step);
    }
    if (fit.chief) {
      Print("Batch %" PRId64 ": Invalid loss, terminating training\n",
            fit.step);
    }
    fit.stop_training = true;
    return Status();
  }

 private:
  const bool raise_error_;
};

class LambdaCallbackImpl final : public Callback {
 public:
  explicit LambdaCallbackImpl(const LambdaCallbackOptions& functions)
      : f_(functions) {}
  const char* name() const override { return "lambda"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnTrainBegin(FitState&) override {
    if (f_.on_train_begin) f_.on_train_begin();
    return Status();
  }
  Status OnTrainEnd(FitState&, const Logs& logs) override {
    if (f_.on_train_end) f_.on_train_end(logs);
    return Status();
  }
  Status OnEpochBegin(FitState& fit) override {
    if (f_.on_epoch_begin) f_.on_epoch_begin(fit.epoch);
    return Status();
  }
  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    if (f_.on_epoch_end) f_.on_epoch_end(fit.epoch, *logs);
    return Status();
  }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (f_.on_train_batch_begin) f_.on_train_batch_begin(fit.step);
    return Status();
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override {
    if (f_.on_train_batch_end) f_.on_train_batch_end(fit.step, logs);
    return Status();
  }

 private:
  const LambdaCallbackOptions f_;
};

}  // namespace

std::shared_ptr<Callback> EarlyStopping(const EarlyStoppingOptions& options) {
  return std::make_shared<EarlyStoppingCallback>(options);
}
std::shared_ptr<Callback> ReduceLROnPlateau(
    const ReduceLROnPlateauOptions& options) {
  return std::make_shared<ReduceLROnPlateauCallback>(options);
}
std::shared_ptr<Callback> LearningRateScheduler(
    std::function<float(int64_t epoch, float learning_rate)> schedule,
    int verbose) {
  return std::make_shared<LearningRateSchedulerCallback>(std::move(schedule),
                                                         verbose);
}
std::shared_ptr<Callback> TerminateOnNaN(bool raise_error) {
  return std::make_shared<TerminateOnNaNCallback>(raise_error);
}
std::shared_ptr<Callback> LambdaCallback(const LambdaCallbackOptions& options) {
  return std::make_shared<LambdaCallbackImpl>(options);
}

}  // namespace ringlet
