// Choices are compared by their peak, the most bytes that live at one time,
// which is fast to compute. The placement of buffers may need a little more, so
// the last comparison uses complete plans. The choice depends only on the
// graph, the batch and the number of threads. Ranks may choose differently: the
// bits are the same.

#include "step_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "step_schedule.h"
#include "step_values.h"

namespace ringlet {
namespace {

using KeptOutputs = std::vector<Kept>;

class Chooser {
 public:
  // If not `packs`, no output is packed.
  Chooser(const Graph& graph, const StepPlan::Options& options, bool packs,
          const BatchParts& parts);
  StepPlan::Choice Choose() const;
  bool packs() const { return !packable_.empty(); }
  uint64_t Bytes(const StepPlan::Choice& choice) const {
    return StepPlan(graph_, options_, choice).bytes();
  }

 private:
  using Candidates = std::vector<int>;

  uint64_t Peak(const KeptOutputs& kept) const;
  KeptOutputs DropAll(const Candidates& candidates) const;
  KeptOutputs DropBetweenCheckpoints(uint64_t between) const;
  KeptOutputs Refine(const Candidates& candidates, KeptOutputs start,
                     Kept costly) const;
  KeptOutputs ChooseCheckpoints(const KeptOutputs& cheap) const;
  KeptOutputs Forced() const;
  const KeptOutputs& ChooseBetter(const KeptOutputs& a,
                                  const KeptOutputs& b) const;

  const Graph& graph_;
  const StepPlan::Options options_;
  const BatchParts parts_;
  Candidates cheaply_recomputable_, recomputable_, packable_;
  KeptOutputs none_dropped_;
  // Bytes, by node. The first two are in parts.
  std::vector<uint64_t> part_, forward_, output_, recompute_, backward_;
};

Chooser::Chooser(const Graph& graph, const StepPlan::Options& options,
                 bool packs, const BatchParts& parts)
    : graph_(graph), options_(options), parts_(parts) {
  for (int i = 0; i < graph.size(); ++i) {
    const GraphNode& node = graph.node(i);
    none_dropped_.push_back(packs && node.is_bfloat16 ? Kept::kPacked
                                                      : Kept::kFloat32);
    if (none_dropped_[i] == Kept::kPacked) packable_.push_back(i);
    const bool computes = node.op != nullptr && node.root == i;
    const auto aligned_bytes = [&](uint64_t floats) {
      return Arena::RoundUp(floats * sizeof(float));
    };
    const auto output_bytes = [&](int64_t examples) {
      return computes ? aligned_bytes(
                            static_cast<uint64_t>(examples * node.floats()))
                      : 0;
    };
    const auto forward_bytes = [&](int64_t examples) {
      return computes ? aligned_bytes(
                            node.op->forward_scratch(examples, options.threads))
                      : 0;
    };
    part_.push_back(output_bytes(parts.examples));
    forward_.push_back(
        forward_bytes(parts.Has(i) ? parts.examples : options.batch));
    output_.push_back(output_bytes(options.batch));
    recompute_.push_back(forward_bytes(options.batch));
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
uint64_t Chooser::Peak(const KeptOutputs& kept) const {
  const StepSchedule schedule(graph_, kept);
  const StepValues values(graph_, schedule, /*training=*/true,
                          StepPlan::forced().in_place, parts_);
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
    const uint64_t bytes = (all[i].in_parts ? part_ : output_)[all[i].node];
    lives(all[i].packed ? Arena::RoundUp(bytes / 2) : bytes, homes[i].first,
          homes[i].second);
  }
  for (int i = 0; i < graph_.size(); ++i) {
    const auto now = [&](uint64_t bytes, int time) {
      if (time >= 0) lives(bytes, time, time);
    };
    now(forward_[i], schedule.forward(i));
    now(recompute_[i], schedule.recompute_time(i));
    now(backward_[i], schedule.backward(i));
  }
  uint64_t living = 0, peak = 0;
  for (const uint64_t c : change) peak = std::max(peak, living += c);
  return peak;
}

KeptOutputs Chooser::DropAll(const Candidates& candidates) const {
  KeptOutputs kept = none_dropped_;
  for (const int i : candidates) kept[i] = Kept::kDropped;
  return kept;
}

// Keeps an output after every `between` bytes of dropped outputs.
KeptOutputs Chooser::DropBetweenCheckpoints(uint64_t between) const {
  KeptOutputs kept = none_dropped_;
  uint64_t since = 0;
  for (const int i : recomputable_) {
    since += output_[i];
    if (since <= between) {
      kept[i] = Kept::kDropped;
    } else {
      since = 0;
    }
  }
  return kept;
}

// Changes one choice at a time if that lowers the peak, or saves work at almost
// no memory. `costly` is kDropped or kPacked; dropped outputs cannot be packed.
// A choice that saves work may be in the way of a lower peak, so with packed
// outputs, which save it too, these come second.
KeptOutputs Chooser::Refine(const Candidates& candidates, KeptOutputs kept,
                            Kept costly) const {
  uint64_t peak = Peak(kept), lowest = peak;
  for (int round = packable_.empty() ? 2 : 0; round < 4; ++round) {
    bool changed = false;
    for (auto i = candidates.rbegin(); i != candidates.rend(); ++i) {
      const Kept before = kept[*i];
      const bool saves_work = before == costly;
      if (before == Kept::kDropped && !saves_work) continue;
      kept[*i] = !saves_work               ? costly
                 : costly == Kept::kPacked ? Kept::kFloat32
                                           : none_dropped_[*i];
      const uint64_t other = Peak(kept);
      const uint64_t bound = saves_work && round >= 2
                                 ? lowest + lowest / 128 + 1
                                 : peak - peak / 128;
      if (other >= bound) {
        kept[*i] = before;
        continue;
      }
      changed = true;
      peak = other;
      lowest = std::min(lowest, peak);
    }
    if (!changed) round |= 1;  // the second of two rounds of a kind
  }
  return kept;
}

const KeptOutputs& Chooser::ChooseBetter(const KeptOutputs& a,
                                         const KeptOutputs& b) const {
  return Peak(b) < Peak(a) ? b : a;
}

// Drops the outputs between kept ones. The more outputs lie between two kept
// ones, the fewer are kept, and the more exist again at one time.
KeptOutputs Chooser::ChooseCheckpoints(const KeptOutputs& cheap) const {
  KeptOutputs best = ChooseBetter(cheap, DropAll(recomputable_));
  uint64_t sum = 0;
  for (const int i : recomputable_) sum += output_[i];
  for (size_t parts = 2; parts <= 32; parts += 1 + parts / 4) {
    best = ChooseBetter(best, DropBetweenCheckpoints(sum / parts));
  }
  return Refine(recomputable_, best, Kept::kDropped);
}

// Drops all that can be dropped, except each n-th output.
KeptOutputs Chooser::Forced() const {
  const auto nth = static_cast<size_t>(StepPlan::forced().keep_every);
  KeptOutputs kept = DropAll(recomputable_);
  for (size_t k = nth - 1; k < recomputable_.size(); k += nth) {
    kept[recomputable_[k]] = none_dropped_[recomputable_[k]];
  }
  return kept;
}

StepPlan::Choice Chooser::Choose() const {
  const bool in_place = StepPlan::forced().in_place;
  if (StepPlan::forced().keep_every > 0) return {Forced(), in_place, parts_};
  StepPlan::Choice best = {none_dropped_, in_place, parts_};
  uint64_t best_bytes = Bytes(best);
  const auto prefer = [&](const StepPlan::Choice& other) {
    const uint64_t bytes = Bytes(other);
    if (bytes >= best_bytes) return;
    best = other;
    best_bytes = bytes;
  };
  // Also with some of the packed outputs as float32.
  const auto prefer_either = [&](const KeptOutputs& kept) {
    prefer({kept, in_place, parts_});
    if (packable_.empty()) return;
    prefer({Refine(packable_, kept, Kept::kPacked), in_place, parts_});
  };
  // Values that share memory live long, which may leave gaps.
  prefer({none_dropped_, /*in_place=*/false, parts_});
  if (!packable_.empty()) prefer_either(none_dropped_);
  if (cheaply_recomputable_.empty() && !options_.recompute) return best;
  const KeptOutputs all_dropped = DropAll(cheaply_recomputable_);
  const KeptOutputs& start = ChooseBetter(none_dropped_, all_dropped);
  const KeptOutputs cheap =
      Refine(cheaply_recomputable_, start, Kept::kDropped);
  prefer_either(cheap);
  // In a large graph no single packed output lowers the peak of all of them.
  if (packs()) {
    prefer_either(all_dropped);
    if (&start != &all_dropped) {
      prefer_either(Refine(cheaply_recomputable_, all_dropped, Kept::kDropped));
    }
  }
  if (options_.recompute) prefer_either(ChooseCheckpoints(cheap));
  return best;
}

// The whole batch, and the parts that the graph allows.
std::vector<BatchParts> ListParts(const Graph& graph,
                                  const StepPlan::Options& options) {
  const int64_t forced = StepPlan::forced().part;
  BatchParts parts = PartsForTraining(graph, options.threads);
  if (forced > 0) {
    parts.examples = std::min(forced, options.batch);
    return {parts};
  }
  if (forced < 0 || parts.examples >= options.batch) return {{}};
  return {{}, parts};
}

}  // namespace

// Of equal choices, the first: without parts, and packed.
StepPlan::Choice ChooseForStep(const Graph& graph,
                               const StepPlan::Options& options) {
  const StepPlan::Forced& forced = StepPlan::forced();
  if (!options.training) return {KeptOutputs(graph.size()), forced.in_place};
  StepPlan::Choice best;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const BatchParts& parts : ListParts(graph, options)) {
    for (bool packs = forced.packs;; packs = false) {
      const Chooser chooser(graph, options, packs, parts);
      StepPlan::Choice choice = chooser.Choose();
      const uint64_t bytes = chooser.Bytes(choice);
      if (bytes < least) {
        least = bytes;
        best = std::move(choice);
      }
      if (!chooser.packs() || forced.keep_every > 0) break;
    }
  }
  return best;
}

}  // namespace ringlet
