// The bytes follow the same formulas as the exchanges: RingAllReduce for sums,
// delta_exchange.h and sparse_delta.h for rounds. They are payloads without
// headers. If an exchange changes its messages, the estimate here changes too.

#include "plan_wire.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../config/local_config.h"
#include "core/exchange/delta_exchange.h"
#include "core/exchange/participation.h"
#include "core/exchange/sparse_delta.h"
#include "core/fit/auto_steps.h"
#include "net/wire/wire_dtype.h"

namespace ringlet {
namespace {

int64_t AroundTheRing(int64_t bytes, int64_t workers) {
  return 2 * bytes / workers * (workers - 1);
}

int64_t SumBytes(int64_t floats, WireDtype dtype, int64_t workers) {
  return AroundTheRing(floats * WireBytesPerFloat(dtype, floats), workers);
}

// Returns the messages of all replicas, as many from each worker, and the words
// of state.
int64_t SparseRoundBytes(const Model& model, int64_t replicas,
                         int64_t workers) {
  int64_t messages = 0, words = 0, blocks = 0;
  for (const Variable& v : model.variables()) {
    if (v.trained()) messages += static_cast<int64_t>(SparseBytesOf(v.size()));
    if (v.change_offset < 0) continue;
    words += v.size();
    blocks += (v.size() + kGridBlock - 1) / kGridBlock;
  }
  const int64_t max_replicas = (replicas + workers - 1) / workers;
  return (max_replicas * messages + blocks) * (workers - 1) +
         AroundTheRing(4 * words, workers);
}

// Returns the words of delta_exchange.h, and before them an exponent for each
// block.
int64_t RoundBytes(const Model& model, const LocalUpdates& local,
                   int64_t replicas, int64_t workers) {
  if (local.sparse()) return SparseRoundBytes(model, replicas, workers);
  const int integers_per_word = IntegersPerWord(
      local.delta, MaxSampled(local, static_cast<int>(replicas)));
  int64_t words = 0, blocks = 0;
  for (const Variable& v : model.variables()) {
    const bool changes = v.change_offset >= 0;
    if (!v.trained() && !changes) continue;
    for (int64_t at = 0; at < v.size(); at += kGridBlock, ++blocks) {
      const int64_t n = std::min(kGridBlock, v.size() - at);
      words += WordsOf(n, changes ? 1 : integers_per_word);
    }
  }
  return AroundTheRing(4 * words, workers) + blocks * (workers - 1);
}

// The properties of a link.
struct Link {
  const char* name;
  int64_t bits_per_second;
};
std::vector<Link> LinksOf(const WireFlags& flags) {
  if (flags.link > 0) return {{"--link", flags.link}};
  return {{"Ethernet of 100 Mbit/s", 100000000},
          {"Wi-Fi of 20 Mbit/s", 20000000}};
}

// Returns the time of `bytes` bytes over `hops` hops between workers.
double SecondsToSend(int64_t bytes, int64_t hops, const WireFlags& flags,
                     const Link& link) {
  return 8 * static_cast<double>(bytes) /
             static_cast<double>(link.bits_per_second) +
         static_cast<double>(hops) * flags.latency_ms / 1000;
}

// A sum goes around twice; a round gathers before it.
double StepSeconds(const WirePlan& plan, const Link& link) {
  return SecondsToSend(plan.step_bytes, 2 * (plan.flags.workers - 1),
                       plan.flags, link);
}
double RoundSeconds(const WirePlan& plan, const Link& link) {
  return SecondsToSend(plan.round_bytes, plan.round_hops, plan.flags, link);
}

// The steps that are computed while a round's exchange takes place, of those
// that local_steps takes.
int64_t BalancedSteps(const WirePlan& plan, const Link& link) {
  const double steps = 1000 * RoundSeconds(plan, link) / plan.flags.step_ms;
  return static_cast<int64_t>(
      std::ceil(std::clamp(steps, 1.0, double{kMaxLocalSteps})));
}

// Returns the steps of a round: the number in the file, or the number that a
// run with "auto" chooses.
int64_t RoundSteps(const WirePlan& plan, const Link& link) {
  if (!plan.measures_steps) return plan.round_steps;
  return std::clamp(BalancedSteps(plan, link), kFewestAutoSteps, kMaxAutoSteps);
}

void PrintRow(const char* label, const char* format, double value) {
  std::printf("  %-34s ", label);
  std::printf(format, value);
}

void PrintRounds(const WirePlan& plan) {
  if (plan.measures_steps) {
    std::printf("with strategy.mode local, rounds of %" PRId64 " to %" PRId64
                " steps, by what they\ntake as the run begins:\n",
                kFewestAutoSteps, kMaxAutoSteps);
  } else {
    std::printf("with strategy.mode local, rounds of %" PRId64 " steps:\n",
                plan.round_steps);
  }
  PrintRow("bytes sent a round", "%15.0f\n",
           static_cast<double>(plan.round_bytes));
  std::printf("seconds per %s for these, at least:\n",
              plan.measures_steps ? "round" : "step");
  for (const Link& link : LinksOf(plan.flags)) {
    const double steps =
        plan.measures_steps ? 1 : static_cast<double>(plan.round_steps);
    PrintRow(link.name, "%15.3f\n", RoundSeconds(plan, link) / steps);
  }
}

void PrintComputing(const WirePlan& plan, const Link& link) {
  const double step = plan.flags.step_ms / 1000;
  const auto rounds = static_cast<double>(RoundSteps(plan, link));
  std::printf("seconds per step with computing, %s:\n", link.name);
  PrintRow("synchronous", "%15.3f\n", step + StepSeconds(plan, link));
  const double exchange = RoundSeconds(plan, link) / rounds;
  PrintRow("local", "%15.3f\n",
           plan.overlaps ? std::max(step, exchange) : step + exchange);
  PrintRow("local_steps that balance the two", "%15.0f\n",
           static_cast<double>(BalancedSteps(plan, link)));
  if (plan.measures_steps) PrintRow("local_steps \"auto\"", "%15.0f\n", rounds);
}

}  // namespace

WirePlan PlanWire(const Model& model, const StrategyOptions& strategy,
                  const WireFlags& flags) {
  WirePlan plan;
  plan.flags = flags;
  plan.dtype = strategy.communication.wire_dtype;
  int64_t changes = 0;  // changes of state, which are not rounded
  for (const Variable& v : model.variables()) {
    changes += v.change_offset >= 0 ? v.size() : 0;
  }
  plan.step_bytes = SumBytes(model.num_trained(), plan.dtype, flags.workers) +
                    SumBytes(changes, WireDtype::kFloat32, flags.workers);
  plan.measures_steps = strategy.local.steps == LocalUpdates::kAutoSteps;
  plan.round_steps = strategy.local.enabled() ? strategy.local.steps
                                              : LocalUpdates::kDefaultSteps;
  plan.round_bytes = RoundBytes(
      model, strategy.local,
      std::max<int64_t>(strategy.replicas, flags.workers), flags.workers);
  // Messages go around once, and exponents and words of a sum before or after.
  plan.round_hops = (strategy.local.sparse() ? (changes > 0 ? 4 : 1) : 3) *
                    (flags.workers - 1);
  plan.overlaps = strategy.local.overlaps();
  return plan;
}

void WriteWire(const WirePlan& plan, JsonWriter* writer) {
  JsonWriter& w = *writer;
  w.Key("wire_dtype").String(WireDtypeName(plan.dtype));
  w.Key("wire_bytes").Int(plan.step_bytes);
  w.Key("wire_seconds").BeginArray();
  for (const Link& link : LinksOf(plan.flags)) {
    w.BeginObject().Key("bits_per_second").Int(link.bits_per_second);
    w.Key("seconds").Number(StepSeconds(plan, link)).EndObject();
  }
  w.EndArray();
  w.Key("local").BeginObject().Key("steps");
  plan.measures_steps ? w.String("auto") : w.Int(plan.round_steps);
  w.Key("round_bytes").Int(plan.round_bytes);
  w.Key("round_seconds").BeginArray();
  for (const Link& link : LinksOf(plan.flags)) {
    w.BeginObject().Key("bits_per_second").Int(link.bits_per_second);
    w.Key("seconds").Number(RoundSeconds(plan, link));
    if (plan.flags.step_ms > 0) {
      w.Key("balanced_steps").Int(BalancedSteps(plan, link));
      if (plan.measures_steps) w.Key("steps").Int(RoundSteps(plan, link));
    }
    w.EndObject();
  }
  w.EndArray().EndObject();
}

void PrintWire(const WirePlan& plan) {
  std::printf("bytes sent a step, by each of %" PRId64 " workers:\n",
              plan.flags.workers);
  const std::string sent =
      std::string("gradients, ") + WireDtypeName(plan.dtype);
  PrintRow(sent.c_str(), "%15.0f\n", static_cast<double>(plan.step_bytes));
  if (plan.step_bytes == 0) return;
  std::printf("seconds per step for these, at least:\n");
  for (const Link& link : LinksOf(plan.flags)) {
    PrintRow(link.name, "%15.3f\n", StepSeconds(plan, link));
  }
  PrintRounds(plan);
  if (plan.flags.step_ms <= 0) return;
  for (const Link& link : LinksOf(plan.flags)) PrintComputing(plan, link);
}

}  // namespace ringlet
