#include "sim_faults.h"

#include <numeric>

namespace ringlet {
namespace sim {
namespace {

const char* const kNames[kFaultKinds] = {
    "crashes",           "silent hosts", "cuts",
    "half-open links",   "partitions",   "one-way partitions",
    "ragged partitions", "pauses",       "pauses of all",
    "power cuts of all", "slow disks",   "clock steps",
    "wrong bits"};
constexpr int64_t kDay = int64_t{86400} * 1000 * kMs;

std::string For(int64_t nanos) {
  return " for " + std::to_string(nanos / kMs) + " ms";
}

}  // namespace

int64_t FaultCounts::all() const {
  return std::accumulate(by_kind.begin(), by_kind.end(), int64_t{0});
}

void FaultCounts::Add(const FaultCounts& other) {
  for (size_t i = 0; i < by_kind.size(); ++i) by_kind[i] += other.by_kind[i];
}

std::string FaultCounts::Text() const {
  std::string text;
  for (size_t i = 0; i < by_kind.size(); ++i) {
    if (by_kind[i] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(by_kind[i]) + " " +
            kNames[i];
  }
  return text;
}

void Faults::CutWithin(int64_t within) {
  network_.At(network_.now() + network_.Random(within), [this] {
    const int a = static_cast<int>(network_.Random(size_));
    const int b = static_cast<int>(network_.Random(size_));
    const bool half_open = network_.Chance(3);
    Count(half_open ? Fault::kHalfOpen : Fault::kCut);
    if (a != b) network_.Cut(a, b, half_open);
    job_.Trace(a, "is cut from " + std::to_string(b) + ", as it forms");
    OverBy(network_.now());
  });
}

void Faults::Isolate(int worker, int64_t within) {
  const int64_t from = network_.now() + network_.Random(within);
  const int64_t lasts = lasting_ / 4 + network_.Random(8 * lasting_);
  Count(Fault::kParted);
  OverBy(from + lasts);
  network_.At(from, [this, worker, lasts] {
    job_.Trace(worker, "is isolated" + For(lasts));
    for (int other = 0; other < size_; ++other) {
      if (other == worker) continue;
      network_.Block(worker, other, network_.now() + lasts);
      network_.Block(other, worker, network_.now() + lasts);
    }
  });
}

// Parts the workers, in both directions or in one.
void Faults::Part(Fault kind, int64_t lasts) {
  const int bits = std::min(size_, 62);
  const int64_t sides = 1 + network_.Random((int64_t{1} << bits) - 1);
  job_.Trace(0, "and others are parted, " + std::to_string(sides) + For(lasts));
  const bool one_way = kind == Fault::kPartedOneWay ||
                       (kind == Fault::kSomePairs && network_.Chance(4));
  for (int a = 0; a < size_; ++a) {
    for (int b = 0; b < size_; ++b) {
      if ((sides >> a & 1) == 0 || (sides >> b & 1) != 0) continue;
      if (kind == Fault::kSomePairs && network_.Chance(2)) continue;
      network_.Block(a, b, network_.now() + lasts);
      if (!one_way) network_.Block(b, a, network_.now() + lasts);
    }
  }
}

bool Faults::JustWoke(int worker) const {
  const Stall& stall = stalls_[static_cast<size_t>(worker)];
  const int64_t awake = network_.now() - stall.until;
  return stall.until - stall.from > lasting_ + lasting_ / 2 && awake >= 0 &&
         awake < lasting_ / 8;
}

void Faults::StandStill(int worker, int64_t lasts) {
  job_.Trace(worker, "is stalled" + For(lasts));
  network_.Stall(worker, lasts);
  Stall& stall = stalls_[static_cast<size_t>(worker)];
  if (network_.now() > stall.until) stall.from = network_.now();
  stall.until = std::max(stall.until, network_.now() + lasts);
  network_.At(stall.until + kMs, [this, worker] {
    const Stall& last = stalls_[static_cast<size_t>(worker)];
    if (network_.now() == last.until + kMs) job_.Woke(worker, last.from);
  });
}

// Ends the worker, which mostly starts again.
void Faults::End(int worker, bool silent, int64_t lasts) {
  job_.Crash(worker, silent);
  if (!all_return_ && network_.Chance(4)) return;
  network_.At(network_.now() + lasts, [this, worker] { job_.Start(worker); });
}

void Faults::Draw() {
  const int a = static_cast<int>(network_.Random(size_));
  const int b = static_cast<int>(network_.Random(size_));
  const int64_t lasts = lasting_ / 4 + network_.Random(4 * lasting_);
  const int64_t until = network_.now() + lasts;
  const auto kind = static_cast<Fault>(network_.Random(kinds_));
  Count(kind);
  OverBy(until);
  switch (kind) {
    case Fault::kCrash:
    case Fault::kSilentHost:
      return End(a, kind == Fault::kSilentHost, lasts);
    case Fault::kCut:
    case Fault::kHalfOpen:
      if (a != b) network_.Cut(a, b, kind == Fault::kHalfOpen);
      return job_.Trace(a, "is cut from " + std::to_string(b));
    case Fault::kParted:
    case Fault::kPartedOneWay:
    case Fault::kSomePairs:
      return Part(kind, lasts);
    case Fault::kStall:
      return StandStill(a, lasts);
    case Fault::kAllStall:
      for (int w = 0; w < size_; ++w) StandStill(w, lasts);
      return;
    case Fault::kPowerCut:
      for (int w = 0; w < size_; ++w) {
        job_.Crash(w, /*silent=*/true);
        network_.At(until + network_.Random(lasting_),
                    [this, w] { job_.Start(w); });
      }
      return OverBy(until + lasting_);
    case Fault::kSlowDisk:
      job_.Trace(a, "has a slow disk" + For(lasts));
      return job_.SlowDisk(a, until);
    case Fault::kClockStep: {
      const int64_t days = network_.Random(2000) - 1000;
      job_.Trace(a, "has its clock set by " + std::to_string(days) + " days");
      return job_.StepClock(a, days * kDay);
    }
    case Fault::kWrongBit:
      return;  // a wrong bit begins at a step, not at a time
  }
}

}  // namespace sim
}  // namespace ringlet
