#include "ringlet/loggers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/python.h"
#include "../../support/simulated_file_system.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"

static std::atomic<long> allocations{0};

// noinline: otherwise gcc separates new from delete and warns.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  void* p = std::malloc(bytes);
  if (p == nullptr) std::abort();
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace ringlet {
namespace {

using Lines = std::vector<std::string>;

// "name category ts dur" of every complete event, and the number of dropped
// events.
Lines ReadTrace(const std::string& path) {
  return RunPython(
      "-c 'import json, sys\n"
      "trace = json.load(open(sys.argv[1]))\n"
      "for e in trace[\"traceEvents\"]:\n"
      "  if e[\"ph\"] == \"X\":\n"
      "    print(e[\"name\"], e[\"cat\"], e[\"ts\"], e[\"dur\"])\n"
      "print(\"dropped\", trace[\"otherData\"][\"dropped\"])' " +
      path);
}

// Never without a line.
std::string Last(const Lines& lines) {
  return lines.empty() ? "nothing" : lines.back();
}

int64_t Count(const Lines& lines, const std::string& start) {
  int64_t count = 0;
  for (const std::string& line : lines) count += line.rfind(start, 0) == 0;
  return count;
}

class TraceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HavePython()) GTEST_SKIP() << kPython << " is not here";
    options_.path = folder_ / "trace.json";
  }

  TempFolder folder_;
  ProfilerOptions options_;
};

TEST_F(TraceTest, Write_SeveralPieces_TimesAreMicrosecondsFromTheFirst) {
  Trace trace;
  trace.OnPart("conv \"1\"\\\n", "forward", 5000001500, 5000002500);
  trace.OnPart("loss", "step", 5000000000, 5000000001);
  trace.OnPart("back", "step", 5000000010, 5000000005);  // a clock gone wrong
  ASSERT_OK(trace.Write(options_.path));
  EXPECT_EQ(ReadTrace(options_.path),
            (Lines{"conv \"1\"\\", " forward 1.5 1.0", "loss step 0.0 0.001",
                   "back step 0.01 0.0", "dropped 0"}));
}

TEST_F(TraceTest, Piece_BeyondTheLimit_IsCountedAsDropped) {
  Trace trace(2);
  trace.Reserve(SIZE_MAX);
  for (int i = 0; i < 5; ++i) trace.OnPart("a", "step", i, i + 1);
  EXPECT_EQ(trace.events(), 2u);
  EXPECT_EQ(trace.dropped(), 3);
  ASSERT_OK(trace.Write(options_.path));
  EXPECT_EQ(Last(ReadTrace(options_.path)), "dropped 3");
}

TEST_F(TraceTest, Profiler_TracedSteps_HaveEveryLayer) {
  options_.first_step = 3;
  options_.steps = 4;
  auto model = TinyModel(SGD(0.1f), 0.5f);
  FitOptions fit = Quiet(2);
  fit.validation_data = Points(20, 9).Batch(7);
  fit.callbacks = {Profiler(options_)};
  // Five steps per epoch: a validation lies within the traced steps.
  ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
  const Lines lines = ReadTrace(options_.path);
  for (const char* layer : {"dense", "dropout", "dense_1"}) {
    for (const char* phase : {" forward ", " backward "}) {
      EXPECT_EQ(Count(lines, std::string(layer) + phase), 4) << layer << phase;
    }
  }
  EXPECT_EQ(Count(lines, "loss forward "), 4);
  EXPECT_GE(Count(lines, "optimizer step "), 4);
  EXPECT_EQ(Count(lines, "train_step step "), 4);
  EXPECT_EQ(Count(lines, "between_steps step "), 3);
  EXPECT_EQ(Last(lines), "dropped 0");
}

// Epochs of rounds of 3 and 2 steps: of the second one, and of the third.
TEST_F(TraceTest, Profiler_RoundsOfLocalUpdates_AreTracedAsWholes) {
  options_.first_step = 3;
  options_.steps = 4;
  CompileOptions rounds;
  rounds.local.steps = 3;
  auto model = TinyModel(SGD(0.1f), 0, rounds);
  FitOptions fit = Quiet(3);
  fit.callbacks = {Profiler(options_)};
  ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
  const Lines lines = ReadTrace(options_.path);
  EXPECT_EQ(Count(lines, "train_step step "), 2);
  EXPECT_EQ(Count(lines, "dense forward "), 5);
}

TEST_F(TraceTest, Profiler_Pieces_LieWithinTheirStep) {
  options_.first_step = 1;
  options_.steps = 3;
  auto model = TinyModel();
  FitOptions fit = Quiet(1);
  fit.callbacks = {Profiler(options_)};
  ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
  EXPECT_EQ(
      RunPython(
          "-c 'import json, sys\n"
          "events = [e for e in json.load(open(sys.argv[1]))[\"traceEvents\"]\n"
          "          if e[\"ph\"] == \"X\"]\n"
          "span = lambda e: (e[\"ts\"], e[\"ts\"] + e[\"dur\"])\n"
          "steps = [span(e) for e in events if e[\"name\"] == \"train_step\"]\n"
          "print(len(steps))\n"
          "for e in events:\n"
          "  if e[\"name\"] in (\"train_step\", \"between_steps\"): continue\n"
          "  a, b = span(e)\n"
          "  if not any(f - 1e-3 <= a <= b <= t + 1e-3 for f, t in steps):\n"
          "    print(e)\n' " +
          options_.path),
      Lines{"3"});
}

TEST_F(TraceTest, Profiler_FromItsSecondStepOn_AllocatesNothing) {
  // The allocations between two ends of a batch.
  class Counter : public Callback {
   public:
    const char* name() const override { return "counter"; }
    Status OnTrainBatchEnd(FitState&, const Logs&) override {
      const long now = allocations;
      if (steps < 10) taken[steps++] = now - before_;
      before_ = allocations;
      return Status();
    }
    int steps = 0;
    long taken[10] = {};

   private:
    long before_ = 0;
  };
  options_.first_step = 3;
  options_.steps = 6;
  auto counter = std::make_shared<Counter>();
  FitOptions fit = Quiet(1);
  fit.prefetch = false;
  fit.callbacks = {Profiler(options_), counter};
  ASSERT_OK(TinyModel()->Fit(Points(40).Batch(4), fit));
  ASSERT_EQ(counter->steps, 10);
  EXPECT_GT(counter->taken[2], 0);  // the counter works
  for (int step = 4; step < 8; ++step) {
    EXPECT_EQ(counter->taken[step - 1], 0) << step;
  }
}

TEST_F(TraceTest, Profiler_FitEndsEarlier_WritesWhatWasTraced) {
  options_.first_step = 2;
  options_.steps = 1000000;
  options_.max_events = 20;
  auto model = TinyModel();
  FitOptions fit = Quiet(2);
  fit.callbacks = {Profiler(options_)};
  ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
  const Lines lines = ReadTrace(options_.path);
  EXPECT_EQ(lines.size(), 21u);
  EXPECT_NE(Last(lines), "dropped 0");
}

TEST_F(TraceTest, Observer_AfterTheLastStep_IsGone) {
  options_.first_step = 1;
  options_.steps = 1;
  auto model = TinyModel();
  FitOptions fit = Quiet(3);
  {
    fit.callbacks = {Profiler(options_)};
    ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
    fit.callbacks.clear();
  }
  // AddressSanitizer reports a use of the profiler.
  ASSERT_OK(model->Fit(Points(40).Batch(8), fit));
  EXPECT_EQ(Count(ReadTrace(options_.path), "train_step "), 1);
}

// In the second case two profilers end in the order in which they began.
TEST_F(TraceTest, Observer_SetBefore_IsCalledAllTheTime) {
  class Counter final : public StepObserver {
   public:
    void OnPart(const char* what, const char*, int64_t, int64_t) override {
      losses += std::string(what) == "loss";
    }
    int losses = 0;
  } counter;
  options_.first_step = 2;
  options_.steps = 3;
  ProfilerOptions second = options_;
  second.path = folder_ / "second.json";
  second.first_step = 3;
  auto model = TinyModel();
  model->set_observer(&counter);
  FitOptions fit = Quiet(2);
  fit.validation_data = Points(8).Batch(8);
  fit.callbacks = {Profiler(options_), Profiler(second)};
  ASSERT_OK(model->Fit(Points(24).Batch(8), fit));
  EXPECT_EQ(model->observer(), &counter);
  EXPECT_EQ(counter.losses, 2 * (3 + 1));
  EXPECT_EQ(Count(ReadTrace(options_.path), "loss "), 3);
  EXPECT_EQ(Count(ReadTrace(second.path), "loss "), 3);
}

TEST_F(TraceTest, Write_FileCannotBeWritten_IsNamedAndTheFitContinues) {
  Trace trace;
  options_.path = folder_ / "none/trace.json";
  const Status status = trace.Write(options_.path);
  EXPECT_EQ(status.code(), Code::kNotFound) << status.message();
  EXPECT_TRUE(Contains(status, folder_ / "none"));
  FitOptions fit = Quiet(1);
  fit.callbacks = {Profiler(options_)};
  testing::internal::CaptureStderr();
  EXPECT_OK(TinyModel()->Fit(Points(40).Batch(8), fit));
  EXPECT_TRUE(
      Contains(testing::internal::GetCapturedStderr(), folder_ / "none"));
}

TEST_F(TraceTest, Write_AnyCallFails_LeavesOneWholeTrace) {
  Trace trace;
  for (int i = 0; i < 1000; ++i) trace.OnPart("a", "step", i, i + 1);
  int64_t count = 0, operations = 0;  // 0: none fails
  do {
    SimulatedFileSystem files;
    ASSERT_OK(files.MakeFolder("d"));
    ASSERT_OK(Trace().Write("d/trace.json", 0, &files));
    const std::string before = *files.Content("d/trace.json");
    const int64_t start = files.operations();
    if (count > 0) files.FailAfter(count, ENOSPC);
    const bool written = trace.Write("d/trace.json", 0, &files).ok();
    if (count == 0) operations = files.operations() - start;
    EXPECT_EQ(written, count == 0) << files.last_failed();
    EXPECT_EQ(files.Paths(), Lines{"d/trace.json"}) << files.last_failed();
    // The name of the new file may not be durable yet; nothing else may.
    EXPECT_EQ(*files.Content("d/trace.json") == before,
              count > 0 && count < operations)
        << files.last_failed();
  } while (count++ < operations);
  EXPECT_GT(operations, 5);
}

TEST_F(TraceTest, Profiler_WrongOptions_IsRefused) {
  options_.first_step = 0;
  FitOptions fit = Quiet(1);
  fit.callbacks = {Profiler(options_)};
  EXPECT_EQ(TinyModel()->Fit(Points(8).Batch(4), fit).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringlet

// This file replaces operator new by malloc, and libraries may have taken
// theirs before; AddressSanitizer need not pair them.
extern "C" const char* __asan_default_options() {  // NOLINT: its name
  return "alloc_dealloc_mismatch=0";
}
