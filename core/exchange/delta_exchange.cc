// Every rank starts the same operations in the same order: the report (by the
// caller), the gathers of the blocks' greatest exponents, and, from Start on,
// the words. A rank that gives up the round starts the first two; so do the
// ranks that receive its report there.
//
// Each of R replicas has numbers of magnitude at most L = (2^(b-1) - 1) / R in
// an integer of b bits. L is added to each, so that the sum is not negative and
// below 2^b. So no integer carries into the next. An integer of 32 bits needs
// no offset.

#include "delta_exchange.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "../base/check.h"
#include "../base/ieee_arithmetic.h"

namespace ringlet {
namespace {

constexpr int kMaxOf8Bits = 18;     // replicas: at least 7 levels each way
constexpr int kMaxOf16Bits = 1023;  // 32 levels

// The layout of `integers_per_word` numbers in a word, for this number of
// replicas.
struct Packing {
  Packing(int n, int replicas) : integers_per_word(n), bits(32 / n) {
    const auto max_in_word =
        static_cast<int32_t>((int64_t{1} << (bits - 1)) - 1);
    const int32_t levels = max_in_word / replicas;
    max_integer = integers_per_word == 1 ? GridLimit(replicas)
                                         : static_cast<float>(levels);
    // The grid may round the greatest number of a block to max_integer, so a
    // greatest magnitude of max_integer + 1 is permitted.
    max_scaled = integers_per_word == 1 ? max_integer : max_integer + 1;
    offset = integers_per_word == 1 ? 0 : static_cast<uint32_t>(levels);
  }

  void Add(const int32_t* integers, int64_t count, bool first,
           uint32_t* words) const {
    for (int64_t i = 0; i < count; i += integers_per_word, ++words) {
      uint32_t word = 0;
      for (int k = 0; k < integers_per_word && i + k < count; ++k) {
        word |= (static_cast<uint32_t>(integers[i + k]) + offset) << (bits * k);
      }
      *words = first ? word : *words + word;
    }
  }
  void Take(const uint32_t* words, int64_t count, int contributions,
            int32_t* integers) const {
    const uint32_t offset_of_all =
        offset * static_cast<uint32_t>(contributions);
    const uint32_t mask = integers_per_word == 1 ? ~0u : (1u << bits) - 1;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t integer =
          words[i / integers_per_word] >> (bits * (i % integers_per_word)) &
          mask;
      integers[i] = static_cast<int32_t>(integer - offset_of_all);
    }
  }
  int integers_per_word, bits;
  float max_integer, max_scaled;
  uint32_t offset;
};

class DeltaExchange final : public RoundExchange {
 public:
  DeltaExchange(Collective* collective, int replicas, LocalUpdates::Delta delta,
                const GridLayout& layout, int64_t changes,
                const DeltaSpans& spans, const StepTimer* timer)
      : RoundExchange(collective, layout.numbers(), changes, timer),
        deltas_(IntegersPerWord(delta, replicas), replicas),
        state_(1, replicas),
        contributions_(replicas),
        layout_(layout),
        trained_(layout.numbers() - changes),
        contribution_(spans.contribution),
        words_(reinterpret_cast<uint32_t*>(spans.words)),
        earlier_(spans.earlier),
        stride_(spans.stride),
        exponents_(static_cast<size_t>(layout.blocks())),
        sent_(exponents_.size()),
        gathered_(exponents_.size() * static_cast<size_t>(collective->size())) {
  }
  ~DeltaExchange() override {
    Abandon();
    Drop();
  }

  void Begin(int replica, int replicas) override;
  void Expect(int contributions) override { contributions_ = contributions; }
  void OnGradientsFinal(int64_t begin) override;
  Status Finish(bool* must_repeat) override;
  Status Start() override;
  Status Collect(float* mean) override;
  void Drop() override {
    RoundExchange::Drop();
    is_complete_ = false;
  }

 private:
  const Packing& PackingOf(int64_t number) const {
    return number < trained_ ? deltas_ : state_;
  }
  // The scale of a started exchange.
  uint8_t ScaleOf(int64_t block, int64_t number) const {
    return sent_[block] == kNotFinite
               ? kCoarsestScale
               : ScaleThatHolds(sent_[block], PackingOf(number).max_scaled);
  }
  void GatherExponents();
  void MergeExponents();
  int64_t Pack();
  void SumWords(int64_t count);
  void Unpack(float* mean);

  const Packing deltas_, state_;
  int contributions_;  // contributions of all ranks, at most `replicas`
  const GridLayout layout_;
  const int64_t trained_;  // trained numbers, before the numbers of state
  float* const contribution_;
  uint32_t* const words_;
  float* const earlier_;
  const int64_t stride_;
  // Exponents of this rank; after merging, of all ranks.
  std::vector<uint8_t> exponents_;
  // Exponents of all ranks, for the started exchange.
  std::vector<uint8_t> sent_;
  std::vector<uint8_t> gathered_;  // piece by piece, in each the ranks in order
  int replica_ = 0, replicas_ = 1;  // the replicas of this rank
  bool is_packed_ = false;          // the present contribution is packed
  bool is_complete_ = false;        // all contributions are ready to be added
};

void DeltaExchange::Begin(int replica, int replicas) {
  RINGLET_CHECK(tickets_.empty());
  RINGLET_CHECK(replicas <= 1 || earlier_ != nullptr);
  replica_ = replica;
  replicas_ = replicas;
  is_packed_ = is_complete_ = false;
  if (replica > 0) return;
  std::fill(exponents_.begin(), exponents_.end(), uint8_t{0});
}

void DeltaExchange::OnGradientsFinal(int64_t begin) {
  if (begin > 0 || is_packed_) return;
  is_packed_ = true;
  is_complete_ = replica_ + 1 >= replicas_;
  if (replicas_ == 0) return GatherExponents();
  layout_.ForEach(
      0, layout_.numbers(), [&](int64_t b, int64_t from, int64_t to) {
        exponents_[b] = std::max(
            exponents_[b], LargestExponent(contribution_ + from, to - from));
      });
  if (is_complete_) return GatherExponents();
  std::copy_n(contribution_, layout_.numbers(), earlier_ + replica_ * stride_);
}

void DeltaExchange::GatherExponents() {
  const auto ranks = static_cast<int64_t>(collective_.size());
  for (int64_t at = 0; at < layout_.blocks() && status_.ok();
       at += kGatheredExponents) {
    const int64_t n = std::min(kGatheredExponents, layout_.blocks() - at);
    Collective::Ticket ticket = 0;
    const Status status = collective_.StartAllGather(
        exponents_.data() + at, static_cast<size_t>(n),
        gathered_.data() + at * ranks, &ticket);
    RecordStart(status, ticket);
  }
}

void DeltaExchange::MergeExponents() {
  const auto ranks = static_cast<int64_t>(collective_.size());
  for (int64_t at = 0; at < layout_.blocks(); at += kGatheredExponents) {
    const int64_t n = std::min(kGatheredExponents, layout_.blocks() - at);
    for (int64_t i = 0; i < ranks * n; ++i) {
      uint8_t& exponent = exponents_[at + i % n];
      exponent = std::max(exponent, gathered_[at * ranks + i]);
    }
  }
}

// Adds this rank's contributions and returns the number of words.
int64_t DeltaExchange::Pack() {
  int64_t words = 0;
  if (replicas_ == 0) {
    layout_.ForEach(
        0, layout_.numbers(), [&](int64_t, int64_t begin, int64_t end) {
          words += WordsOf(end - begin, PackingOf(begin).integers_per_word);
        });
    std::fill_n(words_, words, 0u);
  }
  for (int r = 0; r < replicas_; ++r) {
    const float* const from =
        r + 1 == replicas_ ? contribution_ : earlier_ + r * stride_;
    words = 0;
    layout_.ForEach(
        0, layout_.numbers(), [&](int64_t b, int64_t begin, int64_t end) {
          const Packing& packing = PackingOf(begin);
          int32_t integers[kGridBlock];
          uint8_t exponent = 0;
          (void)ToGrid(GridMode::kSet, from + begin, end - begin,
                       ScaleOf(b, begin), packing.max_integer, integers,
                       &exponent);
          packing.Add(integers, end - begin, r == 0, words_ + words);
          words += WordsOf(end - begin, packing.integers_per_word);
        });
  }
  return words;
}

void DeltaExchange::SumWords(int64_t count) {
  for (int64_t at = 0; at < count && status_.ok(); at += bucket_) {
    Collective::Ticket ticket = 0;
    const Status status = collective_.StartAllReduceInts(
        reinterpret_cast<int32_t*>(words_ + at),
        static_cast<size_t>(std::min(bucket_, count - at)), &ticket);
    RecordStart(status, ticket);
  }
}

// If a rank has a number that is not finite in a block, the block becomes NaN
// on all ranks.
void DeltaExchange::Unpack(float* mean) {
  const uint32_t* words = words_;
  layout_.ForEach(
      0, layout_.numbers(), [&](int64_t b, int64_t begin, int64_t end) {
        const Packing& packing = PackingOf(begin);
        int32_t integers[kGridBlock];
        packing.Take(words, end - begin, contributions_, integers);
        words += WordsOf(end - begin, packing.integers_per_word);
        if (sent_[b] == kNotFinite) {
          std::fill(mean + begin, mean + end,
                    std::numeric_limits<float>::quiet_NaN());
          return;
        }
        (void)FromGrid(integers, end - begin, ScaleOf(b, begin), mean + begin);
      });
}

Status DeltaExchange::Start() {
  const IeeeArithmetic ieee;
  if (!WaitForAll().ok() || !is_complete_) return status_;
  RINGLET_CHECK(in_flight_.empty());
  is_complete_ = false;
  MergeExponents();
  sent_.swap(exponents_);
  SumWords(Pack());
  MarkInFlight();
  return status_;
}

Status DeltaExchange::Collect(float* mean) {
  const IeeeArithmetic ieee;
  RINGLET_RETURN_IF_ERROR(WaitFor(&in_flight_));
  Unpack(mean);
  return Status();
}

Status DeltaExchange::Finish(bool* must_repeat) {
  *must_repeat = false;
  if (!is_complete_) return WaitForAll();
  RINGLET_RETURN_IF_ERROR(Start());
  return Collect(contribution_);
}

}  // namespace

int IntegersPerWord(LocalUpdates::Delta delta, int replicas) {
  if (delta == LocalUpdates::Delta::kFloat32) return 1;
  if (replicas <= kMaxOf8Bits) return 4;
  return replicas <= kMaxOf16Bits ? 2 : 1;
}

std::unique_ptr<RoundExchange> MakeDeltaExchange(
    Collective* collective, int replicas, LocalUpdates::Delta delta,
    const GridLayout& layout, int64_t changes, const DeltaSpans& spans,
    const StepTimer* timer) {
  return std::make_unique<DeltaExchange>(collective, replicas, delta, layout,
                                         changes, spans, timer);
}

}  // namespace ringlet
