// Gradients between Backward and ApplyGradients: while the ranks' sums are
// under way, and where several steps' are added up.

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../support/copy_state.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "../../support/thread_collective.h"
#include "../../support/threads.h"
#include "../../support/tiny_model.h"
#include "net/ring/ring_collective.h"

namespace ringlet {
namespace {

// Sums on a thread of its own, and begins only when the caller waits for the
// sum, as a ring on the slowest link. With one rank it sums nothing, as late.
class LateCollective final : public Collective {
 public:
  explicit LateCollective(Collective* inner)
      : inner_(inner), thread_([this] { Loop(); }) {}
  ~LateCollective() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  LateCollective(const LateCollective&) = delete;
  LateCollective& operator=(const LateCollective&) = delete;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  size_t bucket_bytes() const override { return 256; }
  // From here on reductions fail, as if a rank were lost.
  void Break() {
    std::lock_guard<std::mutex> lock(mutex_);
    broken_ = true;
  }
  // Sums that were started and not waited for.
  int under_way() const { return under_way_; }

  Status StartAllReduce(float* data, size_t count, Ticket* ticket) override {
    std::lock_guard<std::mutex> lock(mutex_);
    started_.push_back({data, count});
    *ticket = ++issued_;
    ++under_way_;
    changed_.notify_all();
    return Status();
  }
  Status Wait(Ticket ticket) override {
    std::unique_lock<std::mutex> lock(mutex_);
    Want(ticket, &lock);
    --under_way_;
    return broken_ ? PeerLost(1, "rank 1 is lost") : Status();
  }
  Status Broadcast(void* data, size_t bytes, int root) override {
    Idle();
    return inner_->Broadcast(data, bytes, root);
  }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    Idle();
    return inner_->AllGather(in, bytes, out);
  }
  Status Barrier() override {
    Idle();
    return inner_->Barrier();
  }

 private:
  struct Sum {
    float* data;
    size_t count;
  };
  void Idle() {
    std::unique_lock<std::mutex> lock(mutex_);
    Want(issued_, &lock);
  }
  void Want(Ticket ticket, std::unique_lock<std::mutex>* lock) {
    wanted_ = std::max(wanted_, ticket);
    changed_.notify_all();
    changed_.wait(*lock, [&] { return done_ >= ticket; });
  }
  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || wanted_ > done_; });
      if (started_.empty()) return;
      const Sum sum = started_.front();
      started_.pop_front();
      lock.unlock();
      if (inner_->size() > 1) (void)inner_->AllReduce(sum.data, sum.count);
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  Collective* const inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sum> started_;
  Ticket issued_ = 0, wanted_ = 0, done_ = 0;
  int under_way_ = 0;
  bool stop_ = false, broken_ = false;
  std::thread thread_;
};

using Ranks = std::function<void(Collective*)>;

void RunLate(int size, const std::function<void(LateCollective*)>& body) {
  RunRanks(size, [&](Collective* ranks) {
    LateCollective late(ranks);
    body(&late);
  });
}

void RunRing(int size, const Ranks& body) {
  const std::vector<std::string> addresses = FreeAddresses(size);
  RunThreads(size, [&](int r) {
    RingOptions options;
    options.addresses = addresses;
    options.worker = r;
    options.start_timeout_seconds = 20;
    std::unique_ptr<Collective> ring;
    ASSERT_OK(RingCollective::Open(options, &ring));
    body(ring.get());
  });
}

// 1 << 16 inputs: reductions that take a while. Weights that are far from those
// of one rank's own gradients.
std::unique_ptr<Sequential> WideModel(Collective* collective,
                                      int64_t hidden = 4096) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(hidden, kTanh));
  model->Add(Dense(3));
  model->Compile(SGD(0.5f), SparseCategoricalCrossentropy(kFromLogits), {},
                 collective);
  return model;
}

// The pieces of a step up to Backward, on this rank's part of a batch.
Status UpToBackward(Model* model, BatchLoader* loader, double* loss) {
  ringlet::Batch batch;
  RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
  RINGLET_RETURN_IF_ERROR(
      model->Forward(batch.x, batch.count, /*training=*/true));
  RINGLET_RETURN_IF_ERROR(model->ComputeLoss(batch, loss));
  return model->Backward();
}

// A loop that leaves out every second update, as a guard against NaN would.
std::vector<float> SkipEverySecond(Model* model) {
  std::unique_ptr<BatchLoader> loader;
  EXPECT_OK(model->OpenLoader(Points(40).Repeat().Batch(12), {}, &loader));
  double loss = 0;
  for (int step = 0; step < 8; ++step) {
    EXPECT_OK(UpToBackward(model, loader.get(), &loss));
    if (step % 2 == 1) continue;
    EXPECT_OK(model->ApplyGradients());
  }
  return WeightsOf(model);
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b,
                double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(GradientsTest, Step_LeftOutWhileSumsUnderWay_IsDropped) {
  const auto alone = SkipEverySecond(WideModel(nullptr, 64).get());
  for (const int size : {2, 3}) {
    RunLate(size, [&](LateCollective* late) {
      const auto model = WideModel(late, 64);
      ExpectNear(SkipEverySecond(model.get()), alone, 1e-4);
    });
  }
  const auto wide = SkipEverySecond(WideModel(nullptr).get());
  RunRing(2, [&](Collective* ring) {
    ExpectNear(SkipEverySecond(WideModel(ring).get()), wide, 1e-4);
  });
}

TEST(GradientsTest, Gradients_ReadWhileSumsUnderWay_AreComplete) {
  const auto gradients_of = [](Model* model) {
    std::unique_ptr<BatchLoader> loader;
    EXPECT_OK(model->OpenLoader(Points(40).Repeat().Batch(12), {}, &loader));
    double loss = 0;
    EXPECT_OK(UpToBackward(model, loader.get(), &loss));
    return std::vector<float>(model->gradients(),
                              model->gradients() + model->num_weights());
  };
  const auto alone = gradients_of(WideModel(nullptr, 64).get());
  for (const int size : {2, 3}) {
    RunLate(size, [&](LateCollective* late) {
      ExpectNear(gradients_of(WideModel(late, 64).get()), alone, 1e-5);
    });
  }
  const auto wide = gradients_of(WideModel(nullptr).get());
  RunRing(3, [&](Collective* ring) {
    ExpectNear(gradients_of(WideModel(ring).get()), wide, 1e-5);
  });
}

// The memory of a destroyed model is not written.
TEST(GradientsTest, ModelEndOrCompile_SumsUnderWay_WaitsForThem) {
  RunLate(2, [](LateCollective* late) {
    auto model = WideModel(late, 64);
    double loss = 0;
    const auto begin = [&] {
      std::unique_ptr<BatchLoader> loader;
      ASSERT_OK(model->OpenLoader(Points(40).Batch(12), {}, &loader));
      ASSERT_OK(UpToBackward(model.get(), loader.get(), &loss));
      EXPECT_GT(late->under_way(), 0);
    };
    begin();
    model->Compile(Adam(), SparseCategoricalCrossentropy(kFromLogits), {},
                   late);
    ASSERT_OK(model->status());
    EXPECT_EQ(late->under_way(), 0);
    EXPECT_EQ(model->ApplyGradients().code(), Code::kInvalidArgument);
    begin();
    model.reset();
    EXPECT_EQ(late->under_way(), 0);
  });
}

TEST(GradientsTest, Evaluate_StepUnderWay_DropsTheStep) {
  RunLate(2, [](LateCollective* late) {
    const auto model = WideModel(late, 64);
    const auto before = WeightsOf(model.get());
    double loss = 0;
    {
      std::unique_ptr<BatchLoader> loader;
      ASSERT_OK(model->OpenLoader(Points(40).Batch(12), {}, &loader));
      ASSERT_OK(UpToBackward(model.get(), loader.get(), &loss));
    }
    ASSERT_OK(model->Evaluate(Points(40).Batch(33)).status());
    EXPECT_EQ(late->under_way(), 0);
    const Status s = model->ApplyGradients();
    EXPECT_EQ(s.code(), Code::kInvalidArgument);
    EXPECT_EQ(WeightsOf(model.get()), before);
  });
}

TEST(GradientsTest, ApplyGradients_SumFailed_ReportsIt) {
  RunLate(2, [](LateCollective* late) {
    const auto model = WideModel(late, 64);
    const auto before = WeightsOf(model.get());
    std::unique_ptr<BatchLoader> loader;
    ASSERT_OK(model->OpenLoader(Points(40).Repeat().Batch(12), {}, &loader));
    late->Break();
    for (const bool read : {true, false}) {
      double loss = 0;
      ASSERT_OK(UpToBackward(model.get(), loader.get(), &loss));
      if (read) {
        EXPECT_NE(model->gradients(), nullptr);
      }
      EXPECT_EQ(model->ApplyGradients().code(), Code::kPeerLost);
      EXPECT_EQ(WeightsOf(model.get()), before);
      EXPECT_EQ(model->iterations(), 0);
    }
  });
}

// Reserve has moved the results of the step, so the step cannot continue.
TEST(GradientsTest, Reserve_MovesMemoryInAStep_EndsTheStep) {
  const auto model = WideModel(nullptr, 64);
  const std::vector<float> x(8 * 2, 0.5f);
  const std::vector<int32_t> y(8, 1);
  ringlet::Batch batch;
  batch.count = batch.global_count = 8;
  batch.y = y.data();
  double loss = 0;
  ASSERT_OK(model->Forward(x.data(), 8, /*training=*/true));
  ASSERT_OK(model->Reserve(4, /*training=*/true));  // there is enough
  ASSERT_OK(model->ComputeLoss(batch, &loss));
  ASSERT_OK(model->Reserve(500, /*training=*/true));
  EXPECT_EQ(model->Backward().code(), Code::kInvalidArgument);
  ASSERT_OK(model->Forward(x.data(), 8, /*training=*/true));
  ASSERT_OK(model->Reserve(900, /*training=*/true));
  EXPECT_EQ(model->ComputeLoss(batch, &loss).code(), Code::kInvalidArgument);
}

// The loss has replaced the logits by probabilities. A second loss would take
// them for logits.
TEST(GradientsTest, ComputeLoss_TwiceForOneTrainingForward_IsRefused) {
  Sequential model({Input({2}), Dense(3, kSoftmax)});
  model.Compile(SGD(), SparseCategoricalCrossentropy());
  const std::vector<float> x(4 * 2, 0.5f);
  const std::vector<int32_t> y(4, 1);
  ringlet::Batch batch;
  batch.count = batch.global_count = 4;
  batch.y = y.data();
  batch.x = x.data();
  double loss = 0;
  ASSERT_OK(model.Forward(x.data(), 4, /*training=*/true));
  ASSERT_OK(model.ComputeLoss(batch, &loss));
  ASSERT_OK(model.Backward());
  EXPECT_EQ(model.ComputeLoss(batch, &loss).code(), Code::kInvalidArgument);
  ASSERT_OK(model.TestStep(batch));
  EXPECT_EQ(model.ComputeLoss(batch, &loss).code(), Code::kInvalidArgument);
  // Without training ComputeLoss may be called any number of times.
  ASSERT_OK(model.Forward(x.data(), 4, /*training=*/false));
  double again = 0;
  ASSERT_OK(model.ComputeLoss(batch, &loss));
  ASSERT_OK(model.ComputeLoss(batch, &again));
  EXPECT_EQ(loss, again);
}

// --- gradient accumulation --------------------------------------------------

// With `l2` there is a regularizer. Its gradient counts in each of the steps.
std::unique_ptr<Sequential> SmallModel(const Optimizer& optimizer,
                                       Collective* collective = nullptr,
                                       bool l2 = true) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  Layer hidden = Dense(16, kTanh);
  if (l2) hidden.KernelRegularizer(L2(0.01f)).BiasRegularizer(L1(0.001f));
  model->Add(hidden);
  model->Add(Dense(3));
  model->Compile(optimizer, SparseCategoricalCrossentropy(kFromLogits), {},
                 collective);
  EXPECT_OK(model->status());
  return model;
}

std::vector<Optimizer> SomeOptimizers() {
  return {
      SGD(0.3f, 0.9f),
      SGD(0.3f, 0.9f, /*nesterov=*/true).ClipNorm(0.2f),
      Adam(0.01f),
      Adam(0.01f).GlobalClipNorm(0.3f),
      AdamW(ExponentialDecay(0.02f, 3, 0.5f)),
      RMSprop(0.01f, 0.9f, 0.5f, 1e-4f, /*centered=*/true).ClipValue(0.05f)};
}

// The weights after `steps` of a loop of the pieces of a step.
std::vector<float> Loop(Model* model, int64_t batch, int steps) {
  std::unique_ptr<BatchLoader> loader;
  EXPECT_OK(model->OpenLoader(Points(96).Repeat().Batch(batch), {}, &loader));
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    EXPECT_OK(UpToBackward(model, loader.get(), &loss));
    EXPECT_OK(model->ApplyGradients());
  }
  return WeightsOf(model);
}

std::vector<float> Fitted(Model* model, int64_t batch) {
  EXPECT_OK(model->Fit(Points(96).Batch(batch), Quiet(4)).status());
  return WeightsOf(model);
}

TEST(GradientAccumulationTest,
     FourSteps_Accumulated_EqualOneOfFourTimesTheBatch) {
  for (const Optimizer& optimizer : SomeOptimizers()) {
    SCOPED_TRACE(optimizer.name());
    const Optimizer four = Optimizer(optimizer).GradientAccumulationSteps(4);
    const auto expected = Loop(SmallModel(optimizer).get(), 24, 12);
    ExpectNear(Fitted(SmallModel(optimizer).get(), 24),
               Loop(SmallModel(optimizer).get(), 24, 16), 1e-5);
    ExpectNear(Loop(SmallModel(four).get(), 6, 48), expected, 1e-5);
    const auto fitted = Fitted(SmallModel(optimizer).get(), 24);
    ExpectNear(Fitted(SmallModel(four).get(), 6), fitted, 1e-5);
    RunLate(3, [&](LateCollective* late) {
      ExpectNear(Loop(SmallModel(four, late).get(), 6, 48), expected, 1e-5);
    });
    RunRanks(3, [&](Collective* ranks) {
      ExpectNear(Fitted(SmallModel(four, ranks).get(), 6), fitted, 1e-5);
    });
  }
}

// Fit's way, by which each range of weights is updated as soon as its gradients
// are there, is the loop's to the bit.
TEST(GradientAccumulationTest, Fit_Accumulating_GivesTheBitsOfALoop) {
  for (const Optimizer& optimizer : SomeOptimizers()) {
    const Optimizer three = Optimizer(optimizer).GradientAccumulationSteps(3);
    EXPECT_EQ(Fitted(SmallModel(three).get(), 6),
              Loop(SmallModel(three).get(), 6, 64));
  }
}

TEST(GradientAccumulationTest, Weights_Accumulating_ChangeAtEveryKthStepOnly) {
  const auto model = SmallModel(SGD(0.1f).GradientAccumulationSteps(3));
  auto before = WeightsOf(model.get());
  std::unique_ptr<BatchLoader> loader;
  ASSERT_OK(model->OpenLoader(Points(96).Repeat().Batch(6), {}, &loader));
  ringlet::Batch batch;
  for (int step = 1; step <= 7; ++step) {
    ASSERT_OK(loader->Next(&batch));
    ASSERT_OK(model->TrainStep(batch));
    const auto after = WeightsOf(model.get());
    EXPECT_EQ(after != before, step % 3 == 0) << step;
    before = after;
    EXPECT_EQ(model->iterations(), step);
    EXPECT_EQ(model->optimizer().Updates(model->iterations()), step / 3);
  }
}

// A schedule counts updates, as in Keras.
TEST(GradientAccumulationTest, Schedule_Accumulating_CountsUpdates) {
  const auto model =
      SmallModel(SGD(PiecewiseConstantDecay({1, 2}, {0.5f, 0.25f, 0.125f}))
                     .GradientAccumulationSteps(2));
  std::unique_ptr<BatchLoader> loader;
  ASSERT_OK(model->OpenLoader(Points(96).Repeat().Batch(6), {}, &loader));
  ringlet::Batch batch;
  for (const float rate : {0.5f, 0.5f, 0.5f, 0.5f, 0.25f, 0.25f, 0.125f}) {
    EXPECT_EQ(model->LearningRate(), rate);
    ASSERT_OK(loader->Next(&batch));
    ASSERT_OK(model->TrainStep(batch));
  }
}

// Stopped after any number of steps, also between two updates.
TEST(GradientAccumulationTest, SavedState_AtAnyStep_ContinuesExactly) {
  for (const Optimizer& optimizer : SomeOptimizers()) {
    const Optimizer four = Optimizer(optimizer).GradientAccumulationSteps(4);
    const auto whole = Loop(SmallModel(four).get(), 6, 32);
    for (const int stop : {1, 6, 8, 11}) {
      const auto first = SmallModel(four), second = SmallModel(four);
      Loop(first.get(), 6, stop);
      CopyState(first->weights_state(), second->weights_state());
      CopyState(first->optimizer_state(), second->optimizer_state());
      std::unique_ptr<BatchLoader> loader;
      LoaderOptions options;
      options.start = {stop / 16, stop % 16 * 6};
      ASSERT_OK(
          second->OpenLoader(Points(96).Repeat().Batch(6), options, &loader));
      double loss = 0;
      for (int step = stop; step < 32; ++step) {
        ASSERT_OK(UpToBackward(second.get(), loader.get(), &loss));
        ASSERT_OK(second->ApplyGradients());
      }
      EXPECT_EQ(WeightsOf(second.get()), whole) << stop;
    }
  }
}

// A state with 3 of 5 gradients in its sums must not load into an optimizer
// that accumulates 3.
TEST(GradientAccumulationTest, State_OfAnotherNumberOfSteps_IsRefused) {
  const auto five = SmallModel(Adam().GradientAccumulationSteps(5));
  const auto three = SmallModel(Adam().GradientAccumulationSteps(3));
  Loop(five.get(), 6, 8);
  std::vector<StateSpan> from, to;
  five->optimizer_state()->AppendState(&from);
  three->optimizer_state()->AppendState(&to);
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    std::memcpy(to[i].data, from[i].data, from[i].bytes());
  }
  const Status loaded = three->optimizer_state()->StateLoaded();
  EXPECT_EQ(loaded.code(), Code::kInvalidArgument);
  EXPECT_NE(std::strstr(loaded.message(), "gradient_accumulation_steps 5"),
            nullptr)
      << loaded.message();
}

TEST(GradientAccumulationTest, Sums_Accumulating_AreASlotOfTheOptimizer) {
  const auto model = SmallModel(Adam().GradientAccumulationSteps(2));
  const auto plain = SmallModel(Adam());
  EXPECT_EQ(model->PlanMemory(8).slots, plain->PlanMemory(8).slots / 2 * 3);
  std::vector<StateSpan> spans;
  model->optimizer_state()->AppendState(&spans);
  ASSERT_GE(spans.size(), 12u);
  EXPECT_EQ(spans[8].name, "optimizer/gradient_accumulator/dense/kernel");
  EXPECT_EQ(spans[11].name, "optimizer/gradient_accumulator/dense_1/bias");
}

TEST(GradientAccumulationTest, Steps_OneOrNegative_IsRefused) {
  for (const int steps : {1, -1}) {
    const Status s = SGD().GradientAccumulationSteps(steps).Check();
    EXPECT_EQ(s.code(), Code::kInvalidArgument);
    EXPECT_NE(std::strstr(s.message(), "gradient_accumulation_steps"), nullptr);
  }
  EXPECT_OK(SGD().GradientAccumulationSteps(0).Check());
}

}  // namespace
}  // namespace ringlet
