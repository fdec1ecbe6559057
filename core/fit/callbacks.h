// Callbacks: Keras's, for Fit.
//
// Public. Options, rules and messages are those of Keras 3's callbacks/*.py.
// Each maker returns a new object for one model; it forgets what it knew when
// another fit begins.

#ifndef RINGLET_CORE_FIT_CALLBACKS_H_
#define RINGLET_CORE_FIT_CALLBACKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "callback.h"

namespace ringlet {

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

#endif  // RINGLET_CORE_FIT_CALLBACKS_H_
