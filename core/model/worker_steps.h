// Whose numbers a state has, and which of them are not believed: what is kept
// of each worker of an elastic job, by its place in the job's list.
//
// Internal. UncomparedSteps go with a state, wherever it was made. Of
// a worker they have the last step that it took part in since it passed a
// comparison, in the history of that state, or after which it passed one.
// Disbelief is the ranks': of one that was named it has the step up to which
// its numbers are in the state that those went on from who heard it; a state
// that has later ones may be wrong. Each also counts how often a worker was
// named, so that what it computes when it is mended is no longer of before.

#ifndef RINGLET_CORE_MODEL_WORKER_STEPS_H_
#define RINGLET_CORE_MODEL_WORKER_STEPS_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace ringlet {

// As many workers as an elastic job may have; of others nothing is kept. 31
// bits of a count of verdicts, above 32 of a step; further ones count as the
// last that these hold.
constexpr int64_t kMostInTable = 64;
constexpr uint32_t kMostVerdicts = INT32_MAX;
using WorkerTable = std::array<uint64_t, kMostInTable>;  // travels as it is

class Disbelief {
 public:
  uint32_t verdicts(int64_t worker) const {
    return Has(worker) ? static_cast<uint32_t>(at_[worker] >> 32) : 0;
  }
  int64_t believed(int64_t worker) const {
    return Has(worker) ? UINT32_MAX - (at_[worker] & UINT32_MAX) : 0;
  }
  bool HasNamed() const {
    return std::any_of(at_.begin(), at_.end(),
                       [](uint64_t entry) { return entry >> 32 > 0; });
  }
  // After so many verdicts on it its numbers up to `step` are believed: of two
  // that say so of as many verdicts the one that believes less is right.
  void Add(int64_t worker, uint32_t verdicts, int64_t step) {
    if (!Has(worker)) return;
    const auto believed = static_cast<uint32_t>(
        std::clamp<int64_t>(step, 0, int64_t{UINT32_MAX}));
    const uint64_t entry = uint64_t{std::min(verdicts, kMostVerdicts)} << 32 |
                           (UINT32_MAX - believed);
    at_[worker] = std::max(at_[worker], entry);
  }
  void Join(const Disbelief& other) {
    for (size_t w = 0; w < at_.size(); ++w) {
      // No worker sends more.
      if (other.at_[w] >> 32 > kMostVerdicts) continue;
      at_[w] = std::max(at_[w], other.at_[w]);
    }
  }
  void Clear() { at_.fill(0); }
  void Clear(int64_t worker) {
    if (Has(worker)) at_[worker] = 0;
  }

 private:
  friend class UncomparedSteps;
  static bool Has(int64_t w) { return w >= 0 && w < kMostInTable; }

  WorkerTable at_ = {};
};

class UncomparedSteps {
 public:
  // 0: all its numbers were compared, or there are none.
  int64_t last(int64_t worker) const {
    return Disbelief::Has(worker) && !Compared(worker) ? Known(worker) : 0;
  }
  // So often it had been named when it took part in that step.
  uint32_t verdicts(int64_t worker) const {
    return last(worker) > 0 ? static_cast<uint32_t>(at_[worker] >> 32) : 0;
  }
  // Up to here its numbers are in this state, or are compared.
  int64_t Known(int64_t worker) const {
    return Disbelief::Has(worker)
               ? static_cast<int64_t>(at_[worker] & UINT32_MAX)
               : 0;
  }
  // As many uncompared ones.
  bool Same(const UncomparedSteps& other, int64_t worker) const {
    if (!Disbelief::Has(worker)) return true;
    if (last(worker) == 0) return other.last(worker) == 0;
    return at_[worker] == other.at_[worker];
  }
  void Took(int64_t worker, uint32_t verdicts, int64_t step) {
    if (!Disbelief::Has(worker)) return;
    at_[worker] = uint64_t{verdicts} << 32 | Field(step);
  }
  void Passed(int64_t worker, int64_t step) {
    if (Disbelief::Has(worker)) at_[worker] = kCompared | Field(step);
  }
  void DropUncompared(int64_t worker) {
    if (last(worker) > 0) at_[worker] = 0;
  }
  // Of each worker the one that has less of it, of those that know of it …
  void TakeLess(const UncomparedSteps& other) {
    for (int64_t w = 0; w < kMostInTable; ++w) {
      if (other.at_[w] == 0) continue;
      if (at_[w] == 0 || other.Known(w) < Known(w)) at_[w] = other.at_[w];
    }
  }
  // … and of those that this knows nothing of what the other has.
  void FillFrom(const UncomparedSteps& other) {
    for (int64_t w = 0; w < kMostInTable; ++w) {
      if (at_[w] == 0) at_[w] = other.at_[w];
    }
  }
  // There are numbers that are not believed.
  bool AreOf(const Disbelief& disbelief) const {
    for (int64_t w = 0; w < kMostInTable; ++w) {
      const uint64_t own = at_[w], said = disbelief.at_[w];
      const bool before = own >> 32 < said >> 32;
      const uint64_t believed = UINT32_MAX - (said & UINT32_MAX);
      if (Compared(w) || !before) continue;
      if ((own & UINT32_MAX) > believed) return true;
    }
    return false;
  }

 private:
  static constexpr uint64_t kCompared = uint64_t{1} << 63;
  bool Compared(int64_t worker) const { return (at_[worker] & kCompared) != 0; }
  static uint64_t Field(int64_t step) {
    return static_cast<uint64_t>(
        std::clamp<int64_t>(step, 0, int64_t{UINT32_MAX}));
  }

  WorkerTable at_ = {};
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_WORKER_STEPS_H_
