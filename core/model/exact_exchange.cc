// What must be known to change this file: see gradient_exchange.cc for the
// order of operations. A bucket's numbers are put on the grid just before it
// starts, over the gradient where this worker has one replica, and made floats
// again as soon as their sum has come, both while they are in the cache. The
// last operation sums the flags: how many blocks had a number that was clamped,
// and how many one that is not finite. Is either so, every rank learns of it
// from that sum alone, and all gather the blocks' greatest exponents. From
// these each takes the same coarser scales, and all passes of the step are made
// once more. Numbers of the passes are the same the second time, so nothing is
// clamped then. Where no scale is known, as in a first step, the exponents are
// gathered before anything is summed. So what is done follows from values and
// scales, which are the same on all ranks.

#include "exact_exchange.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "../base/check.h"
#include "../base/ieee_arithmetic.h"
#include "rank_exchange.h"

namespace ringlet {
namespace {

enum Flag { kClamped = 0, kUnfinite = 1, kFlags = 2 };
constexpr int64_t kMostGathered = 1 << 14;  // exponents of a rank at once
constexpr int kMostRepeats = 3;

class ExactExchange final : public RankExchange {
 public:
  ExactExchange(Collective* collective, int replicas, const GridLayout& layout,
                const ExactSpans& spans, int64_t changes,
                const StepTimer* timer)
      : RankExchange(collective, layout.numbers() - changes, changes, timer),
        replicas_(replicas),
        limit_(GridLimit(replicas)),
        layout_(layout),
        gradients_(spans.gradients),
        sums_(spans.sums == nullptr ? spans.gradients : spans.sums),
        scales_(spans.scales),
        count_(layout.numbers() - changes),
        exponents_(static_cast<size_t>(layout.blocks())),
        greatest_(static_cast<size_t>(layout.blocks())) {
    begins_.reserve(tickets_.capacity());
  }
  ~ExactExchange() override { Drop(); }

  void Begin(int replica, int replicas) override;
  void Ready(int64_t ready) override;
  Status Finish(bool* again) override;
  void Drop() override;

 private:
  bool in_place() const { return sums_ == gradients_; }
  void Take(int64_t begin);
  void Start();
  void StartFlags();
  void Arrived(size_t index) override;
  Status GatherExponents();
  Status Coarsen();
  void SpreadUnfinite();
  void SetNextScales();

  const int replicas_;  // of the job
  const float limit_;
  const GridLayout layout_;
  float* const gradients_;
  float* const sums_;  // integers while they are under way
  uint8_t* const scales_;
  const int64_t count_;  // of gradients, before what changes state
  // Of this worker's contributions; after GatherExponents of all.
  std::vector<uint8_t> exponents_;
  std::vector<uint8_t> gathered_;
  std::vector<uint32_t> greatest_;  // of the sums that have come, in units
  std::vector<int64_t> begins_;     // of the buckets that were started
  int32_t flags_[kFlags] = {};
  bool measures_ = false;  // the exponents alone
  bool adds_ = false;      // to passes before
  bool last_ = false;      // pass of this worker
  bool whole_ = false;     // and all of it is ready
  int64_t taken_ = 0;      // numbers from here on are on the grid
  int repeats_ = 0;        // of the step under way
};

void ExactExchange::Begin(int replica, int replicas) {
  RINGLET_CHECK(tickets_.empty());
  adds_ = replica > 0;
  last_ = replica + 1 == replicas;
  whole_ = false;
  if (!adds_) {
    std::fill(exponents_.begin(), exponents_.end(), uint8_t{0});
    std::fill(greatest_.begin(), greatest_.end(), 0u);
    std::fill_n(flags_, kFlags, 0);
    begins_.clear();
    // Of no blocks nothing is to be known.
    measures_ = layout_.blocks() > 0 &&
                std::all_of(scales_, scales_ + layout_.blocks(),
                            [](uint8_t s) { return s == kFinestScale; });
  }
  taken_ = layout_.numbers();
  Ready(count_);
}

// Buckets are cut at fixed places, so that all ranks start the same ones
// whatever their layers report.
void ExactExchange::Ready(int64_t ready) {
  if (!status_.ok()) return;
  if (!last_ || measures_) {
    Take(ready);
  } else {
    while (status_.ok() && taken_ > 0) {
      const int64_t begin = std::max<int64_t>(0, taken_ - bucket_);
      if (begin < ready) return;
      Take(begin);
      Start();
    }
    if (status_.ok() && taken_ == 0 && !whole_) StartFlags();
  }
  whole_ = last_ && taken_ == 0;
}

// Numbers from `begin` to those that were taken before.
void ExactExchange::Take(int64_t begin) {
  const GridMode mode = in_place() ? GridMode::kInPlace
                        : adds_    ? GridMode::kAdd
                                   : GridMode::kSet;
  layout_.ForEach(begin, taken_, [&](int64_t b, int64_t from, int64_t to) {
    uint8_t exponent = 0;
    if (measures_) {
      exponent = ExponentOf(gradients_ + from, to - from);
    } else if (!ToGrid(mode, gradients_ + from, to - from, scales_[b], limit_,
                       sums_ + from, &exponent)) {
      flags_[kClamped] = 1;
    }
    if (exponent == kNotFinite) flags_[kUnfinite] = 1;
    exponents_[b] = std::max(exponents_[b], exponent);
  });
  taken_ = begin;
}

// What was taken and is not on its way.
void ExactExchange::Start() {
  const int64_t end = begins_.empty() ? layout_.numbers() : begins_.back();
  Collective::Ticket ticket = 0;
  const Status status = collective_.StartAllReduceInts(
      reinterpret_cast<int32_t*>(sums_ + taken_),
      static_cast<size_t>(end - taken_), &ticket);
  Started(status, ticket);
  begins_.push_back(taken_);
}

void ExactExchange::StartFlags() {
  Collective::Ticket ticket = 0;
  const Status status = collective_.StartAllReduceInts(flags_, kFlags, &ticket);
  Started(status, ticket);
}

// Makes floats of a bucket's sums.
void ExactExchange::Arrived(size_t index) {
  if (index >= begins_.size()) return;  // the flags
  const int64_t end = index == 0 ? layout_.numbers() : begins_[index - 1];
  layout_.ForEach(
      begins_[index], end, [&](int64_t b, int64_t from, int64_t to) {
        greatest_[b] = std::max(
            greatest_[b],
            FromGrid(sums_ + from, to - from, scales_[b], gradients_ + from));
      });
}

Status ExactExchange::Finish(bool* again) {
  const IeeeArithmetic ieee;
  *again = false;
  if (!WaitForAll().ok() || !whole_) return status_;
  if (measures_) {
    status_ = Coarsen();
    measures_ = false;
    *again = replicas_ > collective_.size();
    whole_ = false;
    if (!status_.ok() || *again) return status_;
    taken_ = layout_.numbers();
    Ready(0);
    if (!WaitForAll().ok()) return status_;
  }
  if (flags_[kClamped] != 0) {
    status_ = Coarsen();
    *again = status_.ok();
    whole_ = false;
    return status_;
  }
  if (flags_[kUnfinite] != 0) {
    status_ = GatherExponents();
    if (!status_.ok()) return status_;
    SpreadUnfinite();
  }
  SetNextScales();
  whole_ = false;
  repeats_ = 0;
  return status_;
}

void ExactExchange::Drop() {
  RankExchange::Drop();
  whole_ = false;
  repeats_ = 0;
}

// Of all ranks, in pieces: of a large job one would be long.
Status ExactExchange::GatherExponents() {
  const int64_t blocks = layout_.blocks();
  const auto ranks = static_cast<size_t>(collective_.size());
  gathered_.resize(ranks *
                   static_cast<size_t>(std::min(blocks, kMostGathered)));
  for (int64_t at = 0; at < blocks; at += kMostGathered) {
    const auto n = static_cast<size_t>(std::min(kMostGathered, blocks - at));
    uint8_t* const mine = exponents_.data() + at;
    RINGLET_RETURN_IF_ERROR(collective_.AllGather(mine, n, gathered_.data()));
    for (size_t i = 0; i < ranks * n; ++i) {
      mine[i % n] = std::max(mine[i % n], gathered_[i]);
    }
  }
  return Status();
}

Status ExactExchange::Coarsen() {
  if (++repeats_ > kMostRepeats) {
    return Error(Code::kInternal,
                 "the gradients of one step were other ones each time that "
                 "they were computed: the memory or the processor of a worker "
                 "is at fault");
  }
  RINGLET_RETURN_IF_ERROR(GatherExponents());
  for (int64_t b = 0; b < layout_.blocks(); ++b) {
    // Numbers beside one that is not finite are of no interest.
    const uint8_t holds = exponents_[b] == kNotFinite
                              ? kCoarsestScale
                              : ScaleThatHolds(exponents_[b], limit_);
    // Not the finest: of zeros too the exponents are known now.
    scales_[b] = std::max({scales_[b], holds, uint8_t{kFinestScale + 1}});
  }
  return Status();
}

// A block with a number that is not finite is NaN on all ranks, whoever had it.
void ExactExchange::SpreadUnfinite() {
  layout_.ForEach(0, layout_.numbers(),
                  [&](int64_t b, int64_t from, int64_t to) {
                    if (exponents_[b] != kNotFinite) return;
                    std::fill(gradients_ + from, gradients_ + to,
                              std::numeric_limits<float>::quiet_NaN());
                    greatest_[b] = 0;
                  });
}

void ExactExchange::SetNextScales() {
  for (int64_t t = 0; t < layout_.tensors(); ++t) {
    const int64_t b = layout_.FirstBlock(t);
    NextScales(layout_.FirstBlock(t + 1) - b, greatest_.data() + b,
               scales_ + b);
  }
}

}  // namespace

GridLayout GridOf(const Graph& graph) {
  GridLayout layout;
  for (const Variable& v : graph.variables()) {
    if (!v.trained()) continue;
    RINGLET_CHECK(v.gradient_offset == layout.numbers());
    layout.Add(v.size());
  }
  for (const Variable& v : graph.variables()) {
    if (v.change_offset < 0) continue;
    RINGLET_CHECK(graph.num_trained() + v.change_offset == layout.numbers());
    layout.Add(v.size());
  }
  return layout;
}

std::unique_ptr<GradientExchange> MakeExactExchange(
    Collective* collective, int replicas, const GridLayout& layout,
    const ExactSpans& spans, int64_t changes, const StepTimer* timer) {
  return std::make_unique<ExactExchange>(collective, replicas, layout, spans,
                                         changes, timer);
}

}  // namespace ringlet
