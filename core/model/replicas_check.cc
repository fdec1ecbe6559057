// What the ranks find in each other: digests of what all must have alike, the
// verdict on who has something else, and whose numbers are in a state then.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "../base/message.h"
#include "replicas.h"

namespace ringlet {
namespace {

int64_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

void Replicas::Mark() {
  if (!config_.collective->elastic()) return;
  ForgetLaterMarks();
  const int64_t step = updater_.iterations();
  if (!marks_.empty() && marks_.back().step == step) return;
  if (marks_.size() == kMarks) marks_.erase(marks_.begin());
  marks_.push_back(checked_.step == step ? checked_
                                         : StateMark{step, StateDigest()});
  checked_ = {-1, 0};
}

void Replicas::ForgetLaterMarks() {
  if (checked_.step > updater_.iterations()) checked_ = {-1, 0};
  while (!marks_.empty() && marks_.back().step > updater_.iterations()) {
    marks_.pop_back();
  }
}

// One that goes on alone cannot know which of them was wrong, and is no more
// in doubt than who has never heard of it.
void Replicas::StepTaken() {
  if (workers_.size() == 1) EndDoubt();
  for (const int64_t w : workers_) {
    uncompared_.Took(w, disbelief_.verdicts(w), updater_.iterations());
  }
}

void Replicas::Doubt(const UncomparedSteps& kept) {
  for (const int64_t w : workers_) {
    const bool own = w == config_.collective->worker();
    if (own || uncompared_.Same(kept, w)) continue;
    doubt_.Add(w, disbelief_.verdicts(w) + 1, kept.Known(w));
  }
}

bool Replicas::FreesFrom(const UncomparedSteps& kept) const {
  return std::any_of(named_.begin(), named_.end(),
                     [&](int64_t w) { return !uncompared_.Same(kept, w); });
}

void Replicas::WentBack(const UncomparedSteps& kept) {
  uncompared_ = kept;
  Disbelieve(kept);
}

void Replicas::Disbelieve(const UncomparedSteps& kept) {
  for (const int64_t w : named_) {
    disbelief_.Add(w, disbelief_.verdicts(w), kept.Known(w));
  }
}

Status Replicas::Judged(const std::vector<Findings>& all,
                        const std::vector<const char*>& parts,
                        const std::string& where) {
  std::vector<int> named;
  Collective* const c = config_.collective;
  const Status status = Judge(*c, all, parts, where, &named);
  judged_ = !status.ok();
  const auto judged =
      std::count_if(all.begin(), all.end(),
                    [](const Findings& found) { return !found.empty(); });
  // All are to stop: one that a loss keeps from hearing it would go on alone.
  if (2 * named.size() > static_cast<size_t>(judged)) AbortOthers(c, status);
  named_.clear();
  spoiled_ = false;
  for (const int rank : named) {
    const int64_t w = workers_[rank];
    named_.push_back(w);
    spoiled_ |= uncompared_.last(w) > 0;
    const uint32_t verdicts = disbelief_.verdicts(w) + 1;
    disbelief_.Add(w, verdicts, uncompared_.Known(w));
    // Who was in doubt of it was so with reason.
    if (doubt_.verdicts(w) == verdicts) {
      disbelief_.Add(w, verdicts, doubt_.believed(w));
    }
  }
  return status;
}

// Parts of a job that were apart have one history as far as both have gone, or
// a machine of one part is at fault. Not where one has numbers that are in
// doubt: its history may be another by the machine that was named. Where a
// round is of who was there each part has its own.
Status Replicas::CompareMarks(const std::vector<Standing>& all) {
  if (config_.owns_replicas()) return Status();
  std::vector<int64_t> steps;
  for (const Standing& standing : all) {
    for (const StateMark& mark : standing.marks) steps.push_back(mark.step);
  }
  std::sort(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    std::vector<Findings> found(all.size());
    for (size_t r = 0; r < all.size(); ++r) {
      const UncomparedSteps& of = all[r].uncompared;
      if (Disbelieves(of) || Doubts(of)) continue;
      for (const StateMark& mark : all[r].marks) {
        if (mark.step == step) found[r] = {mark.digest};
      }
    }
    RINGLET_RETURN_IF_ERROR(Judged(found, {"weights or optimizer slots"},
                                   "model '" + graph_.name() + "' after " +
                                       std::to_string(step) +
                                       " steps, while the workers were apart"));
  }
  return Status();
}

Status Replicas::CrossCheck(const PassDigests& mine) {
  Collective* const c = config_.collective;
  const int64_t rate = FloatBits(updater_.LearningRate());
  checked_ = {updater_.iterations(), StateDigest()};
  const Findings own = {checked_.step << 32 ^ rate, checked_.digest,
                        static_cast<int64_t>(mine.metrics),
                        static_cast<int64_t>(mine.gradients)};
  const size_t n = own.size();
  std::vector<int64_t> gathered(static_cast<size_t>(c->size()) * n);
  undecided_ = true;
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(c, own.data(), sizeof(int64_t), n, gathered.data()));
  undecided_ = false;
  std::vector<Findings> all;
  for (auto at = gathered.begin(); at != gathered.end(); at += n) {
    all.emplace_back(at, at + n);
  }
  const Status status =
      Judged(all,
             {"number of steps or learning rate", "weights or optimizer slots",
              "losses or metrics of the same examples",
              "gradients of the same examples"},
             "model '" + graph_.name() + "' after " +
                 std::to_string(updater_.iterations()) + " steps");
  if (!status.ok()) return status;
  for (const int64_t w : workers_) uncompared_.Passed(w, checked_.step);
  EndDoubt();
  return status;
}

}  // namespace ringlet
