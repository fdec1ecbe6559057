// Whole jobs on a simulated network, one for each seed. RINGLET_SIM_SEEDS says
// how many, RINGLET_SIM_SEED plays one and tells what happens in it.

#include "simulator.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace ringlet {
namespace {

TEST(SimulatorTest, WhateverHappensHoldsOnEverySeed) {
  const char* one = std::getenv("RINGLET_SIM_SEED");
  const char* many = std::getenv("RINGLET_SIM_SEEDS");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 0;
  const uint64_t count = one != nullptr    ? 1
                         : many != nullptr ? std::strtoull(many, nullptr, 10)
                                           : 1000;
  sim::Report all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    sim::Options options = sim::OptionsOfSeed(seed);
    options.trace = one != nullptr;
    const sim::Report report = sim::Simulate(options);
    ASSERT_EQ(report.violation, "")
        << sim::ScenarioName(options.scenario) << ", " << options.size
        << " ranks, after " << report.virtual_nanos / sim::kMs
        << " ms; see it by: make sim CASE=" << seed;
    all.events += report.events;
    all.virtual_nanos += report.virtual_nanos;
    all.faults += report.faults;
    all.failures += report.failures;
    all.reforms += report.reforms;
  }
  std::printf(
      "%llu jobs: %lld events, %lld s of virtual time, %d faults, %d errors, "
      "%d new beginnings\n",
      static_cast<unsigned long long>(count),
      static_cast<long long>(all.events),
      static_cast<long long>(all.virtual_nanos / 1000000000), all.faults,
      all.failures, all.reforms);
}

// RINGLET_SIM_WORKERS says how many: 1,000 take some gigabytes.
TEST(SimulatorTest, ManyWorkersMeetAtOnce) {
  const char* many = std::getenv("RINGLET_SIM_WORKERS");
  sim::Options options;
  options.size = many != nullptr ? std::atoi(many) : 40;
  options.at_once = true;
  const sim::Report report = sim::Simulate(options);
  EXPECT_EQ(report.violation, "");
  std::printf("%d workers: %lld events, met after %lld ms of virtual time\n",
              options.size, static_cast<long long>(report.events),
              static_cast<long long>(report.formed_nanos / sim::kMs));
}

}  // namespace
}  // namespace ringlet
