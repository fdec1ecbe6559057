// Measures the bytes that the workers of an elastic job send when a view forms:
// a board's link is slow.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/elastic_collective.h"
#include "../../support/tiny_model.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

constexpr int64_t kLostAt = 10, kSteps = 100;

struct Sent {
  int broadcasts = 0;
  size_t bytes = 0;
};

std::unique_ptr<Sequential> SmallModel(Collective* collective,
                                       int64_t local_steps) {
  CompileOptions options = ExactSums(collective, 4, local_steps);
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(512, kRelu));
  model->Add(Dense(40, kRelu));
  model->Add(BatchNormalization());
  model->Add(Dense(3));
  model->Compile(Adam(0.01f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

// Returns the bytes that worker 0 has broadcast or received in three views: of
// all three workers, after the loss of worker 2, and after its return.
std::vector<Sent> Meetings(int64_t local_steps, size_t* model_bytes) {
  ElasticJob job;
  std::vector<Sent> sent;
  std::atomic<int64_t> made{0};  // steps of worker 0
  const auto run_worker = [&](int w, int64_t lost_at) {
    ElasticCollective collective(&job, w);
    const auto model = SmallModel(&collective, local_steps);
    FitOptions fit = Quiet(1);
    fit.steps_per_epoch = kSteps;
    int reforms = 0;
    LambdaCallbackOptions after;
    after.on_train_batch_end = [&](int64_t, const Logs&) {
      const int64_t step = model->iterations();
      if (step == lost_at) collective.EndInNextCall();
      if (w != 0) return;
      made = step;
      *model_bytes = static_cast<size_t>(model->num_weights()) * sizeof(float);
      if (collective.reforms() == reforms) return;
      reforms = collective.reforms();
      sent.push_back({collective.broadcasts(), collective.broadcast_bytes()});
    };
    fit.callbacks = {LambdaCallback(after)};
    const Result<History> history =
        model->Fit(Points(203).Shuffle(3).Repeat().Batch(24), fit);
    EXPECT_EQ(history.ok(), lost_at < 0) << history.status().message();
  };
  RunWorkers(&job, 3, [&](int w) {
    run_worker(w, w == 2 ? kLostAt : -1);
    if (w != 2) return;
    while (made <= kLostAt) std::this_thread::yield();
    job.Arrive(w);
    run_worker(w, -1);
  });
  for (size_t i = sent.size(); i-- > 1;) {
    sent[i].broadcasts -= sent[i - 1].broadcasts;
    sent[i].bytes -= sent[i - 1].bytes;
  }
  return sent;
}

TEST(StateTransferTest, Transfer_LossOrJoiner_SendsOnlyWhatIsMissingOnce) {
  for (const auto& [local_steps, slots] :
       std::map<int64_t, size_t>{{0, 2}, {5, 1}}) {
    SCOPED_TRACE(local_steps);
    size_t model = 0;
    const std::vector<Sent> sent = Meetings(local_steps, &model);
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_LT(sent[1].bytes, model / 8);
    EXPECT_LT(sent[1].broadcasts, 5);
    const size_t state = (1 + slots) * model;
    EXPECT_GT(sent[2].bytes, state * 9 / 10);
    EXPECT_LT(sent[2].bytes, state * 9 / 8);
    EXPECT_LT(sent[2].broadcasts, 10);
  }
}

}  // namespace
}  // namespace ringlet
