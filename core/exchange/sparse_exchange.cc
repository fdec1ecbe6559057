// Every rank starts the same operations in the same order. First the caller
// gathers the report. Then the exponents of state, the messages, and the words
// of state are gathered, the last two from Start on.

#include "sparse_exchange.h"

#include <algorithm>
#include <vector>

#include "../base/check.h"
#include "../base/ieee_arithmetic.h"
#include "delta_exchange.h"
#include "sparse_delta.h"

namespace ringlet {
namespace {

constexpr size_t kMaxGathered = 1 << 16;  // bytes of a rank in one gather

GridLayout StateOf(const Graph& graph) {
  GridLayout layout;
  for (const Variable& v : graph.variables()) {
    if (v.change_offset >= 0) layout.Add(v.size());
  }
  return layout;
}

class SparseExchange final : public RoundExchange {
 public:
  SparseExchange(Collective* collective, const ReplicaAssignment& assignment,
                 int replicas, const Graph& graph, const SparseSpans& spans,
                 const StepTimer* timer)
      : RoundExchange(collective, graph.num_trained(), graph.num_changes(),
                      timer),
        assignment_(assignment),
        own_(assignment.range(collective->rank())),
        trained_(graph.num_trained()),
        spans_(spans) {
    for (const Variable& v : graph.variables()) {
      if (!v.trained()) continue;
      tensors_.push_back({v.gradient_offset, v.size()});
      replica_bytes_ += SparseBytesOf(v.size());
    }
    rank_bytes_ =
        replica_bytes_ * static_cast<size_t>(assignment.max_per_rank());
    sent_.resize(rank_bytes_);
    row_.resize(rank_bytes_);
    gathered_.resize(rank_bytes_ * static_cast<size_t>(collective->size()));
    MakeState(replicas, graph, timer);
  }
  ~SparseExchange() override {
    Abandon();
    Drop();
  }

  bool failed() const override {
    return RoundExchange::failed() || (state_ != nullptr && state_->failed());
  }
  void Begin(int replica, int replicas) override;
  void OnGradientsFinal(int64_t begin) override;
  Status Finish(bool* must_repeat) override;
  Status Start() override;
  Status Collect(float* mean) override;
  void Abandon() override {
    RoundExchange::Abandon();
    if (state_ != nullptr) state_->Abandon();
  }
  void Drop() override {
    RoundExchange::Drop();
    if (state_ != nullptr) state_->Drop();
  }

 private:
  struct Tensor {
    int64_t begin, numbers;
  };
  void MakeState(int replicas, const Graph& graph, const StepTimer* timer);
  // Calls part(begin, count) for each block of all tensors.
  template <typename Part>
  void ForEachBlock(const Part& part) const {
    for (const Tensor& tensor : tensors_) {
      for (int64_t at = 0; at < tensor.numbers; at += kSparseBlock) {
        part(tensor.begin + at, std::min(kSparseBlock, tensor.numbers - at));
      }
    }
  }
  void Encode();
  // Copies the bytes that rank `rank` has sent to row_.
  void CopyRow(int rank);
  bool AddRow(int rank, float* mean);

  const ReplicaAssignment assignment_;
  const ReplicaRange own_;
  const int64_t trained_;
  const SparseSpans spans_;
  std::vector<Tensor> tensors_;
  size_t replica_bytes_ = 0, rank_bytes_ = 0;
  std::vector<unsigned char> sent_, row_;  // the messages of one rank
  // Piece by piece, in each the ranks in order.
  std::vector<unsigned char> gathered_;
  std::vector<float> words_;              // words of state
  std::unique_ptr<RoundExchange> state_;  // null without state
  int replica_ = 0, replicas_ = 1;        // the replicas of this rank
  bool taken_ = false;                    // the present contribution is encoded
};

void SparseExchange::MakeState(int replicas, const Graph& graph,
                               const StepTimer* timer) {
  const int64_t changes = graph.num_changes();
  if (changes == 0) return;
  words_.resize(static_cast<size_t>(changes));
  DeltaSpans spans;
  spans.contribution = spans_.contribution + trained_;
  spans.words = words_.data();
  spans.earlier =
      spans_.earlier == nullptr ? nullptr : spans_.earlier + trained_;
  spans.stride = spans_.stride;
  state_ =
      MakeDeltaExchange(&collective_, replicas, LocalUpdates::Delta::kFloat32,
                        StateOf(graph), changes, spans, timer);
}

void SparseExchange::Begin(int replica, int replicas) {
  RINGLET_CHECK(replicas == 1 || spans_.earlier != nullptr);
  replica_ = replica;
  replicas_ = replicas;
  taken_ = false;
  if (state_ != nullptr) state_->Begin(replica, replicas);
}

void SparseExchange::OnGradientsFinal(int64_t begin) {
  if (begin > 0 || taken_) return;
  taken_ = true;
  if (replica_ + 1 < replicas_) {
    std::copy_n(spans_.contribution, trained_,
                spans_.earlier + replica_ * spans_.stride);
  }
  if (state_ != nullptr) state_->OnGradientsFinal(0);
}

void SparseExchange::Encode() {
  unsigned char* to = sent_.data();
  for (int r = 0; r < replicas_; ++r) {
    const float* const delta = r + 1 == replicas_
                                   ? spans_.contribution
                                   : spans_.earlier + r * spans_.stride;
    float* const error = spans_.errors + (own_.first + r) * trained_;
    ForEachBlock([&](int64_t begin, int64_t count) {
      EncodeSparse(delta + begin, count, error + begin, to);
      to += SparseBytes(count);
    });
  }
}

Status SparseExchange::Start() {
  const IeeeArithmetic ieee;
  RINGLET_CHECK(replica_ + 1 == replicas_ && replicas_ == own_.count && taken_);
  RINGLET_CHECK(in_flight_.empty());
  Encode();
  const auto ranks = static_cast<size_t>(collective_.size());
  for (size_t at = 0; at < rank_bytes_ && status_.ok(); at += kMaxGathered) {
    Collective::Ticket ticket = 0;
    const Status status = collective_.StartAllGather(
        sent_.data() + at, std::min(kMaxGathered, rank_bytes_ - at),
        gathered_.data() + at * ranks, &ticket);
    RecordStart(status, ticket);
  }
  MarkInFlight();
  if (state_ != nullptr && status_.ok()) status_ = state_->Start();
  return status_;
}

void SparseExchange::CopyRow(int rank) {
  const auto ranks = static_cast<size_t>(collective_.size());
  for (size_t at = 0; at < rank_bytes_; at += kMaxGathered) {
    const size_t n = std::min(kMaxGathered, rank_bytes_ - at);
    std::copy_n(gathered_.data() + at * ranks + static_cast<size_t>(rank) * n,
                n, row_.data() + at);
  }
}

bool SparseExchange::AddRow(int rank, float* mean) {
  CopyRow(rank);
  const unsigned char* from = row_.data();
  bool is_complete = true;
  for (int r = 0; r < assignment_.range(rank).count; ++r) {
    ForEachBlock([&](int64_t begin, int64_t count) {
      is_complete = AddSparse(from, count, mean + begin) && is_complete;
      from += SparseBytes(count);
    });
  }
  return is_complete;
}

Status SparseExchange::Collect(float* mean) {
  const IeeeArithmetic ieee;
  RINGLET_RETURN_IF_ERROR(WaitFor(&in_flight_));
  std::fill_n(mean, trained_, 0.0f);
  for (int rank = 0; rank < collective_.size(); ++rank) {
    if (AddRow(rank, mean)) continue;
    return Corruption("worker %d sent no sparse changes", rank);
  }
  return state_ == nullptr ? Status() : state_->Collect(mean + trained_);
}

Status SparseExchange::Finish(bool* must_repeat) {
  *must_repeat = false;
  // If this rank has given up the round, there are no changes to send.
  if (state_ != nullptr && state_->failed()) return state_->Finish(must_repeat);
  RINGLET_RETURN_IF_ERROR(Start());
  return Collect(spans_.contribution);
}

}  // namespace

std::unique_ptr<RoundExchange> MakeSparseExchange(
    Collective* collective, const ReplicaAssignment& assignment, int replicas,
    const Graph& graph, const SparseSpans& spans, const StepTimer* timer) {
  return std::make_unique<SparseExchange>(collective, assignment, replicas,
                                          graph, spans, timer);
}

}  // namespace ringlet
