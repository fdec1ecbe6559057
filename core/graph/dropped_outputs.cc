// Choices are compared by their peak, the most bytes that live at one time,
// which is fast to compute. The placement of buffers may need a little more, so
// the last comparison uses complete plans. The choice depends only on the
// graph, the batch and the number of threads. Ranks may choose differently: the
// bits are the same.

#include "step_plan.h"

#include <algorithm>
#include <utility>

#include "step_schedule.h"
#include "step_values.h"

namespace ringlet {
namespace {

using Dropped = std::vector<bool>;

class Chooser {
 public:
  Chooser(const Graph& graph, const StepPlan::Options& options);
  StepPlan::Choice Choose() const;

 private:
  using Candidates = std::vector<int>;

  uint64_t Peak(const Dropped& dropped) const;
  Dropped DropAll(const Candidates& candidates) const;
  Dropped DropBetweenCheckpoints(uint64_t between) const;
  Dropped Refine(const Candidates& candidates, Dropped start) const;
  Dropped ChooseCheckpoints(const Dropped& cheap) const;
  Dropped Forced() const;
  const Dropped& ChooseBetter(const Dropped& a, const Dropped& b) const;
  uint64_t Bytes(const StepPlan::Choice& choice) const {
    return StepPlan(graph_, options_, choice).bytes();
  }

  const Graph& graph_;
  const StepPlan::Options options_;
  Candidates cheaply_recomputable_, recomputable_;
  std::vector<uint64_t> output_, forward_, backward_;  // bytes, by node
};

Chooser::Chooser(const Graph& graph, const StepPlan::Options& options)
    : graph_(graph), options_(options) {
  for (int i = 0; i < graph.size(); ++i) {
    const GraphNode& node = graph.node(i);
    const bool computes = node.op != nullptr && node.root == i;
    const auto aligned_bytes = [&](uint64_t floats) {
      return Arena::RoundUp(floats * sizeof(float));
    };
    output_.push_back(computes ? aligned_bytes(static_cast<uint64_t>(
                                     options.batch * node.floats()))
                               : 0);
    forward_.push_back(computes ? aligned_bytes(node.op->forward_scratch(
                                      options.batch, options.threads))
                                : 0);
    backward_.push_back(computes ? aligned_bytes(node.op->backward_scratch(
                                       options.batch, options.threads))
                                 : 0);
    if (!computes || graph.is_output_root(i)) continue;
    if (node.op->recompute() == Recompute::kCheap) {
      cheaply_recomputable_.push_back(i);
    }
    if (node.op->recompute() != Recompute::kNever) recomputable_.push_back(i);
  }
}

// Returns the most bytes that live at one time.
uint64_t Chooser::Peak(const Dropped& dropped) const {
  const StepSchedule schedule(graph_, dropped);
  const StepValues values(graph_, schedule, /*training=*/true,
                          StepPlan::forced().in_place);
  // Bytes that begin and end to live, by time. Sums of it are never negative.
  std::vector<uint64_t> change(static_cast<size_t>(schedule.after()) + 2, 0);
  const auto lives = [&](uint64_t bytes, int first, int last) {
    change[first] += bytes;
    change[last + 1] -= bytes;
  };
  const std::vector<StepValue>& all = values.all();
  std::vector<std::pair<int, int>> homes(all.size(), {schedule.after(), -1});
  for (const StepValue& v : all) {
    if (v.first < 0) continue;
    homes[v.home].first = std::min(homes[v.home].first, v.first);
    homes[v.home].second = std::max(homes[v.home].second, v.last);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (homes[i].second < 0) continue;
    lives(output_[all[i].node], homes[i].first, homes[i].second);
  }
  for (int i = 0; i < graph_.size(); ++i) {
    const auto now = [&](uint64_t bytes, int time) {
      if (time >= 0) lives(bytes, time, time);
    };
    now(forward_[i], schedule.forward(i));
    now(forward_[i], schedule.recompute_time(i));
    now(backward_[i], schedule.backward(i));
  }
  uint64_t living = 0, peak = 0;
  for (const uint64_t c : change) peak = std::max(peak, living += c);
  return peak;
}

Dropped Chooser::DropAll(const Candidates& candidates) const {
  Dropped dropped(graph_.size(), false);
  for (const int i : candidates) dropped[i] = true;
  return dropped;
}

// Keeps an output after every `between` bytes of dropped outputs.
Dropped Chooser::DropBetweenCheckpoints(uint64_t between) const {
  Dropped dropped(graph_.size(), false);
  uint64_t since = 0;
  for (const int i : recomputable_) {
    since += output_[i];
    dropped[i] = since <= between;
    if (!dropped[i]) since = 0;
  }
  return dropped;
}

// Changes one choice at a time if that lowers the peak, or saves computation at
// almost no memory.
Dropped Chooser::Refine(const Candidates& candidates, Dropped dropped) const {
  uint64_t peak = Peak(dropped), lowest = peak;
  for (int round = 0; round < 2; ++round) {
    for (auto i = candidates.rbegin(); i != candidates.rend(); ++i) {
      dropped[*i] = !dropped[*i];
      const uint64_t other = Peak(dropped);
      const bool saves_work = !dropped[*i];
      const uint64_t bound =
          saves_work ? lowest + lowest / 128 + 1 : peak - peak / 128;
      if (other >= bound) {
        dropped[*i] = !dropped[*i];
        continue;
      }
      peak = other;
      lowest = std::min(lowest, peak);
    }
  }
  return dropped;
}

const Dropped& Chooser::ChooseBetter(const Dropped& a, const Dropped& b) const {
  return Peak(b) < Peak(a) ? b : a;
}

// Drops the outputs between kept ones. The more outputs lie between two kept
// ones, the fewer are kept, and the more exist again at one time.
Dropped Chooser::ChooseCheckpoints(const Dropped& cheap) const {
  Dropped best = ChooseBetter(cheap, DropAll(recomputable_));
  uint64_t sum = 0;
  for (const int i : recomputable_) sum += output_[i];
  for (size_t parts = 2; parts <= 32; parts += 1 + parts / 4) {
    best = ChooseBetter(best, DropBetweenCheckpoints(sum / parts));
  }
  return Refine(recomputable_, best);
}

// Drops all that can be dropped, except each n-th output.
Dropped Chooser::Forced() const {
  const auto nth = static_cast<size_t>(StepPlan::forced().keep_every);
  Dropped dropped = DropAll(recomputable_);
  for (size_t k = nth - 1; k < recomputable_.size(); k += nth) {
    dropped[recomputable_[k]] = false;
  }
  return dropped;
}

StepPlan::Choice Chooser::Choose() const {
  const bool in_place = StepPlan::forced().in_place;
  if (StepPlan::forced().keep_every > 0) return {Forced(), in_place};
  const Dropped none(graph_.size(), false);
  StepPlan::Choice best = {none, in_place};
  uint64_t best_bytes = Bytes(best);
  const auto prefer = [&](const StepPlan::Choice& other) {
    const uint64_t bytes = Bytes(other);
    if (bytes >= best_bytes) return;
    best = other;
    best_bytes = bytes;
  };
  // Values that share memory live long, which may leave gaps.
  prefer({none, /*in_place=*/false});
  if (cheaply_recomputable_.empty() && !options_.recompute) return best;
  const Dropped cheap =
      Refine(cheaply_recomputable_,
             ChooseBetter(none, DropAll(cheaply_recomputable_)));
  prefer({cheap, in_place});
  if (options_.recompute) prefer({ChooseCheckpoints(cheap), in_place});
  return best;
}

}  // namespace

StepPlan::Choice ChooseForStep(const Graph& graph,
                               const StepPlan::Options& options) {
  if (options.training) return Chooser(graph, options).Choose();
  return {Dropped(graph.size(), false), StepPlan::forced().in_place};
}

}  // namespace ringlet
