// The verified point's memory, which a fit takes before its first step.

#include "core/recovery/verified_point.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "../../support/contains.h"
#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"
#include "../../support/full_memory.h"
#include "../../support/sanitized.h"
#include "../../support/tiny_model.h"

namespace ringlet {
namespace {

// No memory is left from OnTrainBegin to the fit's end.
class MemoryHolder final : public Callback {
 public:
  const char* name() const override { return "takes_memory"; }
  Status OnTrainBegin(FitState&) override {
    full_.emplace(rlim_t{8} << 20);
    return Status();
  }
  void OnFitReturn(FitState&, const Status&) override { full_.reset(); }

 private:
  std::optional<FullMemory> full_;
};

TEST(VerifiedPointTest, Reserve_NoMemory_EndsTheFit) {
#ifdef RINGLET_SANITIZED
  GTEST_SKIP() << "a sanitizer takes more memory than the limit";
#endif
  if (std::getenv("RINGLET_EMULATED") != nullptr) {
    GTEST_SKIP() << "the limit would be the emulator's";
  }
  ElasticJob job;
  job.Arrive(0);
  ElasticCollective collective(&job, 0);
  CompileOptions options(&collective);
  options.reduction = Reduction::kExact;
  // The copy has 48 MB, which malloc takes from the system.
  const auto model = TinyModel(SGD(0.1f, 0.9f), 0, options, 1 << 20);
  FitOptions fit = Quiet(1);
  fit.steps_per_epoch = 1;
  fit.callbacks = {std::make_shared<MemoryHolder>()};
  const Status status = model->Fit(Points(2).Batch(2), fit).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  EXPECT_TRUE(Contains(status, "no memory for a copy of"));
  // With memory the same fit trains.
  fit.callbacks.clear();
  EXPECT_OK(model->Fit(Points(2).Batch(2), fit));
}

}  // namespace
}  // namespace ringlet
