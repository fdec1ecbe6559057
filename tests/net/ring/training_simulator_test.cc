// Whole jobs that train on a simulated network, one for each seed. A fifth of
// RINGLET_SIM_SEEDS are run; RINGLET_SIM_TRAINING_SEED runs one and prints its
// events.

#include "training_simulator.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "../../support/random_cases.h"
#include "sim_network.h"

namespace ringlet {
namespace {

TEST(TrainingSimulatorTest, Training_EverySeed_HasTheBitsOfAnUndisturbedRun) {
  RandomCases cases("RINGLET_SIM", {2186, 3311, 4181, 6127, 7679},
                    /*part=*/5, /*share=*/3, "RINGLET_SIM_TRAINING_SEED");
  sim::TrainingReport all;
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    const uint64_t seed = cases.number();
    const sim::TrainingReport report =
        sim::SimulateTraining(seed, cases.alone());
    ASSERT_EQ(report.violation, "")
        << report.workers << " workers, after " << report.virtual_nanos / kMs
        << " ms; see it by: make sim TRAINING=1 CASE=" << seed;
    all.events += report.events;
    all.virtual_nanos += report.virtual_nanos;
    all.faults.Add(report.faults);
    all.views += report.views;
    all.steps += report.steps;
    all.finished += report.finished;
    all.resumed += report.resumed;
    all.named += report.named;
    all.alone += report.alone;
  }
  std::printf(
      "%llu jobs: %lld events, %lld s of virtual time, %d views, %d steps, %d "
      "workers done, %d resumed from backups, %d named for wrong numbers, %d "
      "alone with them; %lld faults: %s\n",
      static_cast<unsigned long long>(cases.count()),
      static_cast<long long>(all.events),
      static_cast<long long>(all.virtual_nanos / 1000000000), all.views,
      all.steps, all.finished, all.resumed, all.named, all.alone,
      static_cast<long long>(all.faults.all()), all.faults.Text().c_str());
}

TEST(TrainingSimulatorTest, Training_SameSeed_HasTheSameHistory) {
  for (const uint64_t seed : {3, 10, 77}) {
    const sim::TrainingReport first =
        sim::SimulateTraining(seed, /*trace=*/false);
    const sim::TrainingReport again =
        sim::SimulateTraining(seed, /*trace=*/false);
    EXPECT_EQ(first.trace, again.trace);
    EXPECT_EQ(first.events, again.events);
    EXPECT_EQ(first.virtual_nanos, again.virtual_nanos);
  }
}

}  // namespace
}  // namespace ringlet
