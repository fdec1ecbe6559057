// Fits with a ModelCheckpoint, and with scores that a test chooses.

#ifndef RINGLET_TESTS_IO_CHECKPOINT_CHECKPOINT_TRIAL_H_
#define RINGLET_TESTS_IO_CHECKPOINT_CHECKPOINT_TRIAL_H_

#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/tiny_model.h"

namespace ringlet {

// Gives the logs a "score" by epoch.
class Scores final : public Callback {
 public:
  explicit Scores(std::vector<double> scores) : scores_(std::move(scores)) {}
  const char* name() const override { return "scores"; }
  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    if (fit.epoch < static_cast<int64_t>(scores_.size())) {
      logs->Set("score", scores_[static_cast<size_t>(fit.epoch)]);
    }
    return Status();
  }

 private:
  const std::vector<double> scores_;
};

// Records the weights at the end of each epoch.
class Weights final : public Callback {
 public:
  const char* name() const override { return "weights"; }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    after_epoch.push_back(WeightsOf(fit.model));
    return Status();
  }
  std::vector<std::vector<float>> after_epoch;
};

// A run on a disk of its own.
struct Trial {
  SimulatedFileSystem files;
  std::shared_ptr<Weights> weights = std::make_shared<Weights>();
  std::string out, err;

  Status Fit(const std::string& filepath, ModelCheckpointOptions options,
             int64_t epochs, const std::vector<double>& scores = {}) {
    options.files = &files;
    auto model = TinyModel();
    FitOptions fit = Quiet(epochs);
    fit.validation_data = Points(24, 9).Batch(24);
    fit.callbacks = {weights, std::make_shared<Scores>(scores),
                     ModelCheckpoint(filepath, options)};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const Status status = model->Fit(Points(48).Batch(8), fit).status();
    out = testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
    return status;
  }

  bool Holds(const std::string& path, size_t epoch) {
    std::unique_ptr<Model> loaded;
    const Status status = LoadModel(path, &loaded, {}, &files);
    EXPECT_OK(status);
    return status.ok() &&
           WeightsOf(loaded.get()) == weights->after_epoch[epoch];
  }
};

inline ModelCheckpointOptions BestScore() {
  ModelCheckpointOptions options;
  options.monitor = "score";
  options.mode = MonitorMode::kMax;
  options.save_best_only = true;
  options.verbose = 1;
  return options;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_CHECKPOINT_CHECKPOINT_TRIAL_H_
