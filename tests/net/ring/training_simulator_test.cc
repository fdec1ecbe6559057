// Whole jobs that train on a simulated network, one for each seed.
// RINGLET_SIM_SEEDS says how many times five, RINGLET_SIM_FIRST from which on,
// RINGLET_SIM_TRAINING_SEED plays one and tells what happens in it.

#include "training_simulator.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "sim_network.h"

namespace ringlet {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t other) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : other;
}

TEST(TrainingSimulatorTest, TheBitsAreThoseOfAnUndisturbedRun) {
  const char* const one = std::getenv("RINGLET_SIM_TRAINING_SEED");
  const uint64_t begin = FromEnvironment("RINGLET_SIM_FIRST", 0);
  const uint64_t many = FromEnvironment("RINGLET_SIM_SEEDS", 1000);
  const uint64_t first =
      FromEnvironment("RINGLET_SIM_TRAINING_SEED", begin / 5);
  const uint64_t count = one != nullptr ? 1 : (begin + many) / 5 - first;
  sim::TrainingReport all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const sim::TrainingReport report =
        sim::SimulateTraining(seed, one != nullptr);
    ASSERT_EQ(report.violation, "")
        << report.workers << " workers, after "
        << report.virtual_nanos / sim::kMs
        << " ms; see it by: make sim TRAINING=1 CASE=" << seed;
    all.events += report.events;
    all.virtual_nanos += report.virtual_nanos;
    all.faults.Add(report.faults);
    all.views += report.views;
    all.steps += report.steps;
    all.finished += report.finished;
    all.resumed += report.resumed;
    all.named += report.named;
    all.unnoticed += report.unnoticed;
  }
  std::printf(
      "%llu jobs: %lld events, %lld s of virtual time, %d views, %d steps, %d "
      "workers done, %d resumed from backups, %d named for wrong numbers, %d "
      "gone before; %lld faults: %s\n",
      static_cast<unsigned long long>(count),
      static_cast<long long>(all.events),
      static_cast<long long>(all.virtual_nanos / 1000000000), all.views,
      all.steps, all.finished, all.resumed, all.named, all.unnoticed,
      static_cast<long long>(all.faults.all()), all.faults.Text().c_str());
}

TEST(TrainingSimulatorTest, ASeedIsTheSameHistoryAgain) {
  for (const uint64_t seed : {3, 10, 77}) {
    const sim::TrainingReport first = sim::SimulateTraining(seed, false);
    const sim::TrainingReport again = sim::SimulateTraining(seed, false);
    EXPECT_EQ(first.trace, again.trace);
    EXPECT_EQ(first.events, again.events);
    EXPECT_EQ(first.virtual_nanos, again.virtual_nanos);
  }
}

}  // namespace
}  // namespace ringlet
