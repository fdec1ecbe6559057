// Fits of an elastic job, to compare their bits.

#ifndef RINGLET_TESTS_CORE_FIT_ELASTIC_FITS_H_
#define RINGLET_TESTS_CORE_FIT_ELASTIC_FITS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "../../support/sanitized.h"
#include "../../support/tiny_model.h"
#include "ringlet/fit.h"

namespace ringlet {

#ifdef RINGLET_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr int kReplicas = 5;
// The kernels are sent one by one, so a transfer that is cut off leaves a mixed
// state. A sanitizer takes minutes for this number of units, and finds other
// errors.
constexpr int64_t kUnits = kSanitized ? 16 : 600;

struct ElasticRun {
  Status status;
  uint64_t digest = 0;
  std::vector<double> losses;  // a loss of each epoch since this process began
};

inline ElasticRun Train(const CompileOptions& options,
                        const FitOptions& fit = Quiet(3)) {
  ElasticRun run;
  auto model = TinyModel(Adam(0.01f), /*dropout=*/0.2f, options, kUnits);
  const Result<History> history =
      model->Fit(Points(203).Shuffle(3).Batch(40), fit);
  run.status = history.status();
  run.digest = model->DigestWeights();
  if (!history.ok()) return run;
  for (const Logs& logs : history->logs)
    run.losses.push_back(*logs.Find("loss"));
  return run;
}

inline CompileOptions Exact(Collective* collective, int64_t local_steps = 0) {
  return ExactSums(collective, kReplicas, local_steps);
}

inline const ElasticRun& Undisturbed(int64_t local_steps = 0) {
  static std::map<int64_t, ElasticRun> runs;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  ElasticRun& run = runs[local_steps];
  if (run.losses.empty()) run = Train(Exact(nullptr, local_steps));
  return run;
}

inline unsigned SeedCount() {
  const char* const more = std::getenv("RINGLET_ELASTIC_SEEDS");
  return more != nullptr ? static_cast<unsigned>(std::atoi(more))
                         : (kSanitized ? 30 : 60);
}

// Calls `what` before step number `at` of the run. saved(): a save point came
// after a stop request.
class AtStep final : public Callback {
 public:
  AtStep(int64_t at, std::function<void(FitState&)> what, bool handles_signals)
      : at_(at), what_(std::move(what)), handles_signals_(handles_signals) {}
  const char* name() const override { return "at_step"; }
  Status OnSetup(FitState& fit) override {
    fit.handles_signals |= handles_signals_;
    return Status();
  }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (done_ || fit.model->iterations() != at_) return Status();
    done_ = true;
    what_(fit);
    return Status();
  }
  Status OnSavePoint(FitState& fit, bool) override {
    saved_ |= fit.interrupted;
    return Status();
  }
  bool saved() const { return saved_; }

 private:
  const int64_t at_;
  const std::function<void(FitState&)> what_;
  const bool handles_signals_;
  bool done_ = false, saved_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_CORE_FIT_ELASTIC_FITS_H_
