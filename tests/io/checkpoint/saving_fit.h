// Fits with SaveWhenTrained, for its tests.

#ifndef RINGLET_TESTS_IO_CHECKPOINT_SAVING_FIT_H_
#define RINGLET_TESTS_IO_CHECKPOINT_SAVING_FIT_H_

#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/tiny_model.h"
#include "ringlet/fit.h"

namespace ringlet {

struct Disk : SimulatedFileSystem {
  Disk() { EXPECT_OK(MakeFolder(".")); }
};

inline Dataset Data() { return Points(90).Shuffle(3).Batch(10); }

struct Ended {
  Status status;
  std::vector<float> weights;
  std::string printed;  // the text of stderr
};

inline Ended Fit(const std::vector<std::shared_ptr<Callback>>& callbacks,
                 int64_t epochs = 3) {
  FitOptions options = Quiet(epochs);
  options.callbacks = callbacks;
  auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f);
  testing::internal::CaptureStderr();
  Ended ended;
  ended.status = model->Fit(Data(), options).status();
  ended.printed = testing::internal::GetCapturedStderr();
  ended.weights = WeightsOf(model.get());
  return ended;
}

inline std::vector<float> Loaded(const std::string& path, FileSystem* files,
                                 int64_t* iterations = nullptr) {
  std::unique_ptr<Model> model;
  const Status loaded = LoadModel(path, &model, {}, files);
  EXPECT_OK(loaded);
  if (!loaded.ok()) return {};
  if (iterations != nullptr) *iterations = model->iterations();
  return WeightsOf(model.get());
}

// Sets the default actions: nohup and a shell's background would pass on that
// signals are ignored.
inline void ResetSignals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_CHECKPOINT_SAVING_FIT_H_
