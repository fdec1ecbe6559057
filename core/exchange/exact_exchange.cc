// See gradient_exchange.cc for the order of operations.
//
// A bucket's numbers become integers directly before its sum starts, in the
// place of the gradients if this worker has one replica. They become floats
// again when the sum has arrived. Both happen while the bucket is in the cache.
//
// The last operation sums the flags: how many ranks had a clamped number, and
// how many had a number that is not finite. If either is not 0, every rank
// finds it in this sum alone. All ranks then gather the blocks' greatest
// exponents, take the same coarser scales from them, and repeat all passes of
// the step. The repeated passes give the same numbers, so nothing is clamped
// then. If no scale is known, as in a first step, the exponents are gathered
// before anything is summed. So the operations follow from values and scales,
// which are the same on all ranks.

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
constexpr int kMaxRepeats = 3;

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
  void OnGradientsFinal(int64_t ready) override;
  Status Finish(bool* must_repeat) override;
  void Drop() override;

 private:
  bool in_place() const { return sums_ == gradients_; }
  void ConvertFrom(int64_t begin);
  void Start();
  void StartFlags();
  void OnSumArrived(size_t index) override;
  Status GatherExponents();
  Status Coarsen();
  void SpreadUnfinite();
  void SetNextScales();

  const int replicas_;  // the job's replicas
  const float limit_;
  const GridLayout layout_;
  float* const gradients_;
  float* const sums_;  // integers from the start of a sum to its end
  uint8_t* const scales_;
  const int64_t count_;  // the gradients, in front of the state changes
  // The exponents of this worker's contributions. After GatherExponents: the
  // exponents of all workers.
  std::vector<uint8_t> exponents_;
  std::vector<uint8_t> gathered_;
  std::vector<uint32_t> greatest_;  // the greatest sum so far, in units
  std::vector<int64_t> begins_;     // where the started buckets begin
  int32_t flags_[kFlags] = {};
  bool only_measures_ = false;    // the pass gives only exponents
  bool adds_to_earlier_ = false;  // the pass adds to earlier passes
  // True in the last pass of this worker in the step.
  bool is_last_pass_ = false;
  bool is_complete_ = false;    // all numbers of the last pass are ready
  int64_t converted_from_ = 0;  // numbers from here on are integers
  int repeats_ = 0;             // repeats of the present step
};

void ExactExchange::Begin(int replica, int replicas) {
  RINGLET_CHECK(tickets_.empty());
  adds_to_earlier_ = replica > 0;
  is_last_pass_ = replica + 1 == replicas;
  is_complete_ = false;
  if (!adds_to_earlier_) {
    std::fill(exponents_.begin(), exponents_.end(), uint8_t{0});
    std::fill(greatest_.begin(), greatest_.end(), 0u);
    std::fill_n(flags_, kFlags, 0);
    begins_.clear();
    // Without blocks there is nothing to measure.
    only_measures_ = layout_.blocks() > 0 &&
                     std::all_of(scales_, scales_ + layout_.blocks(),
                                 [](uint8_t s) { return s == kFinestScale; });
  }
  converted_from_ = layout_.numbers();
  OnGradientsFinal(count_);
}

// Buckets are cut at fixed places, so that all ranks start the same buckets in
// any order of their layers' calls.
void ExactExchange::OnGradientsFinal(int64_t ready) {
  if (!status_.ok()) return;
  if (!is_last_pass_ || only_measures_) {
    ConvertFrom(ready);
  } else {
    while (status_.ok() && converted_from_ > 0) {
      const int64_t begin = std::max<int64_t>(0, converted_from_ - bucket_);
      if (begin < ready) return;
      ConvertFrom(begin);
      Start();
    }
    if (status_.ok() && converted_from_ == 0 && !is_complete_) StartFlags();
  }
  is_complete_ = is_last_pass_ && converted_from_ == 0;
}

// Converts the numbers from `begin` to converted_from_.
void ExactExchange::ConvertFrom(int64_t begin) {
  const GridMode mode = in_place()         ? GridMode::kInPlace
                        : adds_to_earlier_ ? GridMode::kAdd
                                           : GridMode::kSet;
  layout_.ForEach(
      begin, converted_from_, [&](int64_t b, int64_t from, int64_t to) {
        uint8_t exponent = 0;
        if (only_measures_) {
          exponent = LargestExponent(gradients_ + from, to - from);
        } else if (!ToGrid(mode, gradients_ + from, to - from, scales_[b],
                           limit_, sums_ + from, &exponent)) {
          flags_[kClamped] = 1;
        }
        if (exponent == kNotFinite) flags_[kUnfinite] = 1;
        exponents_[b] = std::max(exponents_[b], exponent);
      });
  converted_from_ = begin;
}

// Starts the sum of the converted numbers.
void ExactExchange::Start() {
  const int64_t end = begins_.empty() ? layout_.numbers() : begins_.back();
  Collective::Ticket ticket = 0;
  const Status status = collective_.StartAllReduceInts(
      reinterpret_cast<int32_t*>(sums_ + converted_from_),
      static_cast<size_t>(end - converted_from_), &ticket);
  RecordStart(status, ticket);
  begins_.push_back(converted_from_);
}

void ExactExchange::StartFlags() {
  Collective::Ticket ticket = 0;
  const Status status = collective_.StartAllReduceInts(flags_, kFlags, &ticket);
  RecordStart(status, ticket);
}

// Converts a bucket's sums to floats.
void ExactExchange::OnSumArrived(size_t index) {
  if (index >= begins_.size()) return;  // the flags
  const int64_t end = index == 0 ? layout_.numbers() : begins_[index - 1];
  layout_.ForEach(
      begins_[index], end, [&](int64_t b, int64_t from, int64_t to) {
        greatest_[b] = std::max(
            greatest_[b],
            FromGrid(sums_ + from, to - from, scales_[b], gradients_ + from));
      });
}

Status ExactExchange::Finish(bool* must_repeat) {
  const IeeeArithmetic ieee;
  *must_repeat = false;
  if (!WaitForAll().ok() || !is_complete_) return status_;
  if (only_measures_) {
    status_ = Coarsen();
    only_measures_ = false;
    *must_repeat = replicas_ > collective_.size();
    is_complete_ = false;
    if (!status_.ok() || *must_repeat) return status_;
    converted_from_ = layout_.numbers();
    OnGradientsFinal(0);
    if (!WaitForAll().ok()) return status_;
  }
  if (flags_[kClamped] != 0) {
    status_ = Coarsen();
    *must_repeat = status_.ok();
    is_complete_ = false;
    return status_;
  }
  if (flags_[kUnfinite] != 0) {
    status_ = GatherExponents();
    if (!status_.ok()) return status_;
    SpreadUnfinite();
  }
  SetNextScales();
  is_complete_ = false;
  repeats_ = 0;
  return status_;
}

void ExactExchange::Drop() {
  RankExchange::Drop();
  is_complete_ = false;
  repeats_ = 0;
}

// Gathers in pieces, since a gather of all blocks would be large in a large
// job.
Status ExactExchange::GatherExponents() {
  const int64_t blocks = layout_.blocks();
  const auto ranks = static_cast<size_t>(collective_.size());
  gathered_.resize(ranks *
                   static_cast<size_t>(std::min(blocks, kGatheredExponents)));
  for (int64_t at = 0; at < blocks; at += kGatheredExponents) {
    const auto n =
        static_cast<size_t>(std::min(kGatheredExponents, blocks - at));
    uint8_t* const own_exponents = exponents_.data() + at;
    RINGLET_RETURN_IF_ERROR(
        collective_.AllGather(own_exponents, n, gathered_.data()));
    for (size_t i = 0; i < ranks * n; ++i) {
      own_exponents[i % n] = std::max(own_exponents[i % n], gathered_[i]);
    }
  }
  return Status();
}

Status ExactExchange::Coarsen() {
  if (++repeats_ > kMaxRepeats) {
    return Error(Code::kInternal,
                 "the gradients of one step differed each time that they were "
                 "computed: the memory or the processor of a worker is faulty");
  }
  RINGLET_RETURN_IF_ERROR(GatherExponents());
  for (int64_t b = 0; b < layout_.blocks(); ++b) {
    // The whole block becomes NaN, so its scale does not matter.
    const uint8_t holds = exponents_[b] == kNotFinite
                              ? kCoarsestScale
                              : ScaleThatHolds(exponents_[b], limit_);
    // kFinestScale means that the scale is not known. The scale of a block of
    // zeros is known, so it is coarser.
    scales_[b] = std::max({scales_[b], holds, uint8_t{kFinestScale + 1}});
  }
  return Status();
}

// If a rank has a number that is not finite in a block, the block becomes NaN
// on all ranks.
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

std::unique_ptr<GradientExchange> MakeExactExchange(
    Collective* collective, int replicas, const GridLayout& layout,
    const ExactSpans& spans, int64_t changes, const StepTimer* timer) {
  return std::make_unique<ExactExchange>(collective, replicas, layout, spans,
                                         changes, timer);
}

}  // namespace ringlet
